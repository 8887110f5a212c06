package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"codingrelay/transport"
	"codingrelay/wire"
)

var noContext = context.Background()

// sessionPort is both ends of the session's shim: its operations go to the link
// there is, and what a link's goroutines bring is queued here and drained on the
// session's turn.
type sessionPort struct {
	world *world

	mu      sync.Mutex
	room    sync.Cond
	attempt uint64
	cancel  context.CancelFunc // ends a dial under way
	link    wire.Link
	token   string
	in      Inbound
	bytes   int
	rung    bool
	gone    bool
}

func newSessionPort(w *world) *sessionPort {
	p := &sessionPort{world: w}
	p.room.L = &p.mu
	return p
}

// Do implements [step.Port].
func (p *sessionPort) Do(op any, answer func(any, error)) {
	switch op := op.(type) {
	case OpDial:
		p.dial(op.Attempt)
	case OpHello:
		p.hello(op.Hello)
	case OpProgress:
		p.progress()
	case OpDrop:
		p.drop()
	case OpHalt:
		p.world.work.Go(func() { answer(nil, p.world.halt.save(op.Runs)) })
	case OpOver:
		p.world.mu.Lock()
		p.world.over = &op
		p.world.mu.Unlock()
	case OpObserve:
		p.world.observe(op.Fact)
	default:
		p.onLink(op)
	}
}

// onLink does what needs a link; without one there is nothing to do.
func (p *sessionPort) onLink(op any) {
	p.mu.Lock()
	link := p.link
	p.mu.Unlock()
	if link == nil {
		return
	}
	switch op := op.(type) {
	case OpWrite:
		link.Write(op.Frames)
	case OpPing:
		link.Ping()
	case OpClose:
		link.Close(op.Code, op.Reason)
	default:
		panic(fmt.Sprintf("daemon: session: unknown operation %T", op))
	}
}

func (p *sessionPort) dial(attempt uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	p.attempt, p.cancel, p.link = attempt, cancel, nil
	p.in, p.bytes = Inbound{Attempt: attempt}, 0
	p.mu.Unlock()
	p.world.work.Go(func() {
		defer cancel()
		p.attemptDial(ctx, attempt)
	})
}

func (p *sessionPort) attemptDial(ctx context.Context, attempt uint64) {
	fail := func(t Trouble, err error) {
		p.world.host.Send(p.world.ref, p.world.ref, DialFailed{Attempt: attempt, Trouble: t, Reason: err.Error()})
	}
	token, err := p.world.cfg.token()
	if err != nil {
		fail(TroubleToken, err)
		return
	}
	p.world.keep(token)
	opened := false
	err = p.world.cfg.Dial(ctx, func(link wire.Link) wire.Sink {
		opened = true
		return p.opened(attempt, token, link)
	})
	switch {
	case opened: // what happens to the link tells the rest
	case err == nil:
		fail(TroubleNetwork, errors.New("the dialler gave no connection"))
	default:
		fail(dialTrouble(err), err)
	}
}

// dialTrouble tells what a person must repair from what time can.
func dialTrouble(err error) Trouble {
	var d *transport.DialError
	if !errors.As(err, &d) {
		return TroubleNetwork
	}
	switch {
	case d.Step == transport.StepURL:
		return TroubleRefused
	case d.Step == transport.StepUpgrade && d.Status >= 400 && d.Status < 500 && d.Status != 408 && d.Status != 429:
		return TroubleRefused
	default:
		return TroubleNetwork
	}
}

// opened takes a fresh link. Dialed is posted before anything of the link can be.
func (p *sessionPort) opened(attempt uint64, token string, link wire.Link) wire.Sink {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || attempt != p.attempt || p.cancel == nil {
		return nil // dropped meanwhile
	}
	p.link, p.token = link, token
	p.world.host.Send(p.world.ref, p.world.ref, Dialed{Attempt: attempt})
	return &inlet{port: p, attempt: attempt}
}

func (p *sessionPort) hello(h wire.Hello) {
	p.mu.Lock()
	link := p.link
	h.Token, p.token = p.token, ""
	p.mu.Unlock()
	if link != nil {
		link.Write([][]byte{wire.AppendHello(nil, h)})
	}
}

func (p *sessionPort) progress() {
	p.mu.Lock()
	link, attempt := p.link, p.attempt
	p.mu.Unlock()
	if link != nil {
		read, written := link.Progress()
		p.world.host.Send(p.world.ref, p.world.ref, Progress{Attempt: attempt, Read: read, Written: written})
	}
}

func (p *sessionPort) drop() {
	p.mu.Lock()
	link := p.link
	if p.cancel != nil {
		p.cancel()
		p.cancel = nil
	}
	p.mu.Unlock()
	if link != nil {
		link.Drop()
	}
}

// Close implements [step.Port]: the session has ended, so its socket must.
func (p *sessionPort) Close() {
	p.mu.Lock()
	p.gone = true
	p.room.Broadcast()
	p.mu.Unlock()
	p.drop()
}

// Bounds of a turn and of the queue before it. The transport counts no frame of a
// hub's, so this bound is what keeps a hub that floods from filling the memory.
const (
	turnBytes     = 256 << 10
	turnFrames    = 1024
	queueBytes    = 1 << 20
	frameOverhead = 256 // what a queued frame costs beside its bytes
)

// Drain implements [step.Drainer]: one turn's worth of frames, and the end of the
// link only after the last of them.
func (p *sessionPort) Drain() (any, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.in
	n, size := 0, 0
	for n < len(all.Frames) && n < turnFrames && (n == 0 || size+all.Frames[n].Bytes <= turnBytes) {
		size += all.Frames[n].Bytes
		n++
	}
	turn := Inbound{Attempt: all.Attempt, Frames: all.Frames[:n:n], Pong: all.Pong, Flushed: all.Flushed}
	p.in = Inbound{Attempt: all.Attempt, Frames: all.Frames[n:], Closed: all.Closed}
	p.bytes -= size + n*frameOverhead
	p.room.Broadcast()
	more := len(p.in.Frames) > 0
	if !more {
		turn.Closed = all.Closed
		p.in = Inbound{Attempt: all.Attempt}
	}
	p.rung = more
	if n == 0 && !turn.Pong && !turn.Flushed && turn.Closed == nil {
		return nil, more
	}
	return turn, more
}

// inlet is the sink of one link. What a link that was given up still brings goes
// nowhere.
type inlet struct {
	port    *sessionPort
	attempt uint64
}

// current reports whether this link is the session's. p.mu is held.
func (i *inlet) current() bool { return !i.port.gone && i.attempt == i.port.attempt }

// Frame implements [wire.Sink]. It waits while the queue is full.
func (i *inlet) Frame(f wire.Frame) {
	p := i.port
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.bytes >= queueBytes && i.current() {
		p.room.Wait()
	}
	if !i.current() {
		return
	}
	p.in.Frames = append(p.in.Frames, f)
	p.bytes += f.Bytes + frameOverhead
	p.ring()
}

// Pong implements [wire.Sink].
func (i *inlet) Pong() { i.note(func(in *Inbound) { in.Pong = true }) }

// Flushed implements [wire.Sink].
func (i *inlet) Flushed() { i.note(func(in *Inbound) { in.Flushed = true }) }

// Closed implements [wire.Sink].
func (i *inlet) Closed(end wire.End) { i.note(func(in *Inbound) { in.Closed = &end }) }

func (i *inlet) note(f func(*Inbound)) {
	i.port.mu.Lock()
	defer i.port.mu.Unlock()
	if i.current() {
		f(&i.port.in)
		i.port.ring()
	}
}

// ring begins a turn unless one is due already. p.mu is held.
func (p *sessionPort) ring() {
	if !p.rung {
		p.rung = true
		p.world.host.Ring(p.world.ref)
	}
}
