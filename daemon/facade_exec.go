package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"codingrelay/containment"
)

const (
	// stderrTailBytes is how much of the end of stderr a run.failed carries.
	stderrTailBytes = 4 << 10
	// readBytes is how much of an output is read at once.
	readBytes = 64 << 10
	// quietTime is how long an output must have had nothing more, after the
	// leader's end and the drain grace, before what helpers may still write is
	// left aside.
	quietTime = 100 * time.Millisecond
)

// Exec is the runner that runs commands: the exec agent. What it takes and sends
// is in docs/exec.md. What the command prints is passed on and never parsed.
type Exec struct{ workspaces []string }

// NewExec makes an exec agent whose runs work in these folders, or in folders
// inside them; the first is the default. They must exist. None means the present
// working folder.
func NewExec(workspaces []string) (*Exec, error) {
	roots, err := resolveRoots(workspaces)
	if err != nil {
		return nil, err
	}
	return &Exec{workspaces: roots}, nil
}

// Run implements [Runner].
func (e *Exec) Run(ctx context.Context, job *Job) error {
	req, err := parseExec(job.Payload)
	if err != nil {
		return err
	}
	dir, err := resolveWorkspace(e.workspaces, req.workspace)
	if err != nil {
		return err
	}
	tree, err := job.Command(containment.Spec{
		Argv: req.command, Dir: dir, Env: job.Environ(req.env...), Stdin: []byte(req.prompt),
	})
	if err != nil {
		return startFailure(err)
	}
	x := &execution{job: job, tree: tree}
	x.read("stdout", tree.Stdout(), &x.stdout)
	x.read("stderr", tree.Stderr(), &x.stderr)
	timedOut := x.wait(ctx, req.timeout)
	return x.result(timedOut, req.timeout)
}

// startFailure says why nothing was started.
func startFailure(err error) error {
	if errors.Is(err, ErrRunOver) || errors.Is(err, containment.ErrUnconfirmed) {
		return err
	}
	f := &Failure{Code: codeExecStart, Text: err.Error()}
	switch {
	case errors.Is(err, containment.ErrDirMissing), errors.Is(err, containment.ErrDirNotFolder), errors.Is(err, containment.ErrDirDenied):
		f.Code = codeExecWorkspace
	case errors.Is(err, containment.ErrCommandNotFound), errors.Is(err, containment.ErrCommandNotExecutable), errors.Is(err, containment.ErrCommandIsFolder):
		f.Code = codeExecNotFound
	case errors.Is(err, containment.ErrTooLong):
		f.Code = codeExecTooLong
	}
	return f
}

// execution is one command while it runs.
type execution struct {
	job            *Job
	tree           *containment.Tree
	stdout, stderr outputReader
}

// outputReader is one goroutine that turns a stream into events.
type outputReader struct {
	done chan struct{} // closed at the stream's end

	mu   sync.Mutex
	at   position
	tail []byte
}

// position is how far a reader has got.
type position struct {
	reads   int  // how many have returned
	waiting bool // for data, or for the end; nothing is on its way to the hub
}

// read begins to pass on a stream. The events do not depend on the run's context:
// what is printed while the run is being ended is delivered, too.
func (x *execution) read(stream string, from io.Reader, r *outputReader) {
	r.done = make(chan struct{})
	r.at.waiting = true
	go func() {
		defer close(r.done)
		cut := lineCutter{limit: LineBytesMax}
		give := func(text []byte, partial bool) {
			// An error says that nobody will hear of it; the stream is read to its end
			// all the same, so that the command is not held up.
			_ = x.job.Output(noContext, stream, text, partial)
		}
		buf := make([]byte, readBytes)
		for {
			n, err := from.Read(buf)
			r.returned(buf[:n], stream == "stderr")
			cut.feed(buf[:n], give)
			if err != nil {
				cut.end(give)
				r.waits()
				return
			}
			r.waits()
		}
	}()
}

func (r *outputReader) returned(p []byte, keep bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = position{reads: r.at.reads + 1}
	if keep {
		r.tail = tailOf(append(r.tail, p...), stderrTailBytes)
	}
}

func (r *outputReader) waits() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at.waiting = true
}

func (r *outputReader) position() position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

func (r *outputReader) end() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.tail)
}

// wait returns when the command has ended and what it printed has been passed on,
// and reports whether its time was up. A run that is being ended is waited for to
// the end of its tree, so that its last words arrive.
func (x *execution) wait(ctx context.Context, timeout time.Duration) (timedOut bool) {
	var limit <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-x.tree.Drained():
	case <-ctx.Done(): // the tree has been told to end
		x.streamsEnd()
		return false
	case <-limit:
		x.tree.Stop()
		x.streamsEnd()
		return true
	}
	x.streamsQuiet(ctx)
	return false
}

func (x *execution) streamsEnd() {
	<-x.stdout.done
	<-x.stderr.done
}

// streamsQuiet waits until each stream has ended, or has nothing more although
// helpers still hold it open. A reader that is held back by the hub has not got
// there yet, however long that takes.
func (x *execution) streamsQuiet(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		x.streamsEnd() // at the latest with the tree
	}()
	timer := time.NewTicker(quietTime)
	defer timer.Stop()
	out, err := x.stdout.position(), x.stderr.position()
	for {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			<-ended // the tree is being ended, and its streams with it
			return
		case <-timer.C:
		}
		nextOut, nextErr := x.stdout.position(), x.stderr.position()
		if out == nextOut && err == nextErr && out.waiting && err.waiting {
			return
		}
		out, err = nextOut, nextErr
	}
}

// result says how the command ended.
func (x *execution) result(timedOut bool, timeout time.Duration) error {
	if timedOut {
		return &Failure{
			Code: codeExecTimeout, Text: fmt.Sprintf("the command was ended after its time limit of %v", timeout), StderrTail: x.stderr.end(),
		}
	}
	exit, known := <-x.tree.Exited()
	switch {
	case !known:
		return &Failure{Code: codeExecStart, Text: "how the command ended did not become known", StderrTail: x.stderr.end()}
	case exit.Signal != 0:
		return &Failure{
			Code: codeExecSignal, Text: "the command was ended by " + exit.String(), Signal: signalName(exit.Signal), StderrTail: x.stderr.end(),
		}
	case exit.Code != 0:
		code := exit.Code
		return &Failure{
			Code: codeExecExit, Text: fmt.Sprintf("the command ended with exit code %d", code), ExitCode: &code, StderrTail: x.stderr.end(),
		}
	}
	return x.job.Complete([]byte(`{"finish_reason":"stop","exit_code":0}`))
}
