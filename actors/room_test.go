package actors_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/lease"
	"codingrelay/persist"
)

// Design 7: fences take no room from healthy daemons, and a full hub says that it
// is full, not that the id is taken.
func TestFencesTakeNoRoomAndAFullHubSaysSo(t *testing.T) {
	store := persist.NewMemory()
	for i := range 5 {
		err := store.Save(lease.Record{
			Version: lease.Version, DaemonID: fmt.Sprintf("gone-%d", i), FenceID: "fence-x", UpdatedAt: time.Now(),
			Runs: []lease.Run{{RunID: "r", Incarnation: "c", LeasedAt: time.Now()}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	h := open(t, store, actors.Config{MaxConnections: 1, MaxRuns: 1})
	p := connect(t, h.addr, "healthy", token)
	second := dial(t, h.addr)
	second.hello("second", token)
	if ce := second.closed(); ce.Code != 1008 || !strings.Contains(ce.Reason, "full") {
		t.Errorf("closed with %d %q, want 1008 and full", ce.Code, ce.Reason)
	}
	r := h.run(p, actors.RunRequest{})
	p.finish(r.ID())
	wants(t, h.outcome(r), actors.Finished, true)
}

// Design 5: a slow disk delays the daemon whose record it writes, nobody else.
func TestSlowDiskDelaysNobodyElse(t *testing.T) {
	hold := persist.NewHold()
	store := persist.NewFaulty(persist.NewMemory(), persist.Fault{Op: persist.OpSave, Key: lease.Key("slow"), Hold: hold})
	h := open(t, store, actors.Config{})
	slow, quick := connect(t, h.addr, "slow", token), connect(t, h.addr, "quick", token)
	placed := make(chan error, 1)
	go func() {
		_, err := h.Run(context.WithoutCancel(testContext(t)), request("slow"))
		placed <- err
	}()
	<-hold.Arrived()
	r := h.run(quick, actors.RunRequest{})
	quick.event(r.ID(), 1)
	quick.barrier()
	slow.barrier() // its socket is served, too; only the start waits
	quick.finish(r.ID())
	wants(t, h.outcome(r), actors.Finished, true)
	hold.Release()
	f := slow.expect("run.start")
	if err := <-placed; err != nil {
		t.Fatal(err)
	}
	slow.finish(f.JobID)
}

// Protocol 4: the run's time ends with run.finished, however slow its reader is.
func TestDeadlineEndsWithTheRun(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{Attached: true, Timeout: 100 * time.Millisecond})
	for n := range 10 {
		p.event(r.ID(), n)
	}
	p.finish(r.ID())
	p.barrier()
	late := time.NewTimer(200 * time.Millisecond)
	n := 0
	for _, err := range r.Read(testContext(t), actors.Reading{Caller: true, Hold: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			<-late.C
		}
	}
	if n != 10 {
		t.Errorf("read %d events, want 10", n)
	}
	wants(t, h.outcome(r), actors.Finished, true)
}
