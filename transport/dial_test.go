package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"codingrelay/transport"
	"codingrelay/wire"
)

// failing dials and returns the typed error it must get.
func failing(t *testing.T, cfg transport.DialConfig) *transport.DialError {
	t.Helper()
	err := transport.Dial(t.Context(), cfg, func(wire.Link) wire.Sink {
		t.Error("open was called")
		return nil
	})
	var typed *transport.DialError
	if !errors.As(err, &typed) {
		t.Fatalf("got %v, want a DialError", err)
	}
	for _, secret := range []string{"s3cret", "hidden"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q tells a secret", err)
		}
	}
	return typed
}

// closedPort is an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// Doctor's steps: the error names the step that failed and host:port, and neither
// it nor its text holds what a URL may hide.
func TestDialErrorNamesTheStep(t *testing.T) {
	t.Parallel()
	closed := closedPort(t)
	server, _ := certificate(t)
	secure := listen(t, transport.ListenConfig{TLS: server})
	plain := listen(t, transport.ListenConfig{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "http://"+plain.addr()+"/hidden", http.StatusFound)
			return
		}
		http.Error(w, "no relay here", http.StatusNotFound)
	}))
	t.Cleanup(web.Close)
	webAddr := strings.TrimPrefix(web.URL, "http://")
	for name, tt := range map[string]struct {
		url    string
		step   transport.Step
		addr   string
		status int
		text   string
	}{
		"no_url":       {"://", transport.StepURL, "", 0, "ws://host:port"},
		"scheme":       {"http://s3cret/", transport.StepURL, "", 0, `not "http"`},
		"no_host":      {"ws:///hidden", transport.StepURL, "", 0, "names no host"},
		"password":     {"ws://u:s3cret@h/", transport.StepURL, "", 0, "no user or password"},
		"dns":          {"ws://relay.invalid:1/hidden?t=s3cret", transport.StepDNS, "relay.invalid:1", 0, ""},
		"tcp":          {"ws://" + closed + "/hidden?t=s3cret", transport.StepTCP, closed, 0, "refused"},
		"tls":          {"wss://" + secure.addr() + "/hidden", transport.StepTLS, secure.addr(), 0, "certificate"},
		"no_tls":       {"wss://" + plain.addr(), transport.StepTLS, plain.addr(), 0, "tls"},
		"tls_expected": {"ws://" + secure.addr(), transport.StepUpgrade, secure.addr(), 400, "HTTPS"},
		"not_found":    {"ws://" + webAddr + "/hidden", transport.StepUpgrade, webAddr, 404, "no relay here"},
		"redirect":     {"ws://" + webAddr + "/moved", transport.StepUpgrade, webAddr, 302, "302 Found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := failing(t, transport.DialConfig{URL: tt.url})
			if got.Step != tt.step || got.Addr != tt.addr || got.Status != tt.status {
				t.Errorf("got step %s, %q, %d, want %s, %q, %d", got.Step, got.Addr, got.Status, tt.step, tt.addr, tt.status)
			}
			if text := got.Error(); !strings.Contains(text, tt.text) || !strings.Contains(text, tt.addr) {
				t.Errorf("%q does not say %q and %q", text, tt.text, tt.addr)
			}
		})
	}
}

// DialConfig.Timeout and ctx bound a server that takes the connection and says
// nothing; the step is told.
func TestDialDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	for scheme, step := range map[string]transport.Step{"ws": transport.StepUpgrade, "wss": transport.StepTLS} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			got := failing(t, transport.DialConfig{URL: scheme + "://" + ln.Addr().String(), Timeout: time.Second})
			if got.Step != step || !errors.Is(got, context.DeadlineExceeded) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Dial's ctx bounds the handshake only: a link outlives it.
func TestLinkOutlivesTheContextOfItsDial(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	d := end{sink: newRecorder()}
	err := transport.Dial(ctx, transport.DialConfig{URL: h.url()}, func(l wire.Link) wire.Sink {
		d.link = l
		return d.sink
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.link.Drop()
	cancel()
	e := h.next(t)
	e.write(t, finished("a"))
	d.sink.frame(t)
	d.link.Ping()
	wait(t, d.sink.pongs, "Pong")
}

// Protocol section 1: a daemon sends no Origin and offers no compression; what it
// writes is masked (RFC 6455 section 5.3), its pings and close frames too.
func TestDaemonSpeaksAsAClient(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	type seen struct {
		b0      byte
		masked  bool
		payload string
	}
	got := make(chan seen, 10)
	go func() {
		defer close(got)
		c, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		req, in := shake(t, c)
		for _, name := range []string{"Origin", "Sec-WebSocket-Extensions"} {
			if v := req.Header.Values(name); len(v) != 0 {
				t.Errorf("the daemon sent %s: %q", name, v)
			}
		}
		for {
			b0, masked, payload, err := readFrame(in)
			if err != nil {
				return
			}
			got <- seen{b0, masked, string(payload)}
		}
	}()
	d := dial(t, transport.DialConfig{URL: "ws://" + ln.Addr().String() + "/path"})
	d.write(t, finished("a"))
	d.link.Ping()
	first, second := wait(t, got, "message"), wait(t, got, "ping")
	d.link.Close(1000, "bye")
	third := wait(t, got, "close frame")
	d.sink.end(t)
	for i, pair := range [][2]seen{
		{first, {fin | opText, true, string(finished("a"))}},
		{second, {fin | opPing, true, "relay"}},
		{third, {fin | opClose, true, "\x03\xe8bye"}},
	} {
		if pair[0] != pair[1] {
			t.Errorf("frame %d: got %+v, want %+v", i, pair[0], pair[1])
		}
	}
	for extra := range got {
		t.Errorf("after the close frame came %+v", extra)
	}
}

// proxy is an HTTP proxy that knows CONNECT. It sends every tunnel to one address
// and tells what it was asked for.
func proxy(t *testing.T, to string, status int) (addr string, asked <-chan *http.Request) {
	t.Helper()
	reqs := make(chan *http.Request, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reqs <- r
		if r.Method != http.MethodConnect || status != http.StatusOK {
			http.Error(w, "no", status)
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		defer out.Close()
		in, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer in.Close()
		_, _ = io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() {
			_, _ = io.Copy(out, in)
			_ = out.Close()
		}()
		_, _ = io.Copy(in, out)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), reqs
}

// RFC 6455 section 4.1: through an HTTP proxy a WebSocket goes by CONNECT, ws and
// wss alike, with the proxy's credentials.
func TestProxyIsAskedToConnect(t *testing.T) {
	t.Parallel()
	server, client := certificate(t)
	for scheme, cfg := range map[string]*tls.Config{"ws": nil, "wss": server} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			h := listen(t, transport.ListenConfig{TLS: cfg})
			addr, asked := proxy(t, h.addr(), http.StatusOK)
			roots := client.Clone()
			roots.ServerName = "127.0.0.1"
			d := dial(t, transport.DialConfig{
				URL: scheme + "://relay.invalid/x", TLS: roots,
				Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr, User: url.UserPassword("u", "p")}),
			})
			req := wait(t, asked, "request at the proxy")
			port := map[string]string{"ws": "80", "wss": "443"}[scheme]
			if req.Method != http.MethodConnect || req.Host != "relay.invalid:"+port {
				t.Errorf("the proxy was asked for %s %s", req.Method, req.Host)
			}
			if got := req.Header.Get("Proxy-Authorization"); got != "Basic dTpw" {
				t.Errorf("Proxy-Authorization: %q", got)
			}
			e := h.next(t)
			d.write(t, finished("a"))
			e.sink.frame(t)
			e.link.Close(1000, "")
			d.sink.end(t)
		})
	}
}

// Doctor's steps: a proxy that cannot be reached, refuses, or hangs is the step,
// and its password is not told.
func TestProxyFailuresAreItsOwnStep(t *testing.T) {
	t.Parallel()
	denying, _ := proxy(t, "", http.StatusProxyAuthRequired)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	early := scripted(t, "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 101 Too Early\r\n")
	for name, tt := range map[string]struct {
		addr   string
		status int
	}{
		"closed": {closedPort(t), 0}, "denies": {denying, 407}, "silent": {silent.Addr().String(), 0}, "early": {early, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := failing(t, transport.DialConfig{
				URL: "ws://relay.invalid/hidden", Timeout: 2 * time.Second,
				Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: tt.addr, User: url.UserPassword("u", "s3cret")}),
			})
			if got.Step != transport.StepProxy || got.Status != tt.status || got.Addr != tt.addr {
				t.Errorf("got %s %q %d: %v", got.Step, got.Addr, got.Status, got)
			}
		})
	}
}

// scripted answers one request with fixed bytes.
func scripted(t *testing.T, answer string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, answer)
		}
		_, _ = io.Copy(io.Discard, c)
	}()
	return ln.Addr().String()
}

// D21: HTTP_PROXY of the environment is used, but never for loopback. The
// environment is read once per process, so a child process dials.
func TestEnvironmentProxyIsNotUsedForLoopback(t *testing.T) {
	if target := os.Getenv("RELAY_TEST_DIAL"); target != "" {
		d := dial(t, transport.DialConfig{URL: target})
		d.write(t, finished("from the child"))
		d.link.Close(1000, "")
		d.sink.end(t)
		return
	}
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	addr, asked := proxy(t, h.addr(), http.StatusOK)
	for _, tt := range []struct {
		url     string
		proxied int
	}{{h.url(), 0}, {"ws://relay.invalid/", 1}} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), "RELAY_TEST_DIAL="+tt.url, "HTTP_PROXY=http://"+addr, "NO_PROXY=corp.example")
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", tt.url, err, out)
		}
		if got := h.next(t).sink.frame(t); got.JobID != "from the child" {
			t.Errorf("got %+v", got)
		}
		if n := len(asked); n != tt.proxied {
			t.Errorf("%s: the proxy was asked %d times, want %d", tt.url, n, tt.proxied)
		}
	}
}
