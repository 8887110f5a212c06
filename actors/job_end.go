package actors

import (
	"fmt"
	"time"

	"codingrelay/step"
)

// end begins to end a run for a cause. The first cause names the outcome; what
// comes later changes nothing (protocol section 5).
func (j *Job) end(now time.Time, result Result, reason string, fx *step.Effects) {
	if j.told || j.state == jobEnded {
		return
	}
	j.told = true
	j.out.Result, j.out.Reason = result, reason
	switch j.state {
	case jobAcquiring:
		// Nothing was sent. The question under way is answered or bounded.
		j.beginEnding(now, fx)
	case jobDispatched, jobRunning:
		j.beginEnding(now, fx)
		j.wait = waitAck
		j.bound.Stop(fx)
		fx.Send(j.fence, Cancelling{RunID: j.id})
		fx.Send(j.conn, CancelRun{RunID: j.id})
		j.ack.Set(fx, "ack", j.id, j.cfg.CancelTimeout)
	default:
	}
}

// beginEnding is the one way into ending: tools are revoked before anything else
// (I9), nothing is held back any more.
func (j *Job) beginEnding(now time.Time, fx *step.Effects) {
	j.revokeTools(fx)
	j.become(jobEnding)
	at := now
	j.out.EndingAt = &at
	j.run.Stop(fx)
	j.grace.Stop(fx)
	fx.Send(j.hub, JobEnding{RunID: j.id})
	j.flushPending(fx)
}

// finished is the owner's run.finished: the run is over and all of it is gone.
func (j *Job) finished(now time.Time, m RunFinished, fx *step.Effects) {
	switch {
	case j.state == jobRunning:
		j.told = true
		j.out.Result = Finished
		j.out.Receipt = m.Receipt
		j.beginEnding(now, fx)
		j.release(fx)
	case j.state == jobEnding && j.wait == waitAck:
		j.out.Receipt = m.Receipt
		j.ack.Stop(fx)
		j.release(fx)
	case j.state == jobEnding && j.wait == waitFence, j.state == jobEnded && j.accepted && !j.out.Clean:
		// Too late to be clean (I5): the outcome stands, but the fence learns of it.
		if j.out.Receipt == nil {
			j.out.Receipt = m.Receipt
		}
		fx.Send(j.fence, LateAck{RunID: j.id})
	default: // a duplicate
	}
}

// release gives the lease back and waits until the fence has done so.
func (j *Job) release(fx *step.Effects) {
	j.wait = waitRelease
	fx.Send(j.fence, Release{RunID: j.id})
	j.bound.Set(fx, "bound", j.id, 2*j.cfg.StoreTimeout)
}

func (j *Job) released(now time.Time, m Released, fx *step.Effects) {
	if j.wait == waitRelease {
		j.out.Durable = m.Durable
		j.settle(now, true, fx)
	}
}

// unresolved asks the fence to record that the run's end is not confirmed.
func (j *Job) unresolved(reason string, fx *step.Effects) {
	j.wait = waitFence
	if j.out.Reason == "" || j.out.Result != Disconnected {
		j.out.Reason = joinReason(j.out.Reason, reason)
	}
	j.ack.Stop(fx)
	fx.Send(j.fence, Unresolved{RunID: j.id, Reason: reason})
	j.bound.Set(fx, "bound", j.id, 2*j.cfg.StoreTimeout)
}

// joinReason keeps why a run was ended beside why that could not be confirmed.
func joinReason(first, then string) string {
	if first == "" || first == then {
		return then
	}
	return first + ", " + then
}

func (j *Job) fenced(now time.Time, m Fenced, fx *step.Effects) {
	if j.wait == waitFence {
		j.out.Durable, j.out.FenceID = m.Durable, m.FenceID
		j.settle(now, false, fx)
	}
}

// lostConn: the connection is gone, after its last frame and every Accepted.
func (j *Job) lostConn(now time.Time, m LostConn, fx *step.Effects) {
	switch j.state {
	case jobAcquiring:
		if j.wait == waitLife {
			j.refuse(now, errOffline(j.daemonID), fx)
			return
		}
		// The grant may come; then it is released.
		j.nameRefusal(errOffline(j.daemonID))
		j.beginEnding(now, fx)
	case jobDispatched:
		j.refuseLeased(now, errOffline(j.daemonID), fx)
	case jobRunning:
		j.told = true
		j.out.Result, j.out.Reason = Disconnected, ReasonDisconnected
		j.take(Item{Kind: ItemHub, Data: j.disconnectEvent()})
		j.beginEnding(now, fx)
		j.unresolved(ReasonDisconnected, fx)
	case jobEnding:
		j.lostWhileEnding(now, fx)
	case jobEnded:
	}
}

func (j *Job) lostWhileEnding(now time.Time, fx *step.Effects) {
	switch {
	case j.wait == waitLife:
		j.settle(now, true, fx)
	case j.wait == waitAck && j.accepted:
		j.unresolved(ReasonDisconnected, fx)
	case j.wait == waitAck:
		j.release(fx) // it was never sent
	}
}

// disconnectEvent is the synthetic event of protocol section 5, word for word.
func (j *Job) disconnectEvent() []byte {
	return fmt.Appendf(nil, `{"type":"run.failed","data":{"error":"daemon disconnected; remote cleanup unconfirmed, target fenced","code":%s,"retryable":false}}`,
		quoteJSON(j.cfg.ErrorPrefix+"."+string(CodeDisconnected)))
}

// fail ends a run at once because an actor it needs has failed (design section 6).
func (j *Job) fail(now time.Time, fx *step.Effects) {
	if j.state == jobEnded {
		return
	}
	if !j.told {
		j.told = true
		j.out.Result = Failed
	}
	j.out.Reason = joinReason(j.out.Reason, ReasonInternal)
	if j.state != jobEnding {
		j.beginEnding(now, fx)
	}
	// The lease, if there is one, stays on disk and is the fence after a restart.
	j.out.Durable = j.out.Durable && j.leased
	j.settle(now, !j.leased && !j.acquiring, fx)
}

// settle is the one way into ended (I4): the outcome is complete and everybody
// who waits is told.
func (j *Job) settle(now time.Time, clean bool, fx *step.Effects) {
	for _, a := range []*step.Alarm{&j.run, &j.ack, &j.bound, &j.grace} {
		a.Stop(fx)
	}
	if j.state != jobEnding {
		j.revokeTools(fx)
	}
	j.become(jobEnded)
	j.wait = waitNothing
	j.flushPending(fx)
	j.spec.Payload = nil
	j.out.Clean = clean
	j.out.EndedAt = now
	j.out.Events = j.log.last()
	out := j.out
	fx.Do(OpObserve{Fact{Kind: FactRunEnded, DaemonID: j.daemonID, Run: j.id, FenceID: out.FenceID, Text: out.Reason, Outcome: &out}})
	if j.leased {
		fx.Send(j.conn, RunOver{RunID: j.id, Unresolved: !clean && j.accepted})
	}
	fx.Send(j.hub, JobEnded{RunID: j.id, Outcome: out, LogBytes: j.log.bytes})
	for _, t := range j.waiters {
		fx.Reply(t, out)
	}
	j.waiters = nil
	j.serveReaders(fx)
}

func (j *Job) resolved(now time.Time, fx *step.Effects) {
	if j.state != jobEnded || j.out.Clean || j.out.ResolvedAt != nil {
		return
	}
	at := now
	j.out.ResolvedAt = &at
}

func (j *Job) retireNow(fx *step.Effects) {
	j.retire = true
	j.retireIfDue(fx)
}

// retireIfDue ends the actor of an ended run once nobody owes it an answer that
// it must act on.
func (j *Job) retireIfDue(fx *step.Effects) {
	if j.retire && j.state == jobEnded && !j.acquiring {
		fx.End()
	}
}
