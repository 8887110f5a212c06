package step

import (
	"runtime/debug"
	"time"

	"github.com/anthdm/hollywood/actor"
)

type mailKind uint8

const (
	plainMail mailKind = iota
	ringMail
	askMail
	answerMail
	limitMail
	forgetMail
)

// envelope is what travels through the engine. It belongs to the process it was
// posted to.
type envelope struct {
	kind    mailKind
	from    Ref
	message any
	build   func(Token) any
	reply   chan any
	asked   uint64
	token   Token     // of a question that was taken
	forgets *envelope // the question whose caller is gone
}

type timerKey struct{ name, cause string }

type armedTimer struct {
	gen   uint64
	clock *time.Timer
}

// process is the shim around one machine: it knows the engine, owns the timers
// and the one-shot replies, defines what stopping means, and recovers panics.
// Everything but done and pid is touched only on the actor's turn.
type process struct {
	host    *Host
	ref     Ref
	machine Machine
	port    Port
	pid     *actor.PID
	done    chan struct{}
	ring    *envelope // every ring's; it says nothing

	fx      Effects
	timers  map[timerKey]armedTimer
	replies map[Token]chan any
	token   Token
	stash   []*envelope
	// asked numbers the questions put to the port; waiting is the one whose
	// answer is awaited, question the policy's number of it.
	asked, waiting, question uint64
	limit                    *time.Timer
	ended                    bool
}

func (p *process) post(e *envelope) { p.host.cfg.Engine.Send(p.pid, e) }

// Receive implements the engine's receiver.
func (p *process) Receive(c *actor.Context) {
	if e, ok := c.Message().(*envelope); ok {
		p.take(e)
	}
}

// take handles one piece of mail and then what was put aside, if it may.
func (p *process) take(e *envelope) {
	if p.ended {
		p.drop(e)
		return
	}
	defer p.recover(e)
	if p.waiting != 0 && !p.settles(e) {
		p.stash = append(p.stash, e)
		return
	}
	p.turn(e)
	for p.waiting == 0 && !p.ended && len(p.stash) > 0 {
		e = p.stash[0]
		p.stash[0] = nil
		p.stash = p.stash[1:]
		p.turn(e)
	}
}

// settles reports whether e ends the wait for the question under way.
func (p *process) settles(e *envelope) bool {
	return (e.kind == answerMail || e.kind == limitMail) && e.asked == p.waiting
}

func (p *process) drop(e *envelope) {
	if e.kind == plainMail || e.kind == askMail {
		p.host.undelivered.Add(1)
	}
}

func (p *process) turn(e *envelope) {
	message := e.message
	switch e.kind {
	case ringMail:
		var more bool
		message, more = p.port.(Drainer).Drain()
		if more {
			p.post(e)
		}
		if message == nil {
			return
		}
	case askMail:
		p.token++
		p.replies[p.token] = e.reply
		e.token = p.token
		message = e.build(p.token)
	case forgetMail:
		if _, waits := p.replies[e.forgets.token]; !waits {
			return
		}
		delete(p.replies, e.forgets.token)
		message = Forgotten{Token: e.forgets.token}
	case limitMail:
		if e.asked != p.waiting {
			return
		}
		p.waiting = 0
		message = Answer{Question: p.question, Err: ErrNoAnswer}
	case answerMail:
		a := message.(Answer)
		if a.Late = e.asked != p.waiting; !a.Late {
			p.waiting = 0
			p.limit.Stop()
		}
		message = a
	}
	if x, ok := message.(Expired); ok {
		p.disarm(x.Timer)
	}
	p.machine.Handle(p.host.cfg.Now(), e.from, message, &p.fx)
	list := p.fx.List()
	for i := range list {
		p.perform(&list[i])
	}
	p.fx.Reset()
	if e.kind == ringMail {
		if s, ok := p.port.(Settler); ok {
			s.Settle()
		}
	}
}

func (p *process) perform(x *Effect) {
	switch x.Kind {
	case Send:
		p.host.Send(p.ref, x.To, x.Message)
	case Reply:
		if c, ok := p.replies[x.Token]; ok {
			delete(p.replies, x.Token)
			c <- x.Message
		}
	case Arm:
		p.arm(x.Timer, x.After)
	case Disarm:
		p.disarm(x.Timer)
	case Spawn:
		var port Port
		if p.host.cfg.PortFor != nil {
			port = p.host.cfg.PortFor(x.To)
		}
		p.host.Spawn(x.To, x.Machine, port)
	case Do:
		p.port.Do(x.Message, nil)
	case Ask:
		p.ask(uint64(x.Token), x.Message, x.After)
	case End:
		p.end()
	}
}

func (p *process) arm(t Timer, after time.Duration) {
	key := timerKey{t.Name, t.Cause}
	if old, ok := p.timers[key]; ok {
		old.clock.Stop()
	}
	p.timers[key] = armedTimer{gen: t.Gen, clock: time.AfterFunc(after, func() {
		p.post(&envelope{from: p.ref, message: Expired{Timer: t}})
	})}
}

// disarm forgets the clock of an arming, whether it has run out or not.
func (p *process) disarm(t Timer) {
	key := timerKey{t.Name, t.Cause}
	if armed, ok := p.timers[key]; ok && armed.gen == t.Gen {
		armed.clock.Stop()
		delete(p.timers, key)
	}
}

func (p *process) ask(question uint64, op any, limit time.Duration) {
	p.asked++
	n := p.asked
	p.waiting, p.question = n, question
	p.limit = time.AfterFunc(limit, func() {
		p.post(&envelope{kind: limitMail, from: p.ref, asked: n})
	})
	p.port.Do(op, func(value any, err error) {
		p.post(&envelope{
			kind: answerMail, from: p.ref, asked: n,
			message: Answer{Question: question, Value: value, Err: err},
		})
	})
}

// end is the only way an actor stops: nothing reaches the machine after it, its
// waiting callers are answered, and the engine is told once.
func (p *process) end() {
	if p.ended {
		return
	}
	p.ended = true
	for _, t := range p.timers {
		t.clock.Stop()
	}
	if p.limit != nil {
		p.limit.Stop()
	}
	for _, e := range p.stash {
		p.drop(e)
	}
	p.stash, p.timers, p.replies = nil, nil, nil
	if p.port != nil {
		p.port.Close()
	}
	p.host.forget(p.ref)
	close(p.done)
	p.host.cfg.Engine.Poison(p.pid)
}

// recover turns a panic into the end of this actor. The engine must never see
// it: a restart would lose the message and, once too often, kill the process.
func (p *process) recover(e *envelope) {
	v := recover()
	if v == nil {
		return
	}
	failure := Failure{Ref: p.ref, Message: e.message, Value: v, Stack: debug.Stack()}
	p.host.cfg.Logger.Error("actor failed", "actor", p.ref.String(), "panic", v, "stack", string(failure.Stack))
	p.fx.Reset()
	p.end()
	if p.host.cfg.OnFailure != nil {
		p.host.cfg.OnFailure(failure)
	}
}
