package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codingrelay/containment"
	"codingrelay/wire"
)

// running starts a daemon with a runner of the test's own.
func running(t *testing.T, run RunnerFunc) (*rawConn, *testDaemon) {
	t.Helper()
	_, c, d := connected(t, func(cfg *Config) { cfg.Runner = run })
	return c, d
}

func (c *rawConn) startPlain(job string) {
	c.t.Helper()
	c.start(job, map[string]any{"job": job})
}

// What a runner returns is the run's one terminal event.
func TestRunnerDecidesTheTerminalEvent(t *testing.T) {
	three := 3
	kinds := map[string]func(job *Job) error{
		"nil":   func(*Job) error { return nil },
		"data":  func(job *Job) error { return job.Complete([]byte(` {"finish_reason":"stop","usage":7} `)) },
		"error": func(*Job) error { return errors.New("no luck\xff") },
		"failure": func(*Job) error {
			return fmt.Errorf("wrapped: %w", &Failure{Code: "x.y", Text: "why", Retryable: true, ExitCode: &three})
		},
		"panic": func(*Job) error { panic("oh no") },
		"long":  func(*Job) error { return errors.New(strings.Repeat("≤", 1<<20)) },
	}
	want := map[string]string{
		"nil":     `{"type":"run.completed","data":{"finish_reason":"stop"}}`,
		"data":    `{"type":"run.completed","data":{"finish_reason":"stop","usage":7}}`,
		"error":   `{"type":"run.failed","data":{"error":"no luck` + "\ufffd" + `","code":"daemon.run_failed","retryable":false}}`,
		"failure": `{"type":"run.failed","data":{"error":"why","code":"x.y","exit_code":3,"retryable":true}}`,
		"panic":   `{"type":"run.failed","data":{"error":"the runner panicked; the daemon's log has the trace","code":"daemon.panic","retryable":false}}`,
		"long":    `{"type":"run.failed","data":{"error":"` + strings.Repeat("≤", textMax/3) + `","code":"daemon.run_failed","retryable":false}}`,
	}
	c, d := running(t, func(_ context.Context, job *Job) error { return kinds[job.ID](job) })
	for name := range kinds {
		r := c.run(name, map[string]any{})
		if got := string(r.events[len(r.events)-1].Body); got != want[name] || len(r.events) != 1 {
			t.Errorf("%s: %d events, the last %.300s, want %.300s", name, len(r.events), got, want[name])
		}
	}
	if log := d.log.String(); !strings.Contains(log, "oh no") || !strings.Contains(log, "embed_test.go") {
		t.Error("the panic and its trace are not in the log")
	}
}

// What a runner emits is proven, kept in order, and sent as it is.
func TestEmittedEventsKeepOrderAndForm(t *testing.T) {
	events := []string{`{"type":"a","n":1.50}`, `{"b":[1,2],"b":null}`, `{}`}
	c, _ := running(t, func(ctx context.Context, job *Job) error {
		for _, e := range events {
			if err := job.Emit(ctx, []byte(" "+e+"\n")); err != nil {
				return err
			}
		}
		for _, bad := range []string{``, `[]`, `{"a":}`, `{} {}`, "{\"a\":\"\xff\"}"} {
			if err := job.Emit(ctx, []byte(bad)); !errors.Is(err, wire.ErrNotObject) {
				return fmt.Errorf("event %q: %w", bad, err)
			}
			if err := job.Complete([]byte(bad)); !errors.Is(err, wire.ErrNotObject) {
				return fmt.Errorf("completed %q: %w", bad, err)
			}
		}
		return nil
	})
	r := c.run("r1", map[string]any{})
	var got []string
	for _, f := range r.events[:len(r.events)-1] {
		got = append(got, string(f.Body))
	}
	if !slices.Equal(got, events) || r.kind != "run.completed" {
		t.Errorf("got %q and %v", got, r.terminal)
	}
}

// The barrier: run.finished waits for the runner's return and for every tree,
// also one that the runner has left behind and not read.
func TestFinishedWaitsForTheRunnerAndItsTrees(t *testing.T) {
	tag := freshTag()
	release := make(chan struct{})
	c, _ := running(t, func(ctx context.Context, job *Job) error {
		if job.ID == "probe" {
			return nil
		}
		if _, err := job.Command(containment.Spec{
			Argv: []string{interpreter, stub(t, "cli_agent_stub.py"), "--stdin", "ignore", "--hang-after-result", "--tag", tag}, Dir: "/",
		}); err != nil {
			return err
		}
		if err := job.Emit(ctx, []byte(`{"type":"up"}`)); err != nil {
			return err
		}
		<-release
		return nil
	})
	c.startPlain("r1")
	r := &result{}
	c.until("r1", r, func(f wire.Frame) bool { return string(f.Body) == `{"type":"up"}` })
	waitFor(t, "the tree", func() bool { return aliveTag(t, tag) })
	c.cancel("r1")
	// The tree goes now; the runner is not back, so nothing may be acknowledged.
	waitFor(t, "the tree's end", func() bool { return !aliveTag(t, tag) })
	if r := c.run("probe", map[string]any{}); r.kind != "run.completed" { // fails on a frame of r1
		t.Errorf("the probe ended with %v", r.terminal)
	}
	close(release)
	if r := c.finish("r1"); r.code() != "agent_runtime.daemon_cancelled" || len(r.events) != 1 {
		t.Errorf("it ended with %v", r.terminal)
	}
	noSurvivors(t, tag)
	c.startPlain("r2") // release is closed: the runner returns at once, with a tree that lives
	if r := c.finish("r2"); r.kind != "run.completed" {
		t.Errorf("it ended with %v", r.terminal)
	}
	noSurvivors(t, tag)
}

// The methods of a job whose run is over, or is being ended, say so.
func TestJobOfARunThatIsOverDoesNothing(t *testing.T) {
	var mu sync.Mutex
	var kept *Job
	ended := make(chan error, 1)
	c, _ := running(t, func(ctx context.Context, job *Job) error {
		mu.Lock()
		kept = job
		mu.Unlock()
		if job.ID == "r2" {
			<-ctx.Done()
			_, err := job.Command(containment.Spec{Argv: []string{"true"}, Dir: "/"})
			job.port.mu.Lock()
			started := len(job.port.trees)
			job.port.mu.Unlock()
			if started > 0 {
				err = errors.New("the process was started")
			}
			ended <- err
			// Last words work on.
			return job.Emit(context.WithoutCancel(ctx), []byte(`{"type":"last words"}`))
		}
		return nil
	})
	c.run("r1", map[string]any{})
	mu.Lock()
	job := kept
	mu.Unlock()
	if err := job.Emit(context.Background(), []byte("{}")); !errors.Is(err, ErrRunOver) {
		t.Errorf("emit after the end: %v", err)
	}
	if err := job.Complete([]byte("{}")); !errors.Is(err, ErrRunOver) {
		t.Errorf("complete after the end: %v", err)
	}
	if _, err := job.Command(containment.Spec{Argv: []string{"true"}, Dir: "/"}); !errors.Is(err, ErrRunOver) {
		t.Errorf("command after the end: %v", err)
	}
	c.startPlain("r2")
	c.cancel("r2")
	if err := <-ended; !errors.Is(err, ErrRunOver) {
		t.Errorf("command while being ended: %v", err)
	}
	if r := c.finish("r2"); len(r.events) != 2 || string(r.events[0].Body) != `{"type":"last words"}` {
		t.Errorf("%d events at the end", len(r.events))
	}
}

// A run that floods holds back itself: its memory is bounded, its Emit waits and
// minds its context, and another run's end is not delayed by it.
func TestFloodHoldsBackOnlyItself(t *testing.T) {
	t.Parallel()
	emitted := make(chan int, 1)
	waiting := make(chan struct{})
	c, d := running(t, func(ctx context.Context, job *Job) error {
		if job.ID == "quick" {
			return job.Emit(ctx, []byte(`{"type":"quick"}`))
		}
		event := fmt.Appendf(nil, `{"text":"%s"}`, strings.Repeat("x", 10_000))
		for n := 0; ; n++ {
			limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			err := job.Emit(limited, event)
			cancel()
			if err != nil {
				emitted <- n
				close(waiting)
				<-ctx.Done()
				return err
			}
		}
	})
	c.startPlain("flood")
	// The hub does not read; the socket and the run's budget fill, and Emit waits.
	<-waiting
	n := <-emitted
	held := 0
	for _, p := range d.world.runPorts() {
		p.mu.Lock()
		held += p.held
		p.mu.Unlock()
	}
	if held > DefaultRunQueueBytes {
		t.Errorf("%d bytes of the run are held, above its budget", held)
	}
	c.startPlain("quick")
	waitFor(t, "the quick run's end", func() bool { return strings.Contains(d.log.String(), `msg="run ended" daemon_id=box run=quick`) })
	before := 0
	for quick := false; !quick; {
		f, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		quick = f.JobID == "quick" && f.Type == wire.RunFinished
		if f.JobID == "flood" {
			before++
		}
	}
	// What was queued before it in this program came after it.
	c.cancel("flood")
	if after := len(c.finish("flood").events); before+after <= n || after < DefaultRunQueueBytes/10_000/2 {
		t.Errorf("of %d events of the flood %d came before the quick run's end and %d after it", n, before, after)
	}
}

// D32, from the daemon's side: a start and a cancel that are read in one go are
// answered cancelled and run.finished, every time.
func TestD32StartAndCancelAtOnceAreAnswered(t *testing.T) {
	_, c, _ := connected(t, nil)
	for i := range 25 {
		job := fmt.Sprint("r", i)
		c.start(job, argv("sleep", "60"))
		c.cancel(job)
		if r := c.finish(job); len(r.events) != 1 || string(r.events[0].Body) != cancelledText {
			t.Fatalf("run %d: %d events, the end %v", i, len(r.events), r.terminal)
		}
	}
}

// Ten runs at once do not disturb each other.
func TestRunsAreIndependent(t *testing.T) {
	t.Parallel()
	const runs, lines = 10, 3_000
	_, c, _ := connected(t, nil)
	for i := range runs {
		c.start(fmt.Sprint("r", i), argv("seq", fmt.Sprint(i*lines+1), fmt.Sprint((i+1)*lines)))
	}
	texts := map[string]*strings.Builder{}
	for left := runs; left > 0; {
		f, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		if texts[f.JobID] == nil {
			texts[f.JobID] = &strings.Builder{}
		}
		if f.Type == wire.RunFinished {
			left--
			continue
		}
		if o := outputOf(t, f.Body); o.Type == "output" {
			texts[f.JobID].WriteString(o.Data.Text)
		}
	}
	for i := range runs {
		var want strings.Builder
		for n := i*lines + 1; n <= (i+1)*lines; n++ {
			fmt.Fprintln(&want, n)
		}
		if texts[fmt.Sprint("r", i)].String() != want.String() {
			t.Errorf("run %d did not arrive whole and in order", i)
		}
	}
}

// A process that reads on: Spec.KeepStdin works through Job.Command, and the
// environment is the scrubbed one.
func TestCommandTalksOverStdin(t *testing.T) {
	c, _ := running(t, func(ctx context.Context, job *Job) error {
		tree, err := job.Command(containment.Spec{Argv: []string{"cat"}, Dir: "/", Stdin: []byte("first\n"), KeepStdin: true})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(tree.Stdin(), "second\n"); err != nil {
			return err
		}
		if err := tree.Stdin().Close(); err != nil {
			return err
		}
		out, err := io.ReadAll(tree.Stdout())
		if err != nil {
			return err
		}
		return job.Output(ctx, "stdout", out, false)
	})
	if r := c.run("r1", map[string]any{}); r.text(t, "stdout") != "first\nsecond\n" {
		t.Errorf("it said %q and ended with %v", r.text(t, "stdout"), r.terminal)
	}
}
