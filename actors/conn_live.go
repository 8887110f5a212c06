package actors

import (
	"fmt"
	"slices"
	"time"

	"codingrelay/step"
)

// The causes under which a connection asks its link for progress.
const (
	causeBeat   = "beat"   // the watchdog
	causeProbe  = "probe"  // is it idle long enough to be probed?
	causeProbed = "probed" // has the probe been answered?
	causeLife   = "life"   // is a ping needed before a run is placed?
	causeLived  = "lived"  // has that ping been answered?
)

// liveness is what a connection knows of its peer's being alive: any byte read
// counts, never daemon.pong (protocol section 8).
type liveness struct {
	heardAt time.Time // when something was last known to be read
	read    uint64    // the byte count at that time
	pinged  time.Time // when the last regular ping went out

	beat, probeTimer, lifeTimer, holdTimer step.Alarm

	probing bool
	// asking are the jobs whose Life waits for the answer to one ping.
	asking []step.Ref

	// holds are the runs that hold the socket back. heldFrom is when they began
	// to; heldFor is for how long, across holds, since the hold's ping: it is
	// bounded until the pong is read, which lies behind everything that waits.
	holds    []heldRun
	heldFrom time.Time
	heldFor  time.Duration
	pongDue  bool
	noHolds  bool
}

type heldRun struct {
	id  string
	job step.Ref
}

func (l *liveness) holding() bool { return len(l.holds) > 0 }

func (c *Conn) startLiveness(now time.Time, fx *step.Effects) {
	c.live.heardAt, c.live.pinged = now, now
	c.beat(fx)
}

// beat looks at the socket three times a ping interval, so that silence is
// noticed within SilenceTimeout.
func (c *Conn) beat(fx *step.Effects) {
	c.live.beat.Set(fx, "beat", c.incarnation, c.cfg.PingEvery/3)
}

// heard notes that something was read, and answers whoever waits for that.
func (c *Conn) heard(now time.Time, fx *step.Effects) {
	c.live.heardAt = now
	c.lifeAnswer(true, fx)
	c.probeAnswer(ProbeAlive, fx)
}

func (c *Conn) liveExpired(now time.Time, t step.Timer, fx *step.Effects) {
	l := &c.live
	switch {
	case l.beat.Fired(t):
		if c.state == connServing {
			fx.Do(OpProgress{Cause: causeBeat})
		}
	case l.probeTimer.Fired(t):
		fx.Do(OpProgress{Cause: causeProbed})
	case l.lifeTimer.Fired(t):
		fx.Do(OpProgress{Cause: causeLived})
	case l.holdTimer.Fired(t):
		c.endHolds(now, fx)
	}
}

// progress is the link's count of bytes; the cause says what was asked.
func (c *Conn) progress(now time.Time, m Progress, fx *step.Effects) {
	l := &c.live
	if m.Read > l.read {
		l.read = m.Read
		c.heard(now, fx)
	}
	if c.state != connServing {
		return
	}
	switch m.Cause {
	case causeBeat:
		c.watch(now, fx)
	case causeProbe:
		c.probeIfSilent(now, fx)
	case causeProbed:
		if l.probing {
			c.probeAnswer(ProbeDead, fx)
			c.drop("probed for a newcomer and silent", fx)
		}
	case causeLife:
		c.pingForLife(now, fx)
	case causeLived:
		if len(l.asking) > 0 {
			c.lifeAnswer(false, fx)
			c.drop("silent when a run was to be placed", fx)
		}
	}
}

// watch ends a connection from which nothing was read. While a reader holds the
// socket back, silence proves nothing.
func (c *Conn) watch(now time.Time, fx *step.Effects) {
	l := &c.live
	if l.holding() {
		l.heardAt = now
	}
	// What is known of the last byte is up to a beat old, hence the beat less.
	if now.Sub(l.heardAt) >= c.cfg.SilenceTimeout-c.cfg.PingEvery/3 {
		c.drop("nothing was read for "+c.cfg.SilenceTimeout.String(), fx)
		return
	}
	if now.Sub(l.pinged) >= c.cfg.PingEvery {
		l.pinged = now
		fx.Do(OpPing{})
	}
	c.beat(fx)
}

// drop ends a connection whose peer does not answer.
func (c *Conn) drop(reason string, fx *step.Effects) {
	c.reason = reason
	c.become(connClosing)
	c.refuseQueued(errOffline(c.daemonID), fx)
	fx.Do(OpDrop{})
}

// probe: a newcomer wants this id (protocol section 3.4).
func (c *Conn) probe(now time.Time, fx *step.Effects) {
	switch {
	case c.state != connServing:
		fx.Send(HubRef, Probed{Incarnation: c.incarnation, Verdict: ProbeBusy}) // Gone follows
	case len(c.runs) > 0:
		fx.Send(HubRef, Probed{Incarnation: c.incarnation, Verdict: ProbeBusy})
	case !c.live.probing:
		c.live.probing = true
		fx.Do(OpProgress{Cause: causeProbe})
	}
}

func (c *Conn) probeIfSilent(now time.Time, fx *step.Effects) {
	l := &c.live
	if !l.probing || l.probeTimer.Armed() {
		return
	}
	if now.Sub(l.heardAt) < c.cfg.ProbeAfter {
		c.probeAnswer(ProbeAlive, fx)
		return
	}
	fx.Do(OpPing{})
	l.probeTimer.Set(fx, "probe", c.incarnation, c.cfg.ProbeTimeout)
}

func (c *Conn) probeAnswer(v ProbeVerdict, fx *step.Effects) {
	if c.live.probing {
		c.live.probing = false
		c.live.probeTimer.Stop(fx)
		fx.Send(HubRef, Probed{Incarnation: c.incarnation, Verdict: v})
	}
}

// life answers whether the peer is there before a lease is taken (protocol
// section 4.3): only an idle connection that was silent is pinged.
func (c *Conn) life(now time.Time, from step.Ref, m Life, fx *step.Effects) {
	switch {
	case c.state != connServing:
		fx.Send(from, LifeSeen{OK: false})
	case len(c.runs) > 0 || now.Sub(c.live.heardAt) < c.cfg.LifeAfter:
		fx.Send(from, LifeSeen{OK: true})
	default:
		c.live.asking = append(c.live.asking, from)
		if len(c.live.asking) == 1 {
			fx.Do(OpProgress{Cause: causeLife})
		}
	}
}

func (c *Conn) pingForLife(now time.Time, fx *step.Effects) {
	l := &c.live
	if len(l.asking) == 0 || l.lifeTimer.Armed() {
		return
	}
	fx.Do(OpPing{})
	l.lifeTimer.Set(fx, "life", c.incarnation, c.cfg.LifeTimeout)
}

func (c *Conn) lifeAnswer(ok bool, fx *step.Effects) {
	for _, job := range c.live.asking {
		fx.Send(job, LifeSeen{OK: ok})
	}
	c.live.asking = nil
	c.live.lifeTimer.Stop(fx)
}

// holdBegin lets a slow reader hold the socket back, within bounds: siblings,
// pings and acknowledgements wait too (design section 7).
func (c *Conn) holdBegin(now time.Time, from step.Ref, m HoldBegin, fx *step.Effects) {
	l := &c.live
	ending := slices.ContainsFunc(c.runs, (*connRun).owed)
	left := c.cfg.HoldMax - l.heldFor
	if c.find(m.RunID) == nil || l.noHolds || ending || left <= 0 || c.state != connServing {
		fx.Send(from, HoldOver{})
		return
	}
	l.holds = append(l.holds, heldRun{id: m.RunID, job: from})
	if len(l.holds) > 1 {
		return
	}
	l.heldFrom = now
	c.holdPing(fx)
	l.holdTimer.Set(fx, "hold", c.incarnation, left)
	fx.Do(OpObserve{Fact{Kind: FactHold, DaemonID: c.daemonID, Run: m.RunID}})
}

// holdDone: the reader has made room, or the run is over.
func (c *Conn) holdDone(now time.Time, run string, fx *step.Effects) {
	l := &c.live
	before := len(l.holds)
	l.holds = slices.DeleteFunc(l.holds, func(h heldRun) bool { return h.id == run })
	if before > 0 && len(l.holds) == 0 {
		c.holdsEnded(now, fx)
	}
}

// endHolds ends every hold at once: its time is up, a run of this connection is
// being ended, or the hub stops.
func (c *Conn) endHolds(now time.Time, fx *step.Effects) {
	l := &c.live
	if !l.holding() {
		return
	}
	for _, h := range l.holds {
		fx.Send(h.job, HoldOver{})
	}
	l.holds = nil
	c.holdsEnded(now, fx)
}

// holdsEnded: the time held counts until a pong proves that everything which lay
// in the socket meanwhile, the peer's own pings among it, was read.
func (c *Conn) holdsEnded(now time.Time, fx *step.Effects) {
	l := &c.live
	l.holdTimer.Stop(fx)
	l.heldFor += now.Sub(l.heldFrom)
	l.heardAt = now // the watchdog counts from zero
	c.holdPing(fx)
}

func (c *Conn) holdPing(fx *step.Effects) {
	if !c.live.pongDue && c.state == connServing {
		c.live.pongDue = true
		fx.Do(OpPing{})
	}
}

func (c *Conn) pong() {
	c.live.pongDue = false
	c.live.heldFor = 0
}

func (l *liveness) appendState(b []byte) []byte {
	return fmt.Appendf(b, " live=%d beat=%t probe=%t/%t life=%d/%t holds=%v held=%d pong=%t noholds=%t",
		l.read, l.beat.Armed(), l.probing, l.probeTimer.Armed(), len(l.asking), l.lifeTimer.Armed(), l.holds, l.heldFor, l.pongDue, l.noHolds)
}
