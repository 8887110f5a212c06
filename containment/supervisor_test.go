//go:build linux

package containment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Design section 12: a supervisor that is gone without its report proves nothing,
// whoever is dead or alive; what it left in its session is ended all the same.
func TestKilledSupervisorIsNeverClean(t *testing.T) {
	t.Parallel()
	tag, beat := tagged(t)
	r := start(t, quick(), python(t, "testdata/tree_setsid_escape.py", "--tag", tag, "--beat", beat))
	r.line()
	beating(t, beat)
	if err := unix.Kill(r.Supervisor().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	receipt, err := r.verdict()
	if !errors.Is(err, ErrUnconfirmed) {
		t.Fatalf("verdict %+v, %v; want %v", receipt, err, ErrUnconfirmed)
	}
	if alive(r.Leader()) {
		t.Error("the leader was left alone, although it is still in the supervisor's session")
	}
	select {
	case <-r.Proven():
		t.Error("a proof without a supervisor")
	default:
	}
	r.rest() // ends, although the escaped process lives on
	if out, err := exec.Command(interpreter, "testdata/check_tree.py", "--tag", tag, "--kill").Output(); err == nil {
		t.Errorf("nobody had escaped, so the test shows nothing: %s", out)
	}
}

// A supervisor that crashes right after a short run says as little: also an end
// that was really clean is not called clean without the report.
func TestSupervisorThatEndsSilentlyIsUnconfirmed(t *testing.T) {
	t.Parallel()
	r := start(t, quick(), shell("echo up; exec sleep 60"))
	r.line()
	// Stopped, so that it cannot report; then everything is killed by others.
	_ = unix.Kill(r.Supervisor().PID, unix.SIGSTOP)
	_ = unix.Kill(r.PID(), unix.SIGKILL)
	_ = unix.Kill(r.Supervisor().PID, unix.SIGKILL)
	receipt, err := r.verdict()
	if !errors.Is(err, ErrUnconfirmed) || receipt.Survivors != nil {
		t.Errorf("verdict %+v, %v; want %v with nobody seen", receipt, err, ErrUnconfirmed)
	}
	if _, ok := <-r.Exited(); ok {
		t.Error("an exit was told that nobody has reported")
	}
}

// A member of the run may stop the supervisor, they are of one user: also in the
// moment when it should say that the run has started. It is woken, and goes on.
func TestStoppedSupervisorIsWoken(t *testing.T) {
	t.Parallel()
	r := start(t, quick(), shell("kill -STOP $PPID; exit 3"))
	if e := r.exit(); e != (Exit{Code: 3}) {
		t.Errorf("the leader ended with %v; want exit 3", e)
	}
	r.clean()
}

// What a member sends to the supervisor by mistake (kill 0, a session-wide TERM)
// begins an orderly end; it does not leave the tree without a supervisor.
func TestTermToSupervisorEndsTheTreeInOrder(t *testing.T) {
	t.Parallel()
	r := start(t, quick(), bash(`trap "echo bye; exit 4" TERM; kill -TERM $PPID; while :; do sleep 0.05; done`))
	if got := r.rest(); !slices.Equal(got, []string{"bye"}) {
		t.Errorf("stdout %q; want bye", got)
	}
	if receipt := r.clean(); *receipt.Exit != (Exit{Code: 4}) {
		t.Errorf("receipt %+v; want exit 4", receipt)
	}
}

// D03: a subreaper must also wait for what it adopts, while the run goes on.
func TestSupervisorLeavesNoZombiesDuringTheRun(t *testing.T) {
	t.Parallel()
	r := start(t, quick(), python(t, "-c", `
import os, time
for _ in range(50):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            os._exit(0)
        os._exit(0)
    os.wait()
print("up", flush=True)
time.sleep(60)`))
	r.line()
	var zombies []int
	eventually(t, "the end of the zombies", func() bool {
		table, err := processTable()
		if err != nil {
			t.Fatal(err)
		}
		zombies = zombies[:0]
		for _, p := range table {
			if p.ppid == r.Supervisor().PID && p.ended {
				zombies = append(zombies, p.PID)
			}
		}
		return len(zombies) == 0
	})
	r.Stop()
	r.clean()
}

// D03: after 50 short runs, each with an orphan, no zombie is left to the daemon.
func TestFiftyShortRunsLeaveNoZombie(t *testing.T) {
	t.Parallel()
	var supervisors []int
	for range 50 {
		r := start(t, quick(), shell("(sleep 0.01 &) ; exit 0"))
		r.clean()
		supervisors = append(supervisors, r.Supervisor().PID)
	}
	table, err := processTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range table {
		if p.ppid == os.Getpid() && slices.Contains(supervisors, p.PID) {
			t.Errorf("supervisor %d is still there (zombie: %t)", p.PID, p.ended)
		}
	}
}

// A stopped leader is woken so that it can end in its own way; a stopped member
// outside the group dies like any other.
func TestStoppedMembersEnd(t *testing.T) {
	t.Parallel()
	tag, beat := tagged(t)
	r := start(t, quick(), bash(fmt.Sprintf(`
trap 'echo woken; exit 5' TERM
setsid %s -c 'import os, signal, sys; open(sys.argv[1], "w").write("x"); os.kill(os.getpid(), signal.SIGSTOP)' %s --tag %s &
echo up
kill -STOP $$
while :; do sleep 0.05; done`, interpreter, beat, tag)))
	r.line()
	beating(t, beat)
	eventually(t, "the leader's stop", func() bool { return state(r.PID()) == "T" })
	r.Stop()
	if got := r.rest(); !slices.Equal(got, []string{"woken"}) {
		t.Errorf("stdout %q; want the leader's trap to have run", got)
	}
	if receipt := r.clean(); receipt.Killed < 1 || *receipt.Exit != (Exit{Code: 5}) {
		t.Errorf("receipt %+v (exit %v); want the stopped escape killed, and exit 5", receipt, receipt.Exit)
	}
	gone(t, tag, beat)
}

// state is the letter in /proc/PID/stat.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return string(bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[0])
}

// A process whose first thread has ended looks like a zombie, and lives. It is
// killed, and waited for.
func TestProcessWithoutItsFirstThreadIsKilled(t *testing.T) {
	t.Parallel()
	tag, beat := tagged(t)
	r := start(t, quick(), python(t, "-c", `
import ctypes, os, signal, sys, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    def work():
        while True:
            with open(sys.argv[1], "a") as f:
                f.write("x")
            time.sleep(0.05)
    threading.Thread(target=work).start()
    ctypes.CDLL(None).pthread_exit(None)
print("up", flush=True)`, beat, "--tag", tag))
	beating(t, beat)
	if receipt := r.clean(); receipt.Killed != 1 {
		t.Errorf("receipt %+v; want one killed", receipt)
	}
	gone(t, tag, beat)
}

// Protocol section 8: given up after the bound, with the survivors named; the
// supervisor goes on, and its late proof is told. What cannot be reaped here is
// a process that a debugger outside the tree holds.
func TestGivingUpNamesSurvivorsAndGoesOn(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Grace, cfg.GiveUp = 100*time.Millisecond, 600*time.Millisecond
	const anyTracer = "import ctypes, time; ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0); print('up', flush=True); time.sleep(60)"
	r := start(t, cfg, python(t, "-c", anyTracer))
	r.line()
	const seize = "import ctypes, sys; sys.exit(1) if ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), 0, 0) else print('held', flush=True); sys.stdin.read()"
	debugger := exec.Command(interpreter, "-c", seize, fmt.Sprint(r.PID()))
	hold, err := debugger.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	says, err := debugger.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := debugger.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(says, make([]byte, 4)); err != nil {
		t.Fatalf("the debugger cannot hold the leader: %v", err)
	}
	r.Stop()
	receipt, err := r.verdict()
	if !errors.Is(err, ErrUnconfirmed) || !slices.Equal(receipt.Survivors, []int{r.PID()}) || receipt.Duration < cfg.GiveUp {
		t.Errorf("verdict %+v, %v; want unconfirmed after %v, naming %d", receipt, err, cfg.GiveUp, r.PID())
	}
	select {
	case <-r.Proven():
		t.Error("proven while the process is held")
	default:
	}
	_ = hold.Close()
	_ = debugger.Wait()
	select {
	case <-r.Proven():
	case <-time.After(patience):
		t.Error("no late proof after the process was let go")
	}
}

// Ecosystem 3.5: the run inherits stdin, stdout and stderr, blocking ones, and
// nothing else, not even what somebody left open in the daemon.
func TestRunInheritsOnlyItsThreeFiles(t *testing.T) {
	t.Parallel()
	leak, err := syscall.Open(write(t, filepath.Join(t.TempDir(), "leak"), "", 0o600), syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(leak) }()
	// The folder's own descriptor is gone again when existence is asked for.
	r := start(t, quick(), python(t, "-c", `
import fcntl, os
fds = sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n))
print(fds, [fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK for fd in (0, 1, 2)])`))
	if got := r.line(); got != "[0, 1, 2] [0, 0, 0]" {
		t.Errorf("open files, non-blocking flags: %s; want [0, 1, 2] [0, 0, 0]", got)
	}
	r.clean()
}

// Protocol section 8, D08: environment and arguments are exactly what the Spec says,
// byte for byte, and neither is to be found at the supervisor.
func TestEnvironmentIsExact(t *testing.T) {
	t.Parallel()
	env := []string{"B=two\nlines", "A=bad \xff utf-8", "B=again", "EMPTY="}
	argv := []string{"/bin/cat", "/proc/self/environ", "/proc/self/cmdline", "/no/such file \xff"}
	r := start(t, quick(), Spec{Argv: argv, Dir: "/", Env: env})
	want := strings.Join(slices.Concat(env, argv), "\x00") + "\x00"
	if got := strings.Join(r.rest(), "\n"); got != want {
		t.Errorf("environment and arguments %q; want %q", got, want)
	}
	r.clean()
}

// D08: the supervisor, which every process of the user can look at, shows nothing
// of the run; the leader has no terminal, and a group of its own in the supervisor's
// session.
func TestSupervisorShowsNothingOfTheRun(t *testing.T) {
	t.Parallel()
	spec := shell("echo up; exec sleep 60 # s3cret")
	spec.Env = append(spec.Env, "TOKEN=s3cret")
	r := start(t, quick(), spec)
	r.line()
	for _, file := range []string{"environ", "cmdline"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", r.Supervisor().PID, file))
		if err != nil || bytes.Contains(text, []byte("s3cret")) || file == "environ" && len(text) != 0 {
			t.Errorf("the supervisor's %s: %q, %v; want nothing of the run, and no environment", file, text, err)
		}
	}
	leader, err := findProcess(r.PID())
	if err != nil || leader.sid != r.Supervisor().PID || leader.pgid != r.PID() || leader.ppid != r.Supervisor().PID {
		t.Errorf("leader %+v, %v; want group %d in session %d", leader, err, r.PID(), r.Supervisor().PID)
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.PID()))
	if tty := string(bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[4]); tty != "0" {
		t.Errorf("the leader has terminal %s; want none", tty)
	}
	r.Stop()
	r.clean()
}

// A daemon that was started with signals ignored (nohup, a background job, a host
// that ignores CHLD) does not pass that on, and still learns how its runs end.
func TestIgnoredSignalsAreNotInherited(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, quick(), shell(`while read -r k v; do case $k in Sig*) echo "\"$k $v\"";; esac; done </proc/self/status`),
		"/bin/sh", "-c", `trap '' HUP INT PIPE CHLD TERM; exec "$@"`, "sh")
	masks := make(map[string]string)
	for len(masks) < 2 {
		var line string
		if err := d.output.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if name, mask, ok := strings.Cut(line, ": "); ok && (name == "SigIgn" || name == "SigBlk") {
			masks[name] = mask
		}
	}
	for name, mask := range masks {
		var bits uint64
		if _, err := fmt.Sscanf(mask, "%x", &bits); err != nil {
			t.Fatal(err)
		}
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE, syscall.SIGCHLD, syscall.SIGTERM} {
			if bits&(1<<(sig-1)) != 0 {
				t.Errorf("%s of the leader holds %v", name, sig)
			}
		}
	}
	// The daemon was not deaf for the end either: it leaves when its tree is empty.
	for d.output.Decode(new(json.RawMessage)) == nil {
	}
	eventually(t, "the supervisor's end", func() bool { return !alive(d.supervisor) })
}
