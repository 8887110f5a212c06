package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// t0 is the time at which every script begins.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// script drives one machine and keeps what it did.
type script struct {
	t       testing.TB
	machine step.Machine
	now     time.Time
	fx      step.Effects
	// all are the effects of every message so far, last those of the last one.
	all, last []step.Effect
	armed     map[step.Timer]time.Time
	runs      []step.Ref // spawned
}

func newScript(t testing.TB, m step.Machine) *script {
	return &script{t: t, machine: m, now: t0, armed: map[step.Timer]time.Time{}}
}

// give hands over one message.
func (s *script) give(from step.Ref, message any) *script {
	s.t.Helper()
	s.fx.Reset()
	if x, ok := message.(step.Expired); ok {
		delete(s.armed, x.Timer)
	}
	s.machine.Handle(s.now, from, message, &s.fx)
	s.last = append([]step.Effect(nil), s.fx.List()...)
	s.all = append(s.all, s.last...)
	for i, x := range s.last {
		switch x.Kind {
		case step.Arm:
			for t := range s.armed {
				if t.Name == x.Timer.Name && t.Cause == x.Timer.Cause {
					delete(s.armed, t)
				}
			}
			s.armed[x.Timer] = s.now.Add(x.After)
		case step.Disarm:
			delete(s.armed, x.Timer)
		case step.Spawn:
			s.runs = append(s.runs, x.To)
		case step.Ask:
			if i != len(s.last)-1 {
				s.t.Fatalf("Ask is not the last effect of %T", message)
			}
		}
	}
	return s
}

// tell is give, from the machine's port.
func (s *script) tell(messages ...any) *script {
	s.t.Helper()
	for _, m := range messages {
		s.give(step.Ref{}, m)
	}
	return s
}

// due is the timer that runs out next.
func (s *script) due() (next step.Timer, at time.Time) {
	for t, a := range s.armed {
		if at.IsZero() || a.Before(at) || a.Equal(at) && t.Name < next.Name {
			next, at = t, a
		}
	}
	return next, at
}

// fire lets the timer of this name run out, at its time.
func (s *script) fire(name string) *script {
	s.t.Helper()
	for t, at := range s.armed {
		if t.Name == name {
			s.now = at
			return s.tell(step.Expired{Timer: t})
		}
	}
	s.t.Fatalf("no timer %q is armed", name)
	return s
}

// did returns the operations of one type that the last message led to.
func did[T any](s *script) (ops []T) {
	for _, x := range s.last {
		if op, ok := x.Message.(T); ok {
			ops = append(ops, op)
		}
	}
	return ops
}

// didEver is did over the whole script.
func didEver[T any](s *script) (ops []T) {
	for _, x := range s.all {
		if op, ok := x.Message.(T); ok {
			ops = append(ops, op)
		}
	}
	return ops
}

func frameOf(t testing.TB, msg []byte) wire.Frame {
	t.Helper()
	f := wire.NewDecoder().Decode(msg)
	if f.Type == wire.Ignored {
		t.Fatalf("the test's frame %s is no frame: %s", msg, f.Why)
	}
	return f
}

// written is what the last message gave to the writer, frame by frame.
func written(s *script) (out []string) {
	for _, op := range did[OpWrite](s) {
		for _, f := range op.Frames {
			out = append(out, string(f))
		}
	}
	return out
}

// show prints effects on one line.
func show(list []step.Effect) string {
	var parts []string
	for _, x := range list {
		switch x.Kind {
		case step.Send:
			parts = append(parts, x.To.Kind+"<-"+brief(x.Message))
		case step.Reply:
			parts = append(parts, "reply "+brief(x.Message))
		case step.Do:
			if o, ok := x.Message.(OpObserve); ok {
				parts = append(parts, "observe "+string(o.Fact.Kind))
				continue
			}
			parts = append(parts, "do "+brief(x.Message))
		case step.Ask:
			parts = append(parts, "ask "+brief(x.Message))
		case step.Arm:
			parts = append(parts, fmt.Sprintf("arm %s %v", x.Timer.Name, x.After))
		case step.Disarm:
			parts = append(parts, "disarm "+x.Timer.Name)
		case step.Spawn:
			parts = append(parts, "spawn "+x.To.Kind)
		case step.End:
			parts = append(parts, "end")
		}
	}
	return "[" + strings.Join(parts, "; ") + "]"
}

// brief prints a message without what a reader does not need.
func brief(m any) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", m), "daemon.")
	switch m := m.(type) {
	case OpWrite:
		return "Write" + fmt.Sprint(typesOf(m.Frames))
	case OpClose:
		return fmt.Sprintf("Close %d", m.Code)
	case OpHalt:
		return fmt.Sprintf("Halt %d", len(m.Runs))
	case OpOver:
		return fmt.Sprintf("Over halted=%d crash=%q", len(m.Halted), m.Crash)
	case Outgoing:
		var frames [][]byte
		for _, f := range m.Frames {
			frames = append(frames, f.Bytes)
		}
		return "Outgoing" + fmt.Sprint(typesOf(frames))
	case Unconfirmed:
		return name
	case Inbound:
		return "Inbound" + inboundBrief(m)
	case Emitted:
		text := fmt.Sprintf("Emitted{%d", len(m.Events))
		if m.Returned != nil {
			text += fmt.Sprintf(" returned failed=%t", m.Returned.Failed)
		}
		if m.Gone != nil {
			text += fmt.Sprintf(" gone=%t", m.Gone.Confirmed)
		}
		return text + "}"
	case StopRun:
		return "StopRun{" + m.Cause.String() + "}"
	case step.Expired:
		return "Expired{" + m.Timer.Name + "}"
	case OpCredit, Taken, OpDial, DialFailed, Dialed:
		return strings.TrimPrefix(fmt.Sprintf("%s%+v", name, m), "Op")
	case step.Answer:
		return fmt.Sprintf("Answer{err=%t}", m.Err != nil)
	default:
		return strings.TrimPrefix(name, "Op")
	}
}

func inboundBrief(m Inbound) string {
	var parts []string
	for _, f := range m.Frames {
		parts = append(parts, f.Type.String())
	}
	if m.Pong {
		parts = append(parts, "pong")
	}
	if m.Flushed {
		parts = append(parts, "flushed")
	}
	if m.Closed != nil {
		parts = append(parts, fmt.Sprintf("closed %d", m.Closed.Code))
	}
	return fmt.Sprint(parts)
}

func typesOf(frames [][]byte) []string {
	var types []string
	d := wire.NewDecoder()
	for _, f := range frames {
		frame := d.Decode(f)
		name := frame.Type.String()
		if frame.Type == wire.RunEvent {
			for _, kind := range []string{"run.failed", "run.completed", "event.dropped"} {
				if strings.HasPrefix(string(frame.Body), `{"type":"`+kind+`"`) {
					name = kind
				}
			}
		}
		types = append(types, name)
	}
	return types
}
