package acp

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codingrelay/wire"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files; read the diff, commit only what you can explain")

// interpreter is the real Python: a version manager's shim would be one process more.
var interpreter string

func TestMain(m *testing.M) {
	flag.Parse()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need python3 on PATH:", err)
		os.Exit(1)
	}
	interpreter = strings.TrimSpace(string(out))
	goleak.VerifyTestMain(m)
}

// patience bounds waits that end long before when all is well.
const patience = 30 * time.Second

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; run with -rewrite and read the diff (-want +got):\n%s", path, diff)
	}
}

// child is a real agent process.
type child struct {
	cmd   *exec.Cmd
	agent Agent
	log   string
}

// startStub starts the ACP stub with these switches.
func startStub(t *testing.T, args ...string) *child {
	t.Helper()
	log := filepath.Join(t.TempDir(), "stub.log")
	return startChild(t, log, append([]string{filepath.Join("testdata", "acp_agent_stub.py"), "--log", log, "--tag", t.Name()}, args...)...)
}

func startChild(t *testing.T, log string, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(interpreter, args...), log: log}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// Pipes of our own: Wait must not close what is still being read.
	outR, outW, err1 := os.Pipe()
	errR, errW, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	c.cmd.Stdout, c.cmd.Stderr = outW, errW
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	outW.Close()
	errW.Close()
	ended, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.cmd.Wait() // how it ended is in ProcessState
	}()
	var tail lockedTail
	go func() {
		defer close(read)
		_, _ = io.Copy(&tail, errR)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		<-read
		outR.Close()
		errR.Close()
	})
	c.agent = Agent{
		Stdin: stdin, Stdout: outR, StderrTail: func() string { <-read; return tail.String() },
		Wait: func(ctx context.Context) (Exit, bool) {
			select {
			case <-ended:
			case <-ctx.Done():
				return Exit{}, false
			}
			if s := c.cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
				return Exit{Code: -1, Signal: int(s.Signal())}, true
			}
			return Exit{Code: c.cmd.ProcessState.ExitCode()}, true
		},
	}
	return c
}

// lockedTail keeps the last 4 KiB.
type lockedTail struct {
	mu   sync.Mutex
	text []byte
}

func (l *lockedTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if n := len(l.text) - 4<<10; n > 0 {
		l.text = append([]byte(nil), l.text[n:]...)
	}
	return len(p), nil
}

func (l *lockedTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// request is a payload for tests; more is put into its config.
func request(t *testing.T, more string) Request {
	t.Helper()
	req, err := ParsePayload([]byte(`{"prompt_text":"do it","config":{"acp_command":"agent","workspace":"/work"` + more + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// recorder is a caller that takes every event that a frame can hold, and is told of
// each.
type recorder struct {
	mu     sync.Mutex
	events []string
	on     func(event string)
}

func (r *recorder) emit(_ context.Context, event []byte) error {
	if _, err := wire.NormalizeObject(event); err != nil {
		return err
	}
	r.mu.Lock()
	r.events = append(r.events, string(event))
	r.mu.Unlock()
	if r.on != nil {
		r.on(string(event))
	}
	return nil
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

// play runs an agent to the end and gives what the caller saw, one event a line,
// and the end of the run.
func play(t *testing.T, ctx context.Context, c *child, req Request, opt Options, on func(string)) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the test's patience is over"))
	defer cancel()
	rec := &recorder{on: on}
	var completed []byte
	opt.Complete = func(data []byte) error { completed = data; return nil }
	err := Run(ctx, c.agent, req, rec.emit, opt)
	var b strings.Builder
	for _, e := range rec.all() {
		b.WriteString(e + "\n")
	}
	switch f, is := err.(*Failure); {
	case err == nil:
		fmt.Fprintf(&b, "completed %s\n", completed)
	case is:
		fmt.Fprintf(&b, "failed %s %q retryable=%t exit=%v\n", f.Code, f.Text, f.Retryable, f.Exit)
	default:
		fmt.Fprintf(&b, "ended %v\n", err)
	}
	return strings.ReplaceAll(b.String(), fmt.Sprintf("sess-%d-", c.cmd.Process.Pid), "sess-PID-"), err
}
