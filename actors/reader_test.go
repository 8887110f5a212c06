package actors_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/persist"
)

// flood sends n events of size bytes, then run.finished, on a goroutine.
func flood(p *peer, run string, n, size int) <-chan error {
	done := make(chan error, 1)
	pad := bytes.Repeat([]byte("x"), size)
	ctx := testContext(p.t)
	go func() {
		for i := range n {
			if err := p.conn.Write(ctx, 1, fmt.Appendf(nil, `{"type":"run.event","job_id":%q,"event":{"n":%d,"pad":"%s"}}`, run, i, pad)); err != nil {
				done <- err
				return
			}
		}
		done <- p.conn.Write(ctx, 1, fmt.Appendf(nil, `{"type":"run.finished","job_id":%q}`, run))
	}()
	return done
}

// I8, design 7: a reader that holds loses nothing, however small the log; memory
// stays within log and credit.
func TestSlowHoldingReaderLosesNothing(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{LogBytes: 256 << 10})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{Attached: true})
	const n = 3000
	sent := flood(p, r.ID(), n, 4<<10)
	seq := uint64(0)
	pause := time.NewTimer(0)
	for ev, err := range r.Read(testContext(t), actors.Reading{Hold: true, Caller: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Truncated != nil {
			t.Fatalf("truncated %+v after %d", *ev.Truncated, seq)
		}
		if seq++; ev.Seq != seq || !bytes.HasPrefix(ev.Data, fmt.Appendf(nil, `{"n":%d,`, seq-1)) {
			t.Fatalf("entry %d has sequence %d and data %.20s", seq, ev.Seq, ev.Data)
		}
		if seq == 1500 { // a pause in the middle
			pause.Reset(300 * time.Millisecond)
			<-pause.C
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if seq != n {
		t.Fatalf("read %d events, want %d", seq, n)
	}
	wants(t, h.outcome(r), actors.Finished, true)
}

// Design 7: a reader that takes nothing for hold_max is told what it missed
// (truncate), or its run is cancelled clean (cancel). Neither fences.
func TestStalledReaderMeetsTheOverflowRule(t *testing.T) {
	for rule, result := range map[actors.Overflow]actors.Result{
		actors.OverflowTruncate: actors.Finished, actors.OverflowCancel: actors.Cancelled,
	} {
		t.Run(string(rule), func(t *testing.T) {
			h := open(t, persist.NewMemory(), actors.Config{LogBytes: 128 << 10, HoldMax: 50 * time.Millisecond, CancelTimeout: testTimeout})
			p := connect(t, h.addr, "box", token)
			r := h.run(p, actors.RunRequest{Attached: true, OnOverflow: rule})
			ack := make(chan struct{})
			go func() { // a daemon that reads, answers pings and acknowledges
				defer close(ack)
				if _, data, err := p.conn.Read(testContext(t)); err == nil && bytes.Contains(data, []byte("run.cancel")) {
					_ = p.conn.Write(testContext(t), 1, fmt.Appendf(nil, `{"type":"run.finished","job_id":%q}`, r.ID()))
				}
			}()
			sent := flood(p, r.ID(), 2000, 4<<10)
			out := h.outcome(r)
			wants(t, out, result, true)
			if rule == actors.OverflowCancel && out.Reason != actors.ReasonSlowReader {
				t.Errorf("reason is %q, want slow_reader", out.Reason)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			first := true
			for ev, err := range r.Read(testContext(t), actors.Reading{}) {
				if err != nil {
					t.Fatal(err)
				}
				if first && (ev.Truncated == nil || ev.Truncated.From != 1) {
					t.Errorf("the first entry is %+v, want a truncated mark from 1", ev)
				}
				first = false
			}
			if f, err := h.Fences(testContext(t)); err != nil || len(f) != 0 {
				t.Errorf("fences are %v, %v, want none", f, err)
			}
		})
	}
}

// Issue of attached runs: a caller that stays away longer than the grace ends its
// run; one that takes over in time reads on.
func TestLostCallerStartsTheGrace(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{AttachGrace: 100 * time.Millisecond, CancelTimeout: testTimeout})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{Attached: true})
	p.event(r.ID(), 1)
	for ev, err := range r.Read(testContext(t), actors.Reading{Caller: true, Hold: true}) {
		if err != nil || ev.Seq != 1 {
			t.Fatalf("read %+v, %v", ev, err)
		}
		break // the caller is lost
	}
	ctx, cancel := context.WithCancel(testContext(t))
	taken := make(chan error, 1)
	go func() { // and takes over
		var last error
		for ev, err := range r.Read(ctx, actors.Reading{After: 1, Caller: true, Hold: true}) {
			if last = err; ev.Seq == 2 {
				cancel()
			}
		}
		taken <- last
	}()
	p.event(r.ID(), 2)
	if err := <-taken; !errors.Is(err, context.Canceled) {
		t.Fatalf("the second caller ended with %v", err)
	}
	p.expect("run.cancel") // nobody came back within the grace
	p.finish(r.ID())
	out := h.outcome(r)
	wants(t, out, actors.Cancelled, true)
	if out.Reason != actors.ReasonCallerGone {
		t.Errorf("reason is %q, want caller_gone", out.Reason)
	}
}

// Design 11: cancelling the context of Run's caller cancels the run with the
// barrier.
func TestCallersContextCancelsTheRun(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{CancelTimeout: testTimeout})
	p := connect(t, h.addr, "box", token)
	ctx, cancel := context.WithCancel(testContext(t))
	r, err := h.Run(ctx, actors.RunRequest{DaemonID: "box", Payload: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	p.expect("run.start")
	cancel()
	p.expect("run.cancel")
	p.finish(r.ID())
	wants(t, h.outcome(r), actors.Cancelled, true)
}

// I8: a cursor beyond the end of an ended run is answered with its end.
func TestCursorBeyondTheEndIsAnswered(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	p.event(r.ID(), 1)
	p.finish(r.ID())
	h.outcome(r)
	for ev, err := range r.Events(testContext(t), 99) {
		t.Fatalf("read %+v, %v after the end", ev, err)
	}
}

// A caller whose context ends while it attaches is not kept as the caller: the
// grace begins and the run is cancelled.
func TestCallerLostWhileAttachingStartsTheGrace(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{AttachGrace: 20 * time.Millisecond, CancelTimeout: testTimeout})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	for _, err := range r.Read(ctx, actors.Reading{Caller: true, Hold: true}) {
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("read %v", err)
		}
	}
	p.expect("run.cancel")
	p.finish(r.ID())
	if out := h.outcome(r); out.Reason != actors.ReasonCallerGone {
		t.Errorf("reason is %q, want caller_gone", out.Reason)
	}
}
