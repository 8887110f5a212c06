package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"codingrelay/control"
)

// session is one attached run as a person at a terminal lives it.
type session struct {
	app    *app
	client *control.Client
	run    control.Run

	// pressed counts the signals; number is that of the first, since when a cancel
	// is awaited.
	pressed int
	number  int
	since   time.Time
}

// attached starts a run whose caller we are, and stays until its end. Reading,
// printing and signals are apart: whoever reads our output may take nothing for as
// long as he likes, and Ctrl-C is heard all the same.
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
	p := newPrinter(a)
	if a.opts.json {
		p.started(s.run)
	}
	entries, done := make(chan entry, entriesAhead), make(chan error, 1)
	go func() {
		defer stream.Close() // this goroutine alone uses it
		feed(ctx, stream.Events(), entries, everything)
	}()
	go func() { done <- p.print(entries) }()
	closed := p.closed
	for {
		select {
		case sig := <-signals:
			if s.press(ctx, sig) {
				return exitError(exitInterrupted)
			}
		case <-closed:
			closed = nil
			s.cancel(ctx, sigPipeNumber)
		case err := <-done:
			if err != nil {
				return err
			}
			return s.end(p)
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
		a.say("given up before the run began; the hub cancels what was placed")
		return nil, exitError(exitSignalBase + signalNumber(sig))
	}
}

// press is a signal: the first cancels, the second says what is awaited, the
// third leaves. It reports whether to leave.
func (s *session) press(ctx context.Context, sig os.Signal) bool {
	s.pressed++
	switch s.pressed {
	case 1:
		s.app.say("cancelling; waiting until everything of the run is gone (again: what is awaited; a third time: leave)")
		s.cancel(ctx, signalNumber(sig))
	case 2:
		s.app.say("waiting since %s for daemon %q to confirm that every process of run %s is gone; the hub fences it when it does not",
			short(time.Since(s.since)), s.run.DaemonID, s.run.RunID)
	default:
		s.app.say("left; the hub goes on. To see how it ends: relay cancel %s", s.run.RunID)
		return true
	}
	return false
}

// cancel asks for the end, once. The outcome comes with the stream's end.
func (s *session) cancel(ctx context.Context, number int) {
	if !s.since.IsZero() {
		return
	}
	s.number, s.since = number, time.Now()
	go func() {
		if _, err := s.client.Cancel(ctx, s.run.RunID); err != nil && ctx.Err() == nil {
			s.app.warn("the cancel was not taken: %v", err)
		}
	}()
}

// end is the outcome in words and as an exit code.
func (s *session) end(p *printer) error {
	err := s.verdict(*p.outcome, p)
	if err == nil {
		err = p.unheard()
	}
	if !s.app.opts.json {
		return err
	}
	exit := exitOf(err)
	p.ended(&exit)
	if exit == exitOK {
		return nil
	}
	return exitError(exit) // the last line has said it all
}

// exitOf is the exit code that an error of the end gives.
func exitOf(err error) int {
	var quiet exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return int(quiet)
	default:
		return explain(err).exitCode()
	}
}

// verdict is what the outcome means to whoever started this command.
func (s *session) verdict(out control.Outcome, p *printer) error {
	if !out.Clean {
		f := &failure{
			code: codeNotConfirmed, what: fmt.Sprintf("%s, not confirmed: daemon %s is fenced", out.Result, s.run.DaemonID),
			cause: out.Reason,
		}
		if out.FenceID != "" {
			f.fix = "relay fence show " + shellWord(s.run.DaemonID)
		}
		return f
	}
	switch out.Result {
	case "cancelled":
		switch {
		case out.Reason != "":
			s.app.say("cancelled, clean (%s)", out.Reason)
		case s.number == sigPipeNumber:
			return p.unheard()
		default:
			s.app.say("cancelled, clean")
		}
		if s.number != 0 {
			return exitError(exitSignalBase + s.number)
		}
		return exitError(exitFailed)
	case "timed_out":
		s.app.say("timed out, clean")
		return exitError(exitTimeout)
	case "finished":
		return p.last.exit(s.app)
	}
	f := &failure{code: out.Code, what: "the run ended: " + out.Result, cause: out.Message}
	if row, known := lookUpCode(out.Code); !known || row.exit == exitFailed {
		f.exit = exitRelayFailed
	}
	return f
}

// terminal is what the daemon's last event said of the command.
type terminal struct {
	kind string
	data terminalData
}

type terminalData struct {
	Error    string `json:"error"`
	Code     string `json:"code"`
	ExitCode *int   `json:"exit_code"`
	Signal   string `json:"signal"`
}

// exit is what a finished run's command ended with.
func (t terminal) exit(a *app) error {
	if t.kind != eventFailed {
		return nil
	}
	switch {
	case t.data.ExitCode != nil:
		return exitError(*t.data.ExitCode)
	case t.data.Signal != "":
		a.say("%s", t.data.Error)
		return exitError(exitSignalBase + numberOf(t.data.Signal))
	}
	f := &failure{code: t.data.Code, what: t.data.Error}
	code, ours := strings.CutPrefix(t.data.Code, "exec.")
	switch { // what is in the table has its code there; else it is 1
	case code == "not_found" && (strings.Contains(t.data.Error, "executable") || strings.Contains(t.data.Error, "folder")):
		f.exit = exitNotExecutable
	case code == "not_found":
		f.exit = exitNoCommand
	case code == "timeout":
		f.exit = exitTimeout
	case ours: // the command was never started
		f.exit = exitRelayFailed
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
