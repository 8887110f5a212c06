package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"codingrelay/actors"
	"codingrelay/control"
	"codingrelay/persist"
	"codingrelay/transport"
	"codingrelay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	apiToken    = "rly_api_0123456789abcdefghijklmnopqrstuvwxyzABCDE"
	daemonToken = "correct-horse-battery-staple-0123456789"
)

// house is a real hub on real sockets with the API in front of it.
type house struct {
	t      *testing.T
	hub    *actors.Hub
	api    *control.Server
	addr   string // where daemons dial
	base   string // where the API is
	client *control.Client
	facts  *facts
	small  bool // streams that are read by hand have small receive buffers
}

// setup is what a test wants otherwise than usual.
type setup struct {
	hub      actors.Config
	api      control.Options
	store    actors.Store
	unopened bool // the hub does not listen for daemons
}

func open(t *testing.T, with setup) *house {
	t.Helper()
	h := &house{t: t, facts: &facts{changed: make(chan struct{}, 1)}}
	if with.store == nil {
		with.store = persist.NewMemory()
	}
	if with.hub.CancelTimeout == 0 {
		with.hub.CancelTimeout = 5 * time.Second
	}
	metrics := control.NewMetrics()
	h.facts.next = metrics
	with.api.Metrics, with.api.Token = metrics, apiToken
	var err error
	h.hub, err = actors.Start(nil, with.hub, actors.Ports{Store: with.store, Listener: sockets(), Observer: h.facts})
	if err != nil {
		t.Fatalf("start the hub: %v", err)
	}
	if h.api, err = control.New(h.hub, with.api); err != nil {
		t.Fatalf("make the API: %v", err)
	}
	t.Cleanup(h.close)
	if !with.unopened {
		h.addr, err = h.hub.Listen(testContext(t), actors.ListenConfig{Host: "127.0.0.1", Token: daemonToken})
		if err != nil {
			t.Fatalf("listen for daemons: %v", err)
		}
	}
	at, err := h.api.Listen(testContext(t), "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for callers: %v", err)
	}
	h.base = "http://" + at.String()
	h.client = h.newClient(apiToken)
	return h
}

func (h *house) newClient(token string) *control.Client {
	c := control.NewClient(h.base, token)
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &checked{t: h.t, next: rt} })
	h.t.Cleanup(c.Close)
	return c
}

func (h *house) close() {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := h.hub.Stop(ctx); err != nil {
		h.t.Errorf("stop the hub: %v", err)
	}
	if err := h.api.Close(); err != nil {
		h.t.Errorf("close the API: %v", err)
	}
}

// sockets is the real listener for daemons.
func sockets() actors.Listener {
	return actors.ListenerFunc(func(ctx context.Context, addr string, accept actors.Accept) (actors.Listening, error) {
		return transport.Listen(ctx, addr, transport.ListenConfig{}, func(remote string, link wire.Link, admitted func()) wire.Sink {
			return accept(remote, link, admitted)
		})
	})
}

// testTimeout is longer than anything that works takes.
const testTimeout = time.Minute

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// until polls a condition that nothing announces, with a deadline.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := testContext(t)
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// answer is an HTTP answer, whole.
type answer struct {
	status int
	header http.Header
	body   string
}

// code is the error's code without prefix.
func (a answer) code(t *testing.T) string {
	t.Helper()
	var e struct {
		Error *control.APIError `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || e.Error == nil {
		t.Fatalf("answer %d %q is no error object", a.status, a.body)
	}
	return string(e.Error.Short())
}

// ask sends a request with the token, after change has changed it.
func (h *house) ask(method, path, body string, change ...func(*http.Request)) answer {
	h.t.Helper()
	req, err := http.NewRequestWithContext(testContext(h.t), method, h.base+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatalf("request: %v", err)
	}
	req.Header.Set("Authorization", "Bearer "+apiToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, f := range change {
		f(req)
	}
	rt := http.DefaultTransport.(*http.Transport).Clone()
	defer rt.CloseIdleConnections()
	resp, err := (&checked{t: h.t, next: rt}).RoundTrip(req)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close() // only read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatalf("%s %s: read: %v", method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// wants checks an error answer.
func (h *house) wants(a answer, status int, code string) {
	h.t.Helper()
	if a.status != status || a.code(h.t) != code {
		h.t.Fatalf("answer is %d %s, want %d %s", a.status, a.body, status, code)
	}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func noToken(r *http.Request) { r.Header.Del("Authorization") }

// checked holds every answer of every test to the API's description.
type checked struct {
	t    *testing.T
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (c *checked) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); kind != "application/json" {
		description.check(c.t, req, resp.StatusCode, kind, nil)
		return resp, nil
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close() // only read
	resp.Body = io.NopCloser(bytes.NewReader(text))
	description.check(c.t, req, resp.StatusCode, "application/json", text)
	return resp, nil
}
