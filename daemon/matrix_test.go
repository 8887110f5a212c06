package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// matrixConfig is the session of the matrix.
func matrixConfig() SessionConfig {
	return SessionConfig{Name: "m", DaemonID: "box", Metadata: []byte(`{}`), MaxRuns: 2, Seed: 1, Grace: 5 * time.Second}
}

func readyFrame(t testing.TB, e wire.Extensions) wire.Frame {
	return frameOf(t, wire.AppendReady(nil, wire.Ready{DaemonID: "box", Protocol: wire.Protocol, Extensions: e}))
}

var ours = wire.Extensions{MaxFrame: wire.OurMaxFrame, CancelTimeout: 10 * time.Second, Receipt: true}

// serving brings a session to where a hub of ours has admitted it.
func serving(t testing.TB, cfg SessionConfig, e wire.Extensions) *script {
	s := newScript(t, NewSession(cfg))
	s.tell(step.Boot{}, Dialed{Attempt: 1})
	return s.tell(Inbound{Attempt: 1, Flushed: true}, Inbound{Attempt: 1, Frames: []wire.Frame{readyFrame(t, e)}})
}

func startFrame(t testing.TB, job string) wire.Frame {
	return frameOf(t, wire.AppendStart(nil, job, []byte(`{"command":["true"]}`)))
}

func cancelFrame(t testing.TB, job string) wire.Frame {
	return frameOf(t, wire.AppendCancel(nil, job))
}

func (s *script) hears(frames ...wire.Frame) *script {
	s.t.Helper()
	return s.tell(Inbound{Attempt: s.session().attempt, Frames: frames})
}

func (s *script) session() *Session { return s.machine.(*Session) }

func (s *script) flushed() *script {
	s.t.Helper()
	return s.tell(Inbound{Attempt: s.session().attempt, Flushed: true})
}

func (s *script) closed(code int, reason string) *script {
	s.t.Helper()
	return s.tell(Inbound{Attempt: s.session().attempt, Closed: &wire.End{Code: code, Reason: reason}})
}

// sessionStates are the rows of the session's matrix.
func sessionStates(t *testing.T) (names []string, build map[string]func() *script) {
	fresh := func() *script { return newScript(t, NewSession(matrixConfig())) }
	build = map[string]func() *script{
		"dialing":  func() *script { return fresh().tell(step.Boot{}) },
		"waiting":  func() *script { return fresh().tell(step.Boot{}, DialFailed{Attempt: 1, Reason: "no"}) },
		"greeting": func() *script { return fresh().tell(step.Boot{}, Dialed{Attempt: 1}) },
		"serving":  func() *script { return serving(t, matrixConfig(), ours) },
		"serving+run": func() *script {
			return serving(t, matrixConfig(), ours).hears(startFrame(t, "r1"))
		},
		"serving+draining": func() *script {
			return serving(t, matrixConfig(), ours).hears(startFrame(t, "r1")).tell(DrainAsk{Token: 1})
		},
		"serving+stopping": func() *script {
			return serving(t, matrixConfig(), ours).hears(startFrame(t, "r1")).tell(StopAsk{Token: 1})
		},
		"closing+stopped": func() *script { return serving(t, matrixConfig(), ours).tell(StopAsk{Token: 1}) },
		"closing+halted": func() *script {
			s := serving(t, matrixConfig(), ours).hears(startFrame(t, "r1"), startFrame(t, "r2"))
			return s.give(s.runs[1], Unconfirmed{Reason: "left"})
		},
		"settling": func() *script {
			return serving(t, matrixConfig(), ours).hears(startFrame(t, "r1")).closed(1006, "gone")
		},
		"settling+stopping": func() *script {
			return serving(t, matrixConfig(), ours).hears(startFrame(t, "r1")).closed(1006, "gone").tell(StopAsk{Token: 1})
		},
	}
	return []string{
		"waiting", "dialing", "greeting", "serving", "serving+run", "serving+draining", "serving+stopping",
		"closing+stopped", "closing+halted", "settling", "settling+stopping",
	}, build
}

// The session's policy as a table: what each message does in each state.
func TestSessionMatrix(t *testing.T) {
	run := step.Ref{Kind: KindRun, ID: "m-1"}
	in := func(frames ...wire.Frame) Inbound { return Inbound{Attempt: 1, Frames: frames} }
	messages := []struct {
		from step.Ref
		m    any
	}{
		{m: Dialed{Attempt: 1}},
		{m: Dialed{Attempt: 0}},
		{m: DialFailed{Attempt: 1, Reason: "refused"}},
		{m: in(readyFrame(t, ours))},
		{m: in(startFrame(t, "r1"))},
		{m: in(startFrame(t, "r9"))},
		{m: in(cancelFrame(t, "r1"))},
		{m: in(cancelFrame(t, "r9"))},
		{m: Inbound{Attempt: 1, Flushed: true}},
		{m: Inbound{Attempt: 1, Closed: &wire.End{Code: 1008, Reason: "invalid daemon token"}}},
		{m: Inbound{Attempt: 0, Closed: &wire.End{Code: 1006}}},
		{m: Progress{Attempt: 1, Read: 7}},
		{run, Outgoing{Frames: []OutFrame{{Bytes: wire.AppendEvent(nil, "r1", []byte("{}")), Credit: 66}}}},
		{run, Settled{Receipt: wire.Receipt{Mechanism: "supervisor"}}},
		{run, Unconfirmed{Reason: "somebody lives"}},
		{m: step.Answer{Question: questionHalt}},
		{m: step.Answer{Question: questionHalt, Err: errors.New("disk full")}},
		{m: DrainAsk{Token: 7}},
		{m: StopAsk{Token: 8}},
		{m: StatusAsk{Token: 9}},
		{m: Crash{Reason: "a bug"}},
		{m: fireNamed("retry")},
		{m: fireNamed("patience")},
		{m: fireNamed("beat")},
		{m: fireNamed("flush")},
	}
	names, build := sessionStates(t)
	var b strings.Builder
	for _, name := range names {
		for _, m := range messages {
			s := build[name]()
			line, ok := cell(s, name, m.from, m.m, func() string { return s.session().state.String() })
			if ok {
				b.WriteString(line + "\n")
			}
		}
		b.WriteString("\n")
	}
	golden(t, "session_matrix.golden", b.String())
}

// fireNamed stands for the expiry of the armed timer of that name.
type fireNamed string

// cell is one line of a matrix; ok is false when the message cannot come.
func cell(s *script, name string, from step.Ref, m any, state func() string) (line string, ok bool) {
	if timer, is := m.(fireNamed); is {
		m = nil
		for t, at := range s.armed {
			if t.Name == string(timer) {
				s.now, m = at, step.Expired{Timer: t}
			}
		}
		if m == nil {
			return "", false
		}
	}
	defer func() {
		if v := recover(); v != nil {
			line, ok = fmt.Sprintf("%-17s %-44s -> PANIC %v", name, brief(m), v), true
		}
	}()
	s.give(from, m)
	return fmt.Sprintf("%-17s %-44s -> %-8s %s", name, brief(m), state(), show(s.last)), true
}

func newTestRun() *Run {
	return newRun(runConfig{job: "r1", payload: []byte(`{}`), session: SessionRef("m"), limit: wire.DefaultMaxFrame, giveUp: 30 * time.Second})
}

// The run's policy as a table.
func TestRunMatrix(t *testing.T) {
	returned := Emitted{Returned: &Returned{}}
	failed := Emitted{Returned: &Returned{Failed: true, Failure: Failure{Text: "no"}}}
	gone := Emitted{Gone: &Gone{Confirmed: true, Receipt: wire.Receipt{Mechanism: "supervisor"}}}
	left := Emitted{Gone: &Gone{Reason: "pid 7 lives"}}
	states := []struct {
		name   string
		script []any
	}{
		{"running", nil},
		{"ending+cancelled", []any{StopRun{StopCancelled}}},
		{"ending+returned", []any{StopRun{StopCancelled}, returned}},
		{"ending+lost", []any{StopRun{StopLost}}},
		{"ending+stopping", []any{StopRun{StopStopping}, returned}},
		{"reaping", []any{returned}},
		{"reaping+lost", []any{returned, StopRun{StopLost}}},
	}
	messages := []any{
		Emitted{Events: [][]byte{[]byte(`{"type":"x"}`)}},
		returned, failed, gone, left,
		Taken{Bytes: 9},
		StopRun{StopCancelled},
		StopRun{StopLost},
		StopRun{StopStopping},
		fireNamed("patience"),
	}
	var b strings.Builder
	for _, st := range states {
		for _, m := range messages {
			if e, ok := m.(Emitted); ok && impossible(st.name, e) {
				continue
			}
			r := newTestRun()
			s := newScript(t, r).tell(step.Boot{}).tell(st.script...)
			if line, ok := cell(s, st.name, step.Ref{}, m, func() string { return r.state.String() }); ok {
				b.WriteString(line + "\n")
			}
		}
		b.WriteString("\n")
	}
	golden(t, "run_matrix.golden", b.String())
}

// impossible: a runner returns once, and there is no verdict before it has.
func impossible(state string, e Emitted) bool {
	has := strings.Contains(state, "returned") || strings.Contains(state, "reaping") || strings.Contains(state, "stopping")
	return has && (e.Returned != nil || e.Events != nil) || !has && e.Gone != nil
}
