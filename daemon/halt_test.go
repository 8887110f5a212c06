package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"codingrelay/step"
	"codingrelay/wire"
)

// Protocol 8, clean-up that cannot be confirmed: no run.finished, close 1011, the
// other runs are ended, the halt is made durable, and no attempt follows.
func TestUnconfirmedRunHaltsForGood(t *testing.T) {
	s := serving(t, matrixConfig(), ours).hears(startFrame(t, "r1"), startFrame(t, "r2"))
	s.give(s.runs[0], Unconfirmed{Reason: "pid 7 lives"})
	if got := did[OpClose](s); len(got) != 1 || got[0].Code != 1011 {
		t.Fatalf("an unconfirmed run: %s, want close 1011", show(s.last))
	}
	if got := did[OpHalt](s); len(got) != 1 || len(got[0].Runs) != 1 || got[0].Runs[0].RunID != "r1" || got[0].Runs[0].Reason != "pid 7 lives" {
		t.Fatalf("the halt is %+v", got)
	}
	if got := did[StopRun](s); !slices.Equal(got, []StopRun{{StopLost}}) {
		t.Errorf("the other run was told %v", got)
	}
	s.tell(step.Answer{Question: questionHalt}).closed(1011, "").give(s.runs[1], confirmed)
	if got := did[OpOver](s); len(got) != 1 || len(got[0].Halted) != 1 {
		t.Errorf("the end is %s, want over with one halted run", show(s.last))
	}
	if len(didEver[OpWrite](s)) != 0 || len(didEver[OpDial](s)) != 1 {
		t.Errorf("after the halt something was written or dialled: %s", show(s.all))
	}
}

// Also when it comes out only after a disconnect, and for several runs.
func TestUnconfirmedAfterADisconnectHaltsLikewise(t *testing.T) {
	s := serving(t, matrixConfig(), ours).hears(startFrame(t, "r1"), startFrame(t, "r2")).closed(1006, "cut")
	s.give(s.runs[0], Unconfirmed{Reason: "a"}).tell(step.Answer{Question: questionHalt})
	s.give(s.runs[1], Unconfirmed{Reason: "b"})
	if got := did[OpHalt](s); len(got) != 1 || len(got[0].Runs) != 2 {
		t.Fatalf("the second halt is %+v, want both runs", got)
	}
	s.tell(step.Answer{Question: questionHalt})
	if got := did[OpOver](s); len(got) != 1 || len(got[0].Halted) != 2 || len(didEver[OpDial](s)) != 1 {
		t.Errorf("the end is %s", show(s.last))
	}
}

// A halt that could not be saved is tried once more before the end.
func TestHaltThatWasNotSavedIsTriedAgain(t *testing.T) {
	s := serving(t, matrixConfig(), ours).hears(startFrame(t, "r1"))
	s.give(s.runs[0], Unconfirmed{Reason: "a"}).tell(step.Answer{Question: questionHalt, Err: errors.New("disk full")})
	if s.closed(1011, ""); len(did[OpHalt](s)) != 1 {
		t.Fatalf("after the failed save: %s, want another", show(s.last))
	}
	s.tell(step.Answer{Question: questionHalt, Err: errors.New("disk full")})
	if got := did[OpOver](s); len(got) != 1 || len(got[0].Halted) != 1 {
		t.Errorf("the end is %s", show(s.last))
	}
}

// Protocol 8: given up as unconfirmed after 30 s, whatever the runner does.
func TestRunnerThatIgnoresItsEndIsUnconfirmed(t *testing.T) {
	s := newScript(t, newTestRun()).tell(step.Boot{}, StopRun{StopCancelled})
	begun := s.now
	s.fire("patience")
	if d := s.now.Sub(begun); d < 30*time.Second || d > 31*time.Second {
		t.Errorf("it was given up after %v", d)
	}
	if got := did[Unconfirmed](s); len(got) != 1 || !strings.Contains(got[0].Reason, "did not return within 30s") {
		t.Errorf("it ended with %s", show(s.last))
	}
	if len(didEver[Settled](s)) != 0 || len(didEver[Outgoing](s)) != 0 {
		t.Errorf("something was said of it: %s", show(s.all))
	}
}

// world of the property: what a real port and hub could do, in any order.
type anyWorld struct {
	t       *rapid.T
	s       *script
	live    map[step.Ref]string // runs that are not over, and their jobs
	settled map[string]bool
	flush   bool
	// asking: a question to the port is open.
	asking bool
	over   bool
	link   bool
}

// after looks at what the session did and checks what must always hold.
func (w *anyWorld) after() {
	for _, x := range w.s.last {
		switch m := x.Message.(type) {
		case OpDial:
			if len(w.live) > 0 {
				w.t.Fatalf("dialled while runs %v live", w.live)
			}
		case OpHello:
			w.flush, w.link = true, true
		case OpWrite:
			if w.flush || !w.link {
				w.t.Fatalf("a write while flush=%t link=%t", w.flush, w.link)
			}
			w.flush = true
			w.acknowledged(m)
		case OpHalt:
			w.asking = true
		case OpOver:
			w.over = true
			if len(w.live) > 0 {
				w.t.Fatalf("over while runs %v live", w.live)
			}
		}
		if x.Kind == step.Spawn {
			w.live[x.To] = x.Machine.(*Run).cfg.job
		}
	}
}

// acknowledged: run.finished only for what has settled or was never begun.
func (w *anyWorld) acknowledged(m OpWrite) {
	for _, b := range m.Frames {
		f := wire.NewDecoder().Decode(b)
		if f.Type != wire.RunFinished {
			continue
		}
		for run, job := range w.live {
			if job == f.JobID {
				w.t.Fatalf("run %v (%s) was acknowledged while it lives", run, job)
			}
		}
		if done, begun := w.settled[f.JobID]; begun && !done {
			w.t.Fatalf("the unconfirmed run %s was acknowledged", f.JobID)
		}
	}
}

func (w *anyWorld) message() (from step.Ref, m any) {
	attempt := w.s.session().attempt
	job := fmt.Sprint("r", rapid.IntRange(0, 5).Draw(w.t, "job"))
	frame := func(msg []byte) Inbound {
		return Inbound{Attempt: attempt, Frames: []wire.Frame{wire.NewDecoder().Decode(msg)}}
	}
	if w.asking {
		w.asking = false
		var err error
		if rapid.Bool().Draw(w.t, "disk full") {
			err = errors.New("disk full")
		}
		return step.Ref{}, step.Answer{Question: questionHalt, Err: err}
	}
	switch rapid.IntRange(0, 12).Draw(w.t, "what") {
	case 0:
		return step.Ref{}, Dialed{Attempt: attempt}
	case 1:
		return step.Ref{}, DialFailed{Attempt: attempt, Reason: "no"}
	case 2:
		return step.Ref{}, frame(wire.AppendReady(nil, wire.Ready{DaemonID: "box", Protocol: wire.Protocol}))
	case 3, 4:
		return step.Ref{}, frame(wire.AppendStart(nil, job, []byte("{}")))
	case 5:
		return step.Ref{}, frame(wire.AppendCancel(nil, job))
	case 6:
		w.flush = false
		return step.Ref{}, Inbound{Attempt: attempt, Flushed: true}
	case 7:
		w.link, w.flush = false, false
		return step.Ref{}, Inbound{Attempt: attempt, Closed: &wire.End{Code: 1006}}
	case 8, 9:
		return w.ofARun()
	case 10:
		if rapid.IntRange(0, 9).Draw(w.t, "stop") == 0 {
			return step.Ref{}, rapid.SampledFrom([]any{StopAsk{Token: 1}, DrainAsk{Token: 2}, Crash{Reason: "a bug"}}).Draw(w.t, "ask")
		}
		return step.Ref{}, Progress{Attempt: attempt, Read: 1}
	default:
		timer, at := w.s.due()
		if at.IsZero() {
			return step.Ref{}, StatusAsk{Token: 3}
		}
		w.s.now = at
		return step.Ref{}, step.Expired{Timer: timer}
	}
}

func (w *anyWorld) ofARun() (step.Ref, any) {
	var runs []step.Ref
	for _, run := range w.s.runs {
		if _, ok := w.live[run]; ok {
			runs = append(runs, run)
		}
	}
	if len(runs) == 0 {
		return step.Ref{}, StatusAsk{Token: 3}
	}
	run := rapid.SampledFrom(runs).Draw(w.t, "run")
	job := w.live[run]
	switch rapid.IntRange(0, 5).Draw(w.t, "run does") {
	case 0:
		delete(w.live, run)
		w.settled[job] = false
		return run, Unconfirmed{Reason: "left"}
	case 1, 2:
		delete(w.live, run)
		w.settled[job] = true
		return run, confirmed
	default:
		return run, flood(job, rapid.IntRange(1, 40).Draw(w.t, "events"), 20_000)
	}
}

// Whatever comes in whatever order: no panic, one flush at a time, no dial while a
// run lives, no acknowledgement of a run that lives or is unconfirmed, and no end
// with runs left.
func TestSessionHoldsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &anyWorld{t: rt, s: newScript(t, NewSession(matrixConfig())), live: map[step.Ref]string{}, settled: map[string]bool{}}
		w.s.tell(step.Boot{})
		w.after()
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			if w.over {
				return
			}
			from, m := w.message()
			w.s.give(from, m)
			w.after()
		}
	})
}
