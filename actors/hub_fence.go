package actors

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codingrelay/lease"
	"codingrelay/step"
)

// hubFence is what the hub knows of a fence actor.
type hubFence struct {
	ref    step.Ref
	status FenceStatus
	// entry is what the store held at start; the actor is spawned from it.
	entry *lease.Entry
	// broken: the actor failed, so the id is refused until restart.
	broken bool
	// holder is who holds the id; open are its open runs, oldest first.
	holder *hubDaemon
	open   []string
}

// hubClear is an operator's clear that is under way.
type hubClear struct {
	ask ClearAsk
	// closing: the connection of the unresolved runs is being closed first.
	closing bool
}

// foundFences are the fences of what the store held at start, known before the
// first message.
func foundFences(c hubConfig) map[string]*hubFence {
	fences := make(map[string]*hubFence, len(c.entries))
	for i := range c.entries {
		e := &c.entries[i]
		ref := step.Ref{Kind: KindFence, ID: fmt.Sprintf("%s-%.16s-0", c.prefix, e.Key)}
		fences[e.Key] = &hubFence{ref: ref, entry: e, status: newFence(e.Key, "", e, c.durable, c.config).status()}
	}
	return fences
}

func (h *hubActor) boot(fx *step.Effects) {
	for _, key := range sorted(h.fences) {
		f := h.fences[key]
		fx.Spawn(f.ref, newFence(key, "", f.entry, h.durable, h.cfg))
		f.entry = nil
	}
}

// fence returns the fence of an id, starting its actor if there is none.
func (h *hubActor) fence(key, daemonID string, fx *step.Effects) *hubFence {
	if f := h.fences[key]; f != nil {
		return f
	}
	h.fenceCount++
	f := &hubFence{ref: step.Ref{Kind: KindFence, ID: fmt.Sprintf("%s-%.16s-%d", h.prefix, key, h.fenceCount)}}
	f.status.Key = key
	h.fences[key] = f
	fx.Spawn(f.ref, newFence(key, daemonID, nil, h.durable, h.cfg))
	return f
}

func (h *hubActor) fenceChanged(now time.Time, m FenceChanged, fx *step.Effects) {
	f := h.fences[m.Status.Key]
	if f == nil || f.broken {
		return
	}
	was := f.status
	f.status = m.Status
	info := m.Status.Info
	isFenced := m.Status.Phase == PhaseFenced
	switch {
	case isFenced && was.Phase != PhaseFenced:
		fx.Do(OpObserve{Fact{Kind: FactFenced, DaemonID: info.DaemonID, FenceID: info.FenceID, Text: info.Reason}})
	case !isFenced && was.Phase == PhaseFenced:
		fx.Do(OpObserve{Fact{Kind: FactUnfenced, DaemonID: info.DaemonID, FenceID: was.Info.FenceID}})
	}
	if isFenced {
		for _, w := range slices.Clone(h.waiters) {
			if lease.Key(w.daemonID) == m.Status.Key {
				h.endWait(w, errFenced(w.daemonID, info.FenceID, info.Reason), fx)
			}
		}
	}
	h.retireFence(m.Status.Key, fx)
}

// retireFence ends a fence that is clear, without connection and without jobs:
// the hub alone hands out its address, so nobody can be waiting on it.
func (h *hubActor) retireFence(key string, fx *step.Effects) {
	f := h.fences[key]
	if f == nil || f.broken || f.status.Phase != PhaseClear || f.status.Failing || f.status.Cancelling > 0 || h.clears[key] != nil {
		return
	}
	if f.holder != nil || len(f.open) > 0 {
		return
	}
	fx.Send(f.ref, RetireFence{})
	delete(h.fences, key)
}

func (h *hubActor) fenceFailed(now time.Time, ref step.Ref, fx *step.Effects) {
	for _, key := range sorted(h.fences) {
		f := h.fences[key]
		if f.ref != ref {
			continue
		}
		f.broken = true
		f.status.Phase, f.status.Failing = PhaseFenced, true
		f.status.Info.Key, f.status.Info.Reason = key, ReasonInternal
		if c := h.clears[key]; c != nil {
			delete(h.clears, key)
			fx.Reply(c.ask.Token, errorf(CodeInternal, "the fence of this daemon has failed; restart the hub"))
		}
		if d := f.holder; d != nil {
			f.status.Info.DaemonID = d.id
			h.blast(now, d.conn.hello.Incarnation, false, fx)
		}
	}
}

func (h *hubActor) listFences() []FenceInfo {
	list := []FenceInfo{}
	for _, key := range sorted(h.fences) {
		if f := h.fences[key]; f.status.Phase == PhaseFenced {
			list = append(list, f.status.Info)
		}
	}
	return list
}

// clearAsk begins an operator's clear. Order: close the connection of the
// unresolved runs, remove durably, lift, audit, answer (protocol section 6).
func (h *hubActor) clearAsk(m ClearAsk, fx *step.Effects) {
	f := h.fences[m.Key]
	switch {
	case f == nil || f.status.Phase != PhaseFenced:
		fx.Reply(m.Token, errorf(CodeFenceChanged, "this daemon is not fenced (any more)"))
		return
	case f.broken:
		fx.Reply(m.Token, errorf(CodeInternal, "the fence of this daemon has failed; restart the hub, then clear it"))
		return
	case f.status.Info.FenceID != m.FenceID:
		err := errorf(CodeFenceChanged, "the daemon is fenced as %s now, not as %s; look at it again before you clear it", f.status.Info.FenceID, m.FenceID)
		err.FenceID = f.status.Info.FenceID
		fx.Reply(m.Token, err)
		return
	case h.clears[m.Key] != nil:
		fx.Reply(m.Token, errorf(CodeBusy, "this fence is being cleared already; look again in a moment"))
		return
	}
	if len(f.open) > 0 {
		fx.Reply(m.Token, errorf(CodeBusy, "other runs of this daemon are open: %s; cancel them or wait for their end, then clear the fence", strings.Join(f.open, ", ")))
		return
	}
	c := &hubClear{ask: m}
	h.clears[m.Key] = c
	if d := f.holder; d != nil && !d.admitting {
		c.closing = true
		fx.Send(d.conn.ref, CloseConn{Code: 1012, Reason: "the fence of this daemon was cleared; dial again"})
	} else {
		fx.Send(f.ref, Clear{FenceID: m.FenceID, Reason: m.Reason})
	}
}

// clearOn goes on with a clear whose connection is gone.
func (h *hubActor) clearOn(key string, fx *step.Effects) {
	if c := h.clears[key]; c != nil && c.closing {
		c.closing = false
		fx.Send(h.fences[key].ref, Clear{FenceID: c.ask.FenceID, Reason: c.ask.Reason})
	}
}

func (h *hubActor) fenceCleared(m FenceCleared, fx *step.Effects) {
	c := h.clears[m.Key]
	if c == nil {
		return
	}
	delete(h.clears, m.Key)
	if m.Err != nil {
		fx.Reply(c.ask.Token, m.Err)
		return
	}
	fx.Do(OpObserve{Fact{Kind: FactFenceCleared, DaemonID: h.fences[m.Key].status.Info.DaemonID, FenceID: c.ask.FenceID, Text: c.ask.Reason, Operator: c.ask.Operator}})
	fx.Reply(c.ask.Token, Cleared{Where: m.Where})
	h.retireFence(m.Key, fx)
}
