package actors_test

import (
	"testing"

	"codingrelay/actors"
	"codingrelay/persist"
)

// Protocol 4: events come in order, run.finished ends the run, clean.
func TestRunStreamsEventsAndFinishesClean(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	for n := range 100 {
		p.event(r.ID(), n)
	}
	p.finish(r.ID())
	seq := uint64(0)
	for ev, err := range r.Events(testContext(t), 0) {
		if err != nil {
			t.Fatalf("events: %v", err)
		}
		seq++
		if ev.Seq != seq {
			t.Fatalf("event %d has sequence %d", seq, ev.Seq)
		}
	}
	if seq != 100 {
		t.Fatalf("read %d events, want 100", seq)
	}
	wants(t, h.outcome(r), actors.Finished, true)
}

// Protocol 5: a cancel is confirmed by run.finished.
func TestCancelIsCleanAfterAcknowledgement(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	done := make(chan actors.Outcome, 1)
	go func() {
		out, _ := r.Cancel(testContext(t))
		done <- out
	}()
	p.expect("run.cancel")
	p.finish(r.ID())
	wants(t, <-done, actors.Cancelled, true)
}
