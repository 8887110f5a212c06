package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codingrelay/actors"
	"codingrelay/control"
)

// request is a run on daemon d with changes.
func request(change ...func(*control.RunRequest)) control.RunRequest {
	r := control.RunRequest{DaemonID: "d", Payload: json.RawMessage(`{"prompt_text":"hi","n":1e2}`)}
	for _, f := range change {
		f(&r)
	}
	return r
}

// start starts a detached run and takes its run.start from the daemon.
func (h *house) start(p *peer, change ...func(*control.RunRequest)) control.Run {
	h.t.Helper()
	run, err := h.client.StartRun(testContext(h.t), request(change...))
	if err != nil {
		h.t.Fatalf("start: %v", err)
	}
	if f := p.expect("run.start"); f.JobID != run.RunID {
		h.t.Fatalf("run.start names %q, want %q", f.JobID, run.RunID)
	}
	return run
}

// ended waits for a run's outcome.
func (h *house) ended(runID string) control.Outcome {
	h.t.Helper()
	for e, err := range h.client.Events(testContext(h.t), runID, 0, false) {
		if err != nil {
			h.t.Fatalf("events: %v", err)
		}
		if e.Kind == control.KindEnd {
			return *e.Outcome
		}
	}
	h.t.Fatal("the stream ended without an outcome")
	return control.Outcome{}
}

// patient makes a request wait for its daemon, in a way that waiting can see.
func patient(r *control.RunRequest) {
	r.WaitMS, r.IdempotencyKey = 2*testTimeout.Milliseconds(), "patient"
}

// waiting reports whether a patient request waits in the hub: its key is taken
// before there is a run.
func (h *house) waiting() bool {
	h.t.Helper()
	a := h.ask("POST", "/v1/runs", `{"daemon_id":"d","payload":{},"idempotency_key":"patient"}`)
	return a.status == http.StatusTooManyRequests
}

// A detached run returns its id at once, its payload reaches the daemon byte for
// byte, and it goes on without any connection.
func TestDetachedRunGoesOnByItself(t *testing.T) {
	h := open(t, setup{hub: actors.Config{AttachGrace: time.Millisecond}})
	p := h.connect("d")
	body := `{"daemon_id":"d","payload": {"n":1e2, "big":12345678901234567890,"s":"\u00e9"} ,"timeout_ms":0}`
	a := h.ask("POST", "/v1/runs", body)
	var run control.Run
	if err := json.Unmarshal([]byte(a.body), &run); err != nil || a.status != http.StatusCreated || a.header.Get("Location") != "/v1/runs/"+run.RunID {
		t.Fatalf("answer is %d %v %s", a.status, a.header, a.body)
	}
	if run.State != "running" || run.TimeoutMS != 0 || run.DaemonID != "d" {
		t.Errorf("run is %+v", run)
	}
	f := p.expect("run.start")
	if want := `{"n":1e2, "big":12345678901234567890,"s":"\u00e9"}`; f.JobID != run.RunID || string(f.Payload) != want {
		t.Errorf("run.start is %s %s, want payload %s", f.JobID, f.Payload, want)
	}
	p.event(run.RunID, `{"type":"x"}`)
	p.finish(run.RunID)
	out := h.ended(run.RunID)
	zero := 0
	want := &control.Receipt{Mechanism: "test", ExitCode: &zero, Killed: 2, DurationMS: 7}
	if out.Result != "finished" || !out.Clean || out.Events != 1 || !cmp.Equal(out.Receipt, want) {
		t.Errorf("outcome is %+v", out)
	}
	runs, err := h.client.Runs(testContext(t))
	if err != nil || len(runs) != 1 || runs[0].State != "ended" || runs[0].Outcome == nil {
		t.Errorf("runs are %+v, %v", runs, err)
	}
	one, err := h.client.Run(testContext(t), run.RunID)
	if err != nil || !cmp.Equal(one, runs[0]) {
		t.Errorf("run is %+v, %v", one, err)
	}
}

// The connection that asked for a detached run may end at any time, also while it
// waits for the daemon: that cancels nothing.
func TestDetachedRunOutlivesItsRequest(t *testing.T) {
	h := open(t, setup{})
	ctx, hangUp := context.WithCancel(testContext(t))
	gone := make(chan error, 1)
	go func() {
		_, err := h.client.StartRun(ctx, request(patient))
		gone <- err
	}()
	until(t, "the request waits in the hub", h.waiting)
	hangUp()
	if err := <-gone; err != context.Canceled {
		t.Fatalf("error is %v, want the context's", err)
	}
	for range 50 { // the server has time to see it, and must not care
		if !h.waiting() {
			t.Fatal("the run was given up with its request's connection")
		}
	}
	p := h.connect("d")
	run := p.expect("run.start").JobID
	p.finish(run)
	if out := h.ended(run); out.Result != "finished" {
		t.Errorf("outcome is %+v", out)
	}
}

// An attached caller that goes away while it waits for its daemon has nothing to
// take over: nothing is started.
func TestAttachedCallerThatLeavesEarlyStartsNothing(t *testing.T) {
	h := open(t, setup{})
	ctx, hangUp := context.WithCancel(testContext(t))
	gone := make(chan error, 1)
	go func() {
		_, err := h.client.StartAttached(ctx, request(patient))
		gone <- err
	}()
	until(t, "the request waits in the hub", h.waiting)
	hangUp()
	if err := <-gone; err != context.Canceled {
		t.Fatalf("error is %v, want the context's", err)
	}
	until(t, "the hub waits no more", func() bool { return !h.waiting() })
	p := h.connect("d")
	p.send(`{"type":"daemon.ping"}`)
	p.expect("daemon.pong")
	if runs, err := h.client.Runs(testContext(t)); err != nil || len(runs) != 0 {
		t.Errorf("runs are %v, %v", runs, err)
	}
}

// wait_ms waits for the daemon to come online, and no longer.
func TestWaitMSWaitsForTheDaemon(t *testing.T) {
	h := open(t, setup{})
	_, err := h.client.StartRun(testContext(t), request(func(r *control.RunRequest) { r.WaitMS = 30 }))
	e := refusedWith(t, err, http.StatusServiceUnavailable, actors.CodeOffline)
	if !e.Retryable || e.RetryAfter <= 0 {
		t.Errorf("refusal is %+v, want it retryable, with a time", e)
	}
	started := make(chan control.Run, 1)
	go func() {
		run, err := h.client.StartRun(testContext(t), request(patient))
		if err != nil {
			t.Errorf("start: %v", err)
		}
		started <- run
	}()
	until(t, "the request waits in the hub", h.waiting)
	p := h.connect("d")
	id := p.expect("run.start").JobID
	if run := <-started; run.RunID != id {
		t.Errorf("run is %q, the daemon got %q", run.RunID, id)
	}
	p.finish(id)
}

// The same key with the same body is the same run, attached or detached; another
// body is a conflict.
func TestIdempotencyKeyNamesOneRun(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	key := func(r *control.RunRequest) { r.IdempotencyKey = "k" }
	first := h.start(p, key)
	body := `{"idempotency_key":"k","payload":{"prompt_text":"hi","n":1e2},"daemon_id":"d"}`
	a := h.ask("POST", "/v1/runs", body)
	var again control.Run
	if err := json.Unmarshal([]byte(a.body), &again); err != nil || a.status != http.StatusOK || again.RunID != first.RunID {
		t.Fatalf("the repeat answered %d %s, want 200 and run %s", a.status, a.body, first.RunID)
	}
	s, err := h.client.StartAttached(testContext(t), request(key))
	if err != nil || s.Run.RunID != first.RunID {
		t.Fatalf("the attached repeat is %+v, %v", s, err)
	}
	defer s.Close()
	for _, other := range []func(*control.RunRequest){
		func(r *control.RunRequest) { r.Payload = json.RawMessage(`{}`) },
		func(r *control.RunRequest) { r.OnDisconnect = "continue" },
		func(r *control.RunRequest) { ms := int64(7); r.TimeoutMS = &ms },
	} {
		_, err := h.client.StartRun(testContext(t), request(key, other))
		refusedWith(t, err, http.StatusConflict, actors.CodeIdempotency)
	}
	p.finish(first.RunID)
	if out := h.ended(first.RunID); out.Result != "finished" {
		t.Errorf("outcome is %+v", out)
	}
}

// Cancel answers after the barrier, and only then; more cancels change nothing.
func TestCancelAnswersAfterTheBarrier(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	run := h.start(p)
	results := make(chan control.CancelResult, 2)
	for range 2 {
		go func() {
			r, err := h.client.Cancel(testContext(t), run.RunID)
			if err != nil {
				t.Errorf("cancel: %v", err)
			}
			results <- r
		}()
	}
	p.expect("run.cancel")
	_, err := h.client.StartRun(testContext(t), request())
	refusedWith(t, err, http.StatusConflict, actors.CodeCancelling)
	select {
	case r := <-results:
		t.Fatalf("cancel answered %+v before run.finished", r)
	default:
	}
	p.finish(run.RunID)
	for range 2 {
		r := <-results
		if r.RunID != run.RunID || r.Result != "cancelled" || !r.Clean || r.Durable || r.Receipt == nil || r.TookMS < 0 || r.TookMS > 5000 {
			t.Errorf("answer is %+v", r)
		}
	}
	if r, err := h.client.Cancel(testContext(t), run.RunID); err != nil || r.Result != "cancelled" {
		t.Errorf("a cancel of an ended run is %+v, %v", r, err)
	}
	h.wants(h.ask("POST", "/v1/runs/"+run.RunID+"/cancel", `{"force":true}`), 400, "invalid_request")
	if a := h.ask("POST", "/v1/runs/"+run.RunID+"/cancel", ""); a.status != http.StatusOK {
		t.Errorf("a cancel without a body answered %d", a.status)
	}
}

// A cancel that is not acknowledged says so, and that took_ms is how long.
func TestUnconfirmedCancelSaysFenced(t *testing.T) {
	h := open(t, setup{hub: actors.Config{CancelTimeout: 100 * time.Millisecond}})
	p := h.connect("d")
	run := h.start(p)
	r, err := h.client.Cancel(testContext(t), run.RunID)
	if err != nil || r.Clean || r.FenceID == "" || r.Reason != "cancel_timeout" || r.TookMS < 100 {
		t.Fatalf("answer is %+v, %v", r, err)
	}
	_, err = h.client.StartRun(testContext(t), request())
	if e := refusedWith(t, err, http.StatusConflict, actors.CodeFenced); e.FenceID != r.FenceID || e.Retryable {
		t.Errorf("refusal is %+v, want fence %s", e, r.FenceID)
	}
}

// Unknown runs are 404 everywhere.
func TestUnknownRunIsNotFound(t *testing.T) {
	h := open(t, setup{})
	for _, id := range []string{"nope", "a/b", "..", "%", " "} {
		_, err := h.client.Run(testContext(t), id)
		refusedWith(t, err, http.StatusNotFound, actors.CodeRunNotFound)
		_, err = h.client.Cancel(testContext(t), id)
		refusedWith(t, err, http.StatusNotFound, actors.CodeRunNotFound)
		for _, err := range h.client.Events(testContext(t), id, 0, true) {
			refusedWith(t, err, http.StatusNotFound, actors.CodeRunNotFound)
		}
	}
	h.wants(h.ask("GET", "/v2/runs", ""), 404, "not_found")
	a := h.ask("DELETE", "/v1/runs/x", "")
	h.wants(a, 405, "method_not_allowed")
	if a.header.Get("Allow") != "GET" {
		t.Errorf("Allow is %q", a.header.Get("Allow"))
	}
	if a := h.ask("HEAD", "/v1/runs/x/events?attach=1", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD on a stream answered %d", a.status)
	}
}

// metric reads one number of /metrics.
func (h *house) metric(name string) int {
	h.t.Helper()
	for line := range strings.Lines(h.ask("GET", "/metrics", "").body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			var n float64
			if _, err := fmt.Sscan(rest, &n); err != nil {
				h.t.Fatalf("metric line %q: %v", line, err)
			}
			return int(n)
		}
	}
	return 0
}
