package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"codingrelay/containment"
)

// TestMain makes this test binary the relay: as the supervisor of runs, and as
// the command `relay` in scripts.
func TestMain(m *testing.M) {
	containment.SupervisorMain()
	testscript.Main(m, map[string]func(){"relay": func() { os.Exit(realMain()) }})
}

// patience is how long a script waits for something that must happen.
const patience = 40 * time.Second

// Each script is one promise of the command line to its users, kept with real
// processes, sockets and files.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			if err := os.Mkdir(home, 0o700); err != nil {
				return err
			}
			env.Setenv("HOME", home)
			// A relay under the race detector waits a second at its end otherwise.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			// The paused reader is given less, except in the soak: under the race detector
			// each line costs a hundred times what it costs a user.
			env.Setenv("PAUSED_LINES", "60000")
			env.Setenv("PAUSE", "2")
			if os.Getenv("RELAY_SOAK") != "" {
				env.Setenv("PAUSED_LINES", "200000")
				env.Setenv("PAUSE", "10")
			}
			p := &processes{all: make(map[string]*process), env: env}
			env.Values[processKey{}] = p
			env.Defer(p.killAll)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"start": cmdStart, "sig": cmdSignal, "ended": cmdEnded, "await": cmdAwait,
			"code": cmdCode, "capture": cmdCapture, "retry": cmdRetry,
		},
	})
}

type processKey struct{}

// processes are those a script has started in the background.
type processes struct {
	mu  sync.Mutex
	all map[string]*process
	env *testscript.Env
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	code int
}

func processesOf(ts *testscript.TestScript) *processes {
	return ts.Value(processKey{}).(*processes)
}

func (p *processes) killAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.all {
		_ = one.cmd.Process.Kill()
		<-one.done
	}
}

func (p *processes) get(ts *testscript.TestScript, name string) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.all[name]
	if one == nil {
		ts.Fatalf("no process %q was started", name)
	}
	return one
}

// start NAME COMMAND…: runs it in the background; its output goes to NAME.out and
// NAME.err.
func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME COMMAND…")
	}
	name := args[0]
	cmd := exec.Command(lookPath(ts, args[1]), args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = environ(ts)
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	errOut, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	cmd.Stdout, cmd.Stderr = out, errOut
	ts.Check(cmd.Start())
	one := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(one.done)
		err := cmd.Wait()
		one.code = cmd.ProcessState.ExitCode()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			one.code = -2
		}
		_, _ = out.Close(), errOut.Close()
	}()
	p := processesOf(ts)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[name] = one
}

func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, name); isExecutable(path) {
			return path
		}
	}
	ts.Fatalf("no command %q", name)
	return ""
}

func isExecutable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}

// environ is the script's environment, as its own commands get it.
func environ(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"HOME", "PATH", "TMPDIR", "WORK", "GORACE", "XDG_STATE_HOME", "RELAY_STATE_DIR", "RELAY_API", "RELAY_DAEMON", "NO_COLOR", "LANGBOT_PLUGIN_RUNTIME_PROFILE"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

var signalsByName = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}

// sig NAME INT|TERM|KILL
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sig NAME SIGNAL")
	}
	s, ok := signalsByName[args[1]]
	if !ok {
		ts.Fatalf("no signal %q", args[1])
	}
	ts.Check(processesOf(ts).get(ts, args[0]).cmd.Process.Signal(s))
}

// ended NAME CODE: waits until the process ends, with this exit code.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended NAME CODE")
	}
	one := processesOf(ts).get(ts, args[0])
	select {
	case <-one.done:
	case <-time.After(patience):
		ts.Fatalf("%s has not ended\n%s", args[0], ts.ReadFile(args[0]+".err"))
	}
	if got := strconv.Itoa(one.code); got != args[1] {
		ts.Fatalf("%s ended with %s, want %s\n%s\n%s", args[0], got, args[1], ts.ReadFile(args[0]+".out"), ts.ReadFile(args[0]+".err"))
	}
}

// await FILE REGEXP: waits until the file's text matches.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE REGEXP")
	}
	re := regexp.MustCompile("(?m)" + args[1])
	poll(ts, fmt.Sprintf("%s never matched %s", args[0], args[1]), func() (string, bool) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		return string(text), err == nil && re.Match(text)
	})
}

// poll repeats a look until it is satisfied.
func poll(ts *testscript.TestScript, what string, look func() (string, bool)) {
	deadline := time.Now().Add(patience)
	for {
		last, ok := look()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s\n%s", what, last)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// code N COMMAND…: runs it and wants exactly this exit code.
func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND…")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// capture NAME COMMAND…: keeps the command's trimmed output in a variable.
func cmdCapture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: capture NAME COMMAND…")
	}
	out, err := output(ts, args[1:])
	ts.Check(err)
	ts.Setenv(args[0], strings.TrimSpace(out))
}

func output(ts *testscript.TestScript, args []string) (string, error) {
	cmd := exec.Command(lookPath(ts, args[0]), args[1:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), environ(ts)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, errOut.String())
	}
	return out.String(), nil
}

// retry REGEXP COMMAND…: repeats a command until it succeeds and its output
// matches; for what another process is about to do.
func cmdRetry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: retry REGEXP COMMAND…")
	}
	re := regexp.MustCompile("(?m)" + args[0])
	poll(ts, fmt.Sprintf("%v never matched %s", args[1:], args[0]), func() (string, bool) {
		out, err := output(ts, args[1:])
		if err != nil {
			return err.Error(), false
		}
		return out, re.MatchString(out)
	})
}
