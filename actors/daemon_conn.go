package actors

import (
	"fmt"
	"slices"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// connState is the state of a connection.
type connState uint8

const (
	connHello    connState = iota // waiting for the first frame
	connAdmitted                  // hello sent to the hub, its word awaited
	connServing                   // daemon.ready was queued
	connClosing                   // told to close; the socket's end is awaited
	connGone
)

var connStateNames = [...]string{"hello", "admitted", "serving", "closing", "gone"}

// String returns the state's name.
func (s connState) String() string { return connStateNames[s] }

var connEdges = step.Edges[connState]{
	connHello:    {connAdmitted, connClosing, connGone},
	connAdmitted: {connServing, connClosing, connGone},
	connServing:  {connClosing, connGone},
	connClosing:  {connGone},
	connGone:     nil,
}

// Conn is the actor of one accepted socket, an incarnation of a daemon.
//
//	hello ──▶ admitted ──▶ serving ──▶ closing ──▶ gone
//	  └──────────┴────────────┴───────────────────▶
//
// It owns the one ordered outbound queue, the runs that were given to it and no
// others (I3), the acknowledgements that are owed, the inbound credit, and the
// liveness of the socket. It is the last gate of run.start, because only it
// orders frames (I6). Edges are in connEdges; the matrix is
// testdata/conn_matrix.golden.
type Conn struct {
	incarnation string
	remote      string
	token       string
	cfg         Config

	state    connState
	daemonID string
	peerMax  int
	ext      wire.Extensions

	runs []*connRun // in the order they were given
	out  outQueue
	live liveness

	helloTimer step.Alarm
	closeTimer step.Alarm
	reason     string // why it ends
}

// connRun is what a connection knows of a run that was given to it.
type connRun struct {
	id    string
	job   step.Ref
	fence step.Ref
	// queued: run.start lies in the queue. accepted: it was given to the writer.
	queued, accepted bool
	// cancelled: run.cancel was asked for; the acknowledgement is owed from then
	// on, until run.finished is read.
	cancelled bool
	// over: the job has settled; unresolved: without an acknowledgement, so this
	// connection tells the fence.
	over, unresolved bool
	// heard: a frame of the run has come. flushedAt: when run.start was written.
	heard     bool
	flushedAt time.Time
	// held is the inbound credit that the job has not given back.
	held int
}

// owed reports whether the acknowledgement of a cancel is outstanding.
func (r *connRun) owed() bool { return r.cancelled && r.accepted }

// newConn makes the machine of a fresh socket.
func newConn(incarnation, remote, token string, cfg Config) *Conn {
	return &Conn{incarnation: incarnation, remote: remote, token: token, cfg: cfg, peerMax: wire.DefaultMaxFrame}
}

// Handle implements [step.Machine].
func (c *Conn) Handle(now time.Time, from step.Ref, message any, fx *step.Effects) {
	switch m := message.(type) {
	case step.Boot:
		c.helloTimer.Set(fx, "hello", c.incarnation, c.cfg.HelloTimeout)
		c.live.heardAt = now
	case step.Expired:
		c.expired(now, m.Timer, fx)
	case step.Forgotten: // nobody waits for a connection
	case ConnMessage:
		if c.state != connGone {
			c.handle(now, from, m, fx)
		}
	default:
		step.Unexpected("conn "+c.incarnation, m)
	}
}

func (c *Conn) handle(now time.Time, from step.Ref, message ConnMessage, fx *step.Effects) {
	switch m := message.(type) {
	case Inbound:
		c.inbound(now, m, fx)
	case Progress:
		c.progress(now, m, fx)
	case Admitted:
		c.admitted(now, m, fx)
	case Rejected:
		c.close(1008, m.Reason, fx)
	case CloseConn:
		c.close(m.Code, m.Reason, fx)
	case Probe:
		c.probe(now, fx)
	case NoHolds:
		c.live.noHolds = true
		c.endHolds(now, fx)
	case Life:
		c.life(now, from, m, fx)
	case Dispatch:
		c.dispatch(now, from, m, fx)
	case CancelRun:
		c.cancelRun(now, from, m, fx)
	case TakeOut:
		if r := c.find(m.RunID); r != nil && r.queued {
			c.takeOut(r, fx)
			c.pump(now, fx)
		}
	case RunOver:
		c.runOver(now, m, fx)
	case Credit:
		c.credit(m, fx)
	case HoldBegin:
		c.holdBegin(now, from, m, fx)
	case HoldDone:
		c.holdDone(now, m.RunID, fx)
	case ToolAnswer:
		c.toolAnswer(now, from, m, fx)
	default:
		step.Unexpected("conn "+c.incarnation, m)
	}
}

func (c *Conn) expired(now time.Time, t step.Timer, fx *step.Effects) {
	switch {
	case c.helloTimer.Fired(t):
		if c.state == connHello {
			c.refuseHello("no daemon.hello within "+c.cfg.HelloTimeout.String()+": it must be the first frame", fx)
		}
	case c.closeTimer.Fired(t):
		fx.Do(OpDrop{})
	case c.out.gate.Fired(t):
		c.pump(now, fx)
	default:
		c.liveExpired(now, t, fx)
	}
}

// hello judges the first frame (protocol section 3.2, a to d). The token is
// looked at only when the hub has one.
func (c *Conn) hello(now time.Time, f wire.Frame, fx *step.Effects) {
	h, err := wire.ParseHello(f)
	switch {
	case err != nil:
		c.refuseHello(err.Error(), fx)
		return
	case c.token != "" && !wire.TokenEqual(h.Token, c.token):
		c.refuseHello("invalid daemon token: use the token that this hub was started with", fx)
		return
	case h.Protocol != wire.Protocol:
		c.refuseHello("protocol not supported: upgrade the daemon to "+wire.Protocol, fx)
		return
	}
	c.helloTimer.Stop(fx)
	c.daemonID = h.DaemonID
	c.ext = h.Extensions
	c.peerMax = h.Extensions.FrameLimit()
	c.become(connAdmitted)
	fx.Send(HubRef, Hello{
		DaemonID: h.DaemonID, Incarnation: c.incarnation, Remote: c.remote,
		Metadata: h.Metadata, Extensions: h.Extensions,
	})
}

func (c *Conn) refuseHello(reason string, fx *step.Effects) {
	fx.Do(OpObserve{Fact{Kind: FactRefusedHello, Text: reason}})
	c.close(1008, reason, fx)
}

func (c *Conn) admitted(now time.Time, m Admitted, fx *step.Effects) {
	if c.state != connAdmitted {
		return
	}
	c.become(connServing)
	fx.Do(OpAdmitted{})
	// First, whatever was asked before: peers expect it as the first frame.
	c.out.pushFirst(outFrame{bytes: wire.AppendReady(nil, wire.Ready{DaemonID: c.daemonID, Protocol: wire.Protocol, Extensions: m.Extensions})})
	c.startLiveness(now, fx)
	c.pump(now, fx)
}

// close begins the closing handshake. Frames that are read meanwhile still count.
func (c *Conn) close(code int, reason string, fx *step.Effects) {
	if c.state == connClosing || c.state == connGone {
		return
	}
	c.reason = reason
	c.become(connClosing)
	c.helloTimer.Stop(fx)
	c.refuseQueued(errOffline(c.daemonID), fx)
	fx.Do(OpClose{Code: code, Reason: wire.CutReason(reason)})
	// The link ends the handshake within a second; this is for a link that does not.
	c.closeTimer.Set(fx, "close", c.incarnation, 5*time.Second)
}

// gone is the end: after the last frame and after every Accepted (design
// section 4, loss).
func (c *Conn) gone(now time.Time, end wire.End, fx *step.Effects) {
	c.refuseQueued(errOffline(c.daemonID), fx)
	if c.reason == "" {
		c.reason = fmt.Sprintf("connection ended (%d) %s", end.Code, end.Reason)
	}
	wasKnown := c.daemonID != ""
	c.become(connGone)
	var open []string
	for _, r := range c.runs {
		if r.accepted && !r.over {
			open = append(open, r.id)
		}
	}
	if wasKnown {
		fx.Send(HubRef, Gone{Incarnation: c.incarnation, Reason: c.reason, Open: open})
	}
	fx.End()
}

func (c *Conn) find(run string) *connRun {
	for _, r := range c.runs {
		if r.id == run {
			return r
		}
	}
	return nil
}

func (c *Conn) forget(run string) {
	c.runs = slices.DeleteFunc(c.runs, func(r *connRun) bool { return r.id == run })
}

// runOver: the job has settled. What was unresolved stays owed to the fence.
func (c *Conn) runOver(now time.Time, m RunOver, fx *step.Effects) {
	r := c.find(m.RunID)
	if r == nil {
		return
	}
	c.takeBack(r, fx)
	c.holdDone(now, r.id, fx)
	r.over, r.unresolved = true, m.Unresolved
	if !m.Unresolved {
		c.forget(r.id)
	}
}

// takeBack returns all the credit a run holds to the reader.
func (c *Conn) takeBack(r *connRun, fx *step.Effects) {
	if r.held > 0 {
		fx.Do(OpCredit{Bytes: r.held})
		r.held = 0
	}
}

func (c *Conn) credit(m Credit, fx *step.Effects) {
	r := c.find(m.RunID)
	if r == nil {
		return
	}
	if n := min(m.Bytes, r.held); n > 0 {
		r.held -= n
		fx.Do(OpCredit{Bytes: n})
	}
}

func (c *Conn) become(to connState) { step.Become("conn "+c.incarnation, &c.state, to, connEdges) }

// AppendState implements [step.Machine].
func (c *Conn) AppendState(b []byte) []byte {
	b = fmt.Appendf(b, "conn %s %s id=%q max=%d hello=%t close=%t", c.incarnation, c.state, c.daemonID, c.peerMax, c.helloTimer.Armed(), c.closeTimer.Armed())
	for _, r := range c.runs {
		b = fmt.Appendf(b, " run=%s/%t%t%t%t%t%t/%d", r.id, r.queued, r.accepted, r.cancelled, r.over, r.unresolved, r.heard, r.held)
	}
	b = c.out.appendState(b)
	return c.live.appendState(b)
}

var _ step.Machine = (*Conn)(nil)
