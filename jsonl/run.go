package jsonl

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Codes of failures.
const (
	CodeResult   = "jsonl.result"    // the agent says that it failed
	CodeExit     = "jsonl.exit"      // it ended with another code than 0
	CodeSignal   = "jsonl.signal"    // a signal ended it
	CodeNoResult = "jsonl.no_result" // it ended without the line that its kind ends with
	CodeTimeout  = "jsonl.timeout"   // its time was up
	CodeUnknown  = "jsonl.unknown"   // how it ended did not become known
)

const (
	// quietTime is how long the output of an ended agent must have had nothing more,
	// and quietLooksMax how often that is looked for.
	quietTime     = 100 * time.Millisecond
	quietLooksMax = 30
)

// Failure is why a run failed: the data of its run.failed.
type Failure struct {
	// Code is one of the Code constants; Text is for people.
	Code, Text string
	// Exit is how the process ended, nil when that is not the cause.
	Exit *Exit
	// StderrTail is the end of what it wrote to its standard error output.
	StderrTail string
}

// Error gives the text.
func (f *Failure) Error() string { return f.Text }

// Exit is how a process ended: with a code, or by the signal with this number, and
// then the code is -1.
type Exit struct{ Code, Signal int }

// String is "exit 3" or "signal 9".
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d", e.Signal)
	}
	return fmt.Sprintf("exit %d", e.Code)
}

// Agent is a process that runs already. Its standard input is the embedder's: the
// prompt and then the end of file.
type Agent struct {
	// Stdout is its standard output. It is read to its end, after Run has returned
	// too; the reading ends with the process and its helpers.
	Stdout io.Reader
	// Wait waits until the process has ended, or ctx has. It is called once; false
	// means that it did not become known how the process ended.
	Wait func(ctx context.Context) (Exit, bool)
	// StderrTail gives the end of its standard error output, which the embedder
	// reads. It is called at most once, when the run has failed. Nil means none.
	StderrTail func() string
}

// Options say how to follow an agent.
type Options struct {
	// Dialect is how the agent says that it is done.
	Dialect Dialect
	// Timeout bounds the run; 0 is none.
	Timeout time.Duration
	// ResultGrace is how long the process may take to end after its result.
	// Default 2 s.
	ResultGrace time.Duration
	// DrainGrace is how long helpers may hold the output open after the process's
	// end. Default 1 s.
	DrainGrace time.Duration
	// Other is told each line that is no object, without its newline; the text is
	// valid until it returns. It may wait, as emit may. Nil means nobody.
	Other func(ctx context.Context, text []byte)
}

// Run follows an agent until its result line and a short grace, or until it has
// ended, and returns nil when that end was good. Each line that is an object goes to
// emit as {"type":"jsonl.<name>","data":<the object>}, in order: whatever an agent
// prints, it is never an event of another kind. Each call of emit is the reader's, so
// a caller that takes nothing holds the agent back.
//
// When ctx ends, the embedder must end the process: Run goes on to give away what it
// still prints, to the end of its output, and returns the cause of ctx. An emit that
// would wait for ever must fail then. In all other cases emit's context ends when Run
// returns.
func Run(ctx context.Context, agent Agent, emit func(ctx context.Context, event []byte) error, opt Options) error {
	f := &follower{
		ctx: ctx, agent: agent, emit: emit, opt: opt,
		resulted: make(chan struct{}), ended: make(chan struct{}), exits: make(chan *Exit, 1),
	}
	f.inner, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	var waiting sync.WaitGroup
	waiting.Go(func() {
		exit, known := agent.Wait(f.inner)
		if !known {
			f.exits <- nil
			return
		}
		f.exits <- &exit
	})
	go f.read()
	timedOut := f.follow()
	f.cancel()
	f.mu.Lock() // a line that is on its way is given or has failed now
	f.over = true
	err := f.verdict(timedOut)
	f.mu.Unlock()
	waiting.Wait()
	return err
}

// follower is one call of Run.
type follower struct {
	ctx   context.Context
	agent Agent
	emit  func(ctx context.Context, event []byte) error
	opt   Options

	inner    context.Context
	cancel   context.CancelFunc
	resulted chan struct{} // closed at the result line
	ended    chan struct{} // closed at the end of the output
	exits    chan *Exit
	exit     *Exit
	hasEnded bool

	mu     sync.Mutex // held while a line is given away
	over   bool       // no more lines are wanted
	result *result

	at sync.Mutex // guards reads
	// reads counts lines begun and lines done: odd while one is given away.
	reads int
}

func (f *follower) read() {
	defer close(f.ended)
	readLines(f.agent.Stdout, LineBytesMax, func(text []byte, size int) {
		f.step()
		f.line(text, size)
		f.step()
	})
}

func (f *follower) step() {
	f.at.Lock()
	f.reads++
	f.at.Unlock()
}

func (f *follower) position() int {
	f.at.Lock()
	defer f.at.Unlock()
	return f.reads
}

// line gives one line away. That it cannot be given is no end of the run: the process
// is ended by whoever knows why nobody takes it.
func (f *follower) line(text []byte, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	if text == nil {
		b := strconv.AppendInt([]byte(`{"type":"event.dropped","data":{"bytes":`), int64(size), 10)
		b = strconv.AppendInt(append(b, `,"limit":`...), LineBytesMax, 10)
		_ = f.emit(f.inner, append(b, "}}"...))
		return
	}
	object, ok := objectOf(text)
	if !ok {
		if f.opt.Other != nil {
			f.opt.Other(f.inner, text)
		}
		return
	}
	b, _ := jsontext.AppendQuote([]byte(`{"type":`), "jsonl."+f.opt.Dialect.Name)
	_ = f.emit(f.inner, append(append(append(b, `,"data":`...), object...), '}'))
	if r, is := f.opt.Dialect.judge(object); is && f.result == nil {
		f.result = &r
		close(f.resulted)
	}
}

// follow returns when the run is over, and reports whether that is because its time
// was up.
func (f *follower) follow() (timedOut bool) {
	var limit <-chan time.Time
	if f.opt.Timeout > 0 {
		t := time.NewTimer(f.opt.Timeout)
		defer t.Stop()
		limit = t.C
	}
	grace := time.NewTimer(time.Hour)
	grace.Stop()
	defer grace.Stop()
	resulted, ended, seen, looks := f.resulted, f.ended, -1, 0
	for {
		select {
		case <-f.ctx.Done():
			<-f.ended
			return false
		case <-limit:
			return true
		case <-resulted:
			resulted = nil
			grace.Reset(orDefault(f.opt.ResultGrace, 2*time.Second))
		case f.exit = <-f.exits:
			f.hasEnded = true
			if ended == nil {
				return false
			}
			grace.Reset(orDefault(f.opt.DrainGrace, time.Second))
		case <-ended:
			ended = nil
			if f.hasEnded {
				return false
			}
		case <-grace.C:
			// After the process's end what it printed may still be on its way to a
			// slow caller: that is over when nothing has moved and nothing is held. A
			// helper that goes on printing is left aside after a while.
			at := f.position()
			if held := at%2 == 1; !f.hasEnded || !held && (at == seen || looks > quietLooksMax) {
				return false
			} else if !held {
				looks++
			}
			seen = at
			grace.Reset(quietTime)
		}
	}
}

func orDefault(d, other time.Duration) time.Duration {
	if d <= 0 {
		return other
	}
	return d
}

// verdict says how the run ended. The agent's own word counts more than how its
// process ended after it.
func (f *follower) verdict(timedOut bool) error {
	failure := func(code, format string, args ...any) error {
		e := &Failure{Code: code, Text: fmt.Sprintf(format, args...)}
		if f.hasEnded && f.result == nil {
			e.Exit = f.exit
		}
		if f.agent.StderrTail != nil {
			e.StderrTail = f.agent.StderrTail()
		}
		return e
	}
	switch {
	case f.ctx.Err() != nil:
		return fmt.Errorf("jsonl: %w", context.Cause(f.ctx))
	case f.result != nil && f.result.failed:
		return failure(CodeResult, "the agent says that it failed: %s", f.result.text)
	case f.result != nil:
		return nil
	case timedOut:
		return failure(CodeTimeout, "the agent was ended after its time limit of %v", f.opt.Timeout)
	case f.exit == nil:
		return failure(CodeUnknown, "how the agent ended did not become known")
	case f.exit.Signal != 0:
		return failure(CodeSignal, "the agent was ended by %v", *f.exit)
	case f.exit.Code != 0:
		return failure(CodeExit, "the agent ended with %v", *f.exit)
	case f.opt.Dialect.Done != "":
		return failure(CodeNoResult, "the agent ended without the line that tells its result (type %s)", f.opt.Dialect.Done)
	}
	return nil
}
