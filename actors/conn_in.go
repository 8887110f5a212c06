package actors

import (
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// inbound handles what the link put down since the last turn, frames first, in
// order: frames read before a close still count (protocol section 5).
func (c *Conn) inbound(now time.Time, m Inbound, fx *step.Effects) {
	if len(m.Frames) > 0 || m.Pong || m.Read > c.live.read {
		c.heard(now, fx)
	}
	c.live.read = max(c.live.read, m.Read)
	if m.Pong {
		c.pong()
	}
	var share shares
	for i := range m.Frames {
		share.left = len(m.Frames) - i
		c.frame(now, &m.Frames[i], &share, fx)
	}
	share.flushAll(fx)
	if m.Flushed {
		c.flushed(now, fx)
	}
	if m.Closed != nil {
		c.gone(now, *m.Closed, fx)
		return
	}
	c.pump(now, fx)
}

// shares collects each run's part of one turn, so that a run gets one batch.
type shares struct {
	list []share
	left int // how many frames of the turn are still to come, this one included
}

// fewItems is the first size of a share beside another run's.
const fewItems = 8

type share struct {
	job   step.Ref
	items []Item
}

func (s *shares) add(job step.Ref, it Item) {
	for i := range s.list {
		if s.list[i].job == job {
			s.list[i].items = append(s.list[i].items, it)
			return
		}
	}
	// Most turns are of one run: its share is made in one piece. Others grow.
	room := s.left
	if len(s.list) > 0 {
		room = min(room, fewItems)
	}
	s.list = append(s.list, share{job: job, items: append(make([]Item, 0, room), it)})
}

// flush sends one run's share; whatever follows of that run must come after it.
func (s *shares) flush(job step.Ref, fx *step.Effects) {
	for i := range s.list {
		if s.list[i].job == job && len(s.list[i].items) > 0 {
			fx.Send(job, Batch{Items: s.list[i].items})
			s.list[i].items = nil
		}
	}
}

func (s *shares) flushAll(fx *step.Effects) {
	for i := range s.list {
		s.flush(s.list[i].job, fx)
	}
}

func (c *Conn) frame(now time.Time, f *wire.Frame, s *shares, fx *step.Effects) {
	if c.state == connHello {
		c.hello(now, *f, fx)
		c.uncounted(f, fx)
		return
	}
	switch f.Type {
	case wire.DaemonPing:
		c.answerPing()
	case wire.RunEvent:
		c.event(f, s, fx)
	case wire.RunFinished:
		c.finish(now, f, s, fx)
	case wire.MCPRequest:
		c.toolRequest(f, s, fx)
	case wire.Ignored, wire.Oversize:
		c.junk(f, s, fx)
	default: // a hub's frame, or a second hello: nothing to act on
		fx.Do(OpObserve{Fact{Kind: FactFrameIgnored, DaemonID: c.daemonID, Text: "not a frame for a hub"}})
	}
}

// uncounted gives back the credit of an event that no run holds.
func (c *Conn) uncounted(f *wire.Frame, fx *step.Effects) {
	if f.Type == wire.RunEvent {
		fx.Do(OpCredit{Bytes: f.Bytes})
	}
}

// event passes an event to the run it names, if that run was given to this
// connection and still listens (I3, I8).
func (c *Conn) event(f *wire.Frame, s *shares, fx *step.Effects) {
	r := c.find(f.JobID)
	if r == nil || !r.accepted || r.over {
		c.uncounted(f, fx)
		return
	}
	r.heard = true
	it := Item{Kind: ItemEvent, Data: f.Body, Bytes: f.Bytes}
	if r.cancelled {
		c.uncounted(f, fx) // a run that is being ended holds nothing back
	} else {
		r.held += f.Bytes
		it.credit = f.Bytes
	}
	s.add(r.job, it)
}

// finish is the acknowledgement. It goes to the job, or, when the run ended
// without it, to the fence.
func (c *Conn) finish(now time.Time, f *wire.Frame, s *shares, fx *step.Effects) {
	r := c.find(f.JobID)
	if r == nil || !r.accepted {
		return
	}
	s.flush(r.job, fx)
	if r.unresolved {
		fx.Send(r.fence, LateAck{RunID: r.id})
	} else {
		fx.Send(r.job, RunFinished{Receipt: wire.ParseReceipt(*f)})
	}
	c.takeBack(r, fx)
	c.holdDone(now, r.id, fx)
	c.dropCancel(r)
	c.forget(r.id)
}

func (c *Conn) toolRequest(f *wire.Frame, s *shares, fx *step.Effects) {
	r := c.find(f.JobID)
	if r == nil || !r.accepted || r.over {
		c.refuseTool(outFrame{bytes: c.response(f.RequestID, f.JobID, f.Body, wire.JSONRPCErrors(f.Body, rpcUnavailable, "no such run is open on this connection"))})
		return
	}
	r.heard = true
	s.flush(r.job, fx)
	fx.Send(r.job, ToolCall{RequestID: f.RequestID, Payload: f.Body})
}

// junk: a message that could not be taken hurts only itself. The run it names is
// told; an oversize one that names none tells all (protocol section 1).
func (c *Conn) junk(f *wire.Frame, s *shares, fx *step.Effects) {
	fx.Do(OpObserve{Fact{Kind: FactFrameIgnored, DaemonID: c.daemonID, Run: f.JobID, Text: f.Why}})
	mark := Item{Kind: ItemDropped, Bytes: f.Bytes}
	if r := c.find(f.JobID); r != nil && f.JobID != "" {
		if r.accepted && !r.over {
			s.add(r.job, mark)
		}
		return
	}
	if f.Type != wire.Oversize || f.JobID != "" {
		return
	}
	for _, r := range c.runs {
		if r.accepted && !r.over {
			s.add(r.job, mark)
		}
	}
}
