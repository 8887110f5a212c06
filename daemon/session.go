package daemon

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// sessionState is the state of a session.
type sessionState uint8

const (
	sessionWaiting  sessionState = iota // for the next attempt
	sessionDialing                      // a link is being opened
	sessionGreeting                     // hello said, daemon.ready awaited
	sessionServing                      // admitted
	sessionClosing                      // told to close or dropped; the link's end is awaited
	sessionSettling                     // no link; the runs it had are being ended
	sessionOver
)

var sessionStateNames = [...]string{"waiting", "dialing", "greeting", "serving", "closing", "settling", "over"}

// String returns the state's name.
func (s sessionState) String() string { return sessionStateNames[s] }

var sessionEdges = step.Edges[sessionState]{
	sessionWaiting:  {sessionDialing, sessionOver},
	sessionDialing:  {sessionGreeting, sessionWaiting, sessionOver},
	sessionGreeting: {sessionServing, sessionClosing, sessionSettling},
	sessionServing:  {sessionClosing, sessionSettling},
	sessionClosing:  {sessionSettling},
	sessionSettling: {sessionWaiting, sessionOver},
	sessionOver:     nil,
}

// SessionConfig is what a session needs beside its port.
type SessionConfig struct {
	// Name separates the actors of several daemons in one executor.
	Name string
	// DaemonID is said in the hello, and Metadata, an object's JSON, with it.
	DaemonID string
	Metadata []byte
	// MaxRuns bounds the runs at one time. Default 16.
	MaxRuns int
	// Seed makes the delays between attempts.
	Seed uint64
	// Grace is how long a tree has between TERM and KILL: only to warn when that
	// does not fit the hub's cancel timeout.
	Grace time.Duration
	// GiveUp is how long a run that was told to end may take before it counts as
	// unconfirmed. Default 30 s.
	GiveUp time.Duration
	Timing Timing
}

// The defaults of runs.
const (
	DefaultMaxRuns = 16
	defaultGiveUp  = 30 * time.Second
)

// Session is the actor of one daemon: it keeps at most one connection to the hub.
//
//	           retry        Dialed         ready
//	waiting ─────────▶ dialing ─────▶ greeting ─────▶ serving
//	   ▲ ▲                │               │              │ │
//	   │ └────────────────┘ failed        ▼      silence,│ │ link
//	   │                               closing ◀─────────┘ │ gone
//	   │ all runs ended                   │                │
//	   └───────────────────────────── settling ◀───────────┘
//	                                      │ stopping, halted
//	                                      ▼
//	                                     over
//
// It owns the runs of that connection, their outbound queues, what it remembers
// of ended and cancelled runs, and the halt. It dials only when no run is left
// (protocol section 8), so a new socket never inherits one. Edges are in
// sessionEdges; the matrix is testdata/session_matrix.golden.
type Session struct {
	cfg SessionConfig
	ref step.Ref

	state   sessionState
	attempt uint64
	hub     wire.Extensions // what the hub said in ready
	readyAt time.Time       // zero until ready

	// Why there is no connection, how often in a row, and what was told of it.
	trouble        Trouble
	reason, told   string
	failures, slow int
	random         jitter
	retry, patient step.Alarm // the next attempt; the bound of what is awaited now

	heardAt, pingedAt time.Time
	read              uint64
	beat              step.Alarm

	// outlets are the runs whose end the hub has not been given yet, in the order
	// in which they are served next.
	outlets  []*outlet
	serial   uint64
	flushing bool

	ended, cancelled memory

	draining, stopping bool
	drainers, stoppers []step.Token
	halted             []HaltedRun
	haltTries          int
	haltSaved          bool
	crash              string
	flushBound         step.Alarm
}

// NewSession makes the machine of a daemon.
func NewSession(cfg SessionConfig) *Session {
	if cfg.MaxRuns == 0 {
		cfg.MaxRuns = DefaultMaxRuns
	}
	if cfg.GiveUp == 0 {
		cfg.GiveUp = defaultGiveUp
	}
	cfg.Timing = cfg.Timing.withDefaults()
	return &Session{cfg: cfg, ref: SessionRef(cfg.Name), random: jitter(cfg.Seed)}
}

// Handle implements [step.Machine].
func (s *Session) Handle(now time.Time, from step.Ref, message any, fx *step.Effects) {
	switch m := message.(type) {
	case step.Boot:
		s.dial(fx)
	case step.Expired:
		s.expired(now, m.Timer, fx)
	case step.Answer:
		s.haltAnswer(m, now, fx)
	case step.Forgotten:
		// What was asked for goes on without the caller.
		s.drainers = without(s.drainers, m.Token)
		s.stoppers = without(s.stoppers, m.Token)
	case SessionMessage:
		s.handle(now, from, m, fx)
	default:
		step.Unexpected("daemon: "+s.ref.String(), m)
	}
}

func (s *Session) handle(now time.Time, from step.Ref, message SessionMessage, fx *step.Effects) {
	switch m := message.(type) {
	case Dialed:
		s.dialed(m, fx)
	case DialFailed:
		s.dialFailed(m, now, fx)
	case Inbound:
		s.inbound(now, m, fx)
	case Progress:
		s.progress(now, m, fx)
	case Outgoing:
		s.outgoing(from, m, fx)
	case Settled:
		s.settled(now, from, m, fx)
	case Unconfirmed:
		s.unconfirmed(now, from, m, fx)
	case DrainAsk:
		s.drainers = append(s.drainers, m.Token)
		s.draining = true
		s.idle(fx)
	case StopAsk:
		s.stop(m, fx)
	case StatusAsk:
		fx.Reply(m.Token, s.status())
	case Crash:
		s.crashed(m, fx)
	default:
		step.Unexpected("daemon: "+s.ref.String(), m)
	}
}

func (s *Session) expired(now time.Time, t step.Timer, fx *step.Effects) {
	switch {
	case s.retry.Fired(t):
		s.dial(fx)
	case s.patient.Fired(t):
		s.outOfPatience(now, fx)
	case s.beat.Fired(t):
		fx.Do(OpProgress{})
	case s.flushBound.Fired(t):
		s.note(TroubleNetwork, "the hub did not take the last frames in time")
		s.drop(fx)
	default:
		for _, o := range s.outlets {
			if o.overdue.Fired(t) {
				o.dropEvents(s.hub.FrameLimit())
				s.pump(fx)
				return
			}
		}
	}
}

func without(tokens []step.Token, gone step.Token) []step.Token {
	return slices.DeleteFunc(tokens, func(t step.Token) bool { return t == gone })
}

// cause names a timer's attempt, so that one of an earlier attempt is stale.
func (s *Session) cause() string { return strconv.FormatUint(s.attempt, 10) }

// open counts the runs that are not over.
func (s *Session) open() int {
	n := 0
	for _, o := range s.outlets {
		if !o.settled {
			n++
		}
	}
	return n
}

func (s *Session) find(job string) *outlet {
	for _, o := range s.outlets {
		if o.job == job {
			return o
		}
	}
	return nil
}

// of finds the outlet of a run by its actor.
func (s *Session) of(run step.Ref) *outlet {
	for _, o := range s.outlets {
		if o.run == run {
			return o
		}
	}
	return nil
}

func (s *Session) observe(fx *step.Effects, f Fact) { fx.Do(OpObserve{Fact: f}) }

func (s *Session) status() Status {
	st := Status{State: s.state.String(), Runs: s.open(), Draining: s.draining || s.stopping}
	if s.state != sessionServing {
		st.Trouble = s.told
	}
	return st
}

func (s *Session) become(to sessionState) {
	step.Become("daemon: "+s.ref.String(), &s.state, to, sessionEdges)
}

// AppendState implements [step.Machine].
func (s *Session) AppendState(b []byte) []byte {
	b = fmt.Appendf(b, "%s %s attempt=%d hub=%v trouble=%s/%d/%d random=%x", s.ref, s.state, s.attempt, s.hub, s.trouble, s.failures, s.slow, uint64(s.random))
	b = fmt.Appendf(b, " timers=%t%t%t%t read=%d flushing=%t", s.retry.Armed(), s.patient.Armed(), s.beat.Armed(), s.flushBound.Armed(), s.read, s.flushing)
	b = fmt.Appendf(b, " draining=%t stopping=%t halted=%d/%t crash=%q", s.draining, s.stopping, len(s.halted), s.haltSaved, s.crash)
	b = fmt.Appendf(b, " ended=%d/%x cancelled=%d/%x", len(s.ended.order), s.ended.sum(), len(s.cancelled.order), s.cancelled.sum())
	for _, o := range s.outlets {
		b = o.appendState(b)
	}
	return b
}

var _ step.Machine = (*Session)(nil)
