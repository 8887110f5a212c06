//go:build linux

package containment

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// helperEnv makes this test binary a program of its own, for tests that need
// another process: a daemon that can be killed, a host that forgot something.
const helperEnv = "CONTAINMENT_TEST_HELPER"

// interpreter is the real Python, found once: a version manager's shim would be
// a process tree of its own.
var interpreter string

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) == "forgetful" {
		// A program that never calls SupervisorMain.
		_, err := Start(Config{Supervisor: os.Getenv("SUPERVISOR")}, shell("exit 0"))
		fmt.Println(errors.Is(err, ErrNoSupervisor), err)
		syscall.Exit(0) // without the race detector's second of waiting
	}
	SupervisorMain()
	if os.Getenv(helperEnv) == "daemon" {
		syscall.Exit(helperDaemon())
	}
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need python3 on PATH:", err)
		os.Exit(1)
	}
	interpreter = strings.TrimSpace(string(out))
	// These tests wait most of their time; more of them at once fit on few cores.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// helperDaemon runs the Spec it reads from stdin, says who runs, passes on the
// tree's output, and then stays until it is killed.
func helperDaemon() int {
	var in struct {
		Config Config
		Spec   Spec
	}
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	tree, err := Start(in.Config, in.Spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode([]Identity{tree.Supervisor(), tree.Leader()})
	go func() { _, _ = io.Copy(io.Discard, tree.Stderr()) }()
	_, _ = io.Copy(os.Stdout, tree.Stdout())
	_, _ = tree.Wait()
	return 0
}

// shell is a Spec for a line of sh.
func shell(line string) Spec {
	return Spec{Argv: []string{"/bin/sh", "-c", line}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}}
}

// bash is a Spec for a line of bash.
func bash(line string) Spec {
	s := shell(line)
	s.Argv[0] = "bash"
	return s
}

// python is a Spec for a program of one of our test scripts, or for a program text
// after "-c".
func python(t *testing.T, words ...string) Spec {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return Spec{Argv: append([]string{interpreter, "-u"}, words...), Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}}
}

// quick is a Config whose waits fit a test.
func quick() Config {
	return Config{Grace: 400 * time.Millisecond, DrainGrace: 300 * time.Millisecond, GiveUp: 15 * time.Second}
}

// run is a tree under test with its output read.
type run struct {
	*Tree
	t      *testing.T
	lines  chan string // of stdout; closed at its end
	stderr chan []byte // all of it, at its end
	begun  time.Time   // when Start was called
}

func start(t *testing.T, cfg Config, spec Spec) *run {
	t.Helper()
	begun := time.Now()
	tree, err := Start(cfg, spec)
	if err != nil {
		t.Fatalf("Start(%q): %v", spec.Argv, err)
	}
	r := &run{Tree: tree, t: t, lines: make(chan string, 10_000), stderr: make(chan []byte, 1), begun: begun}
	t.Cleanup(func() { _ = tree.Close() })
	go func() {
		defer close(r.lines)
		in := bufio.NewScanner(tree.Stdout())
		in.Buffer(nil, 16<<20)
		for in.Scan() {
			r.lines <- in.Text()
		}
	}()
	go func() {
		all, _ := io.ReadAll(tree.Stderr())
		r.stderr <- all
	}()
	return r
}

// line waits for the next line of stdout.
func (r *run) line() string {
	r.t.Helper()
	select {
	case l, ok := <-r.lines:
		if !ok {
			r.t.Fatal("stdout ended before the line that was waited for")
		}
		return l
	case <-time.After(patience):
		r.t.Fatal("no line on stdout")
	}
	return ""
}

// rest is what is left of stdout, to its end.
func (r *run) rest() []string {
	r.t.Helper()
	var all []string
	deadline := time.After(patience)
	for {
		select {
		case l, ok := <-r.lines:
			if !ok {
				return all
			}
			all = append(all, l)
		case <-deadline:
			r.t.Fatalf("stdout does not end; so far %q", all)
		}
	}
}

// patience is how long tests wait for what must come; on an idle machine all of
// it comes in a fraction.
const patience = 30 * time.Second

// clean waits for the verdict and fails unless the tree is proven gone.
func (r *run) clean() Receipt {
	r.t.Helper()
	receipt, err := r.verdict()
	if err != nil {
		r.t.Fatalf("Wait: %v; want a proven end", err)
	}
	if receipt.Mechanism != LevelSupervisor || receipt.Weak || receipt.Survivors != nil {
		r.t.Errorf("receipt %+v; want mechanism %q, not weak, no survivors", receipt, LevelSupervisor)
	}
	if said := r.tail.String(); said != "" { // a panic, or the race detector
		r.t.Errorf("the supervisor wrote to stderr%s", said)
	}
	return receipt
}

func (r *run) verdict() (Receipt, error) {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("no verdict")
	}
	return r.Wait()
}

func (r *run) exit() Exit {
	r.t.Helper()
	select {
	case e, ok := <-r.Exited():
		if !ok {
			r.t.Fatal("Exited was closed without an exit")
		}
		return e
	case <-time.After(patience):
		r.t.Fatal("the leader does not end")
	}
	return Exit{}
}
