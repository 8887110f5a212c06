package daemon

import (
	"fmt"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// runState is the state of a run.
type runState uint8

const (
	runRunning  runState = iota
	runEnding            // told to end; the runner's return and the verdict are awaited
	runReaping           // the runner has returned by itself; the verdict is awaited
	runSettled           // told: all of it is gone
	runUnproven          // told: nobody knows
)

var runStateNames = [...]string{"running", "ending", "reaping", "settled", "unproven"}

// String returns the state's name.
func (s runState) String() string { return runStateNames[s] }

var runEdges = step.Edges[runState]{
	runRunning:  {runEnding, runReaping},
	runEnding:   {runSettled, runUnproven},
	runReaping:  {runSettled, runUnproven},
	runSettled:  nil,
	runUnproven: nil,
}

var stopCauseNames = [...]string{"none", "cancelled by the hub", "the connection is gone", "this daemon stops"}

// String says the cause in words.
func (c StopCause) String() string { return stopCauseNames[c] }

// Run is the actor of one run: its end, its barrier, and its one terminal event.
//
//	          StopRun
//	running ───────────▶ ending ────┐ returned, and all gone
//	   │                            ├──────────▶ settled
//	   │ returned                   │
//	   └───────────────▶ reaping ───┤ not proven, or not in time
//	                                └──────────▶ unproven
//
// It is settled, which makes the session acknowledge it, only after the runner
// has returned and all that it started is proven gone. Edges are in runEdges; the
// matrix is testdata/run_matrix.golden.
type Run struct {
	cfg   runConfig
	state runState
	cause StopCause
	// lost: there is nobody to tell. returned: the runner has returned.
	lost, returned bool
	patience       step.Alarm
}

type runConfig struct {
	job     string
	payload []byte
	session step.Ref
	limit   int // the largest frame the hub takes
	giveUp  time.Duration
}

// What is added to the bound that the supervisors of the trees keep themselves, so
// that it is they who say what is left.
const (
	runnerMargin  = time.Second
	verdictMargin = 10 * time.Second
)

func newRun(cfg runConfig) *Run { return &Run{cfg: cfg} }

// Handle implements [step.Machine].
func (r *Run) Handle(_ time.Time, _ step.Ref, message any, fx *step.Effects) {
	switch m := message.(type) {
	case step.Boot:
		fx.Do(OpRun{JobID: r.cfg.job, Payload: r.cfg.payload})
		r.cfg.payload = nil
	case step.Expired:
		if r.patience.Fired(m.Timer) {
			r.outOfPatience(fx)
		}
	case RunMessage:
		r.handle(m, fx)
	default:
		step.Unexpected("daemon: run "+r.cfg.job, m)
	}
}

func (r *Run) handle(message RunMessage, fx *step.Effects) {
	switch m := message.(type) {
	case Emitted:
		r.emitted(m, fx)
	case Taken:
		fx.Do(OpCredit(m))
	case StopRun:
		r.stop(m.Cause, fx)
	default:
		step.Unexpected("daemon: run "+r.cfg.job, m)
	}
}

func (r *Run) stop(cause StopCause, fx *step.Effects) {
	if cause == StopLost && !r.lost {
		r.lost = true
		fx.Do(OpDiscard{})
	}
	if r.state != runRunning {
		return // its end has begun, and more causes change nothing
	}
	r.cause = cause
	r.become(runEnding)
	fx.Do(OpStop{})
	r.patience.Set(fx, "patience", r.cfg.job, r.cfg.giveUp+runnerMargin)
}

func (r *Run) emitted(m Emitted, fx *step.Effects) {
	var frames []OutFrame
	if !r.lost {
		for _, event := range m.Events {
			frames = r.frames(frames, event, false)
		}
	}
	if m.Returned != nil {
		frames = r.runnerReturned(*m.Returned, frames, fx)
	}
	if m.Gone != nil && m.Gone.Confirmed && r.state == runEnding && !r.lost {
		frames = r.frames(frames, stoppedEvent(r.cause), true)
	}
	if len(frames) > 0 {
		fx.Send(r.cfg.session, Outgoing{Frames: frames})
	}
	if m.Gone != nil {
		r.gone(*m.Gone, fx)
	}
}

// frames appends what carries an event to this hub. The credit of all its pieces
// lies on the last one.
func (r *Run) frames(to []OutFrame, event []byte, final bool) []OutFrame {
	for _, frame := range wire.EventFrames(r.cfg.job, event, r.cfg.limit) {
		to = append(to, OutFrame{Bytes: frame, Final: final})
	}
	if !final {
		to[len(to)-1].Credit = eventCost(event)
	}
	return to
}

// eventCost is what an event takes of its run's budget, in bytes.
func eventCost(event []byte) int {
	const overhead = 64
	return len(event) + overhead
}

// runnerReturned: a run that ended by itself says how at once, also when parts of
// its tree are still to be removed; one that was ended says so when they are.
func (r *Run) runnerReturned(m Returned, frames []OutFrame, fx *step.Effects) []OutFrame {
	r.returned = true
	fx.Do(OpReap{})
	r.patience.Set(fx, "patience", r.cfg.job, r.cfg.giveUp+verdictMargin)
	if r.state != runRunning {
		return frames
	}
	r.become(runReaping)
	if r.lost {
		return frames
	}
	return r.frames(frames, terminalEvent(m), true)
}

func (r *Run) gone(m Gone, fx *step.Effects) {
	r.patience.Stop(fx)
	if !m.Confirmed {
		r.unproven(m.Reason, m.Receipt, fx)
		return
	}
	r.become(runSettled)
	fx.Send(r.cfg.session, Settled{Receipt: m.Receipt})
	fx.End()
}

// outOfPatience: whatever the runner does, a run that was told to end is given up
// in time (protocol section 8: unconfirmed after 30 s).
func (r *Run) outOfPatience(fx *step.Effects) {
	reason := "there was no verdict about the processes of the run in time"
	if !r.returned {
		reason = fmt.Sprintf("the runner did not return within %v of being told to stop", r.cfg.giveUp)
	}
	r.unproven(reason, wire.Receipt{Mechanism: mechanismNone}, fx)
}

func (r *Run) unproven(reason string, receipt wire.Receipt, fx *step.Effects) {
	r.become(runUnproven)
	fx.Send(r.cfg.session, Unconfirmed{Reason: reason, Receipt: receipt})
	fx.End()
}

func (r *Run) become(to runState) { step.Become("daemon: run "+r.cfg.job, &r.state, to, runEdges) }

// AppendState implements [step.Machine].
func (r *Run) AppendState(b []byte) []byte {
	return fmt.Appendf(b, "run %q %s cause=%d lost=%t returned=%t patience=%t",
		r.cfg.job, r.state, r.cause, r.lost, r.returned, r.patience.Armed())
}

var _ step.Machine = (*Run)(nil)
