package transport_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"net"
	"net/http"
	"testing"

	"codingrelay/transport"
	"codingrelay/wire"
)

// shake answers a WebSocket handshake by hand and returns its request.
func shake(t *testing.T, c net.Conn) (*http.Request, *bufio.Reader) {
	t.Helper()
	in := bufio.NewReader(c)
	req, err := http.ReadRequest(in)
	if err != nil {
		t.Error(err)
		return &http.Request{}, in
	}
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"))
	return req, in
}

// serveOnce is a hub made by hand for one daemon: talk is what it says before it
// hangs up. It returns what the daemon's sink was told.
func serveOnce(t *testing.T, talk func(net.Conn)) []wire.Frame {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		shake(t, c)
		talk(c)
	}()
	d := dial(t, transport.DialConfig{URL: "ws://" + ln.Addr().String()})
	frames := d.sink.rest(t)
	<-done
	return frames
}
