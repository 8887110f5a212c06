package actors_test

import (
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/persist"
)

// D27 b, protocol 8: a half-open peer is noticed by its silence, its run leaves
// running; one that only answers pings stays.
func TestSilentPeerIsDroppedAndItsRunEnds(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{SilenceTimeout: 300 * time.Millisecond, PingEvery: 90 * time.Millisecond})
	silent := connect(t, h.addr, "silent", token)
	r := h.run(silent, actors.RunRequest{}) // from here on it reads nothing and answers nothing
	answering := connect(t, h.addr, "answering", token)
	other := h.run(answering, actors.RunRequest{})
	frames := make(chan error, 1)
	go func() { // reading is what answers pings
		_, _, err := answering.conn.Read(testContext(t))
		frames <- err
	}()
	out := h.outcome(r)
	wants(t, out, actors.Disconnected, false)
	until(t, "only the answering one is connected", func() bool {
		d, err := h.Daemons(testContext(t))
		return err == nil && len(d) == 1 && d[0].DaemonID == "answering"
	})
	answering.finish(other.ID())
	wants(t, h.outcome(other), actors.Finished, true)
	answering.send(`{"type":"daemon.ping"}`)
	if err := <-frames; err != nil {
		t.Errorf("the answering peer was dropped: %v", err)
	}
}

// Design 7: while a reader holds the socket back, its silence proves nothing.
func TestHeldSocketIsNotTakenForDead(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{
		SilenceTimeout: 300 * time.Millisecond, PingEvery: 90 * time.Millisecond, LogBytes: 64 << 10,
	})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{Attached: true})
	sent := flood(p, r.ID(), 4000, 4<<10)
	go func() { // it answers pings, when it is read from
		_, _, _ = p.conn.Read(testContext(t))
	}()
	seq := uint64(0)
	pause := time.NewTimer(time.Second)
	for ev, err := range r.Read(testContext(t), actors.Reading{Hold: true, Caller: true}) {
		if err != nil || ev.Truncated != nil {
			t.Fatalf("entry %d: %v, truncated %v", seq, err, ev.Truncated)
		}
		if seq++; seq == 1 { // three silence timeouts long
			<-pause.C
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	wants(t, h.outcome(r), actors.Finished, true)
	if seq != 4000 {
		t.Errorf("read %d events, want 4000", seq)
	}
}
