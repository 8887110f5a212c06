package containment

import (
	"fmt"
	"slices"
	"time"
)

// life is the policy of a supervisor: what is due when. It knows no process and no
// clock, it is told the time and the facts.
//
//	            leader ended             DrainGrace over, or stop
//	running ───────────────▶ draining ───────────────────────────┐
//	   │                                                         ▼
//	   └──────────────────────── stop ───────────────────────▶ ending (TERM sent)
//	                                                             │ Grace over
//	   empty ◀── from every phase, when nothing is left          ▼
//	                          stuck ◀──── GiveUp over ──────── killing (KILL, again
//	                                                             and again, also when stuck)
//
// A stop counts once; those that come later change nothing. KILL is never sent
// before the whole grace has passed with a member alive.
type life struct {
	phase      phase
	grace      time.Duration
	drainGrace time.Duration
	giveUp     time.Duration

	begun    time.Time // when the end began; zero while running
	until    time.Time // when draining, ending or killing is over
	giveUpAt time.Time
}

type phase uint8

const (
	running phase = iota
	draining
	ending
	killing
	stuck
	empty
)

func (p phase) String() string {
	return [...]string{"running", "draining", "ending", "killing", "stuck", "empty"}[p]
}

var lifeEdges = map[phase][]phase{
	running:  {draining, ending, empty},
	draining: {ending, empty},
	ending:   {killing, empty},
	killing:  {stuck, empty},
	stuck:    {empty},
	empty:    nil,
}

// facts is what the supervisor sees.
type facts struct {
	stop   bool // asked for, or the daemon is gone
	exited bool // the leader has ended
	empty  bool // proven: nothing is left
}

// action is what the supervisor does next.
type action uint8

const (
	actNone   action = iota
	actTerm          // TERM and CONT to the leader's group
	actKill          // KILL to every member
	actGiveUp        // report survivors; KILL goes on
	actDone          // report empty and end
)

func (a action) String() string {
	return [...]string{"none", "term", "kill", "give_up", "done"}[a]
}

// become panics on an edge that is not in the table: a supervisor that is wrong
// must end without a report rather than give a wrong one.
func (l *life) become(to phase) {
	if !slices.Contains(lifeEdges[l.phase], to) {
		panic(fmt.Sprintf("containment: a tree cannot go from %v to %v", l.phase, to))
	}
	l.phase = to
}

// advance moves on to what is due at now and says what to do.
func (l *life) advance(now time.Time, f facts) action {
	if f.exited && l.begun.IsZero() {
		l.begun = now
	}
	if f.empty {
		l.become(empty)
		return actDone
	}
	switch l.phase {
	case running:
		if f.stop {
			return l.end(now)
		}
		if f.exited {
			l.become(draining)
			l.until = now.Add(l.drainGrace)
		}
	case draining:
		if f.stop || !now.Before(l.until) {
			return l.end(now)
		}
	case ending:
		if !now.Before(l.until) {
			l.become(killing)
			l.until = l.giveUpAt
			return actKill
		}
	case killing:
		if !now.Before(l.until) {
			l.become(stuck)
			return actGiveUp
		}
		return actKill
	case stuck:
		return actKill
	case empty:
	}
	return actNone
}

func (l *life) end(now time.Time) action {
	l.become(ending)
	if l.begun.IsZero() {
		l.begun = now
	}
	l.until = now.Add(l.grace)
	l.giveUpAt = now.Add(l.giveUp)
	return actTerm
}

// left is how long nothing is due by the clock; ok is false when that is for ever.
func (l *life) left(now time.Time) (d time.Duration, ok bool) {
	switch l.phase {
	case draining, ending, killing:
		return max(0, l.until.Sub(now)), true
	case running, stuck, empty:
	}
	return 0, false
}
