package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"codingrelay/actors"
	"codingrelay/persist"
)

// failure is an error as the user sees it: what failed, why, and what to do.
// Its texts never hold a token.
type failure struct {
	// code is a row of errorCodes, perhaps with the hub's prefix.
	code string
	// what failed, a sentence without a full stop.
	what string
	// cause is the system's or the hub's word; empty when what says it all.
	cause string
	// fix is what to do; empty means the table's.
	fix string
	// exit overrides the table's exit code when it is not 0.
	exit      int
	retryable bool
}

func (f *failure) Error() string {
	if f.cause == "" {
		return f.what
	}
	return f.what + ": " + f.cause
}

// exitCode is the code the process ends with.
func (f *failure) exitCode() int {
	if f.exit != 0 {
		return f.exit
	}
	row, _ := lookUpCode(f.code)
	return row.exit
}

func (f *failure) fixLine() string {
	if f.fix != "" {
		return f.fix
	}
	row, _ := lookUpCode(f.code)
	return row.fix
}

func usagef(format string, args ...any) *failure {
	return &failure{code: codeUsage, what: fmt.Sprintf(format, args...)}
}

// exitError ends the program with a code and without a word: all was said, or
// the code is the command's own.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// explain makes a failure of any error.
func explain(err error) *failure {
	var (
		f      *failure
		hub    *actors.Error
		locked *persist.LockedError
		folder *persist.FolderError
	)
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &hub):
		return &failure{code: hub.FullCode(), what: hub.Message, retryable: hub.Retryable()}
	case errors.As(err, &locked):
		return &failure{
			code: codeStateLocked, what: fmt.Sprintf("the state folder %s is in use", locked.Dir),
			cause: fmt.Sprintf("held by %s", locked.Holder),
		}
	case errors.As(err, &folder):
		cause := ""
		if folder.Err != nil {
			cause = folder.Err.Error()
		}
		return &failure{code: codeStateFolder, what: fmt.Sprintf("the state folder %s %s", folder.Dir, folder.Problem), cause: cause, fix: folder.Fix}
	case errors.Is(err, context.Canceled):
		return &failure{code: codeInterrupted, what: "interrupted"}
	default:
		return explainMore(err)
	}
}

// report prints an error on stderr and returns its exit code.
func (a *app) report(err error) int {
	var quiet exitError
	if errors.As(err, &quiet) {
		return int(quiet)
	}
	f := explain(err)
	if a.opts.json {
		a.reportJSON(f)
		return f.exitCode()
	}
	line := func(label, colour, text string) {
		if text != "" {
			fmt.Fprintf(a.stderr, "%s %s\n", a.paint(colour, label+":"), strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	line("error", red, f.what)
	line("cause", dim, f.cause)
	line("fix", green, f.fixLine())
	if f.code != codeUsage && f.code != codeInterrupted {
		line("code", dim, f.code+" (relay help exit-codes)")
	}
	return f.exitCode()
}

func (a *app) reportJSON(f *failure) {
	type body struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Cause     string `json:"cause,omitempty"`
		Fix       string `json:"fix,omitempty"`
		ExitCode  int    `json:"exit_code"`
		Retryable bool   `json:"retryable"`
	}
	b, err := json.Marshal(map[string]body{"error": {f.code, f.what, f.cause, f.fixLine(), f.exitCode(), f.retryable}})
	if err != nil {
		panic(err) // strings, numbers and bools always encode
	}
	fmt.Fprintf(a.stderr, "%s\n", b)
}
