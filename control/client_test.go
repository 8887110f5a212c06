package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/control"
)

// cutter is a proxy that cuts each connection after some bytes of answer.
type cutter struct {
	l     net.Listener
	to    string
	after int64
	cuts  atomic.Int64
	group sync.WaitGroup
}

func (h *house) cut(after int64) *cutter {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	c := &cutter{l: l, to: strings.TrimPrefix(h.base, "http://"), after: after}
	c.group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.group.Go(func() { c.carry(conn) })
		}
	})
	h.t.Cleanup(func() {
		_ = l.Close()
		c.group.Wait()
	})
	return c
}

func (c *cutter) carry(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer out.Close()
	c.group.Go(func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	})
	if n, _ := io.CopyN(in, out, c.after); n == c.after {
		c.cuts.Add(1)
	}
}

// M7: any schedule of lost connections yields every event once, in order, for a
// reader and for the caller of an attached run.
func TestClientComesBackWhereItWasCutOff(t *testing.T) {
	const events = 2_000
	h := open(t, setup{})
	p := h.connect("d")
	c := h.cut(7_000)
	client := control.NewClient("http://"+c.l.Addr().String(), apiToken)
	t.Cleanup(client.Close)
	s, err := client.StartAttached(testContext(t), request())
	if err != nil {
		t.Fatal(err)
	}
	run := p.expect("run.start").JobID
	go func() {
		p.flood(run, events, 0, nil)
		p.finish(run)
	}()
	for name, stream := range map[string]func(func(control.StreamEvent, error) bool){
		"caller": s.Events(), "reader": client.Events(testContext(t), run, 0, false),
	} {
		next := uint64(1)
		for e, err := range stream {
			switch {
			case err != nil:
				t.Fatalf("%s: %v after %d events", name, err, next-1)
			case e.Kind == control.KindEnd && e.Outcome.Result == "finished":
			case e.Kind != control.KindEvent || e.Seq != next || string(e.Data) != fmt.Sprintf(`{"n":%d}`, next):
				t.Fatalf("%s: %+v after %d events", name, e, next-1)
			default:
				next++
			}
		}
		if next != events+1 {
			t.Errorf("%s got %d events, want %d", name, next-1, events)
		}
	}
	if n := c.cuts.Load(); n < 20 {
		t.Errorf("only %d connections were cut", n)
	}
}

// A run's largest event passes the client whole.
func TestClientTakesLongLines(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	run := h.start(p)
	big := eventText(1, 7<<20)
	p.event(run.RunID, big)
	p.finish(run.RunID)
	for e, err := range h.client.Events(testContext(t), run.RunID, 0, false) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == control.KindEvent && string(e.Data) != big {
			t.Errorf("the event has %d bytes, want %d", len(e.Data), len(big))
		}
	}
}

// Nobody there: the error names the address and what to do, at once, and is told
// apart from a refusal.
func TestUnreachableHubIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	c := control.NewClient("http://"+addr, apiToken)
	defer c.Close()
	_, errRuns := c.Runs(testContext(t))
	_, errStart := c.StartAttached(testContext(t), request())
	var errEvents error
	for _, errEvents = range c.Events(testContext(t), "r", 0, true) {
	}
	for _, err := range []error{errRuns, errStart, errEvents} {
		var u *control.UnreachableError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "relay serve") || strings.Contains(err.Error(), apiToken) {
			t.Errorf("error is %v", err)
		}
	}
}

// A hub that goes away in mid-stream is looked for as long as the grace, and no
// longer.
func TestClientGivesUpAfterTheGrace(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	c := h.cut(1 << 30)
	client := control.NewClient("http://"+c.l.Addr().String(), apiToken)
	client.ReconnectFor = 200 * time.Millisecond
	t.Cleanup(client.Close)
	run := h.start(p)
	p.event(run.RunID, `{"n":1}`)
	var last error
	got := 0
	for _, err := range client.Events(testContext(t), run.RunID, 0, false) {
		if err != nil {
			last = err
			break
		}
		got++
		_ = c.l.Close()
		if err := h.api.Close(); err != nil { // and with it the stream's connection
			t.Fatal(err)
		}
	}
	var u *control.UnreachableError
	if got != 1 || !errors.As(last, &u) {
		t.Errorf("got %d events, then %v; want 1, then unreachable", got, last)
	}
	p.leave()
}

// A context that ends ends the iteration with its error.
func TestClientStreamEndsWithItsContext(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	s, err := h.client.StartAttached(ctx, request(func(r *control.RunRequest) { r.OnDisconnect = "continue" }))
	if err != nil {
		t.Fatal(err)
	}
	p.event(s.Run.RunID, `{"n":1}`)
	var last error
	for _, err := range s.Events() {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("error is %v, want the context's", last)
	}
}

// A caller whose stream was taken over does not fight for it.
func TestReplacedClientDoesNotComeBack(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	s, err := h.client.StartAttached(testContext(t), request())
	if err != nil {
		t.Fatal(err)
	}
	run := p.expect("run.start").JobID
	other := h.stream("GET", "/v1/runs/"+run+"/events?attach=1", "")
	other.next()
	var last error
	for _, last = range s.Events() {
	}
	if !errors.Is(last, control.ErrReplaced) {
		t.Errorf("error is %v, want ErrReplaced", last)
	}
	p.finish(run)
	other.wantsEnd("finished")
}

// The token goes to the address it was given for, and into no text.
func TestClientKeepsItsToken(t *testing.T) {
	stolen := make(chan string, 1)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen <- r.Header.Get("Authorization")
	}))
	defer thief.Close()
	front := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer front.Close()
	c := control.NewClient(front.URL, apiToken)
	defer c.Close()
	_, err := c.Runs(testContext(t))
	var e *control.APIError
	if !errors.As(err, &e) || e.Status != http.StatusTemporaryRedirect {
		t.Errorf("error is %v", err)
	}
	select {
	case got := <-stolen:
		t.Errorf("the redirect was followed with %q", got)
	default:
	}
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), err.Error()} {
		if strings.Contains(text, apiToken) {
			t.Errorf("%q holds the token", text)
		}
	}
	for _, base := range []string{"", "127.0.0.1:80", "ftp://x", "http://", "http://u:s3cret@h", "http://h/?token=s3cret", "http://[::1"} {
		_, err := control.NewClient(base, "t").Runs(testContext(t))
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("base %q: error is %v", base, err)
		}
	}
}

// What answers and is no relay API is said to be none.
func TestClientKnowsAnotherServer(t *testing.T) {
	for text, status := range map[string]int{"<html>hello</html>": 200, "<html>no</html>": 502, `{"error":"no"}`: 500, `{}`: 404, `[]`: 200} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}))
		c := control.NewClient(other.URL, apiToken)
		_, err := c.Run(testContext(t), "r")
		if err == nil || !strings.Contains(err.Error(), "relay API") {
			t.Errorf("%d %s: error is %v", status, text, err)
		}
		c.Close()
		other.Close()
	}
}

// The client's errors are the hub's: code, message, whether trying again helps.
func TestClientTellsRefusalsAsTheyAre(t *testing.T) {
	h := open(t, setup{hub: actors.Config{ErrorPrefix: "a.b"}, api: control.Options{ErrorPrefix: "a.b"}})
	_, err := h.client.StartRun(testContext(t), request())
	e := refusedWith(t, err, 503, actors.CodeOffline)
	if e.Code != "a.b.daemon_offline" || !e.Retryable || e.RetryAfter != 2*time.Second || !strings.Contains(e.Error(), `"d"`) {
		t.Errorf("error is %+v", e)
	}
	_, err = h.newClient("wrong").Runs(testContext(t))
	if e := refusedWith(t, err, 401, actors.CodeUnauthorized); e.Code != "a.b.unauthorized" {
		t.Errorf("error is %+v", e)
	}
}
