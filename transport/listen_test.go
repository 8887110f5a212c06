package transport_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"codingrelay/transport"
	"codingrelay/wire"
)

func refuseAll(string, wire.Link, func()) wire.Sink { return nil }

// Protocol section 7, daemon_bind_failed: the error is typed, names host:port, and
// says "unique daemon-port".
func TestBindErrorNamesAddressAndFix(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	for _, addr := range []string{h.addr(), "127.0.0.1:no-such-port", "256.1.1.1:80"} {
		_, err := transport.Listen(t.Context(), addr, transport.ListenConfig{}, refuseAll)
		var bind *transport.BindError
		if !errors.As(err, &bind) || bind.Addr != addr {
			t.Fatalf("%s: got %v, want a BindError of it", addr, err)
		}
		for _, want := range []string{addr, "unique daemon-port"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		if addr == h.addr() && !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%v is not EADDRINUSE", err)
		}
	}
}

// The listener's address is the real one, for port 0 too, and its links know
// where they come from.
func TestPortZeroIsResolved(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	if port := h.Addr().(*net.TCPAddr).Port; port == 0 {
		t.Fatal("port 0")
	}
	peer := raw(t, h.addr())
	if e := h.next(t); e.remote != peer.LocalAddr().String() {
		t.Errorf("the link comes from %q, want %q", e.remote, peer.LocalAddr())
	}
}

// Protocol section 1, D20: any Origin is refused unless allow-listed, also one that
// agrees with the Host (DNS rebinding), an empty one, and one beside an allowed one.
func TestOriginIsRefusedUnlessListed(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{Origins: []string{"https://relay.example"}})
	for name, tt := range map[string]struct {
		header []string
		want   int
	}{
		"none":     {nil, 101},
		"listed":   {[]string{"Origin: https://relay.example"}, 101},
		"case":     {[]string{"Origin: HTTPS://Relay.Example"}, 101},
		"other":    {[]string{"Origin: https://evil.example"}, 403},
		"own_host": {[]string{"Origin: http://" + h.addr()}, 403},
		"longer":   {[]string{"Origin: https://relay.example.evil.example"}, 403},
		"null":     {[]string{"Origin: null"}, 403},
		"empty":    {[]string{"Origin:"}, 403},
		"two":      {[]string{"Origin: https://relay.example", "Origin: https://evil.example"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			if _, resp := rawTry(t, h.addr(), tt.header...); resp.StatusCode != tt.want {
				t.Errorf("got %s, want %d", resp.Status, tt.want)
			}
		})
	}
}

// Protocol section 1: no compression, whatever the peer offers.
func TestCompressionIsNotNegotiated(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	_, resp := rawTry(t, h.addr(), "Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover")
	if got := resp.Header.Get("Sec-WebSocket-Extensions"); resp.StatusCode != 101 || got != "" {
		t.Errorf("got %s with extensions %q", resp.Status, got)
	}
}

// A request that is no WebSocket is refused and its socket closed; HTTP/2 is not
// spoken, over TLS neither.
func TestOnlyHTTP1UpgradesAreServed(t *testing.T) {
	t.Parallel()
	server, client := certificate(t)
	h := listen(t, transport.ListenConfig{})
	resp, err := http.Get("http://" + h.addr() + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired || !resp.Close {
		t.Errorf("got %s, closing %t", resp.Status, resp.Close)
	}
	secure := listen(t, transport.ListenConfig{TLS: server})
	client.NextProtos = []string{"h2", "http/1.1"}
	c, err := tls.Dial("tcp", secure.addr(), client)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("TLS agreed on %q", got)
	}
}

// Ecosystem 3.5: a socket that dribbles its header, or says nothing, or does not
// finish a TLS handshake, is closed in time; a header above 16 KiB is refused.
func TestSlowAndLargeHeadersAreRefused(t *testing.T) {
	t.Parallel()
	server, _ := certificate(t)
	for name, tt := range map[string]struct {
		first string
		tls   *tls.Config
	}{
		"header": {"GET / HTTP/1.1\r\nX: ", nil},
		"tls":    {"\x16\x03\x01\x40\x00", server}, // a record of 16 KiB
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := listen(t, transport.ListenConfig{HeaderTimeout: 300 * time.Millisecond, TLS: tt.tls})
			c, err := net.Dial("tcp", h.addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			start := time.Now()
			ended := make(chan error, 1)
			go func() {
				_, err := bufio.NewReader(c).ReadString(0) // to the end
				ended <- err
			}()
			_, _ = io.WriteString(c, tt.first)
			for {
				_, _ = c.Write([]byte("G"))
				select {
				case err := <-ended:
					if took := time.Since(start); took < 250*time.Millisecond || errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("after %v: %v", took, err)
					}
					return
				case <-time.After(20 * time.Millisecond): // the dribble
				}
			}
		})
	}
	h := listen(t, transport.ListenConfig{})
	_, resp := rawTry(t, h.addr(), "X: "+strings.Repeat("x", 32<<10))
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 32 KiB: got %s", resp.Status)
	}
}

// Design section 7: unauthenticated sockets are limited per address and in all,
// from their acceptance on; the next is told 503; one that is admitted, or closed,
// makes room.
func TestUnauthenticatedSocketsAreLimited(t *testing.T) {
	for name, cfg := range map[string]transport.ListenConfig{
		"in_all":      {MaxUnauthenticated: 3},
		"per_address": {MaxUnauthenticatedPerAddress: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := listen(t, cfg)
			peer := raw(t, h.addr())
			first := h.next(t)
			raw(t, h.addr())
			second := h.next(t)
			silent, err := net.Dial("tcp", h.addr()) // counts, although it says nothing
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			refused(t, h)
			first.admitted()
			first.admitted() // must count once
			raw(t, h.addr())
			h.next(t)
			refused(t, h)
			second.link.Drop()
			second.sink.end(t)
			raw(t, h.addr())
			h.next(t)
			refused(t, h)
			_ = peer.Close() // was admitted: makes no room
			first.sink.end(t)
			refused(t, h)
		})
	}
}

// refused waits until a fresh socket is told 503. The one refused before may be
// counted for a moment longer, but then it is refused too.
func refused(t *testing.T, h *hub) {
	t.Helper()
	peer, resp := rawTry(t, h.addr())
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got %s, want 503 with Retry-After", resp.Status)
	}
	if code, _ := peer.verdict(); code != 0 { // reads to the end: it has left
		t.Errorf("refused with a close frame of %d", code)
	}
}

// Design section 7: beyond twice the limit not even a refusal is spent.
func TestFloodIsClosedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{MaxUnauthenticatedPerAddress: 2})
	var held []net.Conn
	for range 4 {
		c, err := net.Dial("tcp", h.addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	c, err := net.Dial("tcp", h.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %d bytes, %v", n, err)
	}
	_ = held
}

// Listener.Close: it takes no new socket, ends unfinished ones, and leaves links
// to their owners.
func TestListenerCloseLeavesLinks(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	d := dial(t, transport.DialConfig{URL: h.url()})
	e := h.next(t)
	unfinished, err := net.Dial("tcp", h.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer unfinished.Close()
	for range 2 {
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_ = unfinished.SetDeadline(time.Now().Add(patience))
	if _, err := unfinished.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an unfinished handshake: %v", err)
	}
	if c, err := net.Dial("tcp", h.addr()); err == nil {
		_ = c.Close()
		t.Error("a closed listener took a socket")
	}
	e.write(t, finished("a"))
	d.write(t, finished("b"))
	if a, b := d.sink.frame(t).JobID, e.sink.frame(t).JobID; a != "a" || b != "b" {
		t.Errorf("got %q and %q", a, b)
	}
	d.link.Close(1000, "")
	if got := e.sink.end(t); got.Code != 1000 {
		t.Errorf("got %+v", got)
	}
}

// Accept: a nil sink refuses the socket, and the peer is told (1013).
func TestNilSinkRefuses(t *testing.T) {
	t.Parallel()
	ls, err := transport.Listen(t.Context(), "127.0.0.1:0", transport.ListenConfig{}, refuseAll)
	if err != nil {
		t.Fatal(err)
	}
	defer ls.Close()
	d := dial(t, transport.DialConfig{URL: fmt.Sprintf("ws://%s/x", ls.Addr())})
	if got := d.sink.end(t); got.Code != 1013 || got.Reason == "" {
		t.Errorf("got %+v, want 1013 and why", got)
	}
}

// Listener.Close: it returns only when accept is not running, and accept is not
// called afterwards.
func TestListenerCloseWaitsForAccept(t *testing.T) {
	t.Parallel()
	called, release := make(chan wire.Link, 1), make(chan struct{})
	returned := false
	ls, err := transport.Listen(t.Context(), "127.0.0.1:0", transport.ListenConfig{},
		func(_ string, link wire.Link, _ func()) wire.Sink {
			called <- link
			<-release
			returned = true
			return newRecorder()
		})
	if err != nil {
		t.Fatal(err)
	}
	raw(t, ls.Addr().String())
	link := wait(t, called, "call of accept")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = ls.Close()
		if !returned { // the race detector sees it too
			t.Error("Close returned while accept was running")
		}
	}()
	select {
	case <-closed:
	case <-time.After(100 * time.Millisecond): // what it would take to go wrong
	}
	close(release)
	<-closed
	link.Drop()
}
