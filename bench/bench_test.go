package bench

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The test binary is the measured process when it is told so.
const roleEnv = "BENCH_SUBJECT"

func TestMain(m *testing.M) {
	if kind := os.Getenv(roleEnv); kind != "" {
		if err := RunSubject(context.Background(), Subject(kind), os.Getenv(roleEnv+"_STATE"), os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func subjectCommand(ctx context.Context, kind Subject, stateDir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+string(kind), roleEnv+"_STATE="+stateDir)
	return cmd
}

// A small run over real processes and sockets gives every figure, and the table
// shows them.
func TestBenchMeasuresHubAndCeiling(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	o := Options{Command: subjectCommand, Bytes: 1 << 20, Sizes: []int{200}, Daemons: []int{2}}.withDefaults()
	for _, sse := range []bool{false, true} {
		f, err := measureFlow(ctx, o, 200, 2, false, sse)
		if err != nil {
			t.Fatal(err)
		}
		if f.Hub.EventsPerSecond <= 0 || f.Ceiling.EventsPerSecond <= 0 || f.Ratio <= 0 {
			t.Errorf("sse=%t: a figure is missing: %+v", sse, f)
		}
	}
	var s Singles
	if err := lagPaced(ctx, o, &s); err != nil {
		t.Fatal(err)
	}
	if err := startDurable(ctx, o, &s); err != nil {
		t.Fatal(err)
	}
	if s.EventLagPaced.P50 <= 0 || s.StartDurable.Max <= 0 {
		t.Errorf("a figure is missing: %+v", s)
	}
	var out bytes.Buffer
	if err := (&Result{Flows: []Flow{{Size: 200}}, Single: s}).Print(&out); err != nil || !strings.Contains(out.String(), "ratio") {
		t.Errorf("table %q, %v", out.String(), err)
	}
}

// A quantile is within a sixteenth of the true value, at any size.
func TestHistogramIsExactToASixteenth(t *testing.T) {
	for d := time.Duration(1); d < time.Hour; d = d*17/16 + 1 {
		var h histogram
		h.add(d)
		got := h.at(0.5)
		if got > d || d-got > d/16+1 {
			t.Fatalf("quantile of %v is %v", d, got)
		}
	}
}
