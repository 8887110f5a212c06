// Package step is how every actor of the relay is written, on the hub's side and
// on the daemon's: a policy is a step function that turns one message into a
// list of effects, and an executor carries the effects out.
//
//	message ──▶ Machine.Handle(now, from, message, &effects) ──▶ executor
//
// A Machine knows no engine, clock, goroutine, lock, channel, file or socket.
// The same machine runs on hollywood in production ([Host]) and in the
// simulator's executors, which is what makes the simulation one of what ships.
package step

import (
	"errors"
	"time"
)

// Ref is the address of an actor. It is never reused.
type Ref struct{ Kind, ID string }

// String prints the address as kind/id.
func (r Ref) String() string { return r.Kind + "/" + r.ID }

// Token names a caller outside the actors that waits for one reply. Zero means
// that nobody waits.
type Token uint64

// Machine is the policy of one actor.
type Machine interface {
	// Handle decides what one message means. It appends effects and returns; it
	// never blocks and never keeps fx.
	Handle(now time.Time, from Ref, message any, fx *Effects)
	// AppendState appends canonical bytes of the state, for hashing and pictures.
	AppendState(b []byte) []byte
}

// Boot is the first message of every machine. The engine's own start messages
// run on the spawner's goroutine and are not used.
type Boot struct{}

// Timer names what a timer was for: the policy's name of it, the run, attempt or
// incarnation it belongs to, and the arming it came from (invariant I15).
type Timer struct {
	Name, Cause string
	Gen         uint64
}

// Expired says that a timer ran out. Stopping a timer does not take its message
// out of the mailbox, so a stale one may arrive: see [Alarm.Fired].
type Expired struct{ Timer Timer }

// Answer is the answer to a question asked with [Effects.Ask].
type Answer struct {
	// Question is the number the policy gave to Ask.
	Question uint64
	// Value is the port's result and Err its failure; [ErrNoAnswer] when the
	// limit passed.
	Value any
	Err   error
	// Late marks an answer that comes after the limit counted as a failure; it
	// is ordinary mail.
	Late bool
}

// Forgotten says that the caller who waited for a reply is gone: the token means
// nothing any more, and what was kept for it should go.
type Forgotten struct{ Token Token }

// ErrNoAnswer is the error of an [Answer] whose limit has passed.
var ErrNoAnswer = errors.New("step: no answer within the limit")

// EffectKind says what an effect does.
type EffectKind uint8

// The kinds of effects.
const (
	Send EffectKind = iota + 1
	Reply
	Arm
	Disarm
	Spawn
	Do
	Ask
	End
)

// Effect is one thing that an executor does for a policy. Which fields count is
// said at the method of [Effects] that appends it.
type Effect struct {
	Kind    EffectKind
	To      Ref
	Message any
	Token   Token
	Timer   Timer
	After   time.Duration
	Machine Machine
}

// Effects is the ordered list a handler fills; the executor owns and reuses it.
type Effects struct{ list []Effect }

// List returns the effects in order. It is valid until the next Reset.
func (fx *Effects) List() []Effect { return fx.list }

// Reset empties the list and keeps its memory, dropping what it referred to.
func (fx *Effects) Reset() {
	clear(fx.list)
	fx.list = fx.list[:0]
}

// next appends an effect and gives it to be filled: built in place, it costs its
// policy no stack and no copy.
func (fx *Effects) next(kind EffectKind) *Effect {
	if n := len(fx.list); n < cap(fx.list) {
		fx.list = fx.list[:n+1] // nothing of an earlier list is left there
	} else {
		fx.list = append(fx.list, Effect{})
	}
	x := &fx.list[len(fx.list)-1]
	x.Kind = kind
	return x
}

// Send gives an actor a message.
func (fx *Effects) Send(to Ref, message any) {
	x := fx.next(Send)
	x.To, x.Message = to, message
}

// Reply answers a waiting caller once. A zero token is nobody.
func (fx *Effects) Reply(token Token, value any) {
	if token != 0 {
		x := fx.next(Reply)
		x.Token, x.Message = token, value
	}
}

// Do has the actor's port carry out an operation without an answer.
func (fx *Effects) Do(op any) { fx.next(Do).Message = op }

// Ask puts a question to the actor's port. It must be a handler's last effect:
// until the [Answer], or for at most limit, all other mail is put aside in
// order, so nothing is done on the strength of having asked.
func (fx *Effects) Ask(question uint64, op any, limit time.Duration) {
	x := fx.next(Ask)
	x.Token, x.Message, x.After = Token(question), op, limit
}

// Spawn starts an actor; its first message is [Boot].
func (fx *Effects) Spawn(ref Ref, m Machine) {
	x := fx.next(Spawn)
	x.To, x.Machine = ref, m
}

// End ends the actor after the handler: nothing reaches it any more.
func (fx *Effects) End() { fx.next(End) }

// Alarm is one timer of a policy. The zero value is not armed.
type Alarm struct {
	timer Timer
	armed bool
}

// Set arms the alarm, replacing an earlier arming.
func (a *Alarm) Set(fx *Effects, name, cause string, after time.Duration) {
	a.timer = Timer{Name: name, Cause: cause, Gen: a.timer.Gen + 1}
	a.armed = true
	x := fx.next(Arm)
	x.Timer, x.After = a.timer, after
}

// Stop disarms the alarm.
func (a *Alarm) Stop(fx *Effects) {
	if a.armed {
		a.armed = false
		fx.next(Disarm).Timer = a.timer
	}
}

// Fired reports whether t is this alarm's present arming, and disarms it. Any
// other timer message is stale and must be ignored (invariant I15).
func (a *Alarm) Fired(t Timer) bool {
	if !a.armed || a.timer != t {
		return false
	}
	a.armed = false
	return true
}

// Armed reports whether the alarm is set.
func (a *Alarm) Armed() bool { return a.armed }
