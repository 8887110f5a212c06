package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"codingrelay/containment"
	"codingrelay/step"
	"codingrelay/wire"
)

// runPort is both ends of a run's shim: it starts the runner, holds the bounded
// queue of what the runner emits, and knows every process tree that was started
// for the run.
type runPort struct {
	world *world
	ref   step.Ref
	job   string

	mu     sync.Mutex
	events [][]byte
	// held is what counts against the run's budget: events that are queued here or
	// on their way to the writer. room is closed when some of it came back.
	held    int
	room    chan struct{}
	discard bool // nobody will hear of it: emit nothing, block nobody
	// stopping: told to end. Then a runner whose trees are gone is not blocked
	// any more, so that it can return.
	stopping bool
	dropped  int // bytes that did not fit then

	cancel    context.CancelFunc
	starting  int // Command calls under way
	trees     []*containment.Tree
	verdicts  []containment.Report
	problem   string // a start of which nobody knows what came of it
	completed []byte
	done      bool // the runner has returned
	returned  *Returned
	reaping   bool
	gone      *Gone
	closed    bool
	release   sync.Once
	rung      bool
}

func newRunPort(w *world, ref step.Ref) *runPort {
	return &runPort{world: w, ref: ref, room: make(chan struct{})}
}

// Do implements [step.Port].
func (p *runPort) Do(op any, _ func(any, error)) {
	switch op := op.(type) {
	case OpRun:
		p.start(op)
	case OpStop:
		p.stop()
	case OpDiscard:
		p.mu.Lock()
		p.discard, p.events = true, nil
		p.wakeEmitters()
		p.mu.Unlock()
	case OpReap:
		p.reap()
	case OpCredit:
		p.mu.Lock()
		p.held -= op.Bytes
		p.wakeEmitters()
		p.mu.Unlock()
	case OpObserve:
		p.world.observe(op.Fact)
	default:
		panic(fmt.Sprintf("daemon: run: unknown operation %T", op))
	}
}

// start runs the runner on a goroutine of its own. It counts as the daemon's work
// until it returns or is given up.
func (p *runPort) start(op OpRun) {
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	p.job, p.cancel = op.JobID, cancel
	p.mu.Unlock()
	p.world.work.Add(1)
	go func() {
		defer p.letGo()
		defer cancel()
		r := Returned{Failed: true, Failure: Failure{Text: "the runner panicked; the daemon's log has the trace", Code: codePanic}}
		defer func() { p.runnerReturned(r) }() // also when the goroutine is ended from inside
		p.call(ctx, &Job{ID: op.JobID, Payload: op.Payload, port: p}, &r)
	}()
}

func (p *runPort) letGo() { p.release.Do(p.world.work.Done) }

// codePanic is the code of a runner that panicked.
const codePanic = "daemon.panic"

// call runs the runner and makes what it did a fact; r is what counts when it
// panics, which is a failure of this run and of no other.
func (p *runPort) call(ctx context.Context, job *Job, r *Returned) {
	defer func() {
		if v := recover(); v != nil {
			p.world.cfg.Logger.Error("runner panicked", "run", headOf(job.ID, 128),
				"panic", p.world.redact(fmt.Sprint(v)), "stack", string(debug.Stack()))
		}
	}()
	err := p.world.cfg.Runner.Run(ctx, job)
	var failure *Failure
	switch {
	case err == nil:
		*r = Returned{}
	case errors.As(err, &failure):
		*r = Returned{Failed: true, Failure: *failure}
	default:
		*r = Returned{Failed: true, Failure: Failure{Text: err.Error()}}
	}
	r.Failure.Text = p.world.redact(r.Failure.Text)
}

func (p *runPort) runnerReturned(r Returned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped > 0 {
		p.events = append(p.events, wire.DroppedEvent(p.dropped, 2*p.world.cfg.RunQueueBytes))
	}
	r.Completed = p.completed
	p.done, p.returned = true, &r
	p.wakeEmitters()
	p.ring()
	p.verdict()
}

// emit queues one event, an object's JSON that nobody changes any more. It waits
// while the run's budget is used up; an event above the budget passes alone.
func (p *runPort) emit(ctx context.Context, event []byte) error {
	cost := eventCost(event)
	limit := p.world.cfg.RunQueueBytes
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.done || p.discard || p.closed:
			return ErrRunOver
		case p.held == 0 || p.held+cost <= limit || p.freed() && p.held+cost <= 2*limit:
			p.held += cost
			p.events = append(p.events, event)
			p.ring()
			return nil
		case p.freed():
			p.dropped += len(event)
			return nil
		}
		room := p.room
		p.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			p.mu.Lock()
			return ctx.Err()
		}
		p.mu.Lock()
	}
}

// freed reports whether the runner must not be held back any more: it was told to
// end and nothing that it started is left. p.mu is held.
func (p *runPort) freed() bool {
	return p.stopping && p.starting == 0 && len(p.verdicts) == len(p.trees)
}

// wakeEmitters lets whoever waits for room look again. p.mu is held.
func (p *runPort) wakeEmitters() {
	close(p.room)
	p.room = make(chan struct{})
}

// command starts a tree for the runner.
func (p *runPort) command(spec containment.Spec) (*containment.Tree, error) {
	p.mu.Lock()
	if p.done || p.stopping || p.closed {
		p.mu.Unlock()
		return nil, ErrRunOver
	}
	p.starting++
	p.mu.Unlock()
	tree, err := containment.Start(p.world.cfg.Containment, spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	if err != nil {
		if errors.Is(err, containment.ErrUnconfirmed) {
			p.problem = err.Error()
		}
		p.verdict()
		return nil, err
	}
	p.trees = append(p.trees, tree)
	if p.closed {
		go p.await(tree) // nobody waits for this daemon's work any more
	} else {
		p.world.work.Go(func() { p.await(tree) })
	}
	if p.stopping || p.done {
		// The end came while it started: then it must not run.
		tree.Stop()
		return nil, ErrRunOver
	}
	return tree, nil
}

// await hears a tree's verdict.
func (p *runPort) await(tree *containment.Tree) {
	receipt, err := tree.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verdicts = append(p.verdicts, containment.Report{Receipt: receipt, Err: err})
	p.wakeEmitters()
	p.verdict()
}

func (p *runPort) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	if p.cancel != nil {
		p.cancel()
	}
	for _, t := range p.trees {
		t.Stop()
	}
	p.wakeEmitters()
}

// reap ends what the runner has left.
func (p *runPort) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaping = true
	for _, t := range p.trees {
		p.world.work.Go(func() { _ = t.Close() }) // its verdict comes by await
	}
	p.verdict()
}

// verdict says that all is gone, or that nobody knows, when every tree has its
// own verdict. p.mu is held.
func (p *runPort) verdict() {
	if !p.reaping || !p.done || p.gone != nil || p.starting > 0 || len(p.verdicts) < len(p.trees) {
		return
	}
	g := Gone{Confirmed: p.problem == "", Reason: p.problem}
	receipts := make([]containment.Receipt, 0, len(p.verdicts))
	survivors := 0
	for _, v := range p.verdicts {
		receipts = append(receipts, v.Receipt)
		survivors += len(v.Receipt.Survivors)
		if v.Err != nil {
			g.Confirmed, g.Reason = false, v.Err.Error()
		}
	}
	g.Receipt = receiptOf(receipts, survivors)
	p.decide(g)
}

// decide gives the verdict, to the run or, when that has failed, in its place.
// p.mu is held.
func (p *runPort) decide(g Gone) {
	p.gone = &g
	p.world.saw(p.job, g)
	if p.closed {
		p.world.left(p.ref)
		p.world.orphaned(p, g)
		return
	}
	p.ring()
}

// giveUp ends the wait for a runner whose actor has failed.
func (p *runPort) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone == nil {
		p.decide(Gone{Reason: "the run failed inside this daemon, and no verdict came in time", Receipt: receiptOf(nil, 0)})
	}
}

// Close implements [step.Port]: the actor has ended. That it ended without a
// verdict means that it has failed, or has given up a runner that does not
// return; what can be ended is ended all the same.
func (p *runPort) Close() {
	p.mu.Lock()
	p.closed, p.discard, p.events = true, true, nil
	p.wakeEmitters()
	decided := p.gone != nil
	p.mu.Unlock()
	p.letGo()
	if decided {
		p.world.left(p.ref)
		return
	}
	p.stop()
	p.reap()
	time.AfterFunc(p.world.cfg.giveUp()+verdictMargin, p.giveUp)
}

// ring begins a turn unless one is due already. p.mu is held.
func (p *runPort) ring() {
	if !p.rung && !p.closed {
		p.rung = true
		p.world.host.Ring(p.ref)
	}
}

// Drain implements [step.Drainer]: one turn's worth of events; the runner's return
// only after its last event, and the verdict after that.
func (p *runPort) Drain() (any, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, size := 0, 0
	for n < len(p.events) && n < turnFrames && (n == 0 || size+len(p.events[n]) <= turnBytes) {
		size += len(p.events[n])
		n++
	}
	m := Emitted{Events: p.events[:n:n]}
	p.events = p.events[n:]
	more := len(p.events) > 0
	if !more {
		p.events = nil
		m.Returned, p.returned = p.returned, nil
		if p.gone != nil && p.done {
			m.Gone = p.gone
		}
	}
	p.rung = more
	if n == 0 && m.Returned == nil && m.Gone == nil {
		return nil, more
	}
	return m, more
}
