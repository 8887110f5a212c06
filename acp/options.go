package acp

import (
	"context"
	"io"
	"time"
)

// Agent is a process that runs already.
type Agent struct {
	// Stdin is its standard input. Close must make a Write that is under way
	// return, as that of an *os.File of a pipe does. Run closes it.
	Stdin io.WriteCloser
	// Stdout is its standard output. It is read to its end, after Run has returned
	// too, so that the agent is never held up: the reading ends with the process.
	Stdout io.Reader
	// Wait waits until the process has ended, or ctx has. It is called once; false
	// means that it did not become known how the process ended.
	Wait func(ctx context.Context) (Exit, bool)
	// StderrTail gives the end of what the process has written to its standard
	// error output, which the embedder reads. It is called at most once, when the
	// run has failed. Nil means none.
	StderrTail func() string
}

// Options are what a run needs beside its payload. The zero value is fit for use.
type Options struct {
	// MCPURL is where the agent reaches the caller's tools (streamable HTTP on
	// loopback); it is offered, under the name MCPName, when the request wants that
	// and the agent takes servers by HTTP. Empty means none.
	MCPURL string
	// MCPName is langbot_agent when empty: the agent's model sees it, and callers'
	// prompts speak of it.
	MCPName string
	// ClientName and ClientVersion are told to the agent; "relay" and "1" when empty.
	ClientName, ClientVersion string

	// Ask answers a permission question of the agent when the request's policy is
	// [PermissionAsk]; params are those of session/request_permission. It gives the
	// id of one of the options; an error, or any other text, cancels the question.
	// It runs on a goroutine of its own and must return when ctx ends: the question
	// is settled then, and what it returns is ignored. Nil cancels all questions.
	Ask func(ctx context.Context, params []byte) (optionID string, err error)
	// Noise is told each line that was no message, as log. It must not block or
	// keep the line. Nil means nobody.
	Noise func(line []byte)
	// Complete is told the data of run.completed, a JSON object, before Run returns
	// nil. Nil means nobody.
	Complete func(data []byte) error

	// CancelGrace is how long an agent may take to end its turn after
	// session/cancel. Default 2 s: with the daemon's grace of 5 s it fits into the
	// 10 s of a hub (protocol section 8).
	CancelGrace time.Duration
	// ExitGrace is how long an agent may take to end by itself after a good turn,
	// when its standard input is closed, so that it can save its session. Default 1 s.
	ExitGrace time.Duration
	// EventBytesMax is the longest event, in bytes. Default 768 KiB, which fits every
	// hub (protocol section 1); at least 8 KiB. Longer text comes in pieces or is cut
	// with a mark.
	EventBytesMax int
}

// Defaults of Options.
const (
	CancelGraceDefault   = 2 * time.Second
	ExitGraceDefault     = time.Second
	EventBytesMaxDefault = 768 << 10
)

const eventBytesLeast = 8 << 10

func (o Options) limits() limits {
	or := func(s, other string) string {
		if s == "" {
			return other
		}
		return s
	}
	l := limits{
		mcpURL: o.MCPURL, mcpName: or(o.MCPName, "langbot_agent"),
		client:      [2]string{or(o.ClientName, "relay"), or(o.ClientVersion, "1")},
		cancelGrace: o.CancelGrace, eventBytes: o.EventBytesMax, lineBytes: LineBytesMax, canAsk: o.Ask != nil,
	}
	if l.cancelGrace <= 0 {
		l.cancelGrace = CancelGraceDefault
	}
	if l.eventBytes <= 0 {
		l.eventBytes = EventBytesMaxDefault
	}
	l.eventBytes = max(l.eventBytes, eventBytesLeast)
	return l
}
