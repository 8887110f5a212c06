package main

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"

	"codingrelay/control"
)

// What a run's end means to a script that started it, and what is said about it.
func TestEveryEndHasItsExitCode(t *testing.T) {
	code := func(n int) *int { return &n }
	failed := func(d terminalData) terminal { return terminal{kind: eventFailed, data: d} }
	finished := control.Outcome{Result: "finished", Clean: true}
	for name, tt := range map[string]struct {
		out    control.Outcome
		last   terminal
		number int
		deaf   error
		want   int
		said   string
	}{
		"completed":        {out: finished, last: terminal{kind: eventCompleted}, want: 0},
		"no_word":          {out: finished, want: 0},
		"exit_7":           {out: finished, last: failed(terminalData{Code: "exec.exit", ExitCode: code(7)}), want: 7},
		"signal":           {out: finished, last: failed(terminalData{Code: "exec.signal", Signal: "SIGSEGV", Error: "ended by 11"}), want: 139, said: "ended by 11"},
		"not_found":        {out: finished, last: failed(terminalData{Code: "exec.not_found", Error: "the command was not found"}), want: 127, said: "not found"},
		"not_executable":   {out: finished, last: failed(terminalData{Code: "exec.not_found", Error: "the command is not executable"}), want: 126},
		"a_folder":         {out: finished, last: failed(terminalData{Code: "exec.not_found", Error: "the command is a folder"}), want: 126},
		"workspace":        {out: finished, last: failed(terminalData{Code: "exec.workspace", Error: "no such folder"}), want: 125, said: "no such folder"},
		"own_time_limit":   {out: finished, last: failed(terminalData{Code: "exec.timeout"}), want: 124},
		"daemon_full":      {out: finished, last: failed(terminalData{Code: "agent_runtime.daemon_busy"}), want: 6},
		"agent_failed":     {out: finished, last: failed(terminalData{Code: "acp.error", Error: "no model"}), want: 1, said: "no model"},
		"timed_out":        {out: control.Outcome{Result: "timed_out", Clean: true}, want: 124, said: "timed out, clean"},
		"by_ctrl_c":        {out: control.Outcome{Result: "cancelled", Clean: true}, number: 2, want: 130, said: "cancelled, clean"},
		"by_term":          {out: control.Outcome{Result: "cancelled", Clean: true}, number: 15, want: 143},
		"by_another":       {out: control.Outcome{Result: "cancelled", Clean: true, Reason: "hub_stopping"}, want: 1, said: "hub_stopping"},
		"not_confirmed":    {out: control.Outcome{Result: "cancelled", FenceID: "f", Reason: "cancel_timeout"}, number: 2, want: 5, said: "daemon box is fenced"},
		"disconnected":     {out: control.Outcome{Result: "disconnected", FenceID: "f"}, want: 5, said: "relay fence show box"},
		"timeout_unclean":  {out: control.Outcome{Result: "timed_out", FenceID: "f"}, want: 5},
		"refused":          {out: control.Outcome{Result: "refused", Clean: true, Code: "agent_runtime.daemon_cancelling", Message: "is cancelling"}, want: 5, said: "is cancelling"},
		"hub_failed":       {out: control.Outcome{Result: "failed", Clean: true, Code: "agent_runtime.internal"}, want: 125},
		"pipe_closed":      {out: finished, deaf: &os.PathError{Op: "write", Err: syscall.EPIPE}, number: 13, want: 141},
		"pipe_closed_ends": {out: control.Outcome{Result: "cancelled", Clean: true}, deaf: syscall.EPIPE, number: 13, want: 141},
		"disk_full":        {out: finished, deaf: syscall.ENOSPC, number: 13, want: 125, said: "could not be written"},
		"pipe_and_fence":   {out: control.Outcome{Result: "cancelled", FenceID: "f"}, deaf: syscall.EPIPE, number: 13, want: 5, said: "fenced"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			a := newApp(nil, &stdout, &stderr, func(string) (string, bool) { return "", false })
			s := &session{app: a, run: control.Run{RunID: "r", DaemonID: "box"}, number: tt.number}
			p := newPrinter(a)
			p.outcome, p.last, p.deaf = &tt.out, tt.last, tt.deaf
			got := 0
			if err := s.end(p); err != nil {
				got = a.report(err)
			}
			if got != tt.want || !strings.Contains(stderr.String(), tt.said) {
				t.Errorf("exit code %d, want %d; said %q, want %q in it", got, tt.want, stderr.String(), tt.said)
			}
		})
	}
}
