package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"codingrelay/step"
	"codingrelay/wire"
)

// world is where the hub's policies meet their ports: it makes each actor's
// [step.Port], accepts sockets, and says what a panic costs.
type world struct {
	cfg   Config
	ports Ports
	host  *step.Host

	mu        sync.Mutex
	token     string
	tools     map[string]Tools
	ends      map[step.Ref][]func()
	links     map[*connPort]struct{}
	listening Listening
	closed    bool
	err       error

	work sync.WaitGroup // store operations and tool calls under way
}

func newWorld(cfg Config, ports Ports) *world {
	return &world{
		cfg: cfg, ports: ports,
		tools: make(map[string]Tools),
		ends:  make(map[step.Ref][]func()),
		links: make(map[*connPort]struct{}),
	}
}

// portFor makes the port of an actor that a policy spawns.
func (w *world) portFor(ref step.Ref) step.Port {
	switch ref.Kind {
	case KindHub:
		return &hubPort{world: w}
	case KindJob:
		w.mu.Lock()
		defer w.mu.Unlock()
		t := w.tools[ref.ID]
		delete(w.tools, ref.ID)
		ctx, cancel := context.WithCancel(context.Background())
		return &jobPort{world: w, ref: ref, tools: t, ctx: ctx, cancel: cancel}
	case KindFence:
		return &fencePort{world: w}
	default:
		panic("actors: no port for " + ref.String())
	}
}

// offerTools keeps a run's tools until its job is spawned; withdrawTools takes
// back those of a run that was not.
func (w *world) offerTools(run string, t Tools) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tools[run] = t
}

func (w *world) withdrawTools(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.tools, run)
}

// whenEnded calls f once, when the actor has ended or at once.
func (w *world) whenEnded(ref step.Ref, f func()) {
	w.mu.Lock()
	if w.host.Done(ref) == nil {
		w.mu.Unlock()
		f()
		return
	}
	w.ends[ref] = append(w.ends[ref], f)
	w.mu.Unlock()
}

func (w *world) ended(ref step.Ref) {
	w.mu.Lock()
	fs := w.ends[ref]
	delete(w.ends, ref)
	w.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

// accept makes the connection actor of a fresh socket.
func (w *world) accept(remote string, link wire.Link, admitted func()) wire.Sink {
	incarnation := uuid.NewString()
	ref := step.Ref{Kind: KindConn, ID: incarnation}
	p := &connPort{world: w, ref: ref, link: link, admitted: admitted}
	p.room.L = &p.mu
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.links[p] = struct{}{}
	w.host.Spawn(ref, newConn(incarnation, remote, w.token, w.cfg), p)
	return p
}

func (w *world) left(p *connPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.links, p)
}

// failed is told of an actor's panic, after the actor was ended and its callers
// were answered.
func (w *world) failed(f step.Failure) {
	if f.Ref != HubRef {
		w.host.Send(HubRef, HubRef, ActorFailed{Ref: f.Ref})
		return
	}
	// The hub itself: its port's Close has closed listener and sockets already;
	// what is left ends by itself once it is told.
	w.mu.Lock()
	w.err = fmt.Errorf("actors: the hub failed: %v", f.Value)
	w.mu.Unlock()
	for _, ref := range w.host.Refs() {
		switch ref.Kind {
		case KindJob:
			w.host.Send(HubRef, ref, Fail{})
			w.host.Send(HubRef, ref, Retire{})
		case KindFence:
			w.host.Send(HubRef, ref, RetireFence{Force: true})
		}
	}
}

func (w *world) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// wait returns when no store operation and no tool call is under way.
func (w *world) wait() { w.work.Wait() }

func (w *world) observe(f Fact) {
	if w.ports.Observer != nil {
		w.ports.Observer.Observe(f)
	}
}

// open opens the listener off the hub's turn.
func (w *world) open(op OpOpen, answer func(any, error)) {
	if w.ports.Listener == nil {
		answer(nil, errors.New("no listener was given to this hub"))
		return
	}
	w.mu.Lock()
	w.token = op.Token
	w.mu.Unlock()
	w.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
		defer cancel()
		l, err := w.ports.Listener.Listen(ctx, op.Addr, w.accept)
		if err != nil {
			answer(nil, err)
			return
		}
		w.mu.Lock()
		closed := w.closed
		if !closed {
			w.listening = l
		}
		w.mu.Unlock()
		if closed {
			_ = l.Close()
			answer(nil, errors.New("the hub ended meanwhile"))
			return
		}
		answer(l.Addr().String(), nil)
	})
}

func (w *world) closeListener() {
	w.mu.Lock()
	l := w.listening
	w.listening = nil
	w.mu.Unlock()
	if l != nil {
		w.work.Go(func() { _ = l.Close() })
	}
}

// hubPort is the hub's way to its listener.
type hubPort struct{ world *world }

func (p *hubPort) Do(op any, answer func(any, error)) {
	switch op := op.(type) {
	case OpOpen:
		p.world.open(op, answer)
	case OpCloseListener:
		p.world.closeListener()
	case OpObserve:
		p.world.observe(op.Fact)
	default:
		panic(fmt.Sprintf("actors: hub: unknown operation %T", op))
	}
}

// Close ends what only the hub knows of: the listener, and sockets that have not
// said hello.
func (p *hubPort) Close() {
	w := p.world
	w.closeListener()
	w.mu.Lock()
	w.closed = true
	left := make([]*connPort, 0, len(w.links))
	for l := range w.links {
		left = append(left, l)
	}
	w.mu.Unlock()
	for _, l := range left {
		l.link.Drop()
	}
}

// fencePort is a fence's way to its store. Operations of one fence are carried
// out one after the other, also when one of them has counted as failed by then.
type fencePort struct {
	world *world
	mu    sync.Mutex
	queue []func()
	busy  bool
}

func (p *fencePort) Do(op any, answer func(any, error)) {
	store := p.world.ports.Store
	switch op := op.(type) {
	case OpSave:
		p.enqueue(func() { answer(nil, store.Save(op.Record)) })
	case OpRemove:
		p.enqueue(func() { answer(nil, store.Remove(op.Key)) })
	case OpArchive:
		p.enqueue(func() {
			where, err := store.Archive(op.Key)
			answer(where, err)
		})
	case OpObserve:
		p.world.observe(op.Fact)
	default:
		panic(fmt.Sprintf("actors: fence: unknown operation %T", op))
	}
}

func (p *fencePort) enqueue(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, f)
	if p.busy {
		return
	}
	p.busy = true
	p.world.work.Go(p.drain)
}

func (p *fencePort) drain() {
	for {
		p.mu.Lock()
		if len(p.queue) == 0 {
			p.busy = false
			p.mu.Unlock()
			return
		}
		f := p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
		f()
	}
}

// Close implements [step.Port]; operations under way end by themselves.
func (p *fencePort) Close() {}
