package daemon

import (
	"context"
	"fmt"

	"codingrelay/containment"
	"codingrelay/wire"
)

// Runner does the runs of a daemon. Run is called once for each run, on a
// goroutine of its own, and many at once.
//
// When ctx ends the run is being ended (cancelled, disconnected, or the daemon
// stops): every tree that [Job.Command] started has been told to end, and Run must
// return soon. A Run that has not returned 30 s later makes the run unconfirmed,
// and the daemon halt.
//
// Returning nil sends run.completed, returning an error run.failed, with what a
// [*Failure] says in it. Of a run that was ended neither is sent, whatever Run
// returns: its cause is told instead. A panic is a run.failed with code
// daemon.panic. In all cases the run is acknowledged only when every tree that
// [Job.Command] started is proven gone; trees that still live when Run returns are
// ended. Run itself must not emit run.completed or run.failed.
type Runner interface {
	Run(ctx context.Context, job *Job) error
}

// RunnerFunc is a function as [Runner].
type RunnerFunc func(ctx context.Context, job *Job) error

// Run calls f.
func (f RunnerFunc) Run(ctx context.Context, job *Job) error { return f(ctx, job) }

// Job is one run, as its [Runner] sees it. Its methods are safe for concurrent
// use, and fail with [ErrRunOver] after Run has returned.
type Job struct {
	// ID is the job_id of the wire.
	ID string
	// Payload is what the caller sent, one JSON object. It must not be changed.
	Payload []byte

	port *runPort
}

// Emit sends one event, any JSON object, to the hub; events keep their order. It
// waits while more than Config.RunQueueBytes of this run's events wait for the hub,
// so a run that floods holds back itself and no other. It returns ctx's error when
// ctx ends while it waits, and [ErrRunOver] when the connection is gone: then
// nobody will hear of it. An event that the hub takes no frame of is cut (output)
// or replaced by event.dropped (protocol section 1).
//
// Emit works on while the run is being ended: give it a context that does not end
// then, such as context.WithoutCancel(ctx), to deliver last words. It does not wait
// any more once all trees of the run are gone; what then finds no room is dropped,
// with a mark.
func (j *Job) Emit(ctx context.Context, event []byte) error {
	object, err := wire.NormalizeObject(event)
	if err != nil {
		return fmt.Errorf("daemon: emit: %w", err)
	}
	return j.port.emit(ctx, object)
}

// Output sends one output event (docs/exec.md). partial says that the line goes on
// in the stream's next event. It waits like [Job.Emit].
func (j *Job) Output(ctx context.Context, stream string, text []byte, partial bool) error {
	return j.port.emit(ctx, outputEvent(stream, text, partial))
}

// Complete sets the data of the run.completed that is sent when Run returns nil, a
// JSON object. The last call counts. Without one it is {"finish_reason":"stop"}.
func (j *Job) Complete(data []byte) error {
	object, err := wire.NormalizeObject(data)
	if err != nil {
		return fmt.Errorf("daemon: complete: %w", err)
	}
	j.port.mu.Lock()
	defer j.port.mu.Unlock()
	if j.port.done {
		return ErrRunOver
	}
	j.port.completed = object
	return nil
}

// Environ makes the environment of a process of this run: what the daemon's owner
// allows of the daemon's own, then extra (NAME=value; the last of a name counts),
// then NO_PROXY and no_proxy with this machine added, so that what is meant for
// loopback is not sent to a proxy.
func (j *Job) Environ(extra ...string) []string {
	cfg := &j.port.world.cfg
	return runEnviron(cfg.Environ(), cfg.EnvAllow, extra)
}

// Command starts a process under the run's containment; its tree belongs to the
// barrier of this run. A nil spec.Env means [Job.Environ]; from any Env, RELAY_
// variables and those that hold the daemon's token are taken out. The caller reads
// the tree's output to its end. It fails with [ErrRunOver] when the run is being
// ended; other errors are those of [containment.Start].
func (j *Job) Command(spec containment.Spec) (*containment.Tree, error) {
	if spec.Env == nil {
		spec.Env = j.Environ()
	}
	var out []string
	spec.Env, out = guardEnviron(spec.Env, j.port.world.secretList())
	if len(out) > 0 {
		j.port.world.cfg.Logger.Debug("kept from the run's environment", "run", headOf(j.ID, 128), "names", out)
	}
	return j.port.command(spec)
}
