//go:build linux

package containment

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// D10: 30 runs live through their time while the threads that started them, and
// many others, end. A parent-death signal would kill them at random.
func TestRunsOutliveTheThreadsThatStartedThem(t *testing.T) {
	t.Parallel()
	churn := make(chan struct{})
	var threads sync.WaitGroup
	threads.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-churn:
				return
			case <-tick.C:
				threads.Go(runtime.LockOSThread) // ends with its thread
			}
		}
	})
	var runs sync.WaitGroup
	for range 30 {
		runs.Go(func() {
			started := make(chan *Tree)
			go func() {
				runtime.LockOSThread()
				tree, err := Start(quick(), shell("sleep 1.5; exit 9"))
				if err != nil {
					t.Error(err)
				}
				started <- tree
			}()
			tree := <-started
			if tree == nil {
				return
			}
			receipt, err := tree.Wait()
			if err != nil || receipt.Exit == nil || *receipt.Exit != (Exit{Code: 9}) {
				t.Errorf("run ended with %v, %v; want its own exit 9", receipt.Exit, err)
			}
			_ = tree.Close()
		})
	}
	runs.Wait()
	close(churn)
	threads.Wait()
}

// Design section 12: nobody calls wait4(-1) in a host's process: 50 commands of its
// own, beside runs that come and go, all end as they should.
func TestHostsOwnCommandsKeepTheirExits(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	var beside sync.WaitGroup
	for range 2 {
		beside.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				tree, err := Start(quick(), shell("(sleep 60 &) ; exit 0"))
				if err != nil {
					t.Error(err)
					return
				}
				if err := tree.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 50 {
		err := exec.Command("/bin/sh", "-c", fmt.Sprintf("exit %d", i+1)).Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != i+1 {
			t.Errorf("the host's own command ended with %v; want exit %d", err, i+1)
		}
	}
	close(done)
	beside.Wait()
}

// Done when 5 of the product: runs side by side do not disturb each other; each gets
// its own output, exit and receipt.
func TestTwentySideBySide(t *testing.T) {
	t.Parallel()
	var runs sync.WaitGroup
	for i := range 20 {
		runs.Go(func() {
			tree, err := Start(quick(), shell(fmt.Sprintf("for n in 1 2 3 4 5; do echo run %d line $n; done; exit %d", i, i)))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = tree.Close() }()
			out, err := io.ReadAll(tree.Stdout())
			if want := fmt.Sprintf("run %d line", i); err != nil || strings.Count(string(out), want) != 5 || strings.Count(string(out), "\n") != 5 {
				t.Errorf("run %d: output %q, %v; want its own five lines", i, out, err)
			}
			if receipt, err := tree.Wait(); err != nil || receipt.Exit.Code != i {
				t.Errorf("run %d: %+v, %v; want a proven end with its own exit", i, receipt, err)
			}
		})
	}
	runs.Wait()
}

// I12: a caller that reads nothing and only closes leaves no file behind, and is
// not held up by a run that is blocked on its full pipe.
func TestCloseLetsGoOfEverything(t *testing.T) {
	t.Parallel()
	spec := shell("yes")
	spec.KeepStdin = true
	tree, err := Start(quick(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for name, f := range map[string]*os.File{"control": tree.control, "report": tree.report, "stdin": tree.stdin, "stdout": tree.stdout.file, "stderr": tree.stderr.file} {
		if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s is still open: %v", name, err)
		}
	}
	if n, err := tree.Stdout().Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("Read after Close: %d, %v; want EOF", n, err)
	}
	tree.Stop() // does nothing any more
}

// Output ends with the tree even when somebody outside it was handed the pipe; what
// was written before is there.
func TestOutputEndsWithTheTree(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	r := start(t, quick(), python(t, "-c", `
import array, os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
print("last", flush=True)`, path))
	conn, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	oob := make([]byte, 64)
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("no descriptor came: %v", err)
	}
	held, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(held[0]) }()
	r.clean()
	if got := r.rest(); len(got) != 1 || got[0] != "last" {
		t.Errorf("stdout %q; want its last line, then the end", got)
	}
}

// A stream ends when the run closes it, not with the run: nobody but the run holds
// the pipes.
func TestStreamsEndWhenTheRunClosesThem(t *testing.T) {
	t.Parallel()
	spec := shell("exec <&- >&- 2>&-; exec sleep 60")
	spec.KeepStdin = true
	r := start(t, quick(), spec)
	if got := r.rest(); len(got) != 0 {
		t.Errorf("stdout %q; want nothing", got)
	}
	if got := <-r.stderr; len(got) != 0 {
		t.Errorf("stderr %q; want nothing", got)
	}
	if _, err := r.Stdin().Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("writing to a stdin that nobody has: %v; want EPIPE", err)
	}
	select {
	case <-r.Drained():
		t.Error("drained, although the leader lives")
	case <-r.done:
		t.Error("the run is over")
	default:
	}
	r.Stop()
	r.clean()
}

// Spec.KeepStdin: what is written later comes after the prompt, and the end comes
// when the caller says so.
func TestKeptStdinFollowsThePrompt(t *testing.T) {
	t.Parallel()
	spec := Spec{Argv: []string{"/bin/cat"}, Dir: "/", Stdin: []byte("one\n"), KeepStdin: true}
	r := start(t, quick(), spec)
	in := r.Stdin()
	if got := r.line(); got != "one" {
		t.Errorf("first line %q; want one", got)
	}
	if _, err := io.WriteString(in, "two\n"); err != nil {
		t.Error(err)
	}
	if got := r.line(); got != "two" {
		t.Errorf("second line %q; want two", got)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if e := r.exit(); e != (Exit{}) {
		t.Errorf("cat ended with %v; want exit 0, at the end of its input", e)
	}
	r.clean()
	if r := start(t, quick(), shell("exit 0")); r.Stdin() != nil {
		t.Error("Stdin without KeepStdin")
	}
}

// asProgram runs this test binary as another program.
func asProgram(t *testing.T, argv []string, env ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = argv
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// Design section 12: without SupervisorMain and without a path nothing is started,
// and the error names both; with a path it works; a program that was itself started
// as a supervisor and does not know the role never starts another one.
func TestProgramThatForgotSupervisorMainIsTold(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := asProgram(t, []string{"host"}, helperEnv+"=forgetful")
	for _, want := range []string{"true ", "containment.SupervisorMain()", "Config.Supervisor"} {
		if !strings.Contains(out, want) {
			t.Errorf("it said %q; want %q", out, want)
		}
	}
	if out := asProgram(t, []string{"host"}, helperEnv+"=forgetful", "SUPERVISOR="+self); out != "false <nil>\n" {
		t.Errorf("with a supervisor's path: %q; want a start", out)
	}
	out = asProgram(t, []string{roleName, roleWord}, helperEnv+"=forgetful", "SUPERVISOR="+self)
	if !strings.Contains(out, "true ") || !strings.Contains(out, "itself was started as a supervisor") {
		t.Errorf("in the role without knowing it: %q; want a refusal", out)
	}
}

// The two words alone do not make a supervisor: without its pipes the program goes on
// as what it is.
func TestRoleNeedsItsPipes(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = []string{roleName, roleWord}
	cmd.Env = append(os.Environ(), helperEnv+"=daemon")
	cmd.Stdin = strings.NewReader(`{"Spec":{"Argv":["/bin/echo","\"ran\""],"Dir":"/"}}`)
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "ran") {
		t.Errorf("it said %q, %v; want it to be the daemon it is", out, err)
	}
}

// A program that is no supervisor is recognised before anything of the run starts.
func TestWrongSupervisorIsRefused(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "ran")
	for _, program := range []string{"/bin/true", "/bin/cat", "/nowhere/relay"} {
		cfg := quick()
		cfg.Supervisor = program
		_, err := Start(cfg, shell("touch "+marker))
		if !errors.Is(err, ErrSupervisor) || errors.Is(err, ErrUnconfirmed) || !strings.Contains(err.Error(), program) {
			t.Errorf("Start with supervisor %s: %v; want %v, naming it", program, err, ErrSupervisor)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the command ran")
	}
}

// Design section 12: Linux has the proving level, whatever the owner accepts.
func TestDetectFindsTheSupervisor(t *testing.T) {
	for _, mode := range []Mode{Strict, Weak} {
		if level, err := Detect(mode); err != nil || level != LevelSupervisor || level.Weak() {
			t.Errorf("Detect(%d) = %v, %v; want %v", mode, level, err, LevelSupervisor)
		}
	}
}

// A longer look for what happens rarely; by hand: RELAY_SOAK=1.
func TestSoak(t *testing.T) {
	if os.Getenv("RELAY_SOAK") == "" {
		t.Skip("set RELAY_SOAK=1 to run trees for a minute")
	}
	end := time.Now().Add(time.Minute)
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for n := 0; time.Now().Before(end) && !t.Failed(); n++ {
				soakOne(t, worker+n)
			}
		})
	}
	workers.Wait()
}

func soakOne(t *testing.T, n int) {
	lines := []string{
		"exit 0",
		"(setsid sleep 100 &) ; exit 0",
		"trap '' TERM; while :; do sleep 0.01; done",
		"i=0; while [ $i -lt 50 ]; do (setsid sh -c 'trap \"\" TERM; sleep 100' &) ; i=$((i+1)); done; sleep 100",
		"kill -STOP $$",
	}
	cfg := Config{Grace: 50 * time.Millisecond, DrainGrace: 20 * time.Millisecond, GiveUp: 20 * time.Second}
	tree, err := Start(cfg, shell(lines[n%len(lines)]))
	if err != nil {
		t.Error(err)
		return
	}
	if n%3 != 0 {
		<-time.After(time.Duration(n%7) * 10 * time.Millisecond)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
}
