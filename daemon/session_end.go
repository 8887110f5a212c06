package daemon

import (
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// Questions to the port.
const questionHalt uint64 = 1

const (
	// closeBound is for a link that does not end its closing handshake.
	closeBound = 5 * time.Second
	// haltBound is how long the state folder may take.
	haltBound = 5 * time.Second
)

// close begins the closing handshake; what is queued is not sent any more.
func (s *Session) close(code int, reason string, fx *step.Effects) {
	s.become(sessionClosing)
	s.quiet(fx)
	fx.Do(OpClose{Code: code, Reason: wire.CutReason(reason)})
	s.await(closeBound, fx)
}

// drop ends the link at once.
func (s *Session) drop(fx *step.Effects) {
	if s.state == sessionClosing {
		fx.Do(OpDrop{})
		return
	}
	s.become(sessionClosing)
	s.quiet(fx)
	fx.Do(OpDrop{})
	s.await(closeBound, fx)
}

func (s *Session) quiet(fx *step.Effects) {
	s.beat.Stop(fx)
	s.flushBound.Stop(fx)
}

// lost: the link is gone. All its runs are ended, and awaited, before anything
// else (protocol section 8).
func (s *Session) lost(now time.Time, end wire.End, fx *step.Effects) {
	trouble := refusal(end, s.state == sessionGreeting)
	reason := end.Reason
	if reason == "" {
		reason = "the connection ended"
	}
	s.note(trouble, reason)
	if !s.readyAt.IsZero() {
		s.observe(fx, Fact{Kind: FactLost, Text: s.reason})
	}
	s.quiet(fx)
	s.patient.Stop(fx)
	s.flushing = false
	s.cancelled.clear()
	s.become(sessionSettling)
	s.endRuns(StopLost, fx)
	s.settle(now, fx)
}

// endRuns ends every run. With StopLost nothing that is queued has anywhere to go.
func (s *Session) endRuns(cause StopCause, fx *step.Effects) {
	kept := s.outlets[:0]
	for _, o := range s.outlets {
		if cause == StopLost {
			o.frames = nil
			o.overdue.Stop(fx)
			if o.settled {
				continue
			}
		}
		if !o.settled {
			s.observe(fx, Fact{Kind: FactRunEnding, Run: o.job, Text: cause.String()})
			fx.Send(o.run, StopRun{Cause: cause})
		}
		kept = append(kept, o)
	}
	clear(s.outlets[len(kept):])
	s.outlets = kept
}

// settle goes on when the last run of a lost connection has ended.
func (s *Session) settle(now time.Time, fx *step.Effects) {
	if s.state != sessionSettling || len(s.outlets) > 0 {
		return
	}
	if len(s.halted) > 0 && !s.haltSaved && s.haltTries < 2 {
		s.saveHalt(fx)
		return
	}
	if !s.finishing() {
		s.idle(fx)
	}
	s.wait(now, fx)
}

// finishing says that no further attempt follows.
func (s *Session) finishing() bool { return s.stopping || len(s.halted) > 0 || s.crash != "" }

// idle answers those who wait for the last run's end, and closes a connection
// that is to be stopped.
func (s *Session) idle(fx *step.Effects) {
	if s.stopping && s.state == sessionServing && s.open() == 0 && !s.flushBound.Armed() {
		s.flushBound.Set(fx, "flush", s.cause(), s.cfg.Timing.FlushTimeout)
	}
	if len(s.outlets) > 0 || s.state == sessionServing && s.flushing {
		return
	}
	for _, t := range s.drainers {
		fx.Reply(t, Drained{})
	}
	s.drainers = nil
	if s.stopping && s.state == sessionServing {
		s.close(1001, "this daemon is stopping", fx)
	}
}

// stop ends every run, acknowledges them, and closes. Unreachable: the runs are
// ended, and nothing is said on any later connection (there is none).
func (s *Session) stop(m StopAsk, fx *step.Effects) {
	s.stoppers = append(s.stoppers, m.Token)
	if s.stopping {
		return
	}
	s.stopping = true
	switch s.state {
	case sessionWaiting:
		s.retry.Stop(fx)
		s.over(fx)
	case sessionDialing:
		s.patient.Stop(fx)
		fx.Do(OpDrop{})
		s.over(fx)
	case sessionGreeting:
		s.close(1001, "this daemon is stopping", fx)
	case sessionServing:
		s.endRuns(StopStopping, fx)
		s.idle(fx)
	default: // closing and settling end by themselves
	}
}

// unconfirmed: a run may have left something behind. It is never acknowledged,
// and this daemon halts for good.
func (s *Session) unconfirmed(now time.Time, run step.Ref, m Unconfirmed, fx *step.Effects) {
	o := s.of(run)
	if o == nil {
		return
	}
	s.forget(o, fx)
	s.halted = append(s.halted, HaltedRun{RunID: o.job, At: now, Reason: m.Reason, Receipt: m.Receipt})
	s.observe(fx, Fact{Kind: FactUnconfirmed, Run: o.job, Text: m.Reason})
	s.haltSaved, s.haltTries = false, 0
	s.abandon("the clean-up of a run could not be confirmed; this daemon has halted", fx)
	s.saveHalt(fx)
}

// abandon closes a connection on which nothing may be acknowledged any more.
func (s *Session) abandon(reason string, fx *step.Effects) {
	if s.state != sessionServing {
		return
	}
	s.note(TroubleNetwork, reason)
	s.close(1011, reason, fx)
	s.endRuns(StopLost, fx)
}

// saveHalt is a handler's last effect.
func (s *Session) saveHalt(fx *step.Effects) {
	s.haltTries++
	runs := append([]HaltedRun(nil), s.halted...)
	fx.Ask(questionHalt, OpHalt{Runs: runs}, haltBound)
}

// haltAnswer: a halt that could not be saved halts this process all the same, and
// is tried once more at its end. The hub has fenced this daemon in any case.
func (s *Session) haltAnswer(m step.Answer, now time.Time, fx *step.Effects) {
	if m.Late {
		return
	}
	s.haltSaved = m.Err == nil
	if m.Err != nil {
		s.observe(fx, Fact{Kind: FactHaltFailed, Text: m.Err.Error()})
	}
	s.settle(now, fx)
}

// crashed: a part of this program is wrong. Nothing more is acknowledged.
func (s *Session) crashed(m Crash, fx *step.Effects) {
	if s.crash != "" || s.state == sessionOver {
		return
	}
	s.crash = m.Reason
	switch s.state {
	case sessionWaiting:
		s.retry.Stop(fx)
		s.over(fx)
	case sessionDialing:
		fx.Do(OpDrop{}) // the attempt fails, and no other follows
	case sessionGreeting:
		s.drop(fx)
	case sessionServing:
		s.abandon("internal error in this daemon", fx)
	default:
	}
}

// over is the end.
func (s *Session) over(fx *step.Effects) {
	s.become(sessionOver)
	fx.Do(OpOver{Halted: s.halted, Crash: s.crash})
	for _, t := range s.drainers {
		fx.Reply(t, Drained{})
	}
	for _, t := range s.stoppers {
		fx.Reply(t, Stopped{})
	}
	fx.End()
}
