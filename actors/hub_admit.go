package actors

import (
	"time"

	"codingrelay/lease"
	"codingrelay/step"
)

// helloFrom judges who may hold a daemon id (protocol section 3.2 e): a live
// connection is never silently replaced.
func (h *hubActor) helloFrom(now time.Time, from step.Ref, m Hello, fx *step.Effects) {
	if h.state != hubListening {
		fx.Send(from, CloseConn{Code: 1001, Reason: "the hub is stopping; try again later"})
		return
	}
	c := &hubConn{hello: m, ref: from, since: now}
	h.conns[m.Incarnation] = c
	h.judge(now, c, fx)
}

func (h *hubActor) judge(now time.Time, c *hubConn, fx *step.Effects) {
	id := c.hello.DaemonID
	if d := h.daemons[id]; d != nil {
		if d.admitting || d.newcomer != nil || len(h.fences[d.key].open) > 0 || now.Sub(d.probedAt) < h.cfg.ProbePause {
			h.reject(c, "daemon_id is already connected; stop the other daemon or use another id", fx)
			return
		}
		d.newcomer, d.probedAt = c, now
		fx.Send(d.conn.ref, Probe{})
		return
	}
	if len(h.daemons) >= h.cfg.MaxConnections {
		h.reject(c, "the hub is full (max connections); try again later", fx)
		return
	}
	key := lease.Key(id)
	f := h.fence(key, id, fx)
	if f.broken {
		h.reject(c, "this daemon_id is fenced until the hub restarts (internal error)", fx)
		return
	}
	f.holder = &hubDaemon{id: id, key: key, conn: c, admitting: true}
	h.daemons[id] = f.holder
	fx.Send(f.ref, Admit{Incarnation: c.hello.Incarnation, DaemonID: id, Metadata: c.hello.Metadata})
}

func (h *hubActor) reject(c *hubConn, reason string, fx *step.Effects) {
	fx.Do(OpObserve{Fact{Kind: FactRefusedHello, DaemonID: c.hello.DaemonID, Text: reason}})
	fx.Send(c.ref, Rejected{Reason: reason})
}

// probed is the holder's answer to a probe for a newcomer.
func (h *hubActor) probed(now time.Time, m Probed, fx *step.Effects) {
	c := h.conns[m.Incarnation]
	if c == nil {
		return
	}
	d := h.daemons[c.hello.DaemonID]
	if d == nil || d.conn != c || d.newcomer == nil || m.Verdict == ProbeDead {
		return // dead: the newcomer is judged again when the holder is gone
	}
	newcomer := d.newcomer
	d.newcomer = nil
	h.reject(newcomer, "daemon_id is already connected and alive; stop the other daemon or use another id", fx)
}

// admitAnswer is the fence's word on a connection.
func (h *hubActor) admitAnswer(now time.Time, m AdmitAnswer, fx *step.Effects) {
	c := h.conns[m.Incarnation]
	if c == nil {
		h.retireFence(m.Key, fx)
		return // it left meanwhile
	}
	d := h.daemons[c.hello.DaemonID]
	if d == nil || d.conn != c || !d.admitting {
		return
	}
	switch {
	case h.state != hubListening:
		h.letGo(d)
		fx.Send(c.ref, CloseConn{Code: 1001, Reason: "the hub is stopping; try again later"})
	case !m.OK:
		h.letGo(d)
		h.reject(c, fencedReason(m.Status), fx)
	default:
		d.admitting = false
		fx.Send(c.ref, Admitted{Extensions: h.ourExtensions(c.hello.Extensions)})
		fx.Do(OpObserve{Fact{Kind: FactConnected, DaemonID: d.id, Text: c.hello.Remote}})
		h.online(now, d, fx)
	}
}

func fencedReason(s FenceStatus) string {
	if s.Phase != PhaseFenced {
		return "daemon_id has unresolved runs of an earlier connection; try again later"
	}
	return "daemon_id is fenced (" + s.Info.FenceID + "): an operator must check the machine and clear it"
}

// gone: a connection has ended. The fence is told before the jobs and before the
// next hello is taken (design section 4, loss).
func (h *hubActor) gone(now time.Time, m Gone, fx *step.Effects) {
	c := h.conns[m.Incarnation]
	if c == nil {
		return
	}
	delete(h.conns, m.Incarnation)
	id := c.hello.DaemonID
	d := h.daemons[id]
	switch {
	case d == nil:
	case d.newcomer == c:
		d.newcomer = nil
	case d.conn == c:
		h.letGo(d)
		if !d.admitting {
			fx.Do(OpObserve{Fact{Kind: FactGone, DaemonID: id, Text: m.Reason}})
			fx.Send(h.fences[d.key].ref, LostLeases{Incarnation: m.Incarnation, Reason: ReasonDisconnected, Open: m.Open})
			h.tellJobs(d.key, LostConn{Reason: m.Reason}, fx)
		}
		if d.newcomer != nil && h.state == hubListening {
			h.judge(now, d.newcomer, fx)
			if again := h.daemons[id]; again != nil {
				again.probedAt = d.probedAt
			}
		}
		h.clearOn(d.key, fx)
		h.retireFence(d.key, fx)
	}
	h.stopOn(fx)
}

// letGo takes an id from its holder.
func (h *hubActor) letGo(d *hubDaemon) {
	delete(h.daemons, d.id)
	if f := h.fences[d.key]; f != nil && f.holder == d {
		f.holder = nil
	}
}

// tellJobs sends a message to every open run of a daemon id, oldest first. They
// are all on one connection: no other is admitted while one of them is leased.
func (h *hubActor) tellJobs(key string, m JobMessage, fx *step.Effects) {
	for _, id := range h.fences[key].open {
		fx.Send(h.jobs[id].ref, m)
	}
}

// blast is what a failed actor costs: its connection is closed, the fence takes
// every lease of it as unresolved, then the jobs are answered (design section 6).
func (h *hubActor) blast(now time.Time, incarnation string, connFailed bool, fx *step.Effects) {
	c := h.conns[incarnation]
	if c == nil {
		return
	}
	d := h.daemons[c.hello.DaemonID]
	if d == nil || d.conn != c {
		return
	}
	fx.Send(h.fences[d.key].ref, LostLeases{Incarnation: incarnation, Reason: ReasonInternal, All: true})
	h.tellJobs(d.key, Fail{}, fx)
	if connFailed {
		h.gone(now, Gone{Incarnation: incarnation, Reason: ReasonInternal}, fx)
		return
	}
	fx.Send(c.ref, CloseConn{Code: 1011, Reason: "internal error"})
}

func (h *hubActor) actorFailed(now time.Time, m ActorFailed, fx *step.Effects) {
	fx.Do(OpObserve{Fact{Kind: FactFailure, Text: m.Ref.String()}})
	switch m.Ref.Kind {
	case KindConn:
		h.blast(now, m.Ref.ID, true, fx)
	case KindJob:
		j := h.jobs[m.Ref.ID]
		if j == nil {
			return
		}
		if !j.ended() {
			h.blast(now, j.info.Incarnation, false, fx)
			h.jobEnded(now, JobEnded{RunID: m.Ref.ID, Outcome: Outcome{
				Result: Failed, Reason: ReasonInternal, Durable: h.durable, CreatedAt: j.info.CreatedAt, EndedAt: now,
			}}, fx)
		}
		if h.jobs[m.Ref.ID] != nil {
			h.forgetJob(j, fx)
		}
	case KindFence:
		h.fenceFailed(now, m.Ref, fx)
	}
}
