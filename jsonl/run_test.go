package jsonl

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

const patience = 30 * time.Second

// start starts a real child with this prompt on its standard input, then its end. kill
// ends its group.
func start(t *testing.T, prompt string, argv ...string) (agent Agent, kill func()) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	outR, outW, err1 := os.Pipe()
	inR, inW, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	var stderr bytes.Buffer // of exec's own copier, complete when the child was waited for
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	go func() { defer inW.Close(); _, _ = io.WriteString(inW, prompt) }()
	kill = func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	t.Cleanup(func() { kill(); <-ended; outR.Close() })
	return Agent{
		Stdout:     outR,
		StderrTail: func() string { <-ended; return stderr.String()[max(0, stderr.Len()-4<<10):] },
		Wait: func(ctx context.Context) (Exit, bool) {
			select {
			case <-ended:
			case <-ctx.Done():
				return Exit{}, false
			}
			if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
				return Exit{Code: -1, Signal: int(s.Signal())}, true
			}
			return Exit{Code: cmd.ProcessState.ExitCode()}, true
		},
	}, kill
}

// shell runs a script.
func shell(t *testing.T, script string) Agent {
	t.Helper()
	agent, _ := start(t, "", "/bin/sh", "-c", script)
	return agent
}

func stub(t *testing.T, prompt string, args ...string) Agent {
	t.Helper()
	agent, _ := start(t, prompt, append([]string{interpreter, filepath.Join("testdata", "cli_agent_stub.py"), "--tag", t.Name()}, args...)...)
	return agent
}

// play follows an agent to the end and gives what the caller saw, and the end.
func play(t *testing.T, agent Agent, opt Options) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	var b strings.Builder
	opt.Other = func(_ context.Context, text []byte) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&b, "other %q\n", text)
	}
	err := Run(ctx, agent, func(_ context.Context, event []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if _, err := wire.NormalizeObject(event); err != nil {
			t.Errorf("%v: %.200q", err, event)
		}
		b.Write(append(event, '\n'))
		return nil
	}, opt)
	mu.Lock()
	defer mu.Unlock()
	if f := (*Failure)(nil); errors.As(err, &f) {
		fmt.Fprintf(&b, "failed %s %q exit=%v\n", f.Code, f.Text, f.Exit)
	} else {
		fmt.Fprintf(&b, "ended %v\n", err)
	}
	return b.String(), err
}

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

// The two kinds of agents, their lines as events and their result lines.
func TestDialectsEndWithTheirResult(t *testing.T) {
	got, _ := play(t, stub(t, "hello", "--chunks", "1"), Options{Dialect: Claude})
	more, _ := play(t, stub(t, "hello", "--chunks", "1", "--flavour", "codex"), Options{Dialect: Codex})
	// The stub tells how long its own path is.
	got = strings.ReplaceAll(got+more, fmt.Sprint(`\"longest_argv_word\": `, len(t.Name())), `\"longest_argv_word\": N`)
	golden(t, "dialects.golden", got)
}

// Cases D05: an agent that prints its result and never ends is over after the grace.
func TestResultEndsRunOfHangingAgent(t *testing.T) {
	begun := time.Now()
	got, err := play(t, stub(t, "", "--hang-after-result"), Options{Dialect: Claude, ResultGrace: 300 * time.Millisecond, Timeout: patience})
	if took := time.Since(begun); err != nil || took > 10*time.Second || !strings.Contains(got, `"type":"result"`) {
		t.Errorf("ended after %v: %s", took, got)
	}
}

// Cases D06, D07: a long prompt arrives whole though stderr is flooded; an agent that
// quits unread tells how.
func TestPromptAndStderrAndExit(t *testing.T) {
	got, err := play(t, stub(t, strings.Repeat("p", 300_000), "--stderr-flood", "4096"), Options{Dialect: Claude})
	if err != nil || !strings.Contains(got, `\"stdin_bytes\": 300000`) {
		t.Errorf("%v: %s", err, got)
	}
	_, err = play(t, stub(t, strings.Repeat("p", 1<<20), "--stdin", "quit"), Options{Dialect: Claude})
	f := (*Failure)(nil)
	if !errors.As(err, &f) || f.Code != CodeExit || f.Exit == nil || f.Exit.Code != 3 || !strings.Contains(f.StderrTail, "refusing to start") {
		t.Errorf("ended with %+v", err)
	}
}

// Protocol sections 8 and 9: what an agent prints is never an event of the hub or the
// run, whatever it calls itself.
func TestLinesCannotForgeFacts(t *testing.T) {
	got, err := play(t, shell(t, `printf '{"type":"run.completed","data":{}}\n{"type":"event.dropped"}\nplain\n\n[1]\n{"a":1.50,"b":"\377"}\n{"last":1}'`), Options{Dialect: Plain})
	if err != nil {
		t.Error(err)
	}
	golden(t, "forged.golden", got)
}

// How agents fail.
func TestFailuresHaveCodes(t *testing.T) {
	for script, want := range map[string]string{
		`echo '{"type":"result","is_error":true,"result":"no credit"}'; exit 1`:   `jsonl.result "the agent says that it failed: no credit" exit=<nil>`,
		`echo '{"type":"turn.failed","error":{"message":"no model"}}'; sleep 100`: `jsonl.result "the agent says that it failed: no model" exit=<nil>`,
		`echo '{"type":"other"}'`:                `jsonl.no_result "the agent ended without the line that tells its result (type result)" exit=exit 0`,
		`kill -9 $$`:                             `jsonl.signal "the agent was ended by signal 9" exit=signal 9`,
		`sleep 100`:                              `jsonl.timeout "the agent was ended after its time limit of 1s" exit=<nil>`,
		`sleep 100 2>/dev/null & echo x; exit 4`: `jsonl.exit "the agent ended with exit 4" exit=exit 4`,
		`echo '{"type":"result"}'; kill -9 $$`:   ``,
	} {
		agent, kill := start(t, "", "/bin/sh", "-c", script)
		tail := agent.StderrTail
		agent.StderrTail = func() string { kill(); return tail() } // as an embedder would, before it asks
		d := Claude
		d.Failed = "turn.failed"
		got, err := play(t, agent, Options{Dialect: d, Timeout: time.Second, ResultGrace: 100 * time.Millisecond, DrainGrace: 100 * time.Millisecond})
		if want == "" && err == nil {
			continue
		}
		if !strings.HasSuffix(got, "failed "+want+"\n") {
			t.Errorf("%s:\n%swant %s", script, got, want)
		}
	}
}

// A cancel lets the last words arrive, to the end of the output.
func TestLastWordsOfCancelledRunArrive(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	agent, kill := start(t, "", "/bin/sh", "-c", `echo '{"n":1}'; read x; exit 0`)
	agent.Stdout = io.MultiReader(agent.Stdout, strings.NewReader("{\"n\":2}\n"))
	var got []string
	err := Run(ctx, agent, func(_ context.Context, event []byte) error {
		if got = append(got, string(event)); len(got) == 1 {
			cancel(errors.New("enough"))
			kill()
		}
		return nil
	}, Options{Dialect: Claude})
	if err == nil || !strings.Contains(err.Error(), "enough") || len(got) != 2 {
		t.Errorf("ended with %v after %q", err, got)
	}
}

// A slow caller holds the agent back and gets every line of it.
func TestSlowCallerGetsEveryLine(t *testing.T) {
	var n int
	err := Run(t.Context(), shell(t, `i=0; while [ $i -lt 300 ]; do echo "{\"n\":$i}"; i=$((i+1)); done`), func(context.Context, []byte) error {
		<-time.After(2 * time.Millisecond)
		n++
		return nil
	}, Options{Dialect: Plain, DrainGrace: 10 * time.Millisecond})
	if err != nil || n != 300 {
		t.Errorf("%d lines of 300 arrived, %v", n, err)
	}
}

// A caller that takes nothing does not hold up the time limit.
func TestStalledCallerDoesNotHoldTimeout(t *testing.T) {
	agent, kill := start(t, "", "/bin/sh", "-c", `echo '{}'; sleep 100`)
	tail := agent.StderrTail
	agent.StderrTail = func() string { kill(); return tail() }
	err := Run(t.Context(), agent, func(ctx context.Context, _ []byte) error { <-ctx.Done(); return ctx.Err() }, Options{Dialect: Claude, Timeout: 200 * time.Millisecond})
	if f := (*Failure)(nil); !errors.As(err, &f) || f.Code != CodeTimeout {
		t.Errorf("ended with %v", err)
	}
}

// Cases D11: lines are whole whatever the reads; one above the limit is counted only.
func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\n\nb≤\xff\nlast"), byte(3), byte(1))
	f.Add([]byte(strings.Repeat("x", 300)+"\ny\n"), byte(255), byte(7))
	f.Fuzz(func(t *testing.T, stream []byte, limit, size byte) {
		var want, got []string
		for rest := stream; len(rest) > 0; {
			text, after, _ := bytes.Cut(rest, []byte("\n"))
			want = append(want, fmt.Sprintf("%q %t %d", text[:min(len(text), int(limit))], len(text) > int(limit), len(text)))
			rest = after
		}
		readLines(&pieces{stream, int(size) + 1}, int(limit), func(text []byte, n int) {
			over := text == nil
			if over { // what it was is not told; its place is
				text = bytes.Split(stream, []byte("\n"))[len(got)][:limit]
			}
			got = append(got, fmt.Sprintf("%q %t %d", text, over, n))
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q, limit %d (-want +got):\n%s", stream, limit, diff)
		}
	})
}

// A line that is too long costs no memory beyond the limit.
func TestTooLongLineIsNotKept(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var size int
	readLines(io.LimitReader(endless{}, 64<<20), 1<<10, func(text []byte, n int) {
		if size = n; text != nil {
			t.Error("a line came")
		}
	})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; size != 64<<20 || n > 1<<20 {
		t.Errorf("%d bytes were read, %d taken for it", size, n)
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// pieces is a reader that gives a few bytes at a time.
type pieces struct {
	rest []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Cases D11: an object above the limit is marked, its neighbours arrive; a long one
// below it arrives whole.
func TestLongLines(t *testing.T) {
	got, err := play(t, shell(t, `echo '{"n":1}'; head -c 17000000 /dev/zero | tr '\0' x; echo; printf '{"s":"'; head -c 3000000 /dev/zero | tr '\0' y; echo '"}'`), Options{Dialect: Plain})
	want := `{"type":"jsonl.line","data":{"n":1}}` + "\n" + `{"type":"event.dropped","data":{"bytes":17000000,"limit":16777216}}` + "\n" +
		`{"type":"jsonl.line","data":{"s":"` + strings.Repeat("y", 3000000) + `"}}` + "\nended <nil>\n"
	if err != nil || got != want {
		t.Errorf("%v: got %d bytes, want %d: %.300s", err, len(got), len(want), got)
	}
}
