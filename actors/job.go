package actors

import (
	"fmt"
	"slices"
	"time"

	"codingrelay/step"
)

// jobState is the state of a job.
type jobState uint8

// The states of a job.
const (
	jobAcquiring jobState = iota
	jobDispatched
	jobRunning
	jobEnding
	jobEnded
)

var jobStateNames = [...]RunState{StateAcquiring, StateDispatched, StateRunning, StateEnding, StateEnded}

// String returns the name callers see.
func (s jobState) String() string { return string(jobStateNames[s]) }

var jobEdges = step.Edges[jobState]{
	jobAcquiring:  {jobDispatched, jobEnding, jobEnded},
	jobDispatched: {jobRunning, jobEnding, jobEnded},
	jobRunning:    {jobEnding, jobEnded},
	jobEnding:     {jobEnded},
	jobEnded:      nil,
}

// jobWait is what a job is waiting for inside a state.
type jobWait uint8

const (
	waitNothing jobWait = iota
	waitLife            // the connection's word that the peer is there
	waitGrant           // the fence's grant
	waitWriter          // run.start accepted, refused or taken out
	waitAck             // run.finished
	waitRelease         // the fence has removed the lease
	waitFence           // the fence has recorded that the run is unresolved
)

var jobWaitNames = [...]string{"nothing", "life", "grant", "writer", "ack", "release", "fence"}

// Job is the actor of one run: its state machine, its timers, its tools, its log
// and its one outcome.
//
//	           Granted              Accepted
//	acquiring ─────────▶ dispatched ─────────▶ running
//	    │ cancel, lost        │ cancel, lost      │ finished, cancel,
//	    │                     ▼                   ▼ timeout, lost
//	    └───────────────▶  ending  ◀──────────────┘
//	                          │ released, or fenced
//	                          ▼
//	refused ────────────▶   ended ── serves its log until it is retired
//
// I4: it becomes ended exactly once, with exactly one outcome, and the first
// cause names it. I5: clean needs RunFinished, or that run.start was never
// accepted. I9: tools are revoked before anything else of an end is done.
// Edges are in jobEdges; what each state does with each message is in
// testdata/job_matrix.golden.
type Job struct {
	id, daemonID string
	incarnation  string
	hub          step.Ref
	conn         step.Ref
	fence        step.Ref
	cfg          Config
	spec         RunSpec

	state jobState
	wait  jobWait
	// acquiring is set while the fence owes an answer: a grant that comes late
	// must still be released, so the actor lives until then.
	acquiring bool
	leased    bool
	accepted  bool
	takingOut bool
	told      bool // the end was told by a cause; out.Result is set
	retire    bool

	out     Outcome
	waiters []step.Token

	run, ack, bound, grace step.Alarm

	log     runLog
	freed   int // credit of what the log has taken since the last giveBack
	reading readers
	tools   toolDesk
}

// newJob makes the machine of a run that the hub placed on a connection.
func newJob(id string, spec RunSpec, incarnation string, conn, fence step.Ref, cfg Config, now time.Time) *Job {
	j := &Job{
		id: id, daemonID: spec.DaemonID, incarnation: incarnation,
		hub: HubRef, conn: conn, fence: fence, cfg: cfg, spec: spec,
		log: newRunLog(cfg.LogBytes),
	}
	j.out.CreatedAt = now
	j.reading.init(spec.Reader)
	j.tools.open = spec.HasTools
	return j
}

// Handle implements [step.Machine].
func (j *Job) Handle(now time.Time, from step.Ref, message any, fx *step.Effects) {
	switch m := message.(type) {
	case step.Boot:
		j.boot(fx)
	case step.Expired:
		j.expired(now, m.Timer, fx)
	case step.Forgotten:
		j.waiters = slices.DeleteFunc(j.waiters, func(t step.Token) bool { return t == m.Token })
		j.reading.forget(m.Token)
	case JobMessage:
		j.handle(now, m, fx)
	default:
		step.Unexpected(j.id, m)
	}
}

func (j *Job) handle(now time.Time, message JobMessage, fx *step.Effects) {
	switch m := message.(type) {
	case LifeSeen:
		j.lifeSeen(now, m, fx)
	case Granted:
		j.granted(now, m, fx)
	case LeaseRefused:
		j.leaseRefused(now, m, fx)
	case Accepted:
		j.nowAccepted(now, fx)
	case DispatchRefused:
		j.dispatchRefused(now, m, fx)
	case TakenOut:
		j.takenOut(now, fx)
	case Batch:
		j.batch(now, m, fx)
	case RunFinished:
		j.finished(now, m, fx)
	case ToolCall:
		j.toolCall(m, fx)
	case ToolResult:
		j.toolResult(m, fx)
	case ToolSent:
		j.tools.sent(m.Call)
	case HoldOver:
		j.holdOver(now, fx)
	case LostConn:
		j.lostConn(now, m, fx)
	case Released:
		j.released(now, m, fx)
	case Fenced:
		j.fenced(now, m, fx)
	case StopRun:
		j.end(now, Cancelled, ReasonHubStopping, fx)
	case Fail:
		j.fail(now, fx)
	case Resolved:
		j.resolved(now, fx)
	case Retire:
		j.retireNow(fx)
	default:
		j.handleCaller(now, message, fx)
	}
}

func (j *Job) handleCaller(now time.Time, message JobMessage, fx *step.Effects) {
	switch m := message.(type) {
	case CancelAsk:
		if j.state == jobEnded {
			fx.Reply(m.Token, j.out)
			return
		}
		j.waiters = append(j.waiters, m.Token)
		j.end(now, Cancelled, "", fx)
	case OutcomeAsk:
		if j.state == jobEnded {
			fx.Reply(m.Token, j.out)
			return
		}
		j.waiters = append(j.waiters, m.Token)
	case InfoAsk:
		fx.Reply(m.Token, j.info())
	case Attach:
		j.attach(now, m, fx)
	case Detach:
		j.detach(now, m.Reader, fx)
	case ReadAsk:
		j.read(now, m, fx)
	default:
		step.Unexpected(j.id, m)
	}
}

func (j *Job) boot(fx *step.Effects) {
	j.wait = waitLife
	fx.Send(j.conn, Life{RunID: j.id})
	// The connection answers within LifeTimeout or the hub says that it is lost;
	// this bound only keeps the promise of I12 if neither came.
	j.bound.Set(fx, "bound", j.id, 2*j.cfg.LifeTimeout+j.cfg.AcquireTimeout)
}

func (j *Job) lifeSeen(now time.Time, m LifeSeen, fx *step.Effects) {
	if j.wait != waitLife {
		return
	}
	if j.state == jobEnding {
		j.settle(now, true, fx)
		return
	}
	if !m.OK {
		j.refuse(now, errOffline(j.daemonID), fx)
		return
	}
	j.wait, j.acquiring = waitGrant, true
	fx.Send(j.fence, Acquire{RunID: j.id, Incarnation: j.incarnation})
	j.bound.Set(fx, "bound", j.id, j.cfg.AcquireTimeout)
}

func (j *Job) granted(now time.Time, m Granted, fx *step.Effects) {
	j.acquiring = false
	j.out.Durable = m.Durable
	if j.wait != waitGrant {
		// Too late: the run was refused meanwhile. Nothing was sent.
		fx.Send(j.fence, Release{RunID: j.id})
		j.retireIfDue(fx)
		return
	}
	j.leased = true
	if j.state == jobEnding {
		j.release(fx)
		return
	}
	j.become(jobDispatched)
	j.wait = waitWriter
	fx.Send(j.conn, Dispatch{RunID: j.id, Fence: j.fence, Payload: j.spec.Payload})
	j.spec.Payload = nil
	j.bound.Set(fx, "bound", j.id, j.cfg.DispatchTimeout)
}

func (j *Job) leaseRefused(now time.Time, m LeaseRefused, fx *step.Effects) {
	j.acquiring = false
	switch {
	case j.wait != waitGrant:
		j.retireIfDue(fx)
	case j.state == jobEnding:
		j.settle(now, true, fx)
	default:
		j.refuse(now, m.Err, fx)
	}
}

// nowAccepted: run.start was given to the writer. From here only run.finished
// releases the lease (design section 4).
func (j *Job) nowAccepted(now time.Time, fx *step.Effects) {
	j.accepted = true
	started := now
	j.out.StartedAt = &started
	fx.Do(OpObserve{Fact{Kind: FactRunStarted, DaemonID: j.daemonID, Run: j.id}})
	if j.state != jobDispatched {
		return // a cancel is under way; it has given its CancelRun already
	}
	j.become(jobRunning)
	j.wait = waitNothing
	j.bound.Stop(fx)
	if j.spec.Timeout > 0 {
		j.run.Set(fx, "run", j.id, j.spec.Timeout)
	}
	fx.Send(j.hub, JobStarted{RunID: j.id})
}

func (j *Job) dispatchRefused(now time.Time, m DispatchRefused, fx *step.Effects) {
	switch j.state {
	case jobDispatched:
		j.refuseLeased(now, m.Err, fx)
	case jobEnding:
		if j.wait == waitAck {
			j.release(fx)
		}
	default: // a refusal of a run that has ended says nothing new
	}
}

func (j *Job) takenOut(now time.Time, fx *step.Effects) {
	switch j.state {
	case jobDispatched:
		j.refuseLeased(now, errorf(CodeBusy, "the connection of daemon %q takes no data (outbound queue); try again later", j.daemonID), fx)
	case jobEnding:
		if j.wait == waitAck {
			j.release(fx)
		}
	default:
	}
}

// refuse ends a run of which nothing was kept and nothing was sent.
func (j *Job) refuse(now time.Time, err *Error, fx *step.Effects) {
	j.nameRefusal(err)
	j.settle(now, true, fx)
}

// refuseLeased ends a run that was never sent but holds a lease.
func (j *Job) refuseLeased(now time.Time, err *Error, fx *step.Effects) {
	j.nameRefusal(err)
	j.beginEnding(now, fx)
	j.release(fx)
}

func (j *Job) nameRefusal(err *Error) {
	j.told = true
	j.out.Result, j.out.Code, j.out.Message, j.out.FenceID = Refused, err.Code, err.Message, err.FenceID
}

func (j *Job) expired(now time.Time, t step.Timer, fx *step.Effects) {
	switch {
	case j.run.Fired(t):
		j.end(now, TimedOut, "", fx)
	case j.ack.Fired(t):
		if j.state == jobEnding && j.wait == waitAck {
			j.unresolved(ReasonCancelTimeout, fx)
		}
	case j.bound.Fired(t):
		j.boundPassed(now, fx)
	case j.grace.Fired(t):
		if j.spec.OnCallerEnd == CallerEndCancel {
			j.end(now, Cancelled, ReasonCallerGone, fx)
		}
	}
}

// boundPassed keeps every wait finite (I12).
func (j *Job) boundPassed(now time.Time, fx *step.Effects) {
	switch j.wait {
	case waitLife:
		if j.state == jobEnding {
			j.settle(now, true, fx)
			return
		}
		j.refuse(now, errOffline(j.daemonID), fx)
	case waitGrant:
		if j.state == jobEnding {
			j.settle(now, true, fx)
			return
		}
		j.refuse(now, errorf(CodeStateUnavailable, "the lease of daemon %q was not saved in time; nothing was sent; check the state folder", j.daemonID), fx)
	case waitWriter:
		if !j.takingOut {
			j.takingOut = true
			fx.Send(j.conn, TakeOut{RunID: j.id})
		}
	case waitRelease:
		j.out.Durable = false
		j.settle(now, true, fx)
	case waitFence:
		j.out.Durable = false
		j.settle(now, false, fx)
	default:
	}
}

func (j *Job) become(to jobState) { step.Become("job "+j.id, &j.state, to, jobEdges) }

func (j *Job) info() RunInfo {
	i := RunInfo{
		RunID: j.id, DaemonID: j.daemonID, Incarnation: j.incarnation,
		State: RunState(j.state.String()), CreatedAt: j.out.CreatedAt, TimeoutMS: j.spec.Timeout.Milliseconds(), Events: j.log.last(),
	}
	if j.state == jobEnded {
		out := j.out
		i.Outcome = &out
	}
	return i
}

// AppendState implements [step.Machine].
func (j *Job) AppendState(b []byte) []byte {
	b = fmt.Appendf(b, "job %s %s wait=%s", j.id, j.state, jobWaitNames[j.wait])
	b = fmt.Appendf(b, " acq=%t leased=%t acc=%t out=%t told=%t retire=%t", j.acquiring, j.leased, j.accepted, j.takingOut, j.told, j.retire)
	b = fmt.Appendf(b, " result=%s/%s clean=%t durable=%t dropped=%d", j.out.Result, j.out.Reason, j.out.Clean, j.out.Durable, j.out.Dropped)
	b = fmt.Appendf(b, " timers=%t%t%t%t waiters=%d", j.run.Armed(), j.ack.Armed(), j.bound.Armed(), j.grace.Armed(), len(j.waiters))
	b = fmt.Appendf(b, " log=%d-%d/%d/%x", j.log.first(), j.log.last(), j.log.bytes, j.log.hash)
	b = j.reading.appendState(b)
	return j.tools.appendState(b)
}

var _ step.Machine = (*Job)(nil)
