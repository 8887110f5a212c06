package actors_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/persist"
)

// I3: what another socket says of a run does nothing; the owner's frames work.
func TestForeignSocketCannotTouchARun(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	owner := connect(t, h.addr, "owner", token)
	other := connect(t, h.addr, "other", token)
	called := make(chan struct{}, 1)
	r := h.run(owner, actors.RunRequest{Tools: actors.ToolsFunc(func(context.Context, []byte) ([]byte, error) {
		called <- struct{}{}
		return []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), nil
	})})
	other.event(r.ID(), 666)
	other.finish(r.ID())
	other.send(`{"type":"mcp.request","request_id":"q","job_id":%q,"payload":{"jsonrpc":"2.0","id":7,"method":"x"}}`, r.ID())
	if f := other.expect("mcp.response"); !strings.Contains(string(f.Payload), "-32000") || !strings.Contains(string(f.Payload), `"id":7`) {
		t.Errorf("the foreign call was answered with %s, want -32000 for id 7", f.Payload)
	}
	select {
	case <-called:
		t.Fatal("the foreign call reached the tools")
	default:
	}
	info, err := r.Info(testContext(t))
	if err != nil || info.State != actors.StateRunning {
		t.Fatalf("run is %v, %v, want running", info.State, err)
	}
	owner.event(r.ID(), 1)
	owner.send(`{"type":"mcp.request","request_id":"q","job_id":%q,"payload":{"jsonrpc":"2.0","id":1,"method":"x"}}`, r.ID())
	owner.expect("mcp.response")
	<-called
	owner.finish(r.ID())
	out := h.outcome(r)
	wants(t, out, actors.Finished, true)
	if out.Events != 1 {
		t.Errorf("the log has %d events, want the owner's one", out.Events)
	}
}

// Protocol 3.3: a live socket is never silently replaced.
func TestSecondHelloWithALiveIDIsRefused(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	first := connect(t, h.addr, "box", token)
	r := h.run(first, actors.RunRequest{})
	second := dial(t, h.addr)
	second.hello("box", token)
	if ce := second.closed(); ce.Code != 1008 || !strings.Contains(ce.Reason, "already connected") {
		t.Errorf("the second was closed with %d %q", ce.Code, ce.Reason)
	}
	first.barrier()
	first.finish(r.ID())
	wants(t, h.outcome(r), actors.Finished, true)
}

// Protocol 3.4, D25: a silent holder without runs is probed and dropped for a
// newcomer; a holder that answers stays.
func TestSilentHolderIsProbedAndDropped(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{
		ProbeAfter: time.Nanosecond, ProbeTimeout: 50 * time.Millisecond, ProbePause: time.Nanosecond,
	})
	silent := connect(t, h.addr, "silent", token) // it reads nothing, so it answers no ping
	newcomer := dial(t, h.addr)
	newcomer.hello("silent", token)
	newcomer.expect("daemon.ready")
	r := h.run(newcomer, actors.RunRequest{})
	_ = silent.conn.CloseNow() // the old socket's late death removes only itself
	newcomer.barrier()
	newcomer.finish(r.ID())
	wants(t, h.outcome(r), actors.Finished, true)

	alive := connect(t, h.addr, "alive", token)
	answering := make(chan struct{})
	go func() { // reading is what answers pings
		defer close(answering)
		_, _, _ = alive.conn.Read(testContext(t))
	}()
	intruder := dial(t, h.addr)
	intruder.hello("alive", token)
	if ce := intruder.closed(); ce.Code != 1008 {
		t.Errorf("the intruder was closed with %d %q, want 1008", ce.Code, ce.Reason)
	}
	alive.send(`{"type":"daemon.ping"}`)
	<-answering
}

// Protocol 4.3: an idle connection that was silent is pinged before a run is
// placed on it; a sleeping laptop costs no fence.
func TestSleepingDaemonIsOfflineNotFenced(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{LifeAfter: time.Nanosecond, LifeTimeout: 50 * time.Millisecond})
	connect(t, h.addr, "asleep", token)
	_, err := h.Run(testContext(t), actors.RunRequest{DaemonID: "asleep", Payload: []byte(`{}`)})
	refused(t, err, actors.CodeOffline)
	if f, err := h.Fences(testContext(t)); err != nil || len(f) != 0 {
		t.Errorf("fences are %v, %v, want none", f, err)
	}
	h.untilGone() // it was dropped; the id is free when its socket has ended
	connect(t, h.addr, "asleep", token)
}
