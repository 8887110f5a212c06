package actors

import (
	"slices"
	"strings"
	"time"

	"codingrelay/lease"
	"codingrelay/step"
	"codingrelay/wire"
)

// runAsk places a run, waits for its daemon, or refuses it (protocol section 4.2:
// the order of the checks is part of the protocol).
func (h *hubActor) runAsk(now time.Time, m RunAsk, fx *step.Effects) {
	if err := h.doorOpen(); err != nil {
		fx.Reply(m.Token, err)
		return
	}
	if j := h.jobs[h.keys[m.Request.IdemKey]]; m.Request.IdemKey != "" && j != nil {
		h.repeated(j, m, fx)
		return
	}
	if w := h.waitingWith(m.Request.IdemKey); w != nil {
		fx.Reply(m.Token, errorf(CodeBusy, "a request with this idempotency key is still waiting for daemon %q", w.daemonID))
		return
	}
	err := h.place(now, m, fx)
	switch {
	case err == nil:
	case err.Code == CodeOffline && m.Request.Wait > 0 && h.mayWait(len(m.Request.Payload)):
		h.waitingBytes += len(m.Request.Payload)
		w := &hubWaiter{daemonID: m.Request.DaemonID, token: m.Token, run: &m}
		h.waiters = append(h.waiters, w)
		w.alarm.Set(fx, "wait", m.RunID, m.Request.Wait)
	default:
		fx.Reply(m.Token, err)
	}
}

func (h *hubActor) doorOpen() *Error {
	switch h.state {
	case hubIdle:
		return errorf(CodeHubNotStarted, "the hub is not listening yet; start it first")
	case hubListening:
		return nil
	default:
		return errStopping()
	}
}

// repeated answers a request whose idempotency key is known.
func (h *hubActor) repeated(j *hubJob, m RunAsk, fx *step.Effects) {
	switch {
	case j.hash != m.Request.IdemHash:
		fx.Reply(m.Token, errorf(CodeIdempotency, "idempotency key %q was used with another request (run %s); use a new key", m.Request.IdemKey, j.info.RunID))
	case j.started || j.ended():
		fx.Reply(m.Token, Placed{Job: j.ref, Info: j.info, Existing: true})
	default:
		j.asking = append(j.asking, m.Token)
	}
}

func (h *hubActor) waitingWith(idem string) *hubWaiter {
	for _, w := range h.waiters {
		if idem != "" && w.run != nil && w.run.Request.IdemKey == idem {
			return w
		}
	}
	return nil
}

// place spawns the job of a run, bound to its daemon's incarnation and fence.
func (h *hubActor) place(now time.Time, m RunAsk, fx *step.Effects) *Error {
	spec := m.Request
	key := lease.Key(spec.DaemonID)
	f := h.fences[key]
	if f != nil && f.status.Phase == PhaseFenced {
		return errFenced(spec.DaemonID, f.status.Info.FenceID, f.status.Info.Reason)
	}
	if f != nil && f.status.Cancelling > 0 {
		return errCancelling(spec.DaemonID)
	}
	d := h.daemons[spec.DaemonID]
	if d == nil || d.admitting || d.newcomer != nil {
		return errOffline(spec.DaemonID)
	}
	limit := d.conn.hello.Extensions.FrameLimit()
	if size := startSize(m.RunID, spec.Payload); size > limit {
		return errorf(CodePayloadTooLarge, "the run.start of %d bytes is above this daemon's limit of %d bytes", size, limit)
	}
	if h.open >= h.cfg.MaxRuns {
		return errorf(CodeBusy, "the hub has %d open runs, its limit (max runs); try again later", h.open)
	}
	if n := len(f.open); n >= h.cfg.MaxRunsPerDaemon {
		return errorf(CodeBusy, "daemon %q has %d open runs, its limit (max runs per daemon); try again later", spec.DaemonID, n)
	}
	ref := step.Ref{Kind: KindJob, ID: m.RunID}
	h.placed++
	j := &hubJob{ref: ref, key: key, number: h.placed, idem: spec.IdemKey, hash: spec.IdemHash, asking: []step.Token{m.Token}}
	job := newJob(m.RunID, spec, d.conn.hello.Incarnation, d.conn.ref, f.ref, h.cfg, now)
	j.info = job.info()
	h.jobs[m.RunID] = j
	f.open = append(f.open, m.RunID)
	h.open++
	if spec.IdemKey != "" {
		h.keys[spec.IdemKey] = m.RunID
	}
	fx.Spawn(ref, job)
	return nil
}

// startSize is the size of the run.start frame, without building it.
func startSize(run string, payload []byte) int {
	return len(wire.AppendStart(nil, run, []byte("{}"))) - len("{}") + len(payload)
}

func (h *hubActor) jobStarted(m JobStarted, fx *step.Effects) {
	j := h.jobs[m.RunID]
	if j == nil || j.ended() {
		return
	}
	j.started = true
	j.info.State = StateRunning
	h.answerPlaced(j, fx)
}

// answerPlaced answers whoever waits for the start; the first asked for it, the
// others named its idempotency key.
func (h *hubActor) answerPlaced(j *hubJob, fx *step.Effects) {
	for i, t := range j.asking {
		fx.Reply(t, Placed{Job: j.ref, Info: j.info, Existing: i > 0})
	}
	j.asking = nil
}

func (h *hubActor) jobEnded(now time.Time, m JobEnded, fx *step.Effects) {
	j := h.jobs[m.RunID]
	if j == nil || j.ended() {
		return
	}
	out := m.Outcome
	j.info.State, j.info.Outcome, j.info.Events, j.bytes = StateEnded, &out, out.Events, m.LogBytes
	h.open--
	f := h.fences[j.key]
	f.open = slices.DeleteFunc(f.open, func(id string) bool { return id == m.RunID })
	h.retainedBytes += j.bytes
	if out.Result == Refused {
		err := errorf(out.Code, "%s", out.Message)
		err.FenceID = out.FenceID
		for _, t := range j.asking {
			fx.Reply(t, err)
		}
		j.asking = nil
		h.forgetJob(j, fx)
	} else {
		h.answerPlaced(j, fx)
		h.ended = append(h.ended, m.RunID)
		h.sweep(now, fx)
	}
	h.retireFence(j.key, fx)
	h.stopOn(fx)
}

// forgetJob ends an ended job's actor and everything known of it.
func (h *hubActor) forgetJob(j *hubJob, fx *step.Effects) {
	fx.Send(j.ref, Retire{})
	delete(h.jobs, j.info.RunID)
	h.retainedBytes -= j.bytes
	if h.keys[j.idem] == j.info.RunID {
		delete(h.keys, j.idem)
	}
}

// sweep ends the retention of ended runs: by age, by number, by bytes.
func (h *hubActor) sweep(now time.Time, fx *step.Effects) {
	for len(h.ended) > 0 {
		j := h.jobs[h.ended[0]]
		if j != nil { // its actor may have failed since
			left := j.info.Outcome.EndedAt.Add(h.cfg.Retention).Sub(now)
			if left > 0 && len(h.ended) <= h.cfg.RetainedRuns && h.retainedBytes <= h.cfg.RetainedBytes {
				if !h.retention.Armed() {
					h.retention.Set(fx, "retention", "", left)
				}
				return
			}
			h.forgetJob(j, fx)
		}
		h.ended = h.ended[1:]
	}
}

// waitAsk answers when a daemon is online. A fenced id says so at once.
func (h *hubActor) waitAsk(m WaitAsk, fx *step.Effects) {
	if err := h.doorOpen(); err != nil {
		fx.Reply(m.Token, err)
		return
	}
	id := strings.TrimSpace(m.DaemonID)
	if f := h.fences[lease.Key(id)]; f != nil && f.status.Phase == PhaseFenced {
		fx.Reply(m.Token, errFenced(id, f.status.Info.FenceID, f.status.Info.Reason))
		return
	}
	if d := h.daemons[id]; d != nil && !d.admitting {
		fx.Reply(m.Token, h.describe(d))
		return
	}
	if !h.mayWait(0) {
		fx.Reply(m.Token, errorf(CodeBusy, "too many callers wait for daemons (limit %d); try again later", h.cfg.MaxRuns))
		return
	}
	h.waiters = append(h.waiters, &hubWaiter{daemonID: id, token: m.Token})
}

// mayWait bounds those who wait for a daemon, and what they hold (I14).
func (h *hubActor) mayWait(payload int) bool {
	return len(h.waiters) < h.cfg.MaxRuns && h.waitingBytes+payload <= h.cfg.RetainedBytes
}

// forgotten: whoever waited with this token is gone. A run whose caller has left
// is cancelled by ForgetAsk, which names it.
func (h *hubActor) forgotten(t step.Token, fx *step.Effects) {
	for _, w := range h.waiters {
		if w.token == t && w.run == nil {
			h.dropWaiter(w, fx)
			return
		}
	}
	h.stops = slices.DeleteFunc(h.stops, func(s step.Token) bool { return s == t })
}

func (h *hubActor) forgetAsk(m ForgetAsk, fx *step.Effects) {
	for _, w := range h.waiters {
		if w.run != nil && w.run.RunID == m.RunID {
			h.endWait(w, errOffline(w.daemonID), fx)
			return
		}
	}
	if j := h.jobs[m.RunID]; j != nil {
		fx.Send(j.ref, CancelAsk{})
	}
}

func (h *hubActor) endWait(w *hubWaiter, answer any, fx *step.Effects) {
	h.dropWaiter(w, fx)
	fx.Reply(w.token, answer)
}

func (h *hubActor) dropWaiter(w *hubWaiter, fx *step.Effects) {
	w.alarm.Stop(fx)
	if w.run != nil {
		h.waitingBytes -= len(w.run.Request.Payload)
	}
	h.waiters = slices.DeleteFunc(h.waiters, func(o *hubWaiter) bool { return o == w })
}

// online serves those who waited for a daemon, in order.
func (h *hubActor) online(now time.Time, d *hubDaemon, fx *step.Effects) {
	for _, w := range slices.Clone(h.waiters) {
		if w.daemonID != d.id {
			continue
		}
		h.dropWaiter(w, fx)
		if w.run == nil {
			fx.Reply(w.token, h.describe(d))
		} else if err := h.place(now, *w.run, fx); err != nil {
			fx.Reply(w.token, err)
		}
	}
}
