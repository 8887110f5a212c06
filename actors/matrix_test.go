package actors

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files; read the diff, commit only what you can explain")

// t0 is the time at which every matrix begins.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// from is who sends in a matrix.
var (
	matrixConn  = step.Ref{Kind: KindConn, ID: "c1"}
	matrixJob   = step.Ref{Kind: KindJob, ID: "r1"}
	matrixFence = step.Ref{Kind: KindFence, ID: "f1"}
)

// told is a message with its sender, at a time after t0.
type told struct {
	after time.Duration
	from  step.Ref
	m     any
}

// fed is a machine with the timers it has armed.
type fed struct {
	machine step.Machine
	fx      step.Effects
	timers  map[string]step.Timer
}

// feed gives a machine one message; an expiry is of what it armed last.
func (f *fed) feed(s told) {
	for _, x := range f.fx.List() {
		if x.Kind == step.Arm {
			f.timers[x.Timer.Name] = x.Timer
		}
	}
	f.fx.Reset()
	message := s.m
	if e, ok := message.(fire); ok {
		message = step.Expired{Timer: f.timers[string(e)]}
	}
	f.machine.Handle(t0.Add(s.after), s.from, message, &f.fx)
}

// fire stands for the expiry of the timer of this name.
type fire string

// show prints effects on one line.
func show(fx *step.Effects) string {
	var parts []string
	for _, x := range fx.List() {
		switch x.Kind {
		case step.Send:
			parts = append(parts, fmt.Sprintf("%s<-%s", x.To.Kind, brief(x.Message)))
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

// brief prints a message without what differs from run to run.
func brief(m any) string {
	switch m := m.(type) {
	case *Error:
		return "error " + string(m.Code)
	case OpWrite:
		var kinds []string
		d := wire.NewDecoder()
		for _, f := range m.Frames {
			kinds = append(kinds, d.Decode(f).Type.String())
		}
		return "Write" + fmt.Sprint(kinds)
	case OpClose:
		return fmt.Sprintf("Close %d", m.Code)
	case OpSave:
		return fmt.Sprintf("Save runs=%d", len(m.Record.Runs))
	case JobEnded:
		return fmt.Sprintf("JobEnded{%s clean=%t}", m.Outcome.Result, m.Outcome.Clean)
	case Outcome:
		return fmt.Sprintf("Outcome{%s clean=%t}", m.Result, m.Clean)
	case LeaseRefused:
		return "LeaseRefused{" + string(m.Err.Code) + "}"
	case DispatchRefused:
		return "DispatchRefused{" + string(m.Err.Code) + "}"
	case FenceChanged:
		return fmt.Sprintf("FenceChanged{%d}", m.Status.Phase)
	case AdmitAnswer:
		return fmt.Sprintf("AdmitAnswer{%t}", m.OK)
	case LifeSeen, Granted, Released, Probed, RunOver, Acquire, Release, Unresolved, LostLeases, LateAck, Clear, RetireFence, Detach, Credit, HoldDone, HoldBegin, CancelRun, TakeOut:
		return strings.TrimPrefix(fmt.Sprintf("%T%+v", m, m), "actors.")
	default:
		return strings.TrimPrefix(fmt.Sprintf("%T", m), "actors.")
	}
}

// cell is one line of a matrix: what a message does in a state. A panic is what
// the table says for a message that cannot come.
func cell(build func() step.Machine, state func(step.Machine) string, script []told, m told) (line string) {
	f := &fed{machine: build(), timers: map[string]step.Timer{}}
	for _, s := range script {
		f.feed(s)
	}
	before := state(f.machine)
	name := brief(m.m)
	if timer, ok := m.m.(fire); ok {
		name = "Expired{" + string(timer) + "}"
	}
	defer func() {
		if v := recover(); v != nil {
			line = fmt.Sprintf("%-22s %-26s -> PANIC %v", before, name, v)
		}
	}()
	f.feed(m)
	return fmt.Sprintf("%-22s %-26s -> %-22s %s", before, name, state(f.machine), show(&f.fx))
}

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make it with -rewrite", err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Fatalf("%s line %d\n got %s\nwant %s", name, i+1, g, w)
		}
	}
}

// scenario is a named way into a state.
type scenario struct {
	name   string
	script []told
}

func matrix(t *testing.T, file string, build func() step.Machine, state func(step.Machine) string, ways []scenario, messages []told) {
	t.Helper()
	var b strings.Builder
	for _, w := range ways {
		fmt.Fprintf(&b, "# %s\n", w.name)
		for _, m := range messages {
			// The matrix is fed twice in a fresh machine: the same input must give
			// the same effects (no map order, no hidden state).
			one, two := cell(build, state, w.script, m), cell(build, state, w.script, m)
			if one != two {
				t.Fatalf("not deterministic:\n%s\n%s", one, two)
			}
			b.WriteString(strings.TrimRight(one, " ") + "\n")
		}
	}
	golden(t, file, b.String())
}
