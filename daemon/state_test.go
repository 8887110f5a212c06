//go:build unix

package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"codingrelay/containment"
	"codingrelay/lease"
	"codingrelay/persist"
	"codingrelay/wire"
)

// deaf is a runner that ignores its end until the test's.
func deaf(t *testing.T) RunnerFunc {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	return func(ctx context.Context, job *Job) error {
		if err := job.Emit(ctx, []byte(`{"type":"up"}`)); err != nil {
			return err
		}
		<-release
		return nil
	}
}

// Protocol 8: a run whose end nobody can confirm is never acknowledged; the socket
// closes with 1011; the daemon halts, stays halted after a restart, does not dial,
// and goes on only when the owner has said so.
func TestUnconfirmedRunHaltsAcrossRestarts(t *testing.T) {
	t.Parallel()
	hub := newRawHub(t)
	cfg := testConfig(t, hub)
	cfg.Containment = containment.Config{Grace: 100 * time.Millisecond, GiveUp: 300 * time.Millisecond}
	cfg.Runner = deaf(t)
	d := startDaemon(t, cfg)
	c := hub.next()
	c.startPlain("r1")
	if f, err := c.read(); err != nil || string(f.Body) != `{"type":"up"}` {
		t.Fatalf("the run did not start: %v", err)
	}
	c.cancel("r1")
	code, frames := c.closedWith()
	if code != 1011 || len(frames) != 0 {
		t.Errorf("closed with %d after %d frames, want 1011 and none", code, len(frames))
	}
	var halted *HaltedError
	if err := d.wait(); !errors.As(err, &halted) || len(halted.Runs) != 1 || halted.Runs[0].RunID != "r1" {
		t.Fatalf("it ended with %v", err)
	}
	for _, want := range []string{"r1", "did not return", "--accept-unclean", halted.File} {
		if !strings.Contains(halted.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, halted)
		}
	}
	if info, err := os.Stat(halted.File); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the halt file is %v, %v", info, err)
	}
	cfg.Runner = nil
	if err := startDaemon(t, cfg).wait(); !errors.As(err, &halted) || halted.Runs[0].Reason == "" || halted.Runs[0].At.IsZero() {
		t.Fatalf("after a restart: %v", err)
	}
	hub.nobody(50 * time.Millisecond)
	accept(t, cfg, "other", false)
	accept(t, cfg, "r1", true)
	accept(t, cfg, "r1", false)
	startDaemon(t, cfg)
	if r := hub.next().run("r2", argv("true")); r.kind != "run.completed" {
		t.Errorf("after the owner's word: %v", r.terminal)
	}
}

// accept lifts a halt, as the owner does between two runs of the program.
func accept(t *testing.T, cfg Config, run string, works bool) {
	t.Helper()
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := d.AcceptUnclean(run); (err == nil) != works {
		t.Errorf("accept %q: %v", run, err)
	}
}

// A supervisor that is gone without a report proves nothing: no acknowledgement,
// 1011, halt.
func TestLostSupervisorHalts(t *testing.T) {
	trees := make(chan *containment.Tree, 1)
	hub := newRawHub(t)
	cfg := testConfig(t, hub)
	cfg.Runner = RunnerFunc(func(ctx context.Context, job *Job) error {
		tree, err := job.Command(containment.Spec{Argv: []string{"sleep", "60"}, Dir: "/"})
		if err != nil {
			return err
		}
		trees <- tree
		<-ctx.Done()
		return nil
	})
	d := startDaemon(t, cfg)
	c := hub.next()
	c.startPlain("r1")
	tree := <-trees
	if err := syscall.Kill(tree.Supervisor().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-tree.Drained()
	c.cancel("r1")
	if code, frames := c.closedWith(); code != 1011 || len(frames) != 0 {
		t.Errorf("closed with %d after %d frames, want 1011 and none", code, len(frames))
	}
	var halted *HaltedError
	if err := d.wait(); !errors.As(err, &halted) || !strings.Contains(halted.Runs[0].Reason, "without a report") {
		t.Errorf("it ended with %v", err)
	}
}

// Also when it comes out after a disconnect: the daemon does not dial again.
func TestUnconfirmedAfterADisconnectDialsNoMore(t *testing.T) {
	t.Parallel()
	hub := newRawHub(t)
	cfg := testConfig(t, hub)
	cfg.Containment = containment.Config{Grace: 100 * time.Millisecond, GiveUp: 300 * time.Millisecond}
	cfg.Runner = deaf(t)
	d := startDaemon(t, cfg)
	c := hub.next()
	c.startPlain("r1")
	if _, err := c.read(); err != nil {
		t.Fatal(err)
	}
	_ = c.ws.CloseNow()
	var halted *HaltedError
	if err := d.wait(); !errors.As(err, &halted) {
		t.Errorf("it ended with %v", err)
	}
	hub.nobody(50 * time.Millisecond)
}

// A halt file that cannot be understood halts; its content is kept when it is
// lifted. Several runs are lifted one by one.
func TestHaltFileIsReadStrictly(t *testing.T) {
	cfg := testConfig(t, newRawHub(t))
	dir := filepath.Join(cfg.StateDir, "daemon", lease.Key(cfg.DaemonID))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, haltName)
	for _, text := range []string{"", "{", `{"version":2,"runs":[{"run_id":"x"}]}`, `{"version":1,"runs":[]}`, `{"version":1,"runs":7}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Halted(); err == nil || !strings.Contains(err.Error(), UnreadableRun) {
			t.Errorf("file %q: halted is %v", text, err)
		}
		if err := d.AcceptUnclean(UnreadableRun); err != nil || d.Halted() != nil {
			t.Errorf("file %q: accept: %v", text, err)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, liftedName)); err != nil || string(kept) != text {
			t.Errorf("file %q was kept as %q, %v", text, kept, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	seven := 7
	h, err := openHalt(dir, "box")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := HaltedRun{RunID: "a", At: at, Reason: "bad \xff", Receipt: wire.Receipt{Mechanism: "supervisor", ExitCode: &seven, Killed: 2, Survivors: 1, DurationMS: 9, Weak: true}}
	if err := h.save([]HaltedRun{a, {RunID: "b", At: at, Reason: "r", Receipt: wire.Receipt{Signal: "SIGKILL"}}}); err != nil {
		t.Fatal(err)
	}
	if h, err = openHalt(dir, "box"); err != nil {
		t.Fatal(err)
	}
	var halted *HaltedError
	if !errors.As(h.err(), &halted) || len(halted.Runs) != 2 || *halted.Runs[0].Receipt.ExitCode != 7 || !halted.Runs[0].At.Equal(at) || halted.Runs[0].Receipt.Survivors != 1 {
		t.Fatalf("read again: %+v", halted)
	}
	if err := h.accept("a"); err != nil {
		t.Fatal(err)
	}
	if h, err = openHalt(dir, "box"); err != nil || !errors.As(h.err(), &halted) || len(halted.Runs) != 1 || halted.Runs[0].RunID != "b" {
		t.Errorf("after one was lifted: %v, %v", h.err(), err)
	}
}

// A second daemon with this id on this machine is refused and told who has it;
// the folder is private, whatever the umask.
func TestStateFolderHasOneOwner(t *testing.T) {
	hub := newRawHub(t)
	cfg := testConfig(t, hub)
	old := syscall.Umask(0)
	d := startDaemon(t, cfg)
	hub.next()
	syscall.Umask(old)
	_, err := New(cfg)
	var locked *persist.LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() {
		t.Errorf("a second daemon: %v", err)
	}
	cfg.DaemonID = "other"
	if other, err := New(cfg); err != nil || other.Close() != nil {
		t.Errorf("a daemon with another id: %v", err)
	}
	err = filepath.WalkDir(filepath.Join(cfg.StateDir, "daemon"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := d.AcceptUnclean("x"); err == nil {
		t.Error("a running daemon accepts")
	}
	if err := d.Run(context.Background()); !errors.Is(err, ErrOnce) {
		t.Errorf("a second Run: %v", err)
	}
	d.cancel()
	if err := d.wait(); err != nil {
		t.Error(err)
	}
	cfg.DaemonID = "box"
	if again, err := New(cfg); err != nil || again.Close() != nil {
		t.Errorf("after its end the folder is not free: %v", err)
	}
}

// Every bad field of a configuration is named; methods before Run say so.
func TestConfigurationIsJudged(t *testing.T) {
	_, err := New(Config{DaemonID: " ", MaxRuns: -1, Timing: Timing{PingEvery: time.Minute}, Containment: containment.Config{Grace: time.Hour}})
	for _, want := range []string{"DaemonID", "URL", "StateDir", "MaxRuns", "PingEvery", "GiveUp"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	cfg := testConfig(t, newRawHub(t))
	cfg.Workspaces = []string{"/none/such"}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "/none/such") {
		t.Errorf("a missing workspace: %v", err)
	}
	d, err := New(testConfig(t, newRawHub(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Drain(context.Background()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("drain before run: %v", err)
	}
	if err := d.Stop(context.Background()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("stop before run: %v", err)
	}
	if _, err := d.Status(context.Background()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("status before run: %v", err)
	}
	if err := d.Close(); err != nil || d.Run(context.Background()) == nil {
		t.Errorf("close: %v", err)
	}
}

// A stop counts whenever it comes, also while the daemon is still starting.
func TestStopCountsFromTheBeginning(t *testing.T) {
	for range 10 {
		d, err := New(testConfig(t, newRawHub(t)))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- d.Run(context.Background()) }()
		waitFor(t, "the beginning", d.begun.Load)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := d.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
}

// Design 12: a daemon without a supervisor refuses to start and names both ways
// to have one; a grace that does not fit is warned about.
func TestDaemonThatCannotContainRefusesToStart(t *testing.T) {
	hub := newRawHub(t)
	cfg := testConfig(t, hub)
	cfg.Containment.Supervisor = "/bin/true"
	if err := startDaemon(t, cfg).wait(); !errors.Is(err, containment.ErrSupervisor) {
		t.Errorf("with a supervisor that is none: %v", err)
	}
	hub.nobody(20 * time.Millisecond)
	cfg = testConfig(t, hub)
	cfg.Containment.Grace = 8 * time.Second
	d := startDaemon(t, cfg)
	hub.next()
	if !strings.Contains(d.log.String(), "the grace is long") {
		t.Error("a grace of 8 s was not warned about")
	}
}

// Design 6: whatever part of a daemon panics, the trees of its runs are ended,
// nothing is acknowledged, and it ends with an error.
func TestPanicEndsTheDaemonWithoutAnAcknowledgement(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"run", "session"} {
		t.Run(part, func(t *testing.T) {
			_, c, d := connected(t, nil)
			tag := freshTag()
			c.start("r1", python(t, "cli_agent_stub.py", "--hang-after-result", "--tag", tag))
			c.line("r1", "session_id")
			stillAlive(t, tag)
			target := d.world.ref
			if part == "run" {
				target = d.world.runPorts()[0].ref
			}
			d.world.host.Send(target, target, struct{ unexpected bool }{})
			code, frames := c.closedWith()
			if part == "run" && code != 1011 {
				t.Errorf("closed with %d", code)
			}
			for _, f := range frames {
				if f.Type == wire.RunFinished {
					t.Error("the run was acknowledged")
				}
			}
			err := d.wait()
			if err == nil || !strings.Contains(err.Error(), "internal error") || d.Halted() != nil {
				t.Errorf("it ended with %v", err)
			}
			noSurvivors(t, tag)
		})
	}
}
