package daemon

import (
	"fmt"
	"strconv"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// inbound handles what the link put down, frames first and in order.
func (s *Session) inbound(now time.Time, m Inbound, fx *step.Effects) {
	if m.Attempt != s.attempt || s.state < sessionGreeting || s.state > sessionClosing {
		return
	}
	if len(m.Frames) > 0 || m.Pong {
		s.heardAt = now
	}
	for _, f := range m.Frames {
		switch s.state {
		case sessionGreeting:
			s.ready(now, f, fx)
		case sessionServing:
			s.frame(f, fx)
		default: // nothing is begun, and everything is being ended already
		}
	}
	if m.Flushed {
		s.flushing = false
	}
	if m.Closed != nil {
		s.lost(now, *m.Closed, fx)
		return
	}
	s.pump(fx)
	s.idle(fx)
}

func (s *Session) frame(f wire.Frame, fx *step.Effects) {
	switch f.Type {
	case wire.RunStart:
		s.start(f, fx)
	case wire.RunCancel:
		s.cancel(f.JobID, fx)
	case wire.DaemonPong, wire.MCPResponse: // nobody asked
	case wire.Ignored, wire.Oversize:
		s.observe(fx, Fact{Kind: FactFrameIgnored, Run: f.JobID, Text: f.Why})
	default:
		s.observe(fx, Fact{Kind: FactFrameIgnored, Run: f.JobID, Text: f.Type.String() + " is no frame for a daemon"})
	}
}

// Codes of a run that this daemon does not take.
const (
	codeBusy     = "agent_runtime.daemon_busy"
	codeDraining = "agent_runtime.daemon_draining"
	codeStopping = "agent_runtime.daemon_stopping"
)

// start begins a run, or says why not. A job id that is running, or has ended
// lately, gets no answer at all: the answer could end the run that has it.
func (s *Session) start(f wire.Frame, fx *step.Effects) {
	job := f.JobID
	switch {
	case s.find(job) != nil || s.ended.has(job):
		s.observe(fx, Fact{Kind: FactRunIgnored, Run: job, Text: "a run.start for a run that is running or has ended"})
	case s.cancelled.take(job):
		s.refuse(job, "cancelled before it was started", cancelledEvent(), fx)
	case s.draining || s.stopping:
		s.refuse(job, "draining", failedEvent(Failure{
			Text: "this daemon is going away and takes no new runs; choose another, or try again later", Code: codeDraining, Retryable: true,
		}), fx)
	case s.open() >= s.cfg.MaxRuns:
		s.refuse(job, "full", failedEvent(Failure{
			Text: fmt.Sprintf("this daemon has all the %d runs it may have; try again later", s.cfg.MaxRuns), Code: codeBusy, Retryable: true,
		}), fx)
	default:
		s.serial++
		ref := step.Ref{Kind: KindRun, ID: s.cfg.Name + "-" + strconv.FormatUint(s.serial, 10)}
		s.outlets = append(s.outlets, &outlet{job: job, run: ref})
		s.observe(fx, Fact{Kind: FactRunStarted, Run: job})
		fx.Spawn(ref, newRun(runConfig{
			job: job, payload: f.Body, session: s.ref, limit: s.hub.FrameLimit(), giveUp: s.cfg.GiveUp,
		}))
	}
}

// refuse answers a run that is not begun: nothing of it exists, so the
// acknowledgement follows at once.
func (s *Session) refuse(job, why string, event []byte, fx *step.Effects) {
	if len(s.outlets) >= s.cfg.MaxRuns+refusedMax {
		s.note(TroubleNetwork, "the hub sends runs and does not take their answers")
		s.drop(fx)
		return
	}
	s.observe(fx, Fact{Kind: FactRunRefused, Run: job, Text: why})
	o := &outlet{job: job, settled: true}
	for _, frame := range wire.EventFrames(job, event, s.hub.FrameLimit()) {
		o.push(OutFrame{Bytes: frame, Final: true})
	}
	o.push(OutFrame{Bytes: wire.AppendFinished(nil, job, nil), Final: true})
	s.outlets = append(s.outlets, o)
	s.ended.add(job)
}

// refusedMax bounds the answers to refused runs that may wait (I14).
const refusedMax = 1024

// cancel ends a run. One that is not known yet is remembered, since its start may
// follow.
func (s *Session) cancel(job string, fx *step.Effects) {
	o := s.find(job)
	switch {
	case o == nil && !s.ended.has(job):
		s.cancelled.add(job)
	case o == nil || o.cancelled:
	case o.settled:
		o.cancelled = true
		o.hurry(s.cfg.Timing.EventGrace, fx)
	default:
		o.cancelled = true
		s.observe(fx, Fact{Kind: FactRunEnding, Run: job, Text: "cancelled by the hub"})
		fx.Send(o.run, StopRun{Cause: StopCancelled})
	}
}

// settled: the run may be acknowledged, on the connection it came from and no
// other.
func (s *Session) settled(now time.Time, run step.Ref, m Settled, fx *step.Effects) {
	o := s.of(run)
	if o == nil {
		return
	}
	o.settled = true
	s.ended.add(o.job)
	s.observe(fx, Fact{Kind: FactRunEnded, Run: o.job, Text: describe(m.Receipt)})
	if s.state != sessionServing {
		s.forget(o, fx)
		s.settle(now, fx)
		return
	}
	receipt := &m.Receipt
	if !s.hub.Receipt {
		receipt = nil
	}
	o.push(OutFrame{Bytes: wire.AppendFinished(nil, o.job, receipt), Final: true})
	if o.cancelled || s.stopping {
		o.hurry(s.cfg.Timing.EventGrace, fx)
	}
	s.pump(fx)
	s.idle(fx)
}

func describe(r wire.Receipt) string {
	text := fmt.Sprintf("%s: all gone after %d ms", r.Mechanism, r.DurationMS)
	if r.Killed > 0 {
		text += fmt.Sprintf(", %d killed", r.Killed)
	}
	return text
}
