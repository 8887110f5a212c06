package actors

import (
	"fmt"
	"slices"
	"time"

	"codingrelay/lease"
	"codingrelay/step"
)

// fencePhase is the state of a fence.
type fencePhase uint8

const (
	fenceClear fencePhase = iota
	fenceLeased
	fenceFenced
	fenceSaving // a change waits for the store; the executor puts other mail aside
)

var fencePhaseNames = [...]string{"clear", "leased", "fenced", "saving"}

// String returns the state's name.
func (p fencePhase) String() string { return fencePhaseNames[p] }

var fenceEdges = step.Edges[fencePhase]{
	fenceClear:  {fenceSaving},
	fenceLeased: {fenceSaving},
	fenceFenced: {fenceSaving},
	fenceSaving: {fenceClear, fenceLeased, fenceFenced},
}

// Fence is the actor of one daemon id: whether a connection may be admitted,
// whether a run may start, and every durable record about the id, in order.
//
//	        Acquire, saved              Unresolved, LostLeases
//	clear ─────────────────▶ leased ─────────────────────────▶ fenced
//	  ▲                        │ ▲                               │
//	  │  last Release          │ │  last LateAck, leases left    │
//	  ├────────────────────────┘ └───────────────────────────────┤
//	  │        last LateAck, none left; Clear; Release           │
//	  └──────────────────────────────────────────────────────────┘
//
// Every arrow passes through saving: nothing is granted, told or released on the
// strength of having asked the store. I2: a grant follows a durable record. I7:
// the record of a lease already is the fence of a restarted hub. I11: only late
// acknowledgement of all its runs, or an operator who named it, lifts a fence.
// Edges are in fenceEdges; the matrix is testdata/fence_matrix.golden.
type Fence struct {
	key      string
	daemonID string
	cfg      Config
	durable  bool // what the store says of itself

	phase fencePhase
	runs  []fenceRun
	// cancelling are the runs whose acknowledgement is awaited: nothing is
	// granted while there is one.
	cancelling []string
	// foreign is an entry found at start that names no runs of ours.
	foreign *lease.Entry

	fenceID  string
	raisings int
	reason   string
	since    time.Time
	metadata []byte

	// after is what to do when the store has answered question.
	after    afterSave
	question uint64
	// failing is set while the store does not hold what it should.
	failing bool
	retry   step.Alarm
	// admits wait for leases that are about to be released.
	admits []pendingAdmit
}

// fenceRun is one lease.
type fenceRun struct {
	lease.Run
	job step.Ref
	// settling: its connection is gone, but it was finished or never sent; its
	// job is about to release it.
	settling bool
}

type pendingAdmit struct {
	from step.Ref
	m    Admit
}

// afterSave is the continuation of a question to the store.
type afterSave struct {
	kind     afterKind
	run      string
	to       step.Ref
	resolved []string
}

type afterKind uint8

const (
	afterNothing afterKind = iota
	afterAcquire
	afterRelease
	afterRaise
	afterLoss
	afterLateAck
	afterClear
	afterRetry
)

// NewFence makes the machine of one daemon id. entry is what the store held at
// start, or nil; whatever it is, it is a fence.
func newFence(key, daemonID string, entry *lease.Entry, durable bool, cfg Config) *Fence {
	f := &Fence{key: key, daemonID: daemonID, cfg: cfg, durable: durable}
	if entry == nil {
		return f
	}
	f.phase, f.since = fenceFenced, entry.ModTime
	f.fenceID, f.daemonID = entry.FenceID, entry.DaemonID
	if entry.Record == nil {
		f.foreign = entry
		f.reason = entry.Problem
		return f
	}
	f.adopt(entry.Record)
	return f
}

// adopt takes over the record of an earlier hub: every run in it is unresolved.
func (f *Fence) adopt(r *lease.Record) {
	f.reason, f.metadata, f.since = r.Reason, r.Metadata, r.UpdatedAt
	if f.reason == "" {
		f.reason = ReasonHubCrashed
	}
	for _, run := range r.Runs {
		if !run.Unresolved {
			at := r.UpdatedAt
			run.Unresolved, run.Reason, run.UnresolvedAt = true, ReasonHubCrashed, &at
		}
		f.runs = append(f.runs, fenceRun{Run: run})
	}
}

// Handle implements [step.Machine].
func (f *Fence) Handle(now time.Time, from step.Ref, message any, fx *step.Effects) {
	switch m := message.(type) {
	case step.Boot:
		if f.phase == fenceFenced {
			f.tell(fx)
		}
	case step.Answer:
		f.answered(now, m, fx)
	case step.Expired:
		if f.retry.Fired(m.Timer) {
			f.write(now, afterSave{kind: afterRetry}, fx)
		}
	case step.Forgotten: // nobody waits for a fence
	case FenceMessage:
		f.handle(now, from, m, fx)
	default:
		step.Unexpected("fence "+f.key, m)
	}
}

func (f *Fence) handle(now time.Time, from step.Ref, message FenceMessage, fx *step.Effects) {
	switch m := message.(type) {
	case Admit:
		f.admit(from, m, fx)
	case Acquire:
		f.acquire(now, from, m, fx)
	case Release:
		f.release(now, from, m, fx)
	case Cancelling:
		f.beginCancelling(m, fx)
	case Unresolved:
		f.unresolved(now, from, m, fx)
	case LostLeases:
		f.lost(now, m, fx)
	case LateAck:
		f.lateAck(now, m, fx)
	case Clear:
		f.clear(now, m, fx)
	case RetireFence:
		if m.Force || f.phase == fenceClear && !f.failing && len(f.admits) == 0 {
			fx.End()
		}
	default:
		step.Unexpected("fence "+f.key, m)
	}
}

// admit answers whether a connection may be admitted: only when clear. Leases
// that are about to be released are waited for, so that a run.finished followed
// at once by a close and a new dial is not refused (protocol section 4.6).
func (f *Fence) admit(from step.Ref, m Admit, fx *step.Effects) {
	if f.phase == fenceLeased && !slices.ContainsFunc(f.runs, func(r fenceRun) bool { return !r.settling }) {
		f.admits = append(f.admits, pendingAdmit{from, m})
		return
	}
	f.answerAdmit(from, m, fx)
}

func (f *Fence) answerAdmit(to step.Ref, m Admit, fx *step.Effects) {
	ok := f.phase == fenceClear
	if ok {
		f.daemonID, f.metadata = m.DaemonID, m.Metadata
	}
	fx.Send(to, AdmitAnswer{Key: f.key, Incarnation: m.Incarnation, OK: ok, Status: f.status()})
}

func (f *Fence) acquire(now time.Time, from step.Ref, m Acquire, fx *step.Effects) {
	refuse := func(err *Error) { fx.Send(from, LeaseRefused{Err: err}) }
	switch {
	case f.phase == fenceFenced:
		refuse(errFenced(f.daemonID, f.fenceID, f.reason))
		return
	case len(f.cancelling) > 0:
		refuse(errCancelling(f.daemonID))
		return
	}
	for _, r := range f.runs {
		if r.Incarnation != m.Incarnation {
			refuse(errOffline(f.daemonID))
			return
		}
	}
	if len(f.runs) == 0 {
		f.newRaising(m.RunID)
	}
	f.runs = append(f.runs, fenceRun{
		Run: lease.Run{RunID: m.RunID, Incarnation: m.Incarnation, LeasedAt: now.UTC()}, job: from,
	})
	f.write(now, afterSave{kind: afterAcquire, run: m.RunID, to: from}, fx)
}

func (f *Fence) release(now time.Time, from step.Ref, m Release, fx *step.Effects) {
	i := f.find(m.RunID)
	if i < 0 {
		fx.Send(from, Released{Durable: f.durable && !f.failing})
		return
	}
	var resolved []string
	if f.runs[i].Unresolved {
		resolved = []string{m.RunID}
	}
	f.drop(i)
	f.write(now, afterSave{kind: afterRelease, run: m.RunID, to: from, resolved: resolved}, fx)
}

func (f *Fence) beginCancelling(m Cancelling, fx *step.Effects) {
	i := f.find(m.RunID)
	if i < 0 || f.runs[i].Unresolved || slices.Contains(f.cancelling, m.RunID) {
		return
	}
	f.cancelling = append(f.cancelling, m.RunID)
	f.tell(fx)
}

// unresolved raises the fence. It stands in memory at once; the lease that is
// already durable is the fence on disk, and the save adds reason and evidence.
func (f *Fence) unresolved(now time.Time, from step.Ref, m Unresolved, fx *step.Effects) {
	i := f.find(m.RunID)
	if i < 0 || f.runs[i].Unresolved {
		fx.Send(from, Fenced{FenceID: f.fenceID, Durable: f.durable && !f.failing})
		return
	}
	f.mark(now, i, m.Reason)
	f.write(now, afterSave{kind: afterRaise, run: m.RunID, to: from}, fx)
}

func (f *Fence) mark(now time.Time, i int, reason string) {
	at := now.UTC()
	r := &f.runs[i]
	r.Unresolved, r.Reason, r.UnresolvedAt, r.settling = true, reason, &at, false
	f.uncancel(r.RunID)
	if f.reason == "" {
		f.reason, f.since = reason, at
	}
}

// lost marks what may still be alive on a lost connection, without waiting for
// the jobs (design section 4). Leases of runs that were finished or never sent
// are released by their jobs at once, and the fence waits for that.
func (f *Fence) lost(now time.Time, m LostLeases, fx *step.Effects) {
	marked := false
	for i := range f.runs {
		r := &f.runs[i]
		if r.Incarnation != m.Incarnation || r.Unresolved {
			continue
		}
		if m.All || slices.Contains(m.Open, r.RunID) {
			f.mark(now, i, m.Reason)
			marked = true
		} else {
			r.settling = true
		}
	}
	if marked {
		f.write(now, afterSave{kind: afterLoss}, fx)
	}
}

func (f *Fence) lateAck(now time.Time, m LateAck, fx *step.Effects) {
	i := f.find(m.RunID)
	if i < 0 {
		return
	}
	f.drop(i)
	f.write(now, afterSave{kind: afterLateAck, run: m.RunID, resolved: []string{m.RunID}}, fx)
}

// clear is an operator's word. It names the raising it means (I11).
func (f *Fence) clear(now time.Time, m Clear, fx *step.Effects) {
	var err *Error
	switch {
	case f.phase != fenceFenced:
		err = errorf(CodeFenceChanged, "daemon %q is not fenced (any more)", f.name())
	case m.FenceID != f.fenceID:
		err = errorf(CodeFenceChanged, "daemon %q is fenced as %s now, not as %s; look at it again before you clear it", f.name(), f.fenceID, m.FenceID)
		err.FenceID = f.fenceID
	default:
		f.become(fenceSaving)
		f.after = afterSave{kind: afterClear}
		f.question++
		fx.Ask(f.question, OpArchive{Key: f.key}, f.cfg.StoreTimeout)
		return
	}
	fx.Send(HubRef, FenceCleared{Key: f.key, Err: err})
}

func (f *Fence) find(run string) int {
	return slices.IndexFunc(f.runs, func(r fenceRun) bool { return r.RunID == run })
}

func (f *Fence) drop(i int) {
	f.uncancel(f.runs[i].RunID)
	f.runs = slices.Delete(f.runs, i, i+1)
}

func (f *Fence) uncancel(run string) {
	f.cancelling = slices.DeleteFunc(f.cancelling, func(id string) bool { return id == run })
}

// name is the id, or the hash where the id is not known.
func (f *Fence) name() string {
	if f.daemonID == "" {
		return "sha256:" + f.key
	}
	return f.daemonID
}

// AppendState implements [step.Machine].
func (f *Fence) AppendState(b []byte) []byte {
	b = fmt.Appendf(b, "fence %s %s id=%s raisings=%d reason=%q failing=%t retry=%t", f.key, f.phase, f.fenceID, f.raisings, f.reason, f.failing, f.retry.Armed())
	for _, r := range f.runs {
		b = fmt.Appendf(b, " run=%s@%s/%t/%t", r.RunID, r.Incarnation, r.Unresolved, r.settling)
	}
	return fmt.Appendf(b, " cancelling=%q foreign=%t after=%d/%s admits=%d", f.cancelling, f.foreign != nil, f.after.kind, f.after.run, len(f.admits))
}

var _ step.Machine = (*Fence)(nil)
