package daemon

import (
	"fmt"
	"strings"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

func (s *Session) dial(fx *step.Effects) {
	s.attempt++
	s.become(sessionDialing)
	s.await(s.cfg.Timing.DialTimeout, fx)
	fx.Do(OpDial{Attempt: s.attempt})
}

// await bounds what is waited for in the present state.
func (s *Session) await(limit time.Duration, fx *step.Effects) {
	s.patient.Set(fx, "patience", s.cause(), limit)
}

func (s *Session) dialed(m Dialed, fx *step.Effects) {
	if m.Attempt != s.attempt || s.state != sessionDialing {
		return
	}
	s.become(sessionGreeting)
	s.hub, s.readyAt, s.read = wire.Extensions{}, time.Time{}, 0
	s.flushing = true
	fx.Do(OpHello{Hello: wire.Hello{
		DaemonID: s.cfg.DaemonID, Protocol: wire.Protocol, Metadata: s.cfg.Metadata,
		Extensions: wire.Extensions{MaxFrame: wire.OurMaxFrame, Receipt: true},
	}})
	s.await(s.cfg.Timing.ReadyTimeout, fx)
}

func (s *Session) dialFailed(m DialFailed, now time.Time, fx *step.Effects) {
	if m.Attempt != s.attempt || s.state != sessionDialing {
		return
	}
	s.patient.Stop(fx)
	s.note(m.Trouble, m.Reason)
	s.wait(now, fx)
}

// outOfPatience: what was awaited did not come.
func (s *Session) outOfPatience(now time.Time, fx *step.Effects) {
	switch s.state {
	case sessionDialing:
		s.note(TroubleNetwork, fmt.Sprintf("no connection within %v", s.cfg.Timing.DialTimeout))
		fx.Do(OpDrop{})
		s.wait(now, fx)
	case sessionGreeting:
		s.note(TroubleNetwork, fmt.Sprintf("no daemon.ready within %v", s.cfg.Timing.ReadyTimeout))
		s.drop(fx)
	case sessionClosing:
		// The link ends a closing handshake by itself; this is for one that does not.
		fx.Do(OpDrop{})
	default:
	}
}

// ready judges the hub's first frame.
func (s *Session) ready(now time.Time, f wire.Frame, fx *step.Effects) {
	r, err := wire.ParseReady(f)
	if err != nil {
		trouble := TroubleNetwork
		if f.Type == wire.DaemonReady {
			trouble = TroubleProtocol
		}
		s.note(trouble, err.Error())
		s.close(1002, err.Error(), fx)
		return
	}
	s.become(sessionServing)
	s.patient.Stop(fx)
	s.hub = r.Extensions
	s.readyAt, s.heardAt, s.pingedAt = now, now, now
	s.reason, s.told = "", ""
	s.observe(fx, Fact{Kind: FactConnected, Text: "extensions " + strings.Join(s.hub.Strings(), " ")})
	if need := s.cfg.Grace + ackMargin; s.hub.CancelTimeout > 0 && need > s.hub.CancelTimeout {
		s.observe(fx, Fact{Kind: FactTight, Text: fmt.Sprintf(
			"this hub waits %v for the end of a cancelled run, and a grace of %v leaves no room in it: give this daemon a shorter grace",
			s.hub.CancelTimeout, s.cfg.Grace)})
	}
	s.nextBeat(fx)
	if s.stopping {
		s.idle(fx)
	}
}

// ackMargin is what KILL, proof and the way to the hub need beside the grace.
const ackMargin = 3 * time.Second

// note keeps why there is no connection; the first reason of an attempt counts.
func (s *Session) note(t Trouble, reason string) {
	if s.reason == "" {
		s.trouble, s.reason = t, reason
	}
}

// wait plans the next attempt. One clear line is told for each distinct reason.
func (s *Session) wait(now time.Time, fx *step.Effects) {
	if s.finishing() {
		s.over(fx)
		return
	}
	if !s.readyAt.IsZero() && now.Sub(s.readyAt) >= s.cfg.Timing.StableAfter {
		s.failures, s.slow = 0, 0
	}
	s.readyAt = time.Time{}
	s.become(sessionWaiting)
	delay := s.delay()
	key := s.trouble.String() + ": " + s.reason
	s.observe(fx, Fact{Kind: FactTrouble, Text: key, Again: key == s.told, Delay: delay})
	s.told, s.reason = key, ""
	s.retry.Set(fx, "retry", s.cause(), delay)
}

// delay draws how long to wait. Both kinds grow on their own, so that a network
// that comes and goes does not make a refused token be tried more often.
func (s *Session) delay() time.Duration {
	t := &s.cfg.Timing
	if s.trouble.slow() {
		bound := doubled(t.SlowMin, t.SlowMax, s.slow)
		s.slow++
		return bound/2 + s.random.below(bound/2)
	}
	bound := doubled(t.BackoffMin, t.BackoffMax, s.failures)
	s.failures++
	return s.random.below(bound)
}

// refusal says what a close of the hub's means for the next attempt. Peers in the
// field say all of it with 1008 and differ in the words only.
func refusal(end wire.End, greeting bool) Trouble {
	if end.Code != 1008 {
		if end.Code == 1013 {
			return TroubleBusy
		}
		return TroubleNetwork
	}
	reason := strings.ToLower(end.Reason)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(reason, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("fenced", "unresolved", "already connected", "in use", "connected or", "full", "capacity", "try again"):
		return TroubleBusy
	case has("token", "authent", "authoriz", "authoris"):
		return TroubleToken
	case has("protocol", "upgrade"):
		return TroubleProtocol
	case greeting:
		return TroubleRefused
	default:
		return TroubleNetwork
	}
}

// nextBeat looks at the socket three times a ping interval, so that silence is
// noticed soon after SilenceTimeout.
func (s *Session) nextBeat(fx *step.Effects) {
	s.beat.Set(fx, "beat", s.cause(), s.cfg.Timing.PingEvery/3)
}

// progress: any byte read is life, never daemon.pong (protocol section 8).
func (s *Session) progress(now time.Time, m Progress, fx *step.Effects) {
	if m.Attempt != s.attempt || s.state != sessionServing {
		return
	}
	if m.Read > s.read {
		s.read, s.heardAt = m.Read, now
	}
	if silent := now.Sub(s.heardAt); silent >= s.cfg.Timing.silence(s.hub) {
		s.note(TroubleNetwork, fmt.Sprintf("nothing was read from the hub for %v", silent.Round(time.Second)))
		s.drop(fx)
		return
	}
	if now.Sub(s.pingedAt) >= s.cfg.Timing.PingEvery {
		s.pingedAt = now
		fx.Do(OpPing{})
	}
	s.nextBeat(fx)
}
