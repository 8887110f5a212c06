package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"codingrelay/step"
	"codingrelay/wire"
)

// jobPort runs a job's tools.
type jobPort struct {
	world  *world
	ref    step.Ref
	tools  Tools
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
}

// revoke ends open calls and closes the tools, off the actor's turn.
func (p *jobPort) revoke() {
	p.cancel()
	if c, ok := p.tools.(io.Closer); ok {
		p.once.Do(func() { go func() { _ = c.Close() }() })
	}
}

func (p *jobPort) Do(op any, _ func(any, error)) {
	switch op := op.(type) {
	case OpCallTool:
		p.world.work.Go(func() { p.call(op) })
	case OpRevokeTools:
		p.revoke()
	case OpObserve:
		p.world.observe(op.Fact)
	default:
		panic(fmt.Sprintf("actors: job: unknown operation %T", op))
	}
}

// call runs one tool call on a goroutine of its own: it never blocks the socket.
// A tool that does not mind its context is left behind; its answer counts no more.
func (p *jobPort) call(op OpCallTool) {
	ctx, cancel := context.WithTimeout(p.ctx, p.world.cfg.ToolTimeout)
	defer cancel()
	returned := make(chan ToolResult, 1)
	go func() {
		result := ToolResult{Call: op.Call}
		defer func() {
			if v := recover(); v != nil {
				result = ToolResult{Call: op.Call, Err: ErrToolPanic}
				p.world.logPanic(p.ref, v)
			}
			returned <- result
		}()
		result.Payload, result.Err = p.tools.Call(ctx, op.Payload)
	}()
	select {
	case result := <-returned:
		p.world.host.Send(p.ref, p.ref, result)
	case <-ctx.Done():
		err := fmt.Errorf("the tool call timed out after %v", p.world.cfg.ToolTimeout)
		if p.ctx.Err() != nil {
			err = errors.New("the run's tools were revoked")
		}
		p.world.host.Send(p.ref, p.ref, ToolResult{Call: op.Call, Err: err})
	}
}

func (w *world) logPanic(ref step.Ref, v any) {
	if w.ports.Logger != nil {
		w.ports.Logger.Error("tool panicked", "actor", ref.String(), "panic", v)
	}
}

// Close implements [step.Port].
func (p *jobPort) Close() {
	p.revoke()
	p.world.ended(p.ref)
}

// connPort is both ends of a connection's shim: the actor's operations go to the
// link, and what the link's goroutines bring is queued here and drained on the
// actor's turn. The queue's bound is what makes the reader wait.
type connPort struct {
	world    *world
	ref      step.Ref
	link     wire.Link
	admitted func()

	mu         sync.Mutex
	room       sync.Cond
	head, tail *turn // a list; the tail is being filled
	bytes      int
	pong       bool
	flushed    bool
	end        *wire.End
	rung       bool
	gone       bool

	lent *turn // what the actor's turn under way has; the actor's
}

// Bounds of a turn and of the queue before it.
const (
	turnBytes      = 256 << 10
	turnFrames     = 256
	queueBytes     = 1 << 20
	frameQueueCost = 256 // what a queued frame costs beside its bytes
)

// turn is what the actor takes at once. Its memory is used again.
type turn struct {
	frames []wire.Frame
	bytes  int
	next   *turn
}

var turns = sync.Pool{New: func() any { return new(turn) }}

// full reports that f is for the turn after t.
func (t *turn) full(f *wire.Frame) bool {
	return len(t.frames) == turnFrames || len(t.frames) > 0 && t.bytes+f.Bytes > turnBytes
}

// done gives a turn's memory back, and lets go of what its frames own.
func (t *turn) done() {
	clear(t.frames)
	*t = turn{frames: t.frames[:0]}
	turns.Put(t)
}

func (p *connPort) Do(op any, _ func(any, error)) {
	switch op := op.(type) {
	case OpWrite:
		p.link.Write(op.Frames)
	case OpPing:
		p.link.Ping()
	case OpCredit:
		p.link.Credit(op.Bytes)
	case OpClose:
		p.link.Close(op.Code, op.Reason)
	case OpDrop:
		p.link.Drop()
	case OpAdmitted:
		p.admitted()
	case OpProgress:
		read, written := p.link.Progress()
		p.world.host.Send(p.ref, p.ref, Progress{Cause: op.Cause, Read: read, Written: written})
	case OpObserve:
		p.world.observe(op.Fact)
	default:
		panic(fmt.Sprintf("actors: conn: unknown operation %T", op))
	}
}

// Close implements [step.Port]: the actor has ended, so the socket must.
func (p *connPort) Close() {
	p.mu.Lock()
	p.gone = true
	p.head, p.tail, p.lent = nil, nil, nil
	p.room.Broadcast()
	p.mu.Unlock()
	p.link.Drop()
	p.world.left(p)
}

// Frame implements [wire.Sink]. It waits while the queue is full.
func (p *connPort) Frame(f wire.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.bytes >= queueBytes && !p.gone {
		p.room.Wait()
	}
	if p.gone {
		return
	}
	if p.tail == nil || p.tail.full(&f) {
		fresh := turns.Get().(*turn)
		if p.tail == nil {
			p.head = fresh
		} else {
			p.tail.next = fresh
		}
		p.tail = fresh
	}
	p.tail.frames = append(p.tail.frames, f)
	p.tail.bytes += f.Bytes
	p.bytes += f.Bytes + frameQueueCost
	p.ring()
}

// Pong implements [wire.Sink].
func (p *connPort) Pong() { p.note(func() { p.pong = true }) }

// Flushed implements [wire.Sink].
func (p *connPort) Flushed() { p.note(func() { p.flushed = true }) }

// Closed implements [wire.Sink].
func (p *connPort) Closed(end wire.End) { p.note(func() { p.end = &end }) }

func (p *connPort) note(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		f()
		p.ring()
	}
}

// ring begins a turn unless one is due already. p.mu is held.
func (p *connPort) ring() {
	if !p.rung {
		p.rung = true
		p.world.host.Ring(p.ref)
	}
}

// Drain implements [step.Drainer]: one turn's worth of frames, and the end of
// the socket only after the last of them.
func (p *connPort) Drain() (any, bool) {
	read, _ := p.link.Progress()
	p.mu.Lock()
	defer p.mu.Unlock()
	in := Inbound{Pong: p.pong, Flushed: p.flushed, Read: read}
	p.pong, p.flushed = false, false
	if t := p.head; t != nil {
		p.lent, p.head, t.next = t, t.next, nil
		in.Frames = t.frames
		p.bytes -= t.bytes + len(t.frames)*frameQueueCost
		p.room.Signal()
	}
	more := p.head != nil
	if !more {
		p.tail = nil
		in.Closed = p.end
	}
	p.rung = more
	if len(in.Frames) == 0 && !in.Pong && !in.Flushed && in.Closed == nil {
		return nil, more
	}
	return in, more
}

// Settle implements [step.Settler]: the policy has kept none of its frames.
func (p *connPort) Settle() {
	if p.lent != nil {
		p.lent.done()
		p.lent = nil
	}
}
