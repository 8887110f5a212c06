package step

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anthdm/hollywood/actor"
)

// Port is the way from one actor to the world. It is called on the actor's
// turn, must not block, and gives answers from any goroutine.
type Port interface {
	// Do carries out an operation. answer is not nil for a question and must
	// then be called exactly once, from any goroutine.
	Do(op any, answer func(value any, err error))
	// Close is called once, when the actor has ended.
	Close()
}

// Drainer is a port with an inbound queue of its own: [Host.Ring] makes the
// actor's turn begin with what Drain took from it.
type Drainer interface {
	// Drain returns the next message, or nil, and whether more is waiting.
	Drain() (message any, more bool)
}

// Settler is a [Drainer] that uses the memory of its messages again: the turn that
// began with one is over, and the machine has kept nothing of it that Drain did
// not give away for good.
type Settler interface {
	Drainer
	// Settle is called on the actor's turn, after the effects were carried out.
	Settle()
}

// Failure is a recovered panic: a bug with a blast radius.
type Failure struct {
	Ref     Ref
	Message any
	Value   any
	Stack   []byte
}

// Config is what a Host needs. Engine may be the host program's own.
type Config struct {
	Engine *actor.Engine
	// Name separates this host's actors from others on the same engine; it must
	// be unique there.
	Name string
	// PortFor makes the port of an actor spawned by an effect; nil is no port.
	PortFor func(Ref) Port
	// OnFailure is told of a panic after the actor was ended and its callers
	// were answered with [ErrEnded]. It runs on the actor's goroutine.
	OnFailure func(Failure)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Options are added to every spawn, for a simulator's gate.
	Options []actor.OptFunc
	Logger  *slog.Logger
}

// Errors of [Host.Ask].
var (
	// ErrNoActor is returned when no actor has this address any more.
	ErrNoActor = errors.New("step: no such actor")
	// ErrEnded is returned when the actor ended, or failed, before it answered.
	ErrEnded = errors.New("step: the actor ended before it answered")
)

// Host runs machines on a hollywood engine. It is the only part of the relay
// that knows the engine; its methods are safe for concurrent use.
type Host struct {
	cfg         Config
	mu          sync.RWMutex
	processes   map[Ref]*process
	idle        chan struct{}
	undelivered atomic.Uint64
}

// NewHost returns a host without actors.
func NewHost(cfg Config) *Host {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Host{cfg: cfg, processes: make(map[Ref]*process)}
}

// inboxSize keeps an idle actor at about a kilobyte; it is a first capacity, not
// a bound (design section 7).
const inboxSize = 16

// Spawn starts a machine with its port, which may be nil. It panics when the
// address was used before: that is a bug that the engine would hide.
func (h *Host) Spawn(ref Ref, m Machine, port Port) {
	p := &process{
		host: h, ref: ref, machine: m, port: port,
		timers:  make(map[timerKey]armedTimer),
		replies: make(map[Token]chan any),
		done:    make(chan struct{}),
		ring:    &envelope{kind: ringMail, from: ref},
	}
	h.mu.Lock()
	if _, taken := h.processes[ref]; taken {
		h.mu.Unlock()
		panic("step: address used twice: " + ref.String())
	}
	h.processes[ref] = p
	h.mu.Unlock()
	kind := h.cfg.Name + "." + ref.Kind
	p.pid = actor.NewPID(h.cfg.Engine.Address(), kind+"/"+ref.ID)
	opts := append([]actor.OptFunc{actor.WithID(ref.ID), actor.WithInboxSize(inboxSize)}, h.cfg.Options...)
	h.cfg.Engine.Spawn(func() actor.Receiver { return p }, kind, opts...)
	p.post(&envelope{from: ref, message: Boot{}})
}

// Send gives an actor a message. Mail to nobody is counted and dropped.
func (h *Host) Send(from, to Ref, message any) {
	h.deliver(to, &envelope{from: from, message: message})
}

// Ring begins a turn of an actor whose port is a [Drainer].
func (h *Host) Ring(to Ref) {
	if p := h.find(to); p != nil {
		p.post(p.ring)
	} else {
		h.undelivered.Add(1)
	}
}

func (h *Host) deliver(to Ref, e *envelope) {
	if p := h.find(to); p != nil {
		p.post(e)
	} else {
		h.undelivered.Add(1)
	}
}

func (h *Host) find(ref Ref) *process {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.processes[ref]
}

// replies are channels for one answer each, empty.
var replies = sync.Pool{New: func() any { return make(chan any, 1) }}

// Ask sends the message that build makes for a fresh token and waits for its
// one reply. build runs on the actor's turn. When ctx ends first the machine is
// told with [Forgotten].
func (h *Host) Ask(ctx context.Context, to Ref, build func(Token) any) (any, error) {
	p := h.find(to)
	if p == nil {
		return nil, ErrNoActor
	}
	reply := replies.Get().(chan any)
	question := &envelope{kind: askMail, from: to, build: build, reply: reply}
	p.post(question)
	select {
	case v := <-reply:
		replies.Put(reply) // answered once: nobody sends on it any more
		return v, nil
	case <-ctx.Done():
		p.post(&envelope{kind: forgetMail, from: to, forgets: question})
		return nil, ctx.Err()
	case <-p.done:
		select {
		case v := <-reply:
			return v, nil
		default:
			return nil, ErrEnded
		}
	}
}

// Done returns a channel that is closed when the actor has ended, and nil when
// there is no such actor.
func (h *Host) Done(ref Ref) <-chan struct{} {
	if p := h.find(ref); p != nil {
		return p.done
	}
	return nil
}

// Refs returns the addresses of all actors, in order.
func (h *Host) Refs() []Ref {
	h.mu.RLock()
	defer h.mu.RUnlock()
	refs := make([]Ref, 0, len(h.processes))
	for r := range h.processes {
		refs = append(refs, r)
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.String(), b.String()) })
	return refs
}

// Live returns how many actors there are.
func (h *Host) Live() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.processes)
}

// Undelivered returns how many messages found no actor.
func (h *Host) Undelivered() uint64 { return h.undelivered.Load() }

// Idle waits until no actor is left.
func (h *Host) Idle(ctx context.Context) error {
	h.mu.Lock()
	if len(h.processes) == 0 {
		h.mu.Unlock()
		return nil
	}
	if h.idle == nil {
		h.idle = make(chan struct{})
	}
	idle := h.idle
	h.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Host) forget(ref Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.processes, ref)
	if len(h.processes) == 0 && h.idle != nil {
		close(h.idle)
		h.idle = nil
	}
}
