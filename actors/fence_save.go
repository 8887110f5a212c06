package actors

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"codingrelay/lease"
	"codingrelay/step"
)

// newRaising makes the id under which the next fence would be known. It is made
// with the first lease and stored in it, so a restart shows the same one; it is
// derived, not random, so that the policy stays pure.
func (f *Fence) newRaising(run string) {
	f.raisings++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", f.key, run, f.raisings))
	f.fenceID = "fence-" + hex.EncodeToString(sum[:8])
	f.reason, f.since = "", time.Time{}
}

// write asks the store to hold the present state: a record while there are runs,
// nothing when there is none. The answer decides what is told.
func (f *Fence) write(now time.Time, after afterSave, fx *step.Effects) {
	f.become(fenceSaving)
	f.after = after
	f.question++
	f.retry.Stop(fx)
	switch {
	case len(f.runs) > 0:
		fx.Ask(f.question, OpSave{Record: f.record(now)}, f.cfg.StoreTimeout)
	case f.foreign != nil:
		// An entry that is not ours stays until an operator clears it.
		panic("actors: fence " + f.key + ": a foreign entry would be removed")
	default:
		fx.Ask(f.question, OpRemove{Key: f.key}, f.cfg.StoreTimeout)
	}
}

func (f *Fence) record(now time.Time) lease.Record {
	r := lease.Record{
		Version: lease.Version, DaemonID: f.daemonID, FenceID: f.fenceID,
		Reason: f.reason, Metadata: f.metadata, UpdatedAt: now.UTC(),
	}
	for _, run := range f.runs {
		r.Runs = append(r.Runs, run.Run)
	}
	return r
}

// answered goes on where the store's answer was awaited.
func (f *Fence) answered(now time.Time, a step.Answer, fx *step.Effects) {
	if a.Late || a.Question != f.question || f.phase != fenceSaving {
		f.lateAnswer(fx)
		return
	}
	ok := a.Err == nil
	after := f.after
	f.after = afterSave{}
	if !ok {
		fx.Do(OpObserve{Fact{Kind: FactStoreFailed, DaemonID: f.daemonID, Run: after.run, Text: a.Err.Error()}})
	}
	if after.kind == afterClear {
		f.cleared(a, fx)
		return
	}
	if after.kind == afterAcquire && !ok {
		// Nothing was granted; the record may be on disk all the same.
		if i := f.find(after.run); i >= 0 {
			f.drop(i)
		}
	}
	f.failing = !ok
	if f.failing {
		f.retry.Set(fx, "retry", f.key, f.cfg.StoreRetry)
	}
	f.settlePhase(after)
	f.tell(fx)
	f.reply(after, ok, a.Err, fx)
	f.answerAdmits(fx)
}

// settlePhase leaves saving for the state the runs are in, and makes the next
// raising's id when a fence was lifted while leases are left.
func (f *Fence) settlePhase(after afterSave) {
	unresolved := slices.ContainsFunc(f.runs, func(r fenceRun) bool { return r.Unresolved })
	switch {
	case unresolved || f.foreign != nil:
		f.become(fenceFenced)
	case len(f.runs) > 0:
		f.become(fenceLeased)
		if len(after.resolved) > 0 {
			f.newRaising(f.runs[0].RunID)
		}
	default:
		f.become(fenceClear)
		f.reason = ""
	}
}

// reply tells who asked. The hub was told before.
func (f *Fence) reply(after afterSave, ok bool, err error, fx *step.Effects) {
	durable := ok && f.durable
	switch after.kind {
	case afterAcquire:
		if ok {
			fx.Send(after.to, Granted{Durable: durable})
		} else {
			fx.Send(after.to, LeaseRefused{Err: errorf(CodeStateUnavailable, "the lease of daemon %q could not be saved, nothing was sent: %v; check the state folder", f.daemonID, err)})
		}
	case afterRelease:
		fx.Send(after.to, Released{Durable: durable})
	case afterRaise:
		fx.Send(after.to, Fenced{FenceID: f.fenceID, Durable: durable})
	default:
	}
	if len(after.resolved) > 0 {
		fx.Send(HubRef, RunsResolved{Key: f.key, Runs: after.resolved})
	}
}

func (f *Fence) cleared(a step.Answer, fx *step.Effects) {
	if a.Err != nil {
		f.become(fenceFenced)
		fx.Send(HubRef, FenceCleared{Key: f.key, Err: errorf(CodeStateUnavailable, "the fence of daemon %q stays, its record could not be moved aside: %v; check the state folder", f.name(), a.Err)})
		return
	}
	var resolved []string
	for _, r := range f.runs {
		resolved = append(resolved, r.RunID)
	}
	f.runs, f.cancelling, f.foreign, f.failing = nil, nil, nil, false
	f.become(fenceClear)
	f.reason = ""
	f.tell(fx)
	where, _ := a.Value.(string)
	fx.Send(HubRef, RunsResolved{Key: f.key, Runs: resolved})
	fx.Send(HubRef, FenceCleared{Key: f.key, Where: where})
	f.answerAdmits(fx)
}

// lateAnswer: an operation that had counted as failed has ended after all, so
// what the store holds is unknown; it is written again (design section 5). For
// an acquire that was refused this is the removal of its record.
func (f *Fence) lateAnswer(fx *step.Effects) {
	if f.foreign != nil {
		return // nothing of ours to write; the fence stays until it is cleared
	}
	f.failing = true
	f.retry.Set(fx, "retry", f.key, 0)
}

func (f *Fence) answerAdmits(fx *step.Effects) {
	if f.phase == fenceLeased {
		return
	}
	for _, p := range f.admits {
		f.answerAdmit(p.from, p.m, fx)
	}
	f.admits = nil
}

// tell gives the hub the present status, before anybody else learns of it.
func (f *Fence) tell(fx *step.Effects) { fx.Send(HubRef, FenceChanged{Status: f.status()}) }

func (f *Fence) status() FenceStatus {
	s := FenceStatus{Key: f.key, Cancelling: len(f.cancelling), Failing: f.failing}
	switch f.phase {
	case fenceLeased:
		s.Phase = PhaseLeased
	case fenceFenced:
		s.Phase = PhaseFenced
	default:
		s.Phase = PhaseClear
	}
	s.Info = FenceInfo{
		DaemonID: f.daemonID, Key: f.key, FenceID: f.fenceID, Reason: f.reason, Since: f.since,
		Durable: f.durable && !f.failing, Metadata: RawJSON(f.metadata),
	}
	for _, r := range f.runs {
		if r.Unresolved {
			s.Info.Unresolved = append(s.Info.Unresolved, FencedRun{RunID: r.RunID, Incarnation: r.Incarnation, Reason: r.Reason, At: *r.UnresolvedAt})
		}
	}
	return s
}

func (f *Fence) become(to fencePhase) { step.Become("fence "+f.key, &f.phase, to, fenceEdges) }
