package actors_test

import (
	"testing"

	"codingrelay/actors"
	"codingrelay/persist"
)

// Design 6: a panic in a job or its connection closes that connection, fences the
// id, and the jobs are answered failed, not clean; nobody else notices.
func TestPanicHasABlastRadius(t *testing.T) {
	for _, kind := range []string{actors.KindJob, actors.KindConn} {
		t.Run(kind, func(t *testing.T) {
			h := open(t, folder(t, t.TempDir()), actors.Config{})
			p := connect(t, h.addr, "box", token)
			r := h.run(p, actors.RunRequest{})
			victim := h.Refs(kind)[0]
			bystander := connect(t, h.addr, "bystander", token)
			other := h.run(bystander, actors.RunRequest{})
			h.Poke(victim)
			p.closedAnyhow()
			until(t, "the id is fenced", func() bool {
				f, err := h.Fences(testContext(t))
				return err == nil && len(f) == 1 && f[0].DaemonID == "box"
			})
			runs, err := h.Runs(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range runs {
				if info.RunID == r.ID() && (info.Outcome == nil || info.Outcome.Result != actors.Failed || info.Outcome.Clean) {
					t.Errorf("the run ended as %+v, want failed, not clean", info.Outcome)
				}
			}
			bystander.finish(other.ID())
			wants(t, h.outcome(other), actors.Finished, true)
		})
	}
}

// Design 6: a fence that failed refuses its id until restart; its record stays.
func TestFailedFenceRefusesItsID(t *testing.T) {
	files := folder(t, t.TempDir())
	h := open(t, files, actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	h.Poke(h.Refs(actors.KindFence)[0])
	p.closedAnyhow()
	wants(t, h.outcome(r), actors.Failed, false)
	_, err := h.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: []byte(`{}`)})
	refused(t, err, actors.CodeFenced)
	again := dial(t, h.addr)
	again.hello("box", token)
	if ce := again.closed(); ce.Code != 1008 {
		t.Errorf("closed with %d %q, want 1008", ce.Code, ce.Reason)
	}
	if entries, err := files.Load(); err != nil || len(entries) != 1 {
		t.Errorf("the store holds %v, %v, want the record", entries, err)
	}
}

// Design 6: when the hub itself fails, all sockets close, all runs end failed and
// not clean, Done is closed and Err says why; nothing hangs.
func TestFailedHubEndsEverything(t *testing.T) {
	h := start(t, persist.NewMemory(), actors.Config{})
	addr, err := h.Listen(testContext(t), actors.ListenConfig{Host: "127.0.0.1", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	outcome := make(chan actors.Outcome, 1)
	go func() {
		out, _ := r.Wait(testContext(t))
		outcome <- out
	}()
	until(t, "somebody waits for the outcome", func() bool { _, err := r.Info(testContext(t)); return err == nil })
	h.Poke(actors.HubRef)
	p.closedAnyhow()
	select {
	case <-h.Done():
	case <-testContext(t).Done():
		t.Fatal("Done was never closed")
	}
	if h.Err() == nil {
		t.Error("Err is nil after the hub failed")
	}
	if out := <-outcome; out.Clean || out.Result != actors.Failed && out.Result != "" {
		t.Errorf("the waiting caller got %+v", out)
	}
	_, err = h.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: []byte(`{}`)})
	refused(t, err, actors.CodeInternal)
}
