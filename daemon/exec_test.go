package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codingrelay/wire"
)

// Protocol 2, 3: what the hello says.
func TestHelloSaysWhoThisIs(t *testing.T) {
	_, c, _ := connected(t, func(cfg *Config) { cfg.Version = "1.2.3" })
	h := c.hello
	meta, _ := h["metadata"].(map[string]any)
	if h["type"] != "daemon.hello" || h["daemon_id"] != "box" || h["protocol"] != "coding-relay-v1" || h["token"] != "" {
		t.Errorf("hello is %v", h)
	}
	if fmt.Sprint(h["extensions"]) != "[max-frame=8388608 receipt]" {
		t.Errorf("extensions are %v", h["extensions"])
	}
	if meta["pid"] != float64(os.Getpid()) || meta["version"] != "1.2.3" || meta["containment"] != "supervisor" || meta["cwd"] == nil || meta["platform"] == nil || meta["hostname"] == nil {
		t.Errorf("metadata is %v", meta)
	}
}

// docs/exec.md: lines as events, then run.completed, then run.finished.
func TestCommandRunsToItsEnd(t *testing.T) {
	_, c, _ := connected(t, nil)
	r := c.run("r1", argv("sh", "-c", `printf 'one\ntwo\r\nlast'; printf 'err\n' >&2`))
	if got := r.text(t, "stdout"); got != "one\ntwo\r\nlast" {
		t.Errorf("stdout is %q", got)
	}
	if got := r.text(t, "stderr"); got != "err\n" {
		t.Errorf("stderr is %q", got)
	}
	if r.kind != "run.completed" || r.terminal["finish_reason"] != "stop" || r.terminal["exit_code"] != float64(0) {
		t.Errorf("it ended with %s %v", r.kind, r.terminal)
	}
	last := string(r.events[len(r.events)-1].Body)
	if want := `{"type":"run.completed","data":{"finish_reason":"stop","exit_code":0}}`; last != want {
		t.Errorf("the last event is %s, want %s", last, want)
	}
	if wire.ParseReceipt(r.finished) != nil {
		t.Error("a hub that did not ask for receipts got one")
	}
}

func TestFailedCommandSaysHow(t *testing.T) {
	_, c, _ := connected(t, nil)
	for script, want := range map[string]map[string]any{
		`echo why >&2; exit 3`: {"code": "exec.exit", "exit_code": float64(3), "stderr_tail": "why\n", "retryable": false},
		`kill -9 $$`:           {"code": "exec.signal", "signal": "SIGKILL", "retryable": false},
	} {
		r := c.run(script, argv("sh", "-c", script))
		if r.kind != "run.failed" || r.terminal["error"] == "" {
			t.Errorf("%s: %s %v", script, r.kind, r.terminal)
		}
		for k, v := range want {
			if r.terminal[k] != v {
				t.Errorf("%s: %s is %v, want %v", script, k, r.terminal[k], v)
			}
		}
	}
}

func TestTimeLimitEndsTheCommand(t *testing.T) {
	_, c, _ := connected(t, nil)
	r := c.run("r1", map[string]any{"command": "sh -c 'echo begun; sleep 60'", "timeout": 0.3})
	if r.code() != "exec.timeout" || r.text(t, "stdout") != "begun\n" {
		t.Errorf("it ended with %v after %q", r.terminal, r.text(t, "stdout"))
	}
}

// Protocol 10: the receipt, for a hub that asks for it.
func TestReceiptSaysHowTheRunEnded(t *testing.T) {
	t.Parallel()
	hub := newRawHub(t)
	hub.admit(oursReady)
	startDaemon(t, testConfig(t, hub))
	c := hub.next()
	r := wire.ParseReceipt(c.run("r1", argv("sh", "-c", "exit 7")).finished)
	if r == nil || r.Mechanism != "supervisor" || r.ExitCode == nil || *r.ExitCode != 7 || r.Weak {
		t.Errorf("receipt is %+v", r)
	}
	c.start("r2", argv("sh", "-c", `trap '' TERM; echo up; while :; do sleep 1; done`))
	c.line("r2", "up")
	c.cancel("r2")
	r = wire.ParseReceipt(c.finish("r2").finished)
	if r == nil || r.Killed < 1 || r.Signal != "SIGKILL" || r.DurationMS < 400 {
		t.Errorf("receipt of a run that had to be killed is %+v", r)
	}
}

// I8: what the command prints arrives whole and in order.
func TestEveryLineArrivesOnceAndInOrder(t *testing.T) {
	t.Parallel()
	_, c, _ := connected(t, nil)
	const lines = 50_000
	r := c.run("r1", argv("seq", "1", fmt.Sprint(lines)))
	n := 0
	for _, f := range r.events {
		if strings.HasPrefix(string(f.Body), `{"type":"output"`) {
			n++
			if want := fmt.Sprintf(`{"type":"output","data":{"stream":"stdout","text":"%d\n"}}`, n); string(f.Body) != want {
				t.Fatalf("event %d is %s, want %s", n, f.Body, want)
			}
		}
	}
	if n != lines || r.kind != "run.completed" {
		t.Errorf("%d lines and %s", n, r.kind)
	}
}

// docs/exec.md: a line above the limit comes in pieces that are marked; characters
// stay whole; and what a v1 hub does not take at once is cut further.
func TestLongLinesAreCutWithAMark(t *testing.T) {
	t.Parallel()
	_, c, _ := connected(t, nil)
	script := `import sys; sys.stdout.buffer.write(b"\x01"*700000 + "≤".encode()*100000 + b"\nnext\n")`
	r := c.run("r1", argv(interpreter, "-c", script))
	if got, want := r.text(t, "stdout"), strings.Repeat("\x01", 700_000)+strings.Repeat("≤", 100_000)+"\nnext\n"; got != want {
		t.Errorf("%d bytes arrived, want %d, unchanged", len(got), len(want))
	}
	pieces := 0
	for _, f := range r.events {
		if f.Bytes > wire.DefaultMaxFrame {
			t.Errorf("a frame of %d bytes to a v1 hub", f.Bytes)
		}
		if o := outputOf(t, f.Body); o.Data.Partial {
			pieces++
			if strings.Contains(o.Data.Text, "\n") {
				t.Error("a partial text holds the end of a line")
			}
		}
	}
	if pieces < 3 {
		t.Errorf("%d pieces are marked partial", pieces)
	}
}

// D09: what is wrong is named, before anything is started, and the slot is free
// again.
func TestD09WhatIsMissingIsNamed(t *testing.T) {
	var work string
	_, c, _ := connected(t, func(cfg *Config) {
		work = cfg.Workspaces[0]
		cfg.Environ = func() []string { return []string{"PATH=/usr/bin:/bin"} }
		cfg.MaxRuns = 1
	})
	if err := os.WriteFile(filepath.Join(work, "plain"), []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	in := func(workspace string, words ...string) map[string]any {
		return map[string]any{"workspace": workspace, "command": words}
	}
	for name, c2 := range map[string]struct {
		payload map[string]any
		code    string
		says    []string
	}{
		"folder_missing":   {in("none", "true"), "exec.workspace", []string{`"none"`, "does not exist"}},
		"folder_is_a_file": {in("plain", "true"), "exec.workspace", []string{`"plain"`, "not a folder"}},
		"not_on_path":      {argv("agent-x"), "exec.not_found", []string{`"agent-x"`, "/usr/bin:/bin"}},
		"not_executable":   {argv("./plain"), "exec.not_found", []string{"plain", "not executable"}},
		"path_missing":     {argv("/none/agent-x"), "exec.not_found", []string{"/none/agent-x"}},
		"word_too_long":    {argv("true", strings.Repeat("x", 200_000)), "exec.too_long", []string{"stdin"}},
	} {
		r := c.run(name, c2.payload)
		if r.code() != c2.code || r.kind != "run.failed" {
			t.Errorf("%s: %s %v, want %s", name, r.kind, r.terminal, c2.code)
		}
		for _, s := range c2.says {
			if text := fmt.Sprint(r.terminal["error"]); !strings.Contains(text, s) {
				t.Errorf("%s: %q does not say %q", name, text, s)
			}
		}
	}
	if r := c.run("after", argv("true")); r.kind != "run.completed" {
		t.Errorf("the daemon is not free: %v", r.terminal)
	}
}

// D17: the grace is the owner's, and what is printed in it arrives.
func TestD17LastWordsArriveBeforeTheEnd(t *testing.T) {
	t.Parallel()
	_, c, _ := connected(t, func(cfg *Config) { cfg.Containment.Grace = 5 * time.Second })
	c.start("r1", argv("bash", "-c", `trap "echo one; sleep 1; echo two; exit 0" TERM; echo up; while :; do sleep 0.1; done`))
	c.line("r1", "up")
	c.cancel("r1")
	c.cancel("r1")
	r := c.finish("r1")
	if got := r.text(t, "stdout"); got != "one\ntwo\n" {
		t.Errorf("last words are %q", got)
	}
	if last := string(r.events[len(r.events)-1].Body); last != cancelledText {
		t.Errorf("the last event is %s, want %s", last, cancelledText)
	}
}
