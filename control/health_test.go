package control_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/control"
	"codingrelay/persist"
)

// /readyz is 503 before the hub listens, while a fence is not written down, and
// when it has stopped; /healthz says whether the hub has ended.
func TestReadinessFollowsTheHub(t *testing.T) {
	store := persist.NewFaulty(persist.NewMemory())
	h := open(t, setup{unopened: true, store: store, hub: actors.Config{CancelTimeout: 30 * time.Millisecond, StoreRetry: 20 * time.Millisecond}})
	ready := func() control.Readiness {
		t.Helper()
		r, err := h.client.Ready(testContext(t))
		if err != nil {
			t.Fatalf("ready: %v", err)
		}
		return r
	}
	if r := ready(); r.Ready || r.Listening {
		t.Errorf("before listening: %+v", r)
	}
	h.wants(h.ask("POST", "/v1/runs", `{"daemon_id":"d","payload":{}}`), 503, "daemon_hub_not_started")
	addr, err := h.hub.Listen(testContext(t), actors.ListenConfig{Host: "127.0.0.1", Token: daemonToken})
	if err != nil {
		t.Fatal(err)
	}
	h.addr = addr
	p := h.connect("d")
	run := h.start(p)
	if r := ready(); !r.Ready || r.Connections != 1 || r.OpenRuns != 1 || r.Fences != 0 {
		t.Errorf("in work: %+v", r)
	}
	store.Inject(persist.Fault{Op: persist.OpSave, Err: errors.New("disk full")})
	if _, err := h.client.Cancel(testContext(t), run.RunID); err != nil {
		t.Fatal(err)
	}
	if r := ready(); r.Ready || !r.StoreFailing || r.Fences != 1 || r.RetainedRuns != 1 {
		t.Errorf("with a failing store: %+v", r)
	}
	store.Clear()
	until(t, "the store works again", func() bool { return ready().Ready })
	if a := h.ask("GET", "/healthz", "", noToken); a.status != http.StatusOK || a.body != "{\"status\":\"ok\"}\n" {
		t.Errorf("healthz is %d %q", a.status, a.body)
	}
	if err := h.hub.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if r := ready(); r.Ready {
		t.Errorf("after the stop: %+v", r)
	}
	if a := h.ask("GET", "/healthz", "", noToken); a.status != http.StatusServiceUnavailable {
		t.Errorf("healthz of a hub that has ended is %d", a.status)
	}
}

// The numbers are those of the facts and of the hub, and need the token unless
// the hub was told otherwise.
func TestMetricsCountWhatHappens(t *testing.T) {
	h := open(t, setup{hub: actors.Config{CancelTimeout: 30 * time.Millisecond}, api: control.Options{MetricsOpen: true}})
	p := h.connect("d")
	ok := h.start(p)
	p.finish(ok.RunID)
	h.ended(ok.RunID)
	bad := h.start(p)
	if _, err := h.client.Cancel(testContext(t), bad.RunID); err != nil {
		t.Fatal(err)
	}
	h.ask("GET", "/v1/runs", "", header("Authorization", "Bearer wrong"))
	for name, want := range map[string]int{
		`relay_daemons_connected_total`: 1, `relay_runs_started_total`: 2, `relay_fences_raised_total`: 1,
		`relay_runs_ended_total{clean="true",result="finished"}`: 1, `relay_runs_ended_total{clean="false",result="cancelled"}`: 1,
		`relay_daemons`: 1, `relay_runs_open`: 0, `relay_runs_retained`: 2, `relay_fences`: 1, `relay_up`: 1, `relay_ready`: 1,
		`relay_api_refused_total{why="wrong_token"}`:                   1,
		`relay_api_requests_total{route="POST /v1/runs",status="201"}`: 2,
		`relay_api_requests_total{route="GET /v1/runs",status="401"}`:  1,
		`relay_api_streams_ended_total{why="ended"}`:                   1,
	} {
		until(t, name, func() bool { return h.metric(name) == want })
	}
	a := h.ask("GET", "/metrics", "", noToken)
	if a.status != http.StatusOK || strings.Contains(a.body, apiToken) || strings.Contains(a.body, ok.RunID) {
		t.Errorf("metrics without a token are %d", a.status)
	}
	if _, err := control.New(h.hub, control.Options{Token: "t", Metrics: control.NewMetrics()}); err != nil {
		t.Error(err)
	}
}

// A socket that dribbles its header and one that idles are closed; a huge header
// is refused.
func TestIdleSocketsAreClosed(t *testing.T) {
	h := open(t, setup{api: control.Options{HeaderTimeout: 50 * time.Millisecond, IdleTimeout: 50 * time.Millisecond}})
	dribble, idle := h.dial(), h.dial()
	write(t, dribble, "GET /healthz HTTP/1.1\r\nHost: local")
	write(t, idle, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	ended(t, dribble)
	ended(t, idle)
	big := h.dial()
	write(t, big, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Big: "+strings.Repeat("x", 21<<10))
	line, err := bufio.NewReader(big).ReadString('\n')
	if err != nil || !strings.Contains(line, " 431 ") {
		t.Errorf("a header of 21 KiB got %q, %v; want 431", line, err)
	}
}

// A connection above the limit is closed at once, not kept in line, and those
// within it do not notice.
func TestConnectionsAboveTheLimitAreClosed(t *testing.T) {
	h := open(t, setup{api: control.Options{MaxConnections: 1}})
	first := h.dial()
	write(t, first, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
	ended(t, h.dial())
	write(t, first, "\r\n")
	line, err := bufio.NewReader(first).ReadString('\n')
	if err != nil || !strings.Contains(line, " 200 ") {
		t.Errorf("the first connection got %q, %v; want 200", line, err)
	}
	_ = first.Close()
	until(t, "its place is free again", func() bool {
		_, err := h.client.Runs(testContext(t))
		return err == nil
	})
}

// ended reads a socket until it is closed.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the socket was not closed")
	}
}

func (h *house) dial() net.Conn {
	h.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// A port in use is told with the address and what to do.
func TestTakenPortNamesTheFix(t *testing.T) {
	h := open(t, setup{})
	other, err := control.New(h.hub, control.Options{Token: apiToken})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, err = other.Listen(testContext(t), strings.TrimPrefix(h.base, "http://"))
	var bind *control.BindError
	if !errors.As(err, &bind) || !strings.Contains(err.Error(), strings.TrimPrefix(h.base, "http://")) || !strings.Contains(err.Error(), "choose another") {
		t.Errorf("error is %v", err)
	}
	if _, err := other.Listen(testContext(t), "nonsense"); err == nil {
		t.Error("an address without a port was taken")
	}
}
