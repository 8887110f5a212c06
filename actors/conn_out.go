package actors

import (
	"fmt"
	"slices"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// outFrame is one frame of the outbound queue.
type outFrame struct {
	bytes []byte
	// start or cancel: the run whose run.start or run.cancel this is.
	start, cancel string
	// call and job: the tool call this answers.
	call uint64
	job  step.Ref
	pong bool
}

// outQueue is the one ordered outbound queue of a socket. The writer has at most
// one flush of it.
type outQueue struct {
	frames []outFrame
	bytes  int
	// waiting are tool answers that found no room; their runs' budgets bound them.
	waiting []outFrame
	// flushing: the writer has a flush; starts are the runs whose start is in it.
	flushing bool
	starts   []string
	gate     step.Alarm
}

func (q *outQueue) push(f outFrame) {
	q.frames = append(q.frames, f)
	q.bytes += len(f.bytes)
}

// pushFirst is for daemon.pong, the only frame that may overtake.
func (q *outQueue) pushFirst(f outFrame) {
	q.frames = slices.Insert(q.frames, 0, f)
	q.bytes += len(f.bytes)
}

// answer queues a tool answer, behind those that wait already.
func (q *outQueue) answer(f outFrame, limit int) {
	if len(q.waiting) > 0 || q.bytes > 0 && q.bytes+len(f.bytes) > limit-controlReserve {
		q.waiting = append(q.waiting, f)
		return
	}
	q.push(f)
}

func (q *outQueue) refill(limit int) {
	for len(q.waiting) > 0 && (q.bytes == 0 || q.bytes+len(q.waiting[0].bytes) <= limit-controlReserve) {
		q.push(q.waiting[0])
		q.waiting = q.waiting[1:]
	}
}

// remove takes out the frames that match.
func (q *outQueue) remove(match func(outFrame) bool) {
	q.frames = slices.DeleteFunc(q.frames, func(f outFrame) bool {
		if match(f) {
			q.bytes -= len(f.bytes)
			return true
		}
		return false
	})
}

// dispatch is the last gate (I6): no run.start while the acknowledgement of a
// cancel is owed here, or when this connection is going.
func (c *Conn) dispatch(now time.Time, from step.Ref, m Dispatch, fx *step.Effects) {
	frame := wire.AppendStart(nil, m.RunID, m.Payload)
	var err *Error
	switch {
	case c.state != connServing:
		err = errOffline(c.daemonID)
	case slices.ContainsFunc(c.runs, (*connRun).owed):
		err = errCancelling(c.daemonID)
	case len(frame) > c.peerMax:
		err = errorf(CodePayloadTooLarge, "the run.start of %d bytes is above this daemon's limit of %d bytes", len(frame), c.peerMax)
	case c.out.bytes > 0 && c.out.bytes+len(frame) > c.cfg.OutboundBytes-controlReserve:
		err = errorf(CodeBusy, "the outbound queue of daemon %q is full (%d bytes); try again later", c.daemonID, c.cfg.OutboundBytes)
	}
	if err != nil {
		fx.Send(from, DispatchRefused{Err: err})
		return
	}
	c.runs = append(c.runs, &connRun{id: m.RunID, job: from, fence: m.Fence, queued: true})
	c.out.push(outFrame{bytes: frame, start: m.RunID})
	c.pump(now, fx)
}

// cancelRun ends a run on this connection. Starts that the writer does not have
// yet are taken out: its own ends clean, others are refused as cancelling.
func (c *Conn) cancelRun(now time.Time, from step.Ref, m CancelRun, fx *step.Effects) {
	r := c.find(m.RunID)
	if r == nil {
		// It was refused, or never came here: the job is told what it may not know.
		fx.Send(from, TakenOut{})
		return
	}
	if r.cancelled {
		return
	}
	if r.queued {
		c.takeOut(r, fx)
		c.pump(now, fx)
		return
	}
	r.cancelled = true
	c.takeBack(r, fx)
	c.endHolds(now, fx)
	for _, other := range slices.Clone(c.runs) {
		if other.queued {
			c.removeStart(other)
			fx.Send(other.job, DispatchRefused{Err: errCancelling(c.daemonID)})
		}
	}
	if c.state == connServing {
		c.out.push(outFrame{bytes: wire.AppendCancel(nil, r.id), cancel: r.id})
		c.pump(now, fx)
	}
}

// takeOut takes a start that was not accepted out of the queue.
func (c *Conn) takeOut(r *connRun, fx *step.Effects) {
	c.removeStart(r)
	fx.Send(r.job, TakenOut{})
}

func (c *Conn) removeStart(r *connRun) {
	c.out.remove(func(f outFrame) bool { return f.start == r.id })
	c.forget(r.id)
}

// dropCancel takes a run.cancel that was not written out: its run has finished.
func (c *Conn) dropCancel(r *connRun) {
	c.out.remove(func(f outFrame) bool { return f.cancel == r.id })
}

// refuseQueued refuses every start that was not accepted.
func (c *Conn) refuseQueued(err *Error, fx *step.Effects) {
	for _, r := range slices.Clone(c.runs) {
		if r.queued {
			c.removeStart(r)
			fx.Send(r.job, DispatchRefused{Err: err})
		}
	}
}

// pump gives the writer the next flush, if it has none.
func (c *Conn) pump(now time.Time, fx *step.Effects) {
	if c.out.flushing || c.state != connServing {
		return
	}
	c.out.refill(c.cfg.OutboundBytes)
	var flush []outFrame
	size := 0
	for len(c.out.frames) > 0 {
		f := c.out.frames[0]
		if f.cancel != "" {
			// In a flush of its own, and not at once after its start: a v1 daemon
			// that reads both together never answers (protocol section 5).
			if len(flush) > 0 || !c.mayCancel(now, f.cancel, fx) {
				break
			}
		}
		if size > 0 && size+len(f.bytes) > c.cfg.FlushBytes {
			break
		}
		flush = append(flush, f)
		size += len(f.bytes)
		c.out.frames = c.out.frames[1:]
		if f.cancel != "" {
			break
		}
	}
	if len(flush) == 0 {
		return
	}
	c.out.bytes -= size
	c.give(flush, fx)
}

// mayCancel reports whether the run.cancel at the head may be written now; if
// not, the gate's timer pumps again.
func (c *Conn) mayCancel(now time.Time, run string, fx *step.Effects) bool {
	r := c.find(run)
	if r == nil || r.heard {
		return true
	}
	due := r.flushedAt.Add(c.cfg.startGap())
	if !now.Before(due) {
		return true
	}
	if !c.out.gate.Armed() {
		c.out.gate.Set(fx, "gate", run, due.Sub(now))
	}
	return false
}

// give hands a flush to the writer: run.start is accepted now.
func (c *Conn) give(flush []outFrame, fx *step.Effects) {
	frames := make([][]byte, len(flush))
	for i, f := range flush {
		frames[i] = f.bytes
	}
	c.out.flushing = true
	fx.Do(OpWrite{Frames: frames})
	for _, f := range flush {
		switch {
		case f.start != "":
			r := c.find(f.start)
			r.queued, r.accepted = false, true
			c.out.starts = append(c.out.starts, f.start)
			fx.Send(r.job, Accepted{})
		case f.call != 0:
			fx.Send(f.job, ToolSent{Call: f.call})
		}
	}
}

// flushed: the kernel has the flush.
func (c *Conn) flushed(now time.Time, fx *step.Effects) {
	c.out.flushing = false
	for _, id := range c.out.starts {
		if r := c.find(id); r != nil {
			r.flushedAt = now
		}
	}
	c.out.starts = c.out.starts[:0]
}

// toolAnswer queues mcp.response.
func (c *Conn) toolAnswer(now time.Time, from step.Ref, m ToolAnswer, fx *step.Effects) {
	if c.state != connServing {
		return
	}
	f := outFrame{bytes: c.response(m.RequestID, m.RunID, m.Request, m.Payload), call: m.Call, job: from}
	if m.Call == 0 {
		c.refuseTool(f)
	} else {
		c.out.answer(f, c.cfg.OutboundBytes)
	}
	c.pump(now, fx)
}

// response builds mcp.response within the peer's limit (protocol section 1).
func (c *Conn) response(id, run string, request, payload []byte) []byte {
	frame := wire.AppendResponse(nil, id, run, payload)
	if len(frame) <= c.peerMax {
		return frame
	}
	why := fmt.Sprintf("the tool's answer of %d bytes is above this daemon's frame limit of %d", len(payload), c.peerMax)
	frame = wire.AppendResponse(nil, id, run, wire.JSONRPCErrors(request, rpcUnavailable, why))
	if len(frame) <= c.peerMax {
		return frame
	}
	// Even the ids are too long for this peer: one error that echoes none.
	return wire.AppendResponse(nil, id, run, wire.JSONRPCErrors(nil, rpcUnavailable, why))
}

func (q *outQueue) appendState(b []byte) []byte {
	b = fmt.Appendf(b, " out=%d/%d flushing=%t starts=%q gate=%t", q.bytes, len(q.waiting), q.flushing, q.starts, q.gate.Armed())
	for _, f := range q.frames {
		b = fmt.Appendf(b, " q=%s%s/%d/%d", f.start, f.cancel, f.call, len(f.bytes))
	}
	return b
}

// maxPongs bounds the pongs that lie in the queue of a peer that asks and does
// not read.
const maxPongs = 1024

// answerPing queues daemon.pong before everything else, at once (protocol
// section 2).
func (c *Conn) answerPing() {
	n := 0 // pongs lie at the front
	for n < len(c.out.frames) && c.out.frames[n].pong {
		n++
	}
	if n < maxPongs {
		c.out.pushFirst(outFrame{bytes: wire.AppendPong(nil), pong: true})
	}
}

// refuseTool answers a tool call that no run's budget covers. To a peer that
// does not read it is not sent: nothing may grow without a bound (I14).
func (c *Conn) refuseTool(f outFrame) {
	if c.out.bytes+len(f.bytes) <= c.cfg.OutboundBytes-controlReserve {
		c.out.push(f)
	}
}
