package acp

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

const (
	// drainTime is how long the output may stay open after the agent's end, or the
	// agent may live on after the end of its streams.
	drainTime = time.Second
	// eventsHeldMax and repliesHeldMax are how many bytes of events and of answers
	// may wait; above that the agent's output is not read.
	eventsHeldMax  = 1 << 20
	repliesHeldMax = 4 << 20
)

// Run talks to an agent until its turn has ended, and returns nil then. Events go
// to emit, one at a time and in order; it must return when its context ends, and an
// error from it ends the run. run.completed and run.failed are not emitted: nil
// is the one (see Options.Complete), a [*Failure] the other.
//
// When ctx ends, the agent is asked to end its turn (session/cancel), its open
// questions are answered cancelled, and Run returns when the turn is over, at the
// latest after Options.CancelGrace; what the agent still says is emitted. The error
// is then the cause of ctx. An embedder that ends the process at once when ctx ends
// takes the agent's chance to do that.
//
// When Run returns, the process may live on, with its input closed: ending it and
// all that it started is the embedder's part. Of Run itself only the reading of
// Stdout goes on, to its end.
func Run(ctx context.Context, agent Agent, req Request, emit func(ctx context.Context, event []byte) error, opt Options) error {
	if req.SessionDir == "" {
		req.SessionDir = req.Dir
	}
	if !filepath.IsAbs(req.SessionDir) {
		return wrong("config.workspace", "a folder whose path is absolute")
	}
	r := &run{ctx: ctx, opt: opt, agent: agent, machine: newMachine(req, opt.limits())}
	r.begin(emit)
	defer r.finish()
	r.machine.start()
	for r.perform(); r.machine.state != stateEnded; r.perform() {
		r.turn()
		if r.machine.state >= stateStopping {
			r.settle()
		}
	}
	return r.result()
}

// run is one call of Run. Its fields belong to Run's goroutine; the others are fed
// by channels.
type run struct {
	ctx     context.Context
	opt     Options
	agent   Agent
	machine *machine
	stopped bool      // ctx has ended, or an event could not be given away
	latest  time.Time // when a stopped run returns at the latest

	inner   context.Context // of Wait and emit; ends with the run
	cancel  context.CancelFunc
	asking  context.Context // of Ask; ends when questions are settled
	settle  context.CancelFunc
	helpers sync.WaitGroup
	over    chan struct{} // closed when no more lines are wanted

	lines    chan line
	noLines  bool // the output has ended
	exited   chan *Exit
	exit     *Exit
	hasEnded bool

	toAgent, toCaller   outlet
	writeFailed, failed chan error
	emitErr             error

	answers chan answer
	timer   *time.Timer // for the machine
	step    int
	drain   *time.Timer // for the agent's end
}

// outlet is a queue in front of a goroutine that may block.
type outlet struct {
	queue [][]byte
	held  int // bytes that count towards a bound
	ch    chan []byte
	sizes []int
	busy  chan struct{} // a value for each that is done
	out   int           // given and not yet done
}

type answer struct {
	number int
	option string
}

func (r *run) begin(emit func(context.Context, []byte) error) {
	// Events and questions outlive ctx for the time of the grace.
	r.inner, r.cancel = context.WithCancel(context.WithoutCancel(r.ctx))
	r.asking, r.settle = context.WithCancel(r.inner)
	r.over, r.lines, r.exited = make(chan struct{}), make(chan line), make(chan *Exit, 1)
	r.writeFailed, r.failed = make(chan error, 1), make(chan error, 1)
	r.answers = make(chan answer)
	r.timer, r.drain = time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	r.timer.Stop()
	r.drain.Stop()
	go readLines(r.agent.Stdout, r.lines, r.over)
	r.helpers.Go(func() {
		exit, known := r.agent.Wait(r.inner)
		if !known {
			r.exited <- nil
			return
		}
		r.exited <- &exit
	})
	r.toAgent.open()
	r.toCaller.open()
	r.helpers.Go(func() {
		r.toAgent.serve(r.writeFailed, func(b []byte) error { _, err := r.agent.Stdin.Write(b); return err })
	})
	r.helpers.Go(func() {
		r.toCaller.serve(r.failed, func(b []byte) error { return emit(r.inner, b) })
	})
}

// finish lets go of everything but the reading of the output.
func (r *run) finish() {
	close(r.over)
	r.settle()
	r.cancel()
	_ = r.agent.Stdin.Close() // it may be closed already, or broken
	close(r.toAgent.ch)
	close(r.toCaller.ch)
	r.timer.Stop()
	r.drain.Stop()
	r.helpers.Wait()
}

func (o *outlet) open() { o.ch, o.busy = make(chan []byte), make(chan struct{}, 1) }

// serve does what comes, one after the other. After an error, which it reports once,
// it lets the rest go.
func (o *outlet) serve(failed chan<- error, do func([]byte) error) {
	var broken bool
	for b := range o.ch {
		if !broken {
			if err := do(b); err != nil {
				broken = true
				failed <- err
			}
		}
		o.busy <- struct{}{}
	}
}

// push adds to the queue. size is what counts towards the bound.
func (o *outlet) push(b []byte, size int) {
	o.queue, o.sizes, o.held = append(o.queue, b), append(o.sizes, size), o.held+size
}

// next gives the channel and value of the send that is due, a nil channel if none.
func (o *outlet) next() (chan<- []byte, []byte) {
	if len(o.queue) == 0 || o.out > 0 {
		return nil, nil
	}
	return o.ch, o.queue[0]
}

func (o *outlet) given() { o.out++ }

func (o *outlet) done() {
	o.out--
	o.held -= o.sizes[0]
	o.queue[0] = nil
	o.queue, o.sizes = o.queue[1:], o.sizes[1:]
}

// idle reports whether everything was done.
func (o *outlet) idle() bool { return len(o.queue) == 0 }

// perform carries out what the machine wants, in order.
func (r *run) perform() {
	for _, e := range r.machine.take() {
		switch e.kind {
		case effectWrite:
			size := 0
			if e.reply {
				size = len(e.data)
			}
			r.toAgent.push(e.data, size)
		case effectEmit:
			r.toCaller.push(e.data, len(e.data))
		case effectTimer:
			r.step = e.number
			r.timer.Reset(e.wait)
		case effectAsk:
			r.ask(e.number, e.data)
		case effectNoise:
			if r.opt.Noise != nil {
				r.opt.Noise(e.data)
			}
		}
	}
}

func (r *run) ask(number int, params []byte) {
	r.helpers.Go(func() {
		option, err := r.opt.Ask(r.asking, params)
		if err != nil {
			option = ""
		}
		select {
		case r.answers <- answer{number: number, option: option}:
		case <-r.asking.Done(): // too late, nobody minds
		}
	})
}

// turn waits for one thing to happen and gives it to the machine. Nothing here
// waits for the agent to read or for the caller to take.
func (r *run) turn() {
	lines := r.lines
	if r.holding() || r.noLines {
		lines = nil
	}
	var over <-chan struct{}
	if !r.stopped {
		over = r.ctx.Done()
	}
	agentCh, toAgent := r.toAgent.next()
	callerCh, toCaller := r.toCaller.next()
	select {
	case l, ok := <-lines:
		if ok {
			r.machine.line(l)
			return
		}
		r.noLines = true
		r.departing()
	case exit := <-r.exited:
		r.exit, r.hasEnded = exit, true
		r.departing()
	case <-r.writeFailed:
		r.drain.Reset(drainTime) // its end will say why
	case <-r.drain.C:
		if r.holding() {
			r.drain.Reset(drainTime) // its last words are waiting for us
			return
		}
		r.machine.gone(r.exit)
	case agentCh <- toAgent:
		r.toAgent.given()
	case <-r.toAgent.busy:
		r.toAgent.done()
	case callerCh <- toCaller:
		r.toCaller.given()
	case <-r.toCaller.busy:
		r.toCaller.done()
	case err := <-r.failed:
		r.emitErr = err
		r.stop()
	case <-over:
		r.stop()
	case <-r.timer.C:
		r.machine.timeout(r.step)
	case a := <-r.answers:
		r.machine.answered(a.number, a.option)
	}
}

// stop ends the run for a cause of ours.
func (r *run) stop() {
	r.stopped, r.latest = true, time.Now().Add(r.machine.opt.cancelGrace)
	r.machine.cancel()
}

// holding reports whether so much waits that the output is not read.
func (r *run) holding() bool {
	return r.toCaller.held > eventsHeldMax || r.toAgent.held > repliesHeldMax
}

// departing looks whether the agent has gone. Its end and that of its output come
// in any order; a helper may keep the output open, so only for a while.
func (r *run) departing() {
	if r.noLines && r.hasEnded {
		r.machine.gone(r.exit)
		return
	}
	r.drain.Reset(drainTime)
}

// result delivers the events that are left, gives a good agent time to leave, and
// says how the run ended.
func (r *run) result() error {
	_ = r.agent.Stdin.Close() // the agent's sign to leave
	out := r.machine.out
	delivered := r.deliver(out.completed != nil)
	switch {
	case r.emitErr != nil && r.ctx.Err() == nil:
		return fmt.Errorf("acp: an event could not be given away: %w", r.emitErr)
	case out.failure != nil:
		if r.agent.StderrTail != nil {
			out.failure.StderrTail = r.agent.StderrTail()
		}
		return out.failure
	case out.completed == nil || !delivered:
		return fmt.Errorf("acp: %w", context.Cause(r.ctx))
	}
	if r.opt.Complete != nil {
		return r.opt.Complete(out.completed)
	}
	return nil
}

// deliver waits until all events are given away, and for a good agent's end. Once
// ctx has ended it waits no longer than the grace. It reports whether nothing was
// left.
func (r *run) deliver(good bool) bool {
	grace := r.opt.ExitGrace
	if grace <= 0 {
		grace = ExitGraceDefault
	}
	r.drain.Reset(grace)
	over := r.ctx.Done()
	if r.stopped {
		over = nil
		r.timer.Reset(time.Until(r.latest))
	} else {
		r.timer.Stop()
	}
	for waiting := good && !r.hasEnded; !r.toCaller.idle() || waiting; {
		callerCh, toCaller := r.toCaller.next()
		select {
		case callerCh <- toCaller:
			r.toCaller.given()
		case <-r.toCaller.busy:
			r.toCaller.done()
		case r.emitErr = <-r.failed:
			return false
		case <-r.exited:
			r.hasEnded, waiting = true, false
		case <-r.drain.C:
			waiting = false
		case <-over:
			over, waiting = nil, false
			r.timer.Reset(r.machine.opt.cancelGrace)
		case <-r.timer.C:
			return r.toCaller.idle()
		}
	}
	return true
}
