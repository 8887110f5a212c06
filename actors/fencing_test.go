package actors_test

import (
	"context"
	"strings"
	"testing"

	"codingrelay/actors"
	"codingrelay/persist"
)

// I5, I9, protocol 5: an un-acknowledged cancel revokes the tools, fences the id,
// and the next run says fenced, also when the daemon is gone by then.
func TestUnacknowledgedCancelFences(t *testing.T) {
	h := open(t, folder(t, t.TempDir()), actors.Config{})
	p := connect(t, h.addr, "box", token)
	revoked := make(chan struct{})
	r := h.run(p, actors.RunRequest{Tools: actors.ToolsFunc(func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		close(revoked)
		return nil, ctx.Err()
	})})
	p.send(`{"type":"mcp.request","request_id":"q","job_id":%q,"payload":{"jsonrpc":"2.0","id":1,"method":"x"}}`, r.ID())
	p.barrier()
	out, err := r.Cancel(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	wants(t, out, actors.Cancelled, false)
	if !out.Durable || out.FenceID == "" || out.Reason != actors.ReasonCancelTimeout {
		t.Errorf("outcome is durable=%t fence=%q reason=%q", out.Durable, out.FenceID, out.Reason)
	}
	<-revoked
	_, err = h.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: []byte(`{}`)})
	if e := refused(t, err, actors.CodeFenced); e.FenceID != out.FenceID || !strings.Contains(e.Message, "fenced") {
		t.Errorf("refusal is %+v, want fence %s", e, out.FenceID)
	}
	_ = p.conn.CloseNow()
	h.untilGone()
	_, err = h.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: []byte(`{}`)})
	refused(t, err, actors.CodeFenced)
	_, err = h.WaitForDaemon(testContext(t), "box")
	refused(t, err, actors.CodeFenced)
	again := dial(t, h.addr)
	again.hello("box", token)
	if ce := again.closed(); ce.Code != 1008 || !strings.Contains(ce.Reason, "fenced") {
		t.Errorf("a fenced daemon's hello was closed with %d %q", ce.Code, ce.Reason)
	}
}

// I11, protocol 6a: a late acknowledgement of every run that caused it lifts the
// fence, of some of them does not.
func TestLateAcknowledgementLiftsForAllRunsOnly(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	a, b := h.run(p, actors.RunRequest{}), h.run(p, actors.RunRequest{})
	outs := make(chan actors.Outcome, 2)
	for _, r := range []*actors.Run{a, b} {
		go func() {
			out, _ := r.Cancel(testContext(t))
			outs <- out
		}()
	}
	wants(t, <-outs, actors.Cancelled, false)
	wants(t, <-outs, actors.Cancelled, false)
	p.expect("run.cancel")
	p.expect("run.cancel")
	p.finish(a.ID())
	p.barrier()
	until(t, "one run is resolved", func() bool {
		f, err := h.Fences(testContext(t))
		return err == nil && len(f) == 1 && len(f[0].Unresolved) == 1 && f[0].Unresolved[0].RunID == b.ID()
	})
	p.finish(b.ID())
	until(t, "the fence is lifted", func() bool {
		f, err := h.Fences(testContext(t))
		return err == nil && len(f) == 0
	})
	until(t, "both runs are resolved", func() bool {
		return h.outcome(a).ResolvedAt != nil && h.outcome(b).ResolvedAt != nil
	})
	if out := h.outcome(a); out.Clean || out.Result != actors.Cancelled {
		t.Errorf("the outcome already told changed: %+v", out)
	}
	r := h.run(p, actors.RunRequest{})
	p.finish(r.ID())
	wants(t, h.outcome(r), actors.Finished, true)
}

// Protocol 5, disconnect: the synthetic event, the outcome, the fence.
func TestDisconnectFencesAndTellsTheReader(t *testing.T) {
	h := open(t, folder(t, t.TempDir()), actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	p.event(r.ID(), 1)
	_ = p.conn.CloseNow()
	var last actors.Event
	n := 0
	for ev, err := range r.Events(testContext(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		last = ev
		n++
	}
	const want = `{"type":"run.failed","data":{"error":"daemon disconnected; remote cleanup unconfirmed, target fenced","code":"agent_runtime.daemon_disconnected","retryable":false}}`
	if n != 2 || string(last.Data) != want || last.Kind != actors.ItemHub {
		t.Errorf("read %d events, the last %s (%d), want the synthetic one", n, last.Data, last.Kind)
	}
	out := h.outcome(r)
	wants(t, out, actors.Disconnected, false)
	if !out.Durable || out.FenceID == "" {
		t.Errorf("outcome %+v is not durable or names no fence", out)
	}
}

// Protocol 4.6: run.finished followed at once by a close is a normal end, and the
// id may come back at once.
func TestFinishThenCloseIsNormal(t *testing.T) {
	h := open(t, folder(t, t.TempDir()), actors.Config{})
	for range 20 {
		p := connect(t, h.addr, "box", token)
		r := h.run(p, actors.RunRequest{})
		p.finish(r.ID())
		_ = p.conn.CloseNow()
		wants(t, h.outcome(r), actors.Finished, true)
		h.untilGone()
	}
	if f, err := h.Fences(testContext(t)); err != nil || len(f) != 0 {
		t.Errorf("fences are %v, %v, want none", f, err)
	}
}

// Protocol 4.2: a run on a daemon that is being cancelled is refused as cancelling.
func TestRunIsRefusedWhileCancelling(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{CancelTimeout: testTimeout})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	done := make(chan actors.Outcome, 1)
	go func() {
		out, _ := r.Cancel(testContext(t))
		done <- out
	}()
	p.expect("run.cancel")
	_, err := h.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: []byte(`{}`)})
	if e := refused(t, err, actors.CodeCancelling); !e.Retryable() || !strings.Contains(e.Message, "cancelling") {
		t.Errorf("refusal is %v", e)
	}
	p.finish(r.ID())
	wants(t, <-done, actors.Cancelled, true)
	again := h.run(p, actors.RunRequest{})
	p.finish(again.ID())
	wants(t, h.outcome(again), actors.Finished, true)
}

// Protocol 6b: an operator's clear names the fence, closes the connection of the
// unresolved runs first, and is refused with an old fence id.
func TestClearNamesTheFence(t *testing.T) {
	h := open(t, folder(t, t.TempDir()), actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	out, err := r.Cancel(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.ClearFence(testContext(t), "box", "fence-old", "looked", "tester")
	if e := refused(t, err, actors.CodeFenceChanged); e.FenceID != out.FenceID {
		t.Errorf("refusal names %q, want %q", e.FenceID, out.FenceID)
	}
	_, err = h.ClearFence(testContext(t), "box", out.FenceID, " ", "tester")
	refused(t, err, actors.CodeInvalidRequest)
	if _, err := h.ClearFence(testContext(t), "box", out.FenceID, "looked", "tester"); err != nil {
		t.Fatalf("clear: %v", err)
	}
	if ce := p.closed(); ce.Code != 1012 {
		t.Errorf("the connection was closed with %d, want 1012", ce.Code)
	}
	if got := h.outcome(r); got.ResolvedAt == nil {
		t.Error("the run has no resolved_at")
	}
	_, err = h.ClearFence(testContext(t), "box", out.FenceID, "looked", "tester")
	refused(t, err, actors.CodeFenceChanged)
	again := connect(t, h.addr, "box", token)
	r2 := h.run(again, actors.RunRequest{})
	again.finish(r2.ID())
	wants(t, h.outcome(r2), actors.Finished, true)
}

// Protocol 6: a clear is refused while other runs of that daemon are open.
func TestClearListsOpenRuns(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	bad, good := h.run(p, actors.RunRequest{}), h.run(p, actors.RunRequest{})
	out, err := bad.Cancel(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.ClearFence(testContext(t), "box", out.FenceID, "looked", "tester")
	if e := refused(t, err, actors.CodeBusy); !strings.Contains(e.Message, good.ID()) {
		t.Errorf("message %q does not list the open run", e.Message)
	}
	p.expect("run.cancel")
	p.event(good.ID(), 1) // one bad end does not touch the others
	p.finish(good.ID())
	wants(t, h.outcome(good), actors.Finished, true)
}
