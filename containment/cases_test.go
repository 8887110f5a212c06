//go:build linux

package containment

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// tagged gives a fixture a fresh tag and a heartbeat file. Should a test fail,
// exactly what carries the tag is ended.
func tagged(t *testing.T) (tag, beat string) {
	t.Helper()
	tag, beat = "t"+uuid.NewString(), filepath.Join(t.TempDir(), "beat")
	t.Cleanup(func() {
		if t.Failed() {
			_ = exec.Command(interpreter, "testdata/check_tree.py", "--tag", tag, "--kill").Run()
		}
	})
	return tag, beat
}

// gone asks the judge, which shares no code with us: who with that tag still runs,
// does the heartbeat still grow?
func gone(t *testing.T, tag, beat string, more ...string) {
	t.Helper()
	out, err := exec.Command(interpreter, append([]string{"testdata/check_tree.py", "--tag", tag, "--beat", beat}, more...)...).Output()
	if err != nil {
		t.Errorf("the judge found survivors: %s (%v)", out, err)
	}
}

// beating waits until a fixture has written to its heartbeat file.
func beating(t *testing.T, beat string) {
	t.Helper()
	eventually(t, "a heartbeat", func() bool {
		info, err := os.Stat(beat)
		return err == nil && info.Size() > 0
	})
}

// eventually waits for a state of the system that announces itself to nobody.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// D01: a chain that is always one fork ahead of a list ends before the verdict,
// within grace + 5 s, whether its leader is still there or not.
func TestStopEndsForkStorm(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"leader_stays": nil, "leader_dies": {"--leader-dies"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tag, beat := tagged(t)
			r := start(t, quick(), python(t, append([]string{"testdata/tree_fork_storm.py", "--tag", tag, "--beat", beat}, more...)...))
			r.line()
			beating(t, beat)
			r.Stop()
			receipt := r.clean()
			if receipt.Killed < 1 || receipt.Duration < quick().Grace || receipt.Duration > quick().Grace+5*time.Second {
				t.Errorf("receipt %+v; want some killed, after the grace, within 5 s", receipt)
			}
			gone(t, tag, beat)
		})
	}
}

// D01, harder: every generation leaves group and session, and is gone after
// about a millisecond: no list of processes is true for long.
func TestStopEndsHoppingProcess(t *testing.T) {
	t.Parallel()
	tag, beat := tagged(t)
	r := start(t, quick(), python(t, "-c", `
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 40
beat = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
if os.fork() == 0:
    while time.monotonic() < end:
        if os.fork() != 0:
            os._exit(0)
        os.setsid()
        os.write(beat, b"hop\n")
time.sleep(40)`, beat, "--tag", tag))
	beating(t, beat)
	r.Stop()
	r.clean()
	gone(t, tag, beat)
}

// D02: the leader's end is not the tree's end, whether it ends before the stop or
// at it; a member that ignores TERM sees KILL, after the grace.
func TestStopEndsMembersWhoseLeaderIsGone(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]Exit{
		"stubborn": {{Code: 0}},
		// TERM may come between the leader's first line and its trap.
		"late": {{Code: 143}, {Code: -1, Signal: syscall.SIGTERM}},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			tag, beat := tagged(t)
			spec := bash("")
			spec.Argv = []string{"bash", abs(t, "testdata/tree_leader_exits.sh"), mode, "--tag", tag, "--beat", beat}
			cfg := quick()
			cfg.DrainGrace = time.Minute // it is the stop that ends it
			r := start(t, cfg, spec)
			r.line()
			beating(t, beat)
			if mode == "stubborn" {
				r.exit()
			}
			r.Stop()
			receipt := r.clean()
			if receipt.Exit == nil || !slices.Contains(want, *receipt.Exit) || receipt.Killed < 1 || receipt.Duration < cfg.Grace {
				t.Errorf("receipt %+v (exit %v); want %v, a killed member, and the whole grace", receipt, receipt.Exit, want)
			}
			gone(t, tag, beat)
		})
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// D03: a grandchild with its own session and group, without parent, stdio and
// environment tag, is dead before the verdict: after a stop, and after the leader's
// own end.
func TestStopReachesSetsidEscape(t *testing.T) {
	t.Parallel()
	for _, leader := range []string{"stay", "exit"} {
		t.Run("leader_"+leader, func(t *testing.T) {
			t.Parallel()
			tag, beat := tagged(t)
			r := start(t, quick(), python(t, "testdata/tree_setsid_escape.py", "--tag", tag, "--beat", beat, "--leader", leader))
			r.line()
			beating(t, beat)
			if leader == "stay" {
				r.Stop()
			}
			receipt := r.clean()
			if receipt.Killed < 1 || receipt.Duration < quick().Grace {
				t.Errorf("receipt %+v; want the grandchild killed after the grace", receipt)
			}
			gone(t, tag, beat)
		})
	}
}

// D03, protocol section 8: a daemon that is killed leaves nothing behind, although
// nobody is left who could ask for it.
func TestDaemonKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, leader := range []string{"stay", "exit"} {
		t.Run("leader_"+leader, func(t *testing.T) {
			t.Parallel()
			tag, beat := tagged(t)
			daemon := startDaemon(t, quick(), python(t, "testdata/tree_setsid_escape.py", "--tag", tag, "--beat", beat, "--leader", leader))
			beating(t, beat)
			if err := daemon.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = daemon.cmd.Wait()
			eventually(t, "the supervisor's end", func() bool { return !alive(daemon.supervisor) })
			gone(t, tag, beat)
			if alive(daemon.leader) {
				t.Errorf("the leader %+v outlived its supervisor", daemon.leader)
			}
		})
	}
}

// alive says whether exactly that process exists and runs.
func alive(who Identity) bool {
	p, err := findProcess(who.PID)
	return err == nil && p.Start == who.Start && !p.ended
}

// daemon is a process of its own that runs one tree.
type daemon struct {
	cmd                *exec.Cmd
	supervisor, leader Identity
	output             *json.Decoder
}

// startDaemon starts this test binary as a daemon; wrap is put before its command.
func startDaemon(t *testing.T, cfg Config, spec Spec, wrap ...string) *daemon {
	t.Helper()
	in, err := json.Marshal(map[string]any{"Config": cfg, "Spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(slices.Clone(wrap), self)
	d := &daemon{cmd: exec.Command(argv[0], argv[1:]...)}
	d.cmd.Env = append(os.Environ(), helperEnv+"=daemon")
	d.cmd.Stdin = bytes.NewReader(in)
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = d.cmd.Process.Kill(), d.cmd.Wait() })
	d.output = json.NewDecoder(out)
	var who []Identity
	if err := d.output.Decode(&who); err != nil || len(who) != 2 {
		t.Fatalf("the daemon did not start its tree: %v", err)
	}
	d.supervisor, d.leader = who[0], who[1]
	return d
}

// D04: a helper that inherited stdout does not hold the end back: the output
// counts as complete after the drain grace, then the helper is ended too, by TERM
// or, when it ignores that, by KILL.
func TestHelperThatHoldsStdoutDelaysNothing(t *testing.T) {
	t.Parallel()
	for mode, killed := range map[string]bool{"benign": false, "stubborn": true} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			tag, beat := tagged(t)
			spec := bash("")
			spec.Argv = []string{"bash", abs(t, "testdata/tree_leader_exits.sh"), mode, "--ttl", "30", "--tag", tag, "--beat", beat}
			cfg := quick()
			if killed {
				cfg.Grace = 3 * time.Second // room to see who is waited for
			}
			r := start(t, cfg, spec)
			if e := r.exit(); e != (Exit{}) {
				t.Errorf("leader ended with %v; want exit 0", e)
			}
			<-r.Drained()
			select {
			case <-r.done:
				if killed {
					t.Error("drained only when the helper was gone")
				}
			default:
			}
			receipt := r.clean()
			if (receipt.Killed > 0) != killed || receipt.Duration < cfg.DrainGrace || receipt.Duration > cfg.DrainGrace+cfg.Grace+5*time.Second {
				t.Errorf("receipt %+v; want KILL used: %t, all after the drain grace", receipt, killed)
			}
			if lines := r.rest(); len(lines) != 1 || !strings.Contains(lines[0], `"type":"result"`) {
				t.Errorf("stdout %q; want the one result line", lines)
			}
			gone(t, tag, beat)
		})
	}
}

// D06 (a, b): a prompt larger than an argument may be arrives whole on stdin, then
// EOF, and nothing of it in argv.
func TestPromptArrivesOnStdinAndEnds(t *testing.T) {
	t.Parallel()
	spec := python(t, "testdata/cli_agent_stub.py")
	spec.Stdin = bytes.Repeat([]byte("prompt "), 300_000/7+1)[:300_000]
	r := start(t, quick(), spec)
	all := strings.Join(r.rest(), "\n")
	if !strings.Contains(all, `\"stdin_bytes\": 300000`) || !strings.Contains(all, `"subtype": "success"`) {
		t.Errorf("the agent said %s; want 300000 bytes and success", all)
	}
	if r.clean(); r.exit() != (Exit{}) {
		t.Error("the agent did not end with 0")
	}
}

// D06 (c): an agent that quits with its prompt unread fails by its own exit code and
// words; the broken pipe hurts nobody.
func TestAgentThatQuitsUnreadKeepsItsOwnError(t *testing.T) {
	t.Parallel()
	spec := python(t, "testdata/cli_agent_stub.py", "--stdin", "quit")
	spec.Stdin = make([]byte, 1<<20)
	r := start(t, quick(), spec)
	if e := r.exit(); e != (Exit{Code: 3}) {
		t.Errorf("exit %v; want exit 3", e)
	}
	r.clean()
	if got := string(<-r.stderr); !strings.Contains(got, "refusing to start") {
		t.Errorf("stderr %q; want the agent's own line", got)
	}
}

// D06, the third way: nobody reads stdin, and the agent stays. A stop is not held
// up by the prompt that waits to be written.
func TestUnreadPromptDoesNotHoldAStop(t *testing.T) {
	t.Parallel()
	spec := shell("echo up; exec sleep 60")
	spec.Stdin = make([]byte, 1<<20)
	r := start(t, quick(), spec)
	r.line()
	r.Stop()
	if receipt := r.clean(); receipt.Duration > quick().Grace+5*time.Second {
		t.Errorf("receipt %+v; want the end at TERM", receipt)
	}
}

// D07: a flood of stderr before the first line of stdout ends in seconds, and all
// of it is there.
func TestStderrFloodIsTaken(t *testing.T) {
	t.Parallel()
	r := start(t, quick(), python(t, "testdata/cli_agent_stub.py", "--stderr-flood", "4096"))
	if lines := r.rest(); !strings.Contains(strings.Join(lines, ""), "success") {
		t.Errorf("stdout %q; want the agent's result", lines)
	}
	r.clean()
	if n := len(<-r.stderr); n != 4096<<10 {
		t.Errorf("stderr has %d bytes; want %d", n, 4096<<10)
	}
}

// D17: what an agent does and prints after TERM is its own time: both lines
// arrive, its status counts, and nothing is killed.
func TestLastWordsArriveWithinTheGrace(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Grace = 5 * time.Second
	r := start(t, cfg, bash(`trap "echo one; sleep 1; echo two; exit 7" TERM; echo up; while :; do sleep 0.1; done`))
	r.line()
	r.Stop()
	if lines := r.rest(); !slices.Equal(lines, []string{"one", "two"}) {
		t.Errorf("after TERM came %q; want one, two", lines)
	}
	receipt := r.clean()
	if receipt.Exit == nil || *receipt.Exit != (Exit{Code: 7}) || receipt.Killed != 0 {
		t.Errorf("receipt %+v (exit %v); want exit 7 and nobody killed", receipt, receipt.Exit)
	}
	if receipt.Duration < time.Second || receipt.Duration >= cfg.Grace {
		t.Errorf("it took %v; want more than the agent's second, and an early end of the grace", receipt.Duration)
	}
}

// D17: the grace is the whole grace, for every member, and repeated stops do not
// shorten it.
func TestNothingIsKilledBeforeTheGraceEnds(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Grace = 1500 * time.Millisecond
	r := start(t, cfg, bash(`trap "" TERM; echo up; while :; do sleep 0.05; done`))
	r.line()
	stopped := time.Now()
	for range 20 {
		go r.Stop()
	}
	// The news of an end never comes before the end.
	if e := r.exit(); time.Since(stopped) < cfg.Grace {
		t.Errorf("%v only %v after the stop; want the whole grace of %v", e, time.Since(stopped), cfg.Grace)
	}
	receipt := r.clean()
	if receipt.Duration < cfg.Grace || receipt.Killed < 1 || receipt.Exit.Signal != syscall.SIGKILL {
		t.Errorf("receipt %+v (exit %v); want KILL after %v", receipt, receipt.Exit, cfg.Grace)
	}
}

// D16, at this level: an agent that is killed in the middle is told as a signal.
func TestLeaderKilledByASignalSaysSo(t *testing.T) {
	t.Parallel()
	r := start(t, quick(), shell("kill -9 $$"))
	if e := r.exit(); e.Signal != syscall.SIGKILL || e.String() != "signal 9 (killed)" {
		t.Errorf("exit %v; want signal 9 (killed)", e)
	}
	if receipt, err := r.verdict(); err != nil || errors.Is(err, ErrUnconfirmed) || receipt.Killed != 0 {
		t.Errorf("verdict %+v, %v; want a proven end without a KILL of ours", receipt, err)
	}
}
