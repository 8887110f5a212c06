package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math"
	"syscall"

	"codingrelay/control"
)

// The events whose names mean something here; whatever else a daemon sends is
// shown with --json only.
const (
	eventOutput    = "output"
	eventCompleted = "run.completed"
	eventFailed    = "run.failed"
	eventMessage   = "message.completed"
)

// entry is one entry of a run's stream, or its last error.
type entry struct {
	ev  control.StreamEvent
	err error
}

// entriesAhead is how many entries may lie between socket and output: enough to
// write many lines at once, little enough that the hub soon feels a reader that
// pauses.
const entriesAhead = 64

// everything as the last entry that is wanted.
const everything = math.MaxUint64

// feed reads a stream up to its end, or to entry number last.
func feed(ctx context.Context, events iter.Seq2[control.StreamEvent, error], entries chan<- entry, last uint64) {
	defer close(entries)
	for ev, err := range events {
		select {
		case entries <- entry{ev, err}:
		case <-ctx.Done():
			return
		}
		if ev.Seq >= last {
			return
		}
	}
}

// printer turns a run's entries into text, or with --json into lines of JSON. One
// goroutine prints; others look at its fields when print has returned.
type printer struct {
	app *app
	out *bufio.Writer
	// closed says that nobody reads the output any more; what comes then is taken
	// and thrown away.
	closed chan struct{}
	deaf   error
	// outcome is nil until the run has ended; last is what its daemon said last.
	outcome *control.Outcome
	last    terminal
}

// outputBuffer is how much is written at once, in bytes.
const outputBuffer = 64 << 10

func newPrinter(a *app) *printer {
	return &printer{app: a, out: bufio.NewWriterSize(a.stdout, outputBuffer), closed: make(chan struct{})}
}

// errNoOutcome is a stream that ends before its run.
var errNoOutcome = &failure{code: codeStreamLost, what: "the run's event stream ended without its outcome"}

// print prints what comes until the run's end; then outcome is set. It writes as
// much at once as there is, and at once what there is.
func (p *printer) print(entries <-chan entry) error {
	for e := range entries {
		if e.err == nil && p.deaf == nil {
			p.heard(p.show(e.ev))
		}
		if e.err != nil || len(entries) == 0 || e.ev.Kind == control.KindEnd {
			p.heard(p.out.Flush())
		}
		if e.err != nil {
			return e.err
		}
		if e.ev.Kind == control.KindEnd {
			p.outcome = e.ev.Outcome
			return nil
		}
	}
	p.heard(p.out.Flush())
	return errNoOutcome
}

// heard notes an output that does not take any more.
func (p *printer) heard(err error) {
	if err != nil && p.deaf == nil {
		p.deaf = err
		close(p.closed)
	}
}

func (p *printer) show(ev control.StreamEvent) error {
	if ev.Kind != control.KindEvent {
		if p.app.opts.json {
			return p.line(ev)
		}
		return p.mark(ev)
	}
	var e struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(ev.Data, &e); err != nil {
		e.Type = "" // an event need not have a type, or one that is text
	}
	if e.Type == eventCompleted || e.Type == eventFailed {
		p.last = terminal{kind: e.Type}
		_ = json.Unmarshal(e.Data, &p.last.data) // a member of another kind says nothing to us
	}
	if p.app.opts.json {
		return p.line(ev)
	}
	return p.text(e.Type, e.Data)
}

// text prints what a command wrote, or an agent's final message.
func (p *printer) text(kind string, data []byte) error {
	switch kind {
	case eventOutput:
		var o struct {
			Stream string `json:"stream"`
			Text   string `json:"text"`
		}
		if json.Unmarshal(data, &o) != nil {
			return nil
		}
		if o.Stream != "stderr" {
			_, err := p.out.WriteString(o.Text)
			return err
		}
		// In the order in which it was written, as far as two streams have one.
		if err := p.out.Flush(); err != nil {
			return err
		}
		_, err := io.WriteString(p.app.stderr, o.Text)
		return err
	case eventMessage:
		var m struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		}
		if json.Unmarshal(data, &m) != nil || m.Message.Content == "" {
			return nil
		}
		_, err := p.out.WriteString(m.Message.Content + "\n")
		return err
	}
	return nil
}

// mark says on stderr what a reader should know of what he does not see.
func (p *printer) mark(ev control.StreamEvent) error {
	switch ev.Kind {
	case control.KindTruncated:
		p.app.warn("events %d to %d are gone: the output was not read in time", ev.Range.From, ev.Range.To)
	case control.KindDropped:
		p.app.warn("a message of %d bytes could not be taken", ev.Bytes)
	}
	return nil
}

// line prints an entry as one line of JSON. The end is not among them: its line
// has the exit code, too ([printer.ended]).
func (p *printer) line(ev control.StreamEvent) error {
	l := struct {
		Kind  control.EventKind `json:"type"`
		Seq   uint64            `json:"seq,omitempty"`
		Event json.RawMessage   `json:"event,omitempty"`
		Bytes int               `json:"bytes,omitempty"`
		Range *control.Range    `json:"range,omitempty"`
	}{Kind: ev.Kind, Seq: ev.Seq, Bytes: ev.Bytes, Range: ev.Range}
	switch ev.Kind {
	case control.KindEnd:
		return nil
	case control.KindEvent:
		l.Event = ev.Data
	}
	return printJSON(p.out, l)
}

// started is the first line of JSON of an attached run.
func (p *printer) started(r control.Run) {
	p.heard(printJSON(p.out, struct {
		Kind string      `json:"type"`
		Run  control.Run `json:"run"`
	}{"started", r}))
	p.heard(p.out.Flush())
}

// ended is the last line of JSON: the outcome and, where one follows from it, the
// exit code.
func (p *printer) ended(exit *int) {
	if p.deaf != nil {
		return
	}
	p.heard(printJSON(p.out, struct {
		Kind     control.EventKind `json:"type"`
		Outcome  *control.Outcome  `json:"outcome"`
		ExitCode *int              `json:"exit_code,omitempty"`
	}{control.KindEnd, p.outcome, exit}))
	p.heard(p.out.Flush())
}

// unheard is what became of the output when it was not taken to its end, or nil.
func (p *printer) unheard() error {
	switch {
	case p.deaf == nil:
		return nil
	case errors.Is(p.deaf, syscall.EPIPE):
		return exitError(exitSignalBase + sigPipeNumber) // as every program in a pipe
	default:
		return &failure{code: codeOutputClosed, what: "the output could not be written", cause: p.deaf.Error(), exit: exitRelayFailed}
	}
}
