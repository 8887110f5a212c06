package step

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anthdm/hollywood/actor"
)

// scripted is a machine made of a function.
type scripted struct {
	handle func(now time.Time, from Ref, m any, fx *Effects)
}

func (s *scripted) Handle(now time.Time, from Ref, m any, fx *Effects) { s.handle(now, from, m, fx) }
func (s *scripted) AppendState(b []byte) []byte                        { return b }

// port is a port made of a function.
type port struct {
	do     func(op any, answer func(any, error))
	closed chan struct{}
}

func (p *port) Do(op any, answer func(any, error)) { p.do(op, answer) }
func (p *port) Close()                             { close(p.closed) }

func newTestHost(t *testing.T, cfg Config) *Host {
	t.Helper()
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Engine, cfg.Name = engine, "test"
	return NewHost(cfg)
}

type question struct{ token Token }

func askIt(t *testing.T, h *Host, ref Ref) (any, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return h.Ask(ctx, ref, func(tk Token) any { return question{tk} })
}

// Design section 5: mail that comes while a question is open is put aside, in
// order, and handed over after the answer.
func TestHostPutsMailAsideUntilTheAnswer(t *testing.T) {
	ref := Ref{"k", "a"}
	var answer func(any, error)
	asked := make(chan struct{})
	var seen []string
	m := &scripted{handle: func(_ time.Time, _ Ref, m any, fx *Effects) {
		switch m := m.(type) {
		case string:
			seen = append(seen, m)
			if m == "save" {
				fx.Ask(7, "op", time.Minute)
			}
		case Answer:
			if m.Question != 7 || m.Late || m.Value != "done" {
				t.Errorf("answer is %+v", m)
			}
			seen = append(seen, "answer")
		case question:
			fx.Reply(m.token, append([]string(nil), seen...))
		}
	}}
	h := newTestHost(t, Config{})
	h.Spawn(ref, m, &port{do: func(_ any, a func(any, error)) { answer = a; close(asked) }, closed: make(chan struct{})})
	h.Send(ref, ref, "save")
	h.Send(ref, ref, "one")
	h.Send(ref, ref, "two")
	<-asked
	answer("done", nil)
	got, err := askIt(t, h, ref)
	want := []string{"save", "answer", "one", "two"}
	if err != nil || len(got.([]string)) != 4 {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
	for i, s := range got.([]string) {
		if s != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// Design section 5: no answer within the limit is a failure, and the late answer
// is ordinary mail that says so.
func TestHostLimitsAQuestionAndMarksTheLateAnswer(t *testing.T) {
	ref := Ref{"k", "a"}
	answers := make(chan Answer, 2)
	m := &scripted{handle: func(_ time.Time, _ Ref, m any, fx *Effects) {
		switch m := m.(type) {
		case Boot:
			fx.Ask(1, "op", time.Millisecond)
		case Answer:
			answers <- m
		}
	}}
	var answer func(any, error)
	h := newTestHost(t, Config{})
	h.Spawn(ref, m, &port{do: func(_ any, a func(any, error)) { answer = a }, closed: make(chan struct{})})
	if a := <-answers; !errors.Is(a.Err, ErrNoAnswer) || a.Late {
		t.Fatalf("first answer is %+v, want ErrNoAnswer", a)
	}
	answer("late", nil)
	if a := <-answers; !a.Late || a.Value != "late" {
		t.Fatalf("second answer is %+v, want a late one", a)
	}
}

// Design section 6: a panic ends the actor, answers its callers, closes its port
// and is told once; the process goes on.
func TestHostContainsAPanic(t *testing.T) {
	ref := Ref{"k", "a"}
	m := &scripted{handle: func(_ time.Time, _ Ref, m any, _ *Effects) {
		if m == "boom" {
			panic("a bug")
		}
	}}
	failures := make(chan Failure, 1)
	h := newTestHost(t, Config{OnFailure: func(f Failure) { failures <- f }})
	p := &port{closed: make(chan struct{})}
	h.Spawn(ref, m, p)
	waiting := make(chan error, 1)
	go func() {
		_, err := askIt(t, h, ref)
		waiting <- err
	}()
	h.Send(ref, ref, "boom")
	if f := <-failures; f.Ref != ref || f.Value != "a bug" || len(f.Stack) == 0 {
		t.Fatalf("failure is %+v", f)
	}
	<-p.closed
	if err := <-waiting; !errors.Is(err, ErrEnded) && !errors.Is(err, ErrNoActor) {
		t.Fatalf("caller got %v, want ErrEnded or ErrNoActor", err)
	}
	if _, err := askIt(t, h, ref); !errors.Is(err, ErrNoActor) {
		t.Fatalf("ask after the end gave %v, want ErrNoActor", err)
	}
	if h.Live() != 0 {
		t.Fatalf("%d actors live, want 0", h.Live())
	}
}

// I15: a timer that was stopped or replaced is recognised even when its message
// is in the mailbox already.
func TestAlarmKnowsStaleMessages(t *testing.T) {
	var a Alarm
	var fx Effects
	a.Set(&fx, "t", "run1", time.Second)
	first := fx.List()[0].Timer
	a.Set(&fx, "t", "run1", time.Second)
	second := fx.List()[1].Timer
	if a.Fired(first) {
		t.Error("a replaced arming counted")
	}
	if !a.Fired(second) {
		t.Error("the present arming did not count")
	}
	if a.Fired(second) {
		t.Error("an arming counted twice")
	}
	a.Set(&fx, "t", "run1", time.Second)
	third := fx.List()[2].Timer
	a.Stop(&fx)
	if a.Fired(third) {
		t.Error("a stopped arming counted")
	}
}

// Design section 6: after end nothing reaches the actor; what arrives is counted.
func TestHostDeliversNothingAfterEnd(t *testing.T) {
	ref := Ref{"k", "a"}
	var handled int
	m := &scripted{handle: func(_ time.Time, _ Ref, m any, fx *Effects) {
		handled++
		if m == "end" {
			fx.End()
		}
	}}
	h := newTestHost(t, Config{})
	p := &port{closed: make(chan struct{})}
	h.Spawn(ref, m, p)
	done := h.Done(ref)
	h.Send(ref, ref, "end")
	h.Send(ref, ref, "more")
	<-done
	h.Send(ref, ref, "and more")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := h.Idle(ctx); err != nil {
		t.Fatal(err)
	}
	<-p.closed
	if handled != 2 { // boot and end
		t.Fatalf("handled %d messages, want 2", handled)
	}
	if h.Undelivered() == 0 {
		t.Fatal("undelivered mail was not counted")
	}
}
