package actors

import (
	"net"
	"slices"
	"strconv"
	"time"

	"codingrelay/step"
)

// openTimeout bounds the opening of a listener, the only thing the hub waits for.
const openTimeout = 10 * time.Second

// listenAsk opens the one listener. While it is being opened other mail waits,
// so concurrent starts are answered by what the first one led to (I10).
func (h *hubActor) listenAsk(m ListenAsk, fx *step.Effects) {
	switch {
	case h.state > hubListening:
		fx.Reply(m.Token, errStopping())
	case h.state == hubListening && h.listen == m.Config:
		fx.Reply(m.Token, Listened{Addr: h.addr})
	case h.state == hubListening:
		fx.Reply(m.Token, errorf(CodeHubConflict, "the daemon hub was already started with another host, port or token; stop it first, or start it with the same config"))
	default:
		h.listen, h.opening = m.Config, m.Token
		h.question++
		fx.Ask(h.question, OpOpen{Addr: net.JoinHostPort(m.Config.Host, strconv.Itoa(m.Config.Port)), Token: m.Config.Token}, openTimeout)
	}
}

// opened is the listener's answer.
func (h *hubActor) opened(a step.Answer, fx *step.Effects) {
	if a.Late || a.Question != h.question {
		if a.Err == nil {
			fx.Do(OpCloseListener{}) // it opened after it counted as failed
		}
		return
	}
	token := h.opening
	h.opening = 0
	if a.Err != nil {
		fx.Reply(token, errorf(CodeBindFailed, "cannot listen for daemons on %s: %v; free that port or choose a unique daemon-port",
			net.JoinHostPort(h.listen.Host, strconv.Itoa(h.listen.Port)), a.Err))
		h.listen = ListenConfig{}
		return
	}
	h.addr = a.Value.(string)
	h.become(hubListening)
	fx.Reply(token, Listened{Addr: h.addr})
}

// stopAsk closes the door: no hello and no run from here on. Then every open run
// is ended with the barrier, then sockets and listener close (protocol section 5).
func (h *hubActor) stopAsk(m StopAsk, fx *step.Effects) {
	h.stops = append(h.stops, m.Token)
	if h.state > hubListening {
		return
	}
	h.become(hubStopping)
	for _, w := range slices.Clone(h.waiters) {
		h.endWait(w, errStopping(), fx)
	}
	for _, id := range sorted(h.daemons) {
		if d := h.daemons[id]; d.newcomer != nil {
			fx.Send(d.newcomer.ref, CloseConn{Code: 1001, Reason: "the hub is stopping"})
		}
		fx.Send(h.daemons[id].conn.ref, NoHolds{})
	}
	for _, j := range h.byAge() {
		if !j.ended() {
			fx.Send(j.ref, StopRun{})
		}
	}
	h.stopOn(fx)
}

// stopOn moves a stop on when what it waits for has come.
func (h *hubActor) stopOn(fx *step.Effects) {
	if h.state == hubStopping && h.open == 0 {
		h.become(hubClosing)
		for _, incarnation := range sorted(h.conns) {
			fx.Send(h.conns[incarnation].ref, CloseConn{Code: 1001, Reason: "the hub is stopping"})
		}
	}
	if h.state != hubClosing || len(h.conns) > 0 {
		return
	}
	h.become(hubStopped)
	fx.Do(OpCloseListener{})
	for _, j := range h.byAge() {
		h.forgetJob(j, fx)
	}
	for _, key := range sorted(h.fences) {
		if f := h.fences[key]; !f.broken {
			fx.Send(f.ref, RetireFence{Force: true})
		}
	}
	h.retention.Stop(fx)
	for _, t := range h.stops {
		fx.Reply(t, Stopped{})
	}
	fx.End()
}
