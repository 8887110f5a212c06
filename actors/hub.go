package actors

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"codingrelay/lease"
	"codingrelay/step"
	"codingrelay/wire"
)

// hubState is the state of the hub.
type hubState uint8

const (
	hubIdle hubState = iota // started, not listening
	hubListening
	hubStopping // the door is closed; runs are being ended
	hubClosing  // the runs have ended; sockets are being closed
	hubStopped
)

var hubStateNames = [...]string{"idle", "listening", "stopping", "closing", "stopped"}

// String returns the state's name.
func (s hubState) String() string { return hubStateNames[s] }

var hubEdges = step.Edges[hubState]{
	hubIdle:      {hubListening, hubStopping},
	hubListening: {hubStopping},
	hubStopping:  {hubClosing},
	hubClosing:   {hubStopped},
	hubStopped:   nil,
}

// hubActor is the one actor that decides who is connected under which id, which
// runs exist and where, and who replaces whom.
//
//	idle ──▶ listening ──▶ stopping ──▶ closing ──▶ stopped
//	  └──────────────────────▲
//
// I1: an id has at most one connection; a second is refused, or the first is
// proven dead before. I10: starts are serialized here. It learns which ids are
// fenced from the fences and asks them before it admits anybody. Edges are in
// hubEdges; the matrix is testdata/hub_matrix.golden.
type hubActor struct {
	cfg     Config
	durable bool
	prefix  string // makes the addresses of fences unique over restarts

	state    hubState
	listen   ListenConfig
	addr     string
	opening  step.Token // the ListenAsk whose answer is awaited
	question uint64

	conns   map[string]*hubConn   // by incarnation, from their hello on
	daemons map[string]*hubDaemon // by daemon id: who holds it
	fences  map[string]*hubFence  // by key
	jobs    map[string]*hubJob    // by run id
	ended   []string              // ids of the ended ones that are kept, in order of their end
	keys    map[string]string     // idempotency key to run id
	waiters []*hubWaiter
	clears  map[string]*hubClear
	stops   []step.Token

	open          int    // runs that have not ended
	placed        uint64 // runs so far; numbers them
	retainedBytes int
	waitingBytes  int // payloads of runs that wait for their daemon
	retention     step.Alarm
	fenceCount    int
}

// hubConn is a connection from its hello on.
type hubConn struct {
	hello Hello
	ref   step.Ref
	since time.Time
}

// hubDaemon is who holds a daemon id.
type hubDaemon struct {
	id   string
	key  string
	conn *hubConn
	// admitting: the fence's word is awaited.
	admitting bool
	// newcomer waits for the verdict of a probe of the holder.
	newcomer *hubConn
	probedAt time.Time
}

// hubJob is what the hub knows of a run.
type hubJob struct {
	ref     step.Ref
	info    RunInfo
	key     string // of the daemon
	number  uint64
	started bool
	asking  []step.Token // RunAsks that wait for the start
	idem    string
	hash    string
	bytes   int
}

func (j *hubJob) ended() bool { return j.info.State == StateEnded }

// hubWaiter is a RunAsk or WaitAsk that waits for a daemon.
type hubWaiter struct {
	daemonID string
	token    step.Token
	run      *RunAsk
	alarm    step.Alarm
}

func newHub(c hubConfig) *hubActor {
	return &hubActor{
		cfg: c.config, durable: c.durable, prefix: c.prefix,
		conns: make(map[string]*hubConn), daemons: make(map[string]*hubDaemon),
		fences: foundFences(c), jobs: make(map[string]*hubJob),
		keys: make(map[string]string), clears: make(map[string]*hubClear),
	}
}

// Handle implements [step.Machine].
func (h *hubActor) Handle(now time.Time, from step.Ref, message any, fx *step.Effects) {
	switch m := message.(type) {
	case step.Boot:
		h.boot(fx)
	case step.Answer:
		h.opened(m, fx)
	case step.Expired:
		h.expired(now, m.Timer, fx)
	case step.Forgotten:
		h.forgotten(m.Token, fx)
	case HubMessage:
		h.handle(now, from, m, fx)
	default:
		step.Unexpected("hub", m)
	}
}

func (h *hubActor) handle(now time.Time, from step.Ref, message HubMessage, fx *step.Effects) {
	switch m := message.(type) {
	case Hello:
		h.helloFrom(now, from, m, fx)
	case Gone:
		h.gone(now, m, fx)
	case Probed:
		h.probed(now, m, fx)
	case AdmitAnswer:
		h.admitAnswer(now, m, fx)
	case FenceChanged:
		h.fenceChanged(now, m, fx)
	case RunsResolved:
		for _, run := range m.Runs {
			if j := h.jobs[run]; j != nil {
				fx.Send(j.ref, Resolved{})
			}
		}
	case FenceCleared:
		h.fenceCleared(m, fx)
	case JobStarted:
		h.jobStarted(m, fx)
	case JobEnding:
		if j := h.jobs[m.RunID]; j != nil && !j.ended() {
			j.info.State = StateEnding
		}
	case JobEnded:
		h.jobEnded(now, m, fx)
	case ActorFailed:
		h.actorFailed(now, m, fx)
	default:
		h.handleCaller(now, message, fx)
	}
}

func (h *hubActor) handleCaller(now time.Time, message HubMessage, fx *step.Effects) {
	switch m := message.(type) {
	case ListenAsk:
		h.listenAsk(m, fx)
	case RunAsk:
		h.runAsk(now, m, fx)
	case WaitAsk:
		h.waitAsk(m, fx)
	case ForgetAsk:
		h.forgetAsk(m, fx)
	case DaemonsAsk:
		fx.Reply(m.Token, h.listDaemons())
	case RunsAsk:
		runs := make([]RunInfo, 0, len(h.jobs))
		for _, j := range h.byAge() {
			runs = append(runs, j.info)
		}
		fx.Reply(m.Token, runs)
	case RunFind:
		if j := h.jobs[m.RunID]; j != nil {
			fx.Reply(m.Token, Placed{Job: j.ref, Info: j.info})
			return
		}
		fx.Reply(m.Token, errorf(CodeRunNotFound, "run %q is not known (any more)", m.RunID))
	case FencesAsk:
		fx.Reply(m.Token, h.listFences())
	case StatusAsk:
		fx.Reply(m.Token, h.status())
	case ClearAsk:
		h.clearAsk(m, fx)
	case StopAsk:
		h.stopAsk(m, fx)
	default:
		step.Unexpected("hub", m)
	}
}

func (h *hubActor) expired(now time.Time, t step.Timer, fx *step.Effects) {
	if h.retention.Fired(t) {
		h.sweep(now, fx)
		return
	}
	for _, w := range h.waiters {
		if w.alarm.Fired(t) {
			h.endWait(w, errOffline(w.daemonID), fx)
			return
		}
	}
}

// byAge lists all runs, oldest first.
func (h *hubActor) byAge() []*hubJob {
	return slices.SortedFunc(maps.Values(h.jobs), func(a, b *hubJob) int { return cmp.Compare(a.number, b.number) })
}

// sorted iterates over a map in key order: map order must not reach an effect.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (h *hubActor) listDaemons() []DaemonInfo {
	list := make([]DaemonInfo, 0, len(h.daemons))
	for _, id := range sorted(h.daemons) {
		if d := h.daemons[id]; !d.admitting {
			list = append(list, h.describe(d))
		}
	}
	return list
}

func (h *hubActor) describe(d *hubDaemon) DaemonInfo {
	i := DaemonInfo{
		DaemonID: d.id, Incarnation: d.conn.hello.Incarnation, Remote: d.conn.hello.Remote, ConnectedAt: d.conn.since,
		OpenRuns: []string{}, Extensions: d.conn.hello.Extensions.Strings(), Metadata: RawJSON(d.conn.hello.Metadata),
	}
	if f := h.fences[d.key]; f != nil {
		i.OpenRuns = append(i.OpenRuns, f.open...)
		i.Cancelling = f.status.Cancelling > 0
		i.Fenced = f.status.Phase == PhaseFenced
	}
	return i
}

func (h *hubActor) status() Status {
	s := Status{
		Listening: h.state == hubListening, Stopping: h.state > hubListening,
		OpenRuns: h.open, RetainedRuns: len(h.ended),
	}
	for _, d := range h.daemons {
		if !d.admitting {
			s.Connections++
		}
	}
	for _, f := range h.fences {
		if f.status.Phase == PhaseFenced {
			s.Fences++
		}
		s.StoreFailing = s.StoreFailing || f.status.Failing
	}
	return s
}

func (h *hubActor) become(to hubState) { step.Become("hub", &h.state, to, hubEdges) }

// AppendState implements [step.Machine].
func (h *hubActor) AppendState(b []byte) []byte {
	b = fmt.Appendf(b, "hub %s %q open=%d opening=%t waiters=%d stops=%d retention=%t", h.state, h.addr, h.open, h.opening != 0, len(h.waiters), len(h.stops), h.retention.Armed())
	for _, id := range sorted(h.daemons) {
		d := h.daemons[id]
		b = fmt.Appendf(b, " daemon=%s@%s/%t/%t", id, d.conn.hello.Incarnation, d.admitting, d.newcomer != nil)
	}
	for _, id := range sorted(h.conns) {
		b = fmt.Appendf(b, " conn=%s", id)
	}
	for _, key := range sorted(h.fences) {
		f := h.fences[key]
		b = fmt.Appendf(b, " fence=%s/%d/%s/%d/%t/%t", key, f.status.Phase, f.status.Info.FenceID, f.status.Cancelling, f.status.Failing, f.broken)
	}
	for _, j := range h.byAge() {
		b = fmt.Appendf(b, " job=%s@%s/%s/%t/%d", j.info.RunID, j.info.Incarnation, j.info.State, j.started, len(j.asking))
	}
	for _, key := range sorted(h.clears) {
		b = fmt.Appendf(b, " clear=%s/%t", key, h.clears[key].closing)
	}
	return b
}

var _ step.Machine = (*hubActor)(nil)

// ourExtensions is what the hub answers in ready: nothing to a v1 peer.
func (h *hubActor) ourExtensions(peer wire.Extensions) wire.Extensions {
	if len(peer.Strings()) == 0 {
		return wire.Extensions{}
	}
	return wire.Extensions{MaxFrame: wire.OurMaxFrame, CancelTimeout: h.cfg.CancelTimeout, Receipt: peer.Receipt}
}

// hubConfig is what the hub's machine is made from.
type hubConfig struct {
	config  Config
	durable bool
	entries []lease.Entry
	prefix  string
}
