package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"codingrelay/control"
)

// session is one attached run as a person at a terminal lives it.
type session struct {
	app    *app
	client *control.Client
	run    control.Run

	// pressed counts the signals; first is the first of them, since when a cancel
	// is awaited.
	pressed int
	first   os.Signal
	since   time.Time

	last terminal
}

// terminal is what the daemon's last event said of the command.
type terminal struct {
	kind string
	data terminalData
}

type terminalData struct {
	Error      string `json:"error"`
	Code       string `json:"code"`
	ExitCode   *int   `json:"exit_code"`
	Signal     string `json:"signal"`
	StderrTail string `json:"stderr_tail"`
}

// attached starts a run whose caller we are, and stays until its end.
func (a *app) attached(ctx context.Context, c *control.Client, req control.RunRequest) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, endSignals...)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := a.startInterruptibly(ctx, cancel, c, req, signals)
	if err != nil {
		return err
	}
	s := &session{app: a, client: c, run: stream.Run}
	a.hint("run %s on daemon %q", s.run.RunID, s.run.DaemonID)
	type entry struct {
		ev  control.StreamEvent
		err error
	}
	entries := make(chan entry)
	// The stream belongs to the goroutine that reads it; it ends with ctx.
	defer func() {
		cancel()
		for e := range entries {
			_ = e // nobody waits for it any more
		}
	}()
	go func() {
		defer close(entries)
		for ev, err := range stream.Events() {
			select {
			case entries <- entry{ev, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case sig := <-signals:
			if s.press(ctx, sig) {
				return exitError(exitInterrupted)
			}
		case e, ok := <-entries:
			switch {
			case !ok:
				return &failure{code: codeStreamLost, what: "the run's event stream ended without its outcome"}
			case e.err != nil:
				return e.err
			}
			if err := s.show(e.ev); err != nil {
				return err
			}
			if e.ev.Kind == control.KindEnd {
				return s.end(*e.ev.Outcome)
			}
		}
	}
}

// startInterruptibly starts the run; a signal while it is being placed gives it
// up: the hub cancels what was placed.
func (a *app) startInterruptibly(ctx context.Context, cancel func(), c *control.Client, req control.RunRequest, signals <-chan os.Signal) (*control.Stream, error) {
	type started struct {
		stream *control.Stream
		err    error
	}
	done := make(chan started, 1)
	go func() {
		s, err := c.StartAttached(ctx, req)
		done <- started{s, err}
	}()
	select {
	case r := <-done:
		return r.stream, r.err
	case sig := <-signals:
		cancel()
		if r := <-done; r.stream != nil {
			r.stream.Close()
		}
		return nil, exitError(exitSignalBase + signalNumber(sig))
	}
}

// press is a signal: the first cancels, the second says what is awaited, the
// third leaves. It reports whether to leave.
func (s *session) press(ctx context.Context, sig os.Signal) bool {
	s.pressed++
	switch s.pressed {
	case 1:
		s.first, s.since = sig, time.Now()
		s.app.say("cancelling; waiting until everything of the run is gone (again: what is awaited; a third time: leave)")
		go func() {
			// The outcome comes with the stream's end; an error there says more.
			if _, err := s.client.Cancel(ctx, s.run.RunID); err != nil && ctx.Err() == nil {
				s.app.warn("the cancel was not taken: %v", err)
			}
		}()
	case 2:
		s.app.say("waiting since %s for daemon %q to confirm that every process of run %s is gone; the hub fences it when it does not",
			short(time.Since(s.since)), s.run.DaemonID, s.run.RunID)
	default:
		s.app.say("left; the hub goes on. To see how it ends: relay cancel %s", s.run.RunID)
		return true
	}
	return false
}

// show prints one entry: output as it is, with --json every entry as a line.
func (s *session) show(ev control.StreamEvent) error {
	s.note(ev)
	if s.app.opts.json {
		return s.app.showJSON(ev)
	}
	return s.app.showText(ev)
}

// note keeps what the daemon's terminal events say.
func (s *session) note(ev control.StreamEvent) {
	if ev.Kind != control.KindEvent {
		return
	}
	var t struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(ev.Data, &t) != nil || t.Type != "run.completed" && t.Type != "run.failed" {
		return
	}
	s.last = terminal{kind: t.Type}
	_ = json.Unmarshal(t.Data, &s.last.data) // a member of another kind says nothing to us
}

// end is the outcome in words and as an exit code.
func (s *session) end(out control.Outcome) error {
	if !out.Clean {
		fence := ""
		if out.FenceID != "" {
			fence = "relay fence show " + s.run.DaemonID
		}
		return &failure{
			code: codeNotConfirmed, what: fmt.Sprintf("%s, not confirmed: daemon %s is fenced", out.Result, s.run.DaemonID),
			cause: out.Reason, fix: fence,
		}
	}
	switch out.Result {
	case "cancelled":
		if out.Reason != "" {
			s.app.say("cancelled, clean (%s)", out.Reason)
		} else {
			s.app.say("cancelled, clean")
		}
		if s.first != nil {
			return exitError(exitSignalBase + signalNumber(s.first))
		}
		return exitError(exitFailed)
	case "timed_out":
		s.app.say("timed out, clean")
		return exitError(exitTimeout)
	case "finished":
		return s.last.exit(s.app)
	default:
		return &failure{code: out.Code, what: fmt.Sprintf("the run ended %s", out.Result), cause: out.Message}
	}
}

// exit is what a finished run's command ended with.
func (t terminal) exit(a *app) error {
	if t.kind != "run.failed" {
		return nil
	}
	switch {
	case t.data.ExitCode != nil:
		return exitError(*t.data.ExitCode)
	case t.data.Signal != "":
		a.say("%s", t.data.Error)
		return exitError(exitSignalBase + numberOf(t.data.Signal))
	}
	f := &failure{code: t.data.Code, what: t.data.Error, exit: exitRelayFailed}
	switch {
	case t.data.Code == "exec.not_found" && strings.Contains(t.data.Error, "executable"):
		f.exit = exitNotExecutable
	case t.data.Code == "exec.not_found":
		f.exit = exitNoCommand
	case t.data.Code == "exec.timeout":
		f.exit = exitTimeout
	}
	return f
}

// signalNumbers are those that a daemon names; it tells others by their number.
var signalNumbers = map[string]int{
	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7,
	"SIGFPE": 8, "SIGKILL": 9, "SIGSEGV": 11, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
}

// numberOf is a signal's number by what a daemon calls it.
func numberOf(name string) int {
	if n, ok := signalNumbers[name]; ok {
		return n
	}
	n := 0
	_, _ = fmt.Sscanf(name, "signal %d", &n)
	return n
}

// showText prints an output event as the command wrote it, and says what a
// reader should know on stderr.
func (a *app) showText(ev control.StreamEvent) error {
	switch ev.Kind {
	case control.KindTruncated:
		a.warn("events %d to %d are gone: the output was not read in time", ev.Range.From, ev.Range.To)
	case control.KindDropped:
		a.warn("a message of %d bytes could not be taken", ev.Bytes)
	case control.KindEvent:
		var e struct {
			Type string `json:"type"`
			Data struct {
				Stream string `json:"stream"`
				Text   string `json:"text"`
			} `json:"data"`
		}
		if json.Unmarshal(ev.Data, &e) != nil || e.Type != "output" {
			return nil
		}
		out := a.stdout
		if e.Data.Stream == "stderr" {
			out = a.stderr
		}
		return a.printed(io.WriteString(out, e.Data.Text))
	}
	return nil
}

// showJSON prints an entry as one line.
func (a *app) showJSON(ev control.StreamEvent) error {
	line := struct {
		Kind    control.EventKind `json:"type"`
		Seq     uint64            `json:"seq,omitempty"`
		Event   json.RawMessage   `json:"event,omitempty"`
		Bytes   int               `json:"bytes,omitempty"`
		Range   *control.Range    `json:"range,omitempty"`
		Outcome *control.Outcome  `json:"outcome,omitempty"`
	}{Kind: ev.Kind, Seq: ev.Seq, Bytes: ev.Bytes, Range: ev.Range, Outcome: ev.Outcome}
	if ev.Kind == control.KindEvent {
		line.Event = ev.Data
	}
	return a.printed(0, printJSON(a.stdout, line))
}

// printed turns a closed output into an error of its own: nobody reads any more.
func (a *app) printed(_ int, err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return &failure{code: codeOutputClosed, what: "nobody reads the output any more", cause: "the run is cancelled when its caller stays away"}
	}
	return err
}
