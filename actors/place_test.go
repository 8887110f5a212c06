package actors_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/persist"
)

func request(id string) actors.RunRequest {
	return actors.RunRequest{DaemonID: id, Payload: []byte(`{}`)}
}

// Protocol 4.2: what is refused, and as what.
func TestRunsAreRefusedInOrder(t *testing.T) {
	idle := start(t, persist.NewMemory(), actors.Config{})
	_, err := idle.Run(testContext(t), request("box"))
	refused(t, err, actors.CodeHubNotStarted)

	h := open(t, persist.NewMemory(), actors.Config{MaxRuns: 3, MaxRunsPerDaemon: 2})
	_, err = h.Run(testContext(t), request("nobody"))
	if e := refused(t, err, actors.CodeOffline); !e.Retryable() || !strings.Contains(err.Error(), "agent_runtime.daemon_offline") {
		t.Errorf("refusal is %v", err)
	}
	for name, payload := range map[string]string{"array": `[]`, "cut": `{"a":`, "empty": ``, "text": `"x"`} {
		_, err = h.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: []byte(payload)})
		if actors.CodeOf(err) != actors.CodeInvalidRequest {
			t.Errorf("payload %s: %v, want invalid_request", name, err)
		}
	}
	p, q := connect(t, h.addr, "box", token), connect(t, h.addr, "box2", token)
	big := append(append([]byte(`{"x":"`), bytes.Repeat([]byte("a"), 2<<20)...), `"}`...)
	_, err = h.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: big})
	if e := refused(t, err, actors.CodePayloadTooLarge); !strings.Contains(e.Message, "1048576") {
		t.Errorf("message %q does not name the limit", e.Message)
	}
	h.run(p, actors.RunRequest{})
	h.run(p, actors.RunRequest{})
	_, err = h.Run(testContext(t), request("box"))
	if e := refused(t, err, actors.CodeBusy); !strings.Contains(e.Message, "per daemon") {
		t.Errorf("message %q does not name the limit", e.Message)
	}
	h.run(q, actors.RunRequest{})
	_, err = h.Run(testContext(t), request("box2"))
	if e := refused(t, err, actors.CodeBusy); !strings.Contains(e.Message, "max runs") {
		t.Errorf("message %q does not name the limit", e.Message)
	}
}

// Waiting for a daemon: the run starts when it comes online, gives up when its
// time is up, and leaves when its caller does.
func TestRunWaitsForItsDaemon(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	req := request("late")
	req.Wait = testTimeout
	placed := make(chan error, 1)
	var run *actors.Run
	go func() {
		var err error
		run, err = h.Run(context.WithoutCancel(testContext(t)), req)
		placed <- err
	}()
	p := connect(t, h.addr, "late", token)
	p.expect("run.start")
	if err := <-placed; err != nil {
		t.Fatal(err)
	}
	p.finish(run.ID())
	wants(t, h.outcome(run), actors.Finished, true)

	req = request("never")
	req.Wait = 20 * time.Millisecond
	_, err := h.Run(testContext(t), req)
	refused(t, err, actors.CodeOffline)

	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	req.Wait = testTimeout
	if _, err = h.Run(ctx, req); err == nil {
		t.Fatal("a run whose caller left was placed")
	}
	never := connect(t, h.addr, "never", token)
	never.barrier() // no run.start came
}

// Idempotency: the same key with the same request is the same run, from any
// number of callers at once; with another request it is refused.
func TestIdempotencyKeyNamesOneRun(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	req := request("box")
	req.IdempotencyKey = "k1"
	ids := make([]string, 5)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			r, err := h.Run(context.WithoutCancel(testContext(t)), req)
			if err != nil {
				t.Errorf("request %d: %v", i, err)
				return
			}
			ids[i] = r.ID()
		})
	}
	wg.Wait()
	f := p.expect("run.start")
	for _, id := range ids {
		if id != f.JobID {
			t.Fatalf("runs are %v, want all %s", ids, f.JobID)
		}
	}
	p.barrier() // only one run.start
	other := req
	other.Payload = []byte(`{"other":1}`)
	_, err := h.Run(testContext(t), other)
	refused(t, err, actors.CodeIdempotency)
	p.finish(f.JobID)
}

// Protocol 5: a timeout is a cancel with another name.
func TestTimeoutEndsTheRun(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{CancelTimeout: testTimeout})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{Timeout: 30 * time.Millisecond})
	p.expect("run.cancel")
	p.finish(r.ID())
	wants(t, h.outcome(r), actors.TimedOut, true)
}

// Protocol 5, stop: no hello and no run from then on, every open run is ended with
// the barrier, then the sockets close with 1001.
func TestStopEndsRunsWithTheBarrier(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{CancelTimeout: testTimeout})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	stopped := make(chan error, 1)
	go func() { stopped <- h.Stop(testContext(t)) }()
	p.expect("run.cancel")
	_, err := h.Run(testContext(t), request("box"))
	if e := refused(t, err, actors.CodeHubStopping); !e.Retryable() {
		t.Error("hub_stopping is not retryable")
	}
	late := dial(t, h.addr)
	late.hello("late", token)
	if ce := late.closed(); ce.Code != 1001 {
		t.Errorf("a hello while stopping was closed with %d %q, want 1001", ce.Code, ce.Reason)
	}
	outcome := make(chan actors.Outcome, 1)
	go func() {
		out, _ := r.Wait(testContext(t))
		outcome <- out
	}()
	until(t, "somebody waits", func() bool { _, err := r.Info(testContext(t)); return err == nil })
	p.finish(r.ID())
	out := <-outcome
	wants(t, out, actors.Cancelled, true)
	if out.Reason != actors.ReasonHubStopping {
		t.Errorf("reason is %q, want hub_stopping", out.Reason)
	}
	if ce := p.closed(); ce.Code != 1001 {
		t.Errorf("closed with %d, want 1001", ce.Code)
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	<-h.Done()
	if err := h.Err(); err != nil {
		t.Errorf("Err is %v after a stop", err)
	}
	_, err = h.Run(testContext(t), request("box"))
	refused(t, err, actors.CodeHubNotStarted)
}
