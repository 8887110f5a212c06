package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"
)

// Subject is what a child process measures: the hub, or the ceiling.
type Subject string

// The subjects.
const (
	SubjectHub     Subject = "hub"
	SubjectCeiling Subject = "ceiling"
)

// order is a line from the generator to a subject.
type order struct {
	// Op is begin (prepare runs on Daemons daemons, then answer), end (wait until
	// all runs have ended, answer what was measured), idle (collect garbage,
	// answer memory), or cancel (cancel the run of daemon 0, answer how long).
	Op      string `json:"op"`
	Daemons int    `json:"daemons,omitempty"`
	First   int    `json:"first,omitempty"`
	SSE     bool   `json:"sse,omitempty"`
	// Latency makes readers look at the stamp in each event.
	Latency bool `json:"latency,omitempty"`
}

// report is a line from a subject to the generator.
type report struct {
	Error string `json:"error,omitempty"`
	// Addr and API are where daemons and callers dial; in the first line only.
	Addr  string `json:"addr,omitempty"`
	API   string `json:"api,omitempty"`
	Token string `json:"token,omitempty"`
	// Runs are the ids of the runs that were begun.
	Runs []string `json:"runs,omitempty"`
	// Events, CPU, Allocs, Wall are what happened since begin.
	Events int64         `json:"events,omitempty"`
	CPU    time.Duration `json:"cpu,omitempty"`
	Wall   time.Duration `json:"wall,omitempty"`
	Allocs uint64        `json:"allocs,omitempty"`
	// RSS is the resident set in bytes, after a collection.
	RSS int64 `json:"rss,omitempty"`
	// Latency is from the generator's stamp to the reader, ascending quantiles.
	Latency Quantiles `json:"latency"`
	// Took are the durations of single operations, one each.
	Took []time.Duration `json:"took,omitempty"`
}

// Quantiles of a distribution.
type Quantiles struct {
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
}

// meter notes what the process has used since it was started.
type meter struct {
	cpu    time.Duration
	wall   time.Time
	allocs uint64
}

func startMeter() meter {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return meter{cpu: processCPU(), wall: time.Now(), allocs: m.Mallocs}
}

func (m meter) read(into *report) {
	into.CPU, into.Wall = processCPU()-m.cpu, time.Since(m.wall)
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	into.Allocs = now.Mallocs - m.allocs
}

// subject is what both kinds of child can do.
type subject interface {
	hello() report
	begin(ctx context.Context, o order) report
	end(ctx context.Context) report
	cancel(ctx context.Context, o order) report
	close()
}

// RunSubject is a child process: it serves the generator's orders on in and out
// until in ends. stateDir is the hub's durable store; empty is memory.
func RunSubject(ctx context.Context, kind Subject, stateDir string, in io.Reader, out io.Writer) error {
	var s subject
	var err error
	switch kind {
	case SubjectHub:
		s, err = newHubSubject(ctx, stateDir)
	case SubjectCeiling:
		s, err = newCeiling()
	default:
		err = fmt.Errorf("bench: no subject %q", kind)
	}
	if err != nil {
		return err
	}
	defer s.close()
	w := json.NewEncoder(out)
	if err := w.Encode(s.hello()); err != nil {
		return fmt.Errorf("bench: report: %w", err)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("bench: order: %w", err)
		}
		var r report
		switch o.Op {
		case "begin":
			r = s.begin(ctx, o)
		case "end":
			r = s.end(ctx)
		case "cancel":
			r = s.cancel(ctx, o)
		case "idle":
			runtime.GC()
			r.RSS, r.CPU = residentBytes(), processCPU()
		default:
			r.Error = "unknown order " + o.Op
		}
		if err := w.Encode(r); err != nil {
			return fmt.Errorf("bench: report: %w", err)
		}
	}
	return lines.Err()
}
