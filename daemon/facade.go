package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/anthdm/hollywood/actor"
	"github.com/google/uuid"

	"codingrelay/containment"
	"codingrelay/lease"
	"codingrelay/persist"
	"codingrelay/step"
)

// Errors of a daemon's methods.
var (
	// ErrNotRunning is returned by Drain, Stop and Status when Run is not running.
	ErrNotRunning = errors.New("daemon: it is not running")
	// ErrOnce is returned by Run when it was called before.
	ErrOnce = errors.New("daemon: Run works once; make another daemon")
	// ErrRunOver is returned by the methods of a [Job] whose run is over, or is
	// being ended.
	ErrRunOver = errors.New("daemon: the run is over")
)

// SupervisorMain must be the first call in main, and in TestMain, of a program
// that embeds a daemon: each run has a supervisor process, which is this
// executable, started again. In such a process it does that work and never
// returns; otherwise it returns at once.
func SupervisorMain() { containment.SupervisorMain() }

// Daemon is one daemon. Its methods are safe for concurrent use.
type Daemon struct {
	cfg   Config
	name  string
	world *world
	lock  *persist.Lock
	begun atomic.Bool
	// running is closed when the session exists; host and world are whole then.
	running chan struct{}
	// stop is closed when a caller wants the end.
	stop     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
}

// New makes a daemon and takes the lock of its state folder: a second daemon with
// this id on this machine is refused with a [*persist.LockedError] that names the
// first. It does not dial. A daemon that has halted is made all the same, so that
// [Daemon.AcceptUnclean] can lift it. A daemon that is never run must be closed.
func New(cfg Config) (*Daemon, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cfg.StateDir, "daemon", lease.Key(cfg.DaemonID))
	lock, err := persist.LockDir(dir, "relay daemon")
	if err != nil {
		return nil, err
	}
	halt, err := openHalt(dir, cfg.DaemonID)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	name := uuid.NewString()
	return &Daemon{
		cfg: cfg, name: name, lock: lock, world: newWorld(cfg, halt, name),
		running: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}, nil
}

// Close lets go of the state folder of a daemon that was never run.
func (d *Daemon) Close() error {
	if !d.begun.CompareAndSwap(false, true) {
		return nil
	}
	close(d.done)
	return d.lock.Close()
}

// Halted returns the [*HaltedError] that [Daemon.Run] would return, or nil.
func (d *Daemon) Halted() error { return d.world.halt.err() }

// AcceptUnclean lifts the halt for one run, on the word of the machine's owner
// that nothing of it is left. It is for a daemon that is not running.
func (d *Daemon) AcceptUnclean(runID string) error {
	if d.begun.Load() {
		return errors.New("daemon: stop it before accepting what it may have left behind")
	}
	if err := d.world.halt.accept(runID); err != nil {
		return err
	}
	d.cfg.Logger.Warn("halt lifted by the owner", "daemon_id", d.cfg.DaemonID, "run", headOf(runID, 128))
	return nil
}

// Run dials the hub, serves it, and dials again, until ctx ends or it must not go
// on. When ctx ends the daemon stops as with [Daemon.Stop]. It returns nil after a
// stop, a [*HaltedError] when it has halted, or what made it impossible to run. When
// it returns, nothing of the daemon is left but what a HaltedError names.
func (d *Daemon) Run(ctx context.Context) error {
	if !d.begun.CompareAndSwap(false, true) {
		return ErrOnce
	}
	defer close(d.done)
	err := d.run(ctx)
	return errors.Join(err, d.lock.Close())
}

func (d *Daemon) run(ctx context.Context) error {
	if err := d.Halted(); err != nil {
		return err
	}
	level, err := d.canContain()
	if err != nil {
		return err
	}
	if d.cfg.grace() > graceMax {
		d.cfg.Logger.Warn("the grace is long: a hub that waits 10 s for the end of a cancelled run will fence this daemon",
			"grace", d.cfg.grace(), "at_most", graceMax)
	}
	session, err := d.cfg.session(d.name, level)
	if err != nil {
		return fmt.Errorf("daemon: describe this machine: %w", err)
	}
	engine := d.cfg.Engine
	if engine == nil {
		if engine, err = actor.NewEngine(actor.NewEngineConfig()); err != nil {
			return fmt.Errorf("daemon: start an engine: %w", err)
		}
	}
	w := d.world
	w.host = step.NewHost(step.Config{
		Engine: engine, Name: "relay-daemon-" + d.name,
		PortFor: w.portFor, OnFailure: w.failed, Logger: d.cfg.Logger,
	})
	w.host.Spawn(w.ref, NewSession(session), newSessionPort(w))
	close(d.running)
	d.await(ctx)
	_ = w.host.Idle(noContext)
	w.work.Wait()
	return d.verdict()
}

// await returns when the session has ended, which it is told to do when ctx ends
// or a caller wants it.
func (d *Daemon) await(ctx context.Context) {
	w := d.world
	ended := w.host.Done(w.ref)
	if ended == nil {
		return // it was faster
	}
	select {
	case <-ended:
		return
	case <-ctx.Done():
	case <-d.stop:
	}
	// An error says that it has ended, which is what is waited for.
	_, _ = w.host.Ask(noContext, w.ref, func(t step.Token) any { return StopAsk{Token: t} })
	<-ended
}

// verdict says how the daemon ended.
func (d *Daemon) verdict() error {
	w := d.world
	w.mu.Lock()
	crash, unproven, told := w.crash, w.unproven, w.over != nil
	w.mu.Unlock()
	var err error
	if crash != "" {
		err = errors.New("daemon: " + crash + "; the log has the trace")
	}
	if !told && len(unproven) > 0 {
		// The session could not: it has failed.
		err = errors.Join(err, w.halt.save(unproven))
	}
	return errors.Join(d.Halted(), err)
}

// canContain starts and ends one process under a supervisor: a daemon that could
// not prove the end of a run refuses to start. The error names what is missing.
func (d *Daemon) canContain() (containment.Level, error) {
	level, err := containment.Detect(d.cfg.Containment.Mode)
	if err != nil {
		return "", err
	}
	tree, err := containment.Start(d.cfg.Containment, containment.Spec{Argv: []string{"/bin/sh", "-c", "exit 0"}, Dir: "/"})
	var command *containment.SpawnError
	switch {
	case errors.As(err, &command) && !errors.Is(err, containment.ErrUnsupported):
		return level, nil // a machine without this shell; the supervisor works
	case err != nil:
		return "", err
	}
	if err := tree.Close(); err != nil {
		return "", err
	}
	return level, nil
}

// ask puts a question to the session.
func (d *Daemon) ask(ctx context.Context, build func(step.Token) any) (any, error) {
	select {
	case <-d.running:
	default:
		return nil, ErrNotRunning
	}
	v, err := d.world.host.Ask(ctx, d.world.ref, build)
	if errors.Is(err, step.ErrNoActor) || errors.Is(err, step.ErrEnded) {
		return nil, ErrNotRunning
	}
	return v, err
}

// Drain closes the door to new runs, which are refused from now on, and returns
// when the last one has ended and the hub knows. The connection stays until
// [Daemon.Stop]. When ctx ends first the draining goes on.
func (d *Daemon) Drain(ctx context.Context) error {
	_, err := d.ask(ctx, func(t step.Token) any { return DrainAsk{Token: t} })
	return err
}

// Stop ends every run (TERM, grace, KILL, proof), acknowledges them to the hub as
// far as it can be reached, closes the connection with 1001 and makes
// [Daemon.Run] return. Nothing is said on a later connection: there is none. It
// takes at most the time after which a run counts as unconfirmed, and some seconds.
// When ctx ends first the stop goes on.
func (d *Daemon) Stop(ctx context.Context) error {
	if !d.begun.Load() {
		return ErrNotRunning
	}
	d.stopOnce.Do(func() { close(d.stop) })
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Status says how the daemon is.
func (d *Daemon) Status(ctx context.Context) (Status, error) {
	v, err := d.ask(ctx, func(t step.Token) any { return StatusAsk{Token: t} })
	if err != nil {
		return Status{}, err
	}
	st := v.(Status)
	st.Trouble = d.world.redact(st.Trouble)
	return st, nil
}
