package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"codingrelay/wire"
)

var tags atomic.Int64

// freshTag names one run's processes for check_tree.py.
func freshTag() string {
	return fmt.Sprintf("d%d-%d", os.Getpid(), tags.Add(1))
}

// noSurvivors asks the judge: nothing that carries the tag lives.
func noSurvivors(t *testing.T, tag string) {
	t.Helper()
	out, err := exec.Command(interpreter, stub(t, "check_tree.py"), "--tag", tag).CombinedOutput()
	if err != nil {
		t.Errorf("survivors of %s: %v\n%s", tag, err, out)
	}
}

// aliveTag tells whether something that carries the tag lives.
func aliveTag(t *testing.T, tag string) bool {
	t.Helper()
	return exec.Command(interpreter, stub(t, "check_tree.py"), "--tag", tag).Run() != nil
}

// stillAlive makes sure that there was something to end.
func stillAlive(t *testing.T, tag string) {
	t.Helper()
	if !aliveTag(t, tag) {
		t.Errorf("nothing of %s lives, so its end proves nothing", tag)
	}
}

// D01: a tree that always forks ahead is gone before the acknowledgement.
func TestD01ForkStormIsGoneBeforeTheEnd(t *testing.T) {
	t.Parallel()
	_, c, _ := connected(t, nil)
	tag := freshTag()
	beat := filepath.Join(t.TempDir(), "beat")
	c.start("r1", python(t, "tree_fork_storm.py", "--beat", beat, "--tag", tag, "--ttl", "30"))
	waitFor(t, "the storm's beat", func() bool {
		info, err := os.Stat(beat)
		return err == nil && info.Size() > 200
	})
	c.cancel("r1")
	if r := c.finish("r1"); r.code() != "agent_runtime.daemon_cancelled" {
		t.Errorf("it ended with %v", r.terminal)
	}
	noSurvivors(t, tag)
}

// waitFor looks until a condition holds, with a deadline.
func waitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s did not come", what)
		}
	}
}

// D02: the leader's end is not the group's: run.finished comes after the last
// member, which ignores TERM and sees KILL.
func TestD02GroupOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	hub := newRawHub(t)
	hub.admit(oursReady)
	startDaemon(t, testConfig(t, hub))
	c := hub.next()
	for _, mode := range []string{"stubborn", "late"} {
		tag := freshTag()
		c.start(tag, argv("bash", stub(t, "tree_leader_exits.sh"), mode, "--tag", tag))
		c.line(tag, "member")
		stillAlive(t, tag)
		if mode == "late" {
			c.cancel(tag)
		}
		r := c.finish(tag)
		noSurvivors(t, tag)
		if got := wire.ParseReceipt(r.finished); got.DurationMS < 500 || got.Killed == 0 {
			t.Errorf("%s: the member did not have its grace: %+v", mode, got)
		}
		if want := map[string]string{"stubborn": "run.completed", "late": "run.failed"}[mode]; r.kind != want {
			t.Errorf("%s ended with %s %v", mode, r.kind, r.terminal)
		}
	}
}

// D03: a descendant that called setsid is gone before the acknowledgement, and,
// after a disconnect, before the daemon dials again.
func TestD03EscapedDescendantsAreGone(t *testing.T) {
	t.Parallel()
	hub, c, _ := connected(t, nil)
	for _, leader := range []string{"stay", "exit"} {
		tag := freshTag()
		beat := filepath.Join(t.TempDir(), "beat")
		c.start(tag, python(t, "tree_setsid_escape.py", "--tag", tag, "--beat", beat, "--leader", leader, "--ttl", "30"))
		waitFor(t, "the beat of an escaped process", func() bool { _, err := os.Stat(beat); return err == nil })
		c.cancel(tag)
		c.finish(tag)
		noSurvivors(t, tag)
	}
	tag := freshTag()
	beat := filepath.Join(t.TempDir(), "beat")
	c.start(tag, python(t, "tree_setsid_escape.py", "--tag", tag, "--beat", beat, "--ttl", "30"))
	waitFor(t, "the beat of an escaped process", func() bool { _, err := os.Stat(beat); return err == nil })
	stillAlive(t, tag)
	_ = c.ws.CloseNow()
	hub.next()
	noSurvivors(t, tag)
}

// D04: a helper that keeps stdout open does not hold up the end: run.completed
// within the drain grace, then the rest goes, then run.finished.
func TestD04HelperThatHoldsStdoutDelaysNothing(t *testing.T) {
	t.Parallel()
	_, c, _ := connected(t, nil)
	tag := freshTag()
	begun := time.Now()
	r := c.run("r1", argv("bash", stub(t, "tree_leader_exits.sh"), "benign", "--tag", tag, "--ttl", "30"))
	noSurvivors(t, tag)
	if r.kind != "run.completed" || r.text(t, "stdout") == "" {
		t.Errorf("it ended with %s %v after %q", r.kind, r.terminal, r.text(t, "stdout"))
	}
	if took := r.at["run.finished"].Sub(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// agentSays collects what cli_agent_stub.py told in its JSON lines.
func agentSays(t *testing.T, r *result) map[string]any {
	t.Helper()
	said := map[string]any{}
	for line := range strings.Lines(r.text(t, "stdout")) {
		var m struct {
			Message struct {
				Content []struct {
					Text string `json:"text"`
				} `json:"content"`
			} `json:"message"`
		}
		if json.Unmarshal([]byte(line), &m) == nil && len(m.Message.Content) > 0 {
			_ = json.Unmarshal([]byte(m.Message.Content[0].Text), &said) // progress lines are no JSON
		}
	}
	return said
}

func withPrompt(payload map[string]any, n int) map[string]any {
	payload["prompt_text"] = strings.Repeat("p", n)
	return payload
}

// D06: the prompt comes whole, on stdin, with an end; an agent that quits unread
// tells its own reason, and the daemon stays up and free.
func TestD06PromptGoesToStdinAndEnds(t *testing.T) {
	t.Parallel()
	_, c, _ := connected(t, func(cfg *Config) { cfg.MaxRuns = 1 })
	r := c.run("a", withPrompt(python(t, "cli_agent_stub.py"), 300_000))
	said := agentSays(t, r)
	if said["stdin_bytes"] != float64(300_000) || said["longest_argv_word"].(float64) > 4096 || r.kind != "run.completed" {
		t.Errorf("the agent saw %v and ended with %v", said, r.terminal)
	}
	r = c.run("c", withPrompt(python(t, "cli_agent_stub.py", "--stdin", "quit"), 1<<20))
	if r.code() != "exec.exit" || r.terminal["exit_code"] != float64(3) || !strings.Contains(fmt.Sprint(r.terminal["stderr_tail"]), "refusing to start (code 3)") {
		t.Errorf("an agent that quits unread: %v", r.terminal)
	}
	if r = c.run("after", python(t, "cli_agent_stub.py")); r.kind != "run.completed" || agentSays(t, r)["stdin_bytes"] != float64(0) {
		t.Errorf("the next run: %v", r.terminal)
	}
}

// D07: stderr is read, however much; its tail is kept, bounded.
func TestD07StderrFloodBlocksNothing(t *testing.T) {
	t.Parallel()
	_, c, _ := connected(t, nil)
	r := c.run("r1", python(t, "cli_agent_stub.py", "--stderr-flood", "4096"))
	if r.kind != "run.completed" || len(r.text(t, "stderr")) != 4<<20 {
		t.Errorf("it ended with %v after %d bytes of stderr", r.terminal, len(r.text(t, "stderr")))
	}
	r = c.run("r2", argv("sh", "-c", "seq 20000 >&2; exit 1"))
	if tail := fmt.Sprint(r.terminal["stderr_tail"]); len(tail) > stderrTailBytes || !strings.HasSuffix(tail, "19999\n20000\n") {
		t.Errorf("the tail has %d bytes and ends with %q", len(tail), tail[max(0, len(tail)-20):])
	}
}

// D08: no child sees the token, under whatever name; what an agent needs is there.
func TestD08NoChildSeesTheToken(t *testing.T) {
	const token = "throw-away-token-0123456789"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := append(os.Environ(), "RELAY_TOKEN="+token, "OTHER="+token, "AUTH=Bearer "+token, "KEEP=yes", "MY_KEY=k")
	for name, source := range map[string]func(*Config){
		"file":        func(cfg *Config) { cfg.TokenFile = file },
		"environment": func(cfg *Config) { cfg.Token = func() (string, error) { return token, nil } },
	} {
		t.Run(name, func(t *testing.T) {
			_, c, d := connected(t, func(cfg *Config) {
				source(cfg)
				cfg.Environ = func() []string { return environ }
				cfg.EnvAllow = []string{"*"} // the owner allows everything, and still not this
			})
			if c.hello["token"] != token {
				t.Errorf("the hello says token %v", c.hello["token"])
			}
			payload := python(t, "cli_agent_stub.py", "--needle", file, "--env-names")
			payload["env"] = map[string]string{"PASSED": token, "X": "1"}
			r := c.run("r1", payload)
			said := agentSays(t, r)
			if fmt.Sprint(said["needle_in_env"]) != "[]" || fmt.Sprint(said["needle_in_argv"]) != "[]" {
				t.Errorf("the agent saw the token: %v", said)
			}
			names := fmt.Sprint(said["env_names"])
			for _, want := range []string{"HOME", "PATH", "KEEP", "MY_KEY", "X"} {
				if !slices.Contains(strings.Fields(strings.Trim(names, "[]")), want) {
					t.Errorf("%s is not in the agent's environment %s", want, names)
				}
			}
			if strings.Contains(d.log.String(), token) {
				t.Error("the token is in the log")
			}
		})
	}
}

// D10: an agent does not die with the thread that started it.
func TestD10AgentsOutliveThreads(t *testing.T) {
	t.Parallel()
	_, c, _ := connected(t, nil)
	const runs = 12
	for i := range runs {
		c.start(fmt.Sprint("r", i), argv("sleep", "1.5"))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			ended := make(chan struct{})
			go func() {
				runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
				close(ended)
			}()
			<-ended
		}
	}()
	<-done
	results := map[string]*result{}
	for left := runs; left > 0; {
		f, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		r := results[f.JobID]
		if r == nil {
			r = &result{}
			results[f.JobID] = r
		}
		if r.take(f); !r.at["run.finished"].IsZero() {
			left--
		}
	}
	for job, r := range results {
		if r.kind != "run.completed" {
			t.Errorf("%s ended with %v", job, r.terminal)
		}
	}
}

// D21: loopback is excepted from the proxy, in both spellings, beside the user's
// own exceptions.
func TestD21LoopbackIsNotProxied(t *testing.T) {
	_, c, _ := connected(t, func(cfg *Config) {
		cfg.Environ = func() []string {
			return []string{"PATH=" + os.Getenv("PATH"), "HTTP_PROXY=http://127.0.0.1:9", "NO_PROXY=corp.example"}
		}
	})
	said := agentSays(t, c.run("r1", python(t, "cli_agent_stub.py", "--env-names")))
	const want = "corp.example,127.0.0.1,localhost,::1"
	if said["no_proxy"] != want || said["no_proxy_lower"] != want || !strings.Contains(fmt.Sprint(said["env_names"]), "HTTP_PROXY") {
		t.Errorf("the agent saw %v", said)
	}
}
