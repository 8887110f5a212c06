package containment

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// startBound is how long a supervisor may take to answer, and to start the
	// leader. It is generous: a busy machine is no reason to refuse a run.
	startBound = 30 * time.Second
	// watchMargin is added to what a supervisor may take by its own clock, before
	// the daemon stops believing in it.
	watchMargin = 5 * time.Second
	// wakeEvery is how often a supervisor is told to go on, should a member of its
	// run have stopped it. To one that runs it is nothing.
	wakeEvery = time.Second
	// stderrTail is how much of a supervisor's own stderr is kept, in bytes.
	stderrTail = 2 << 10
)

// Start runs spec in a tree of its own. When it returns an error nothing of the
// run is left, unless the error is [ErrUnconfirmed]. The caller must read Stdout
// and Stderr to their ends, or call Close.
func Start(cfg Config, spec Spec) (*Tree, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	level, err := Detect(cfg.Mode)
	if err != nil {
		return nil, err
	}
	path, err := spec.resolve()
	if err != nil {
		return nil, err
	}
	exe, err := supervisorPath(cfg)
	if err != nil {
		return nil, err
	}
	t, err := launch(cfg, level, exe)
	if err != nil {
		return nil, err
	}
	if err := t.handshake(spec, path); err != nil {
		t.abandon()
		return nil, err
	}
	t.feed(spec)
	go t.watch()
	return t, nil
}

// launch starts the supervisor; it runs nothing yet.
func launch(cfg Config, level Level, exe string) (*Tree, error) {
	var p pipes
	control, report := p.toChild(), p.fromChild()
	stdin, stdout, stderr := p.toChild(), p.fromChild(), p.fromChild()
	if p.err != nil {
		p.closeAll()
		return nil, fmt.Errorf("%w: %w", ErrSupervisor, p.err)
	}
	t := &Tree{
		cfg: cfg, level: level,
		control: control, report: report, stdin: stdin,
		tail:    &tail{max: stderrTail},
		words:   make(chan word),
		waited:  make(chan struct{}),
		stopped: make(chan struct{}),
		exited:  make(chan Exit, 1),
		drained: make(chan struct{}),
		verdict: make(chan Report, 1),
		done:    make(chan struct{}),
		proven:  make(chan struct{}),
		watched: make(chan struct{}),
		ends:    make(chan struct{}, 2),
	}
	ended := func() { t.ends <- struct{}{} }
	t.stdout = &output{file: stdout, ended: ended}
	t.stderr = &output{file: stderr, ended: ended}
	t.cmd = exec.Command(exe, roleWord)
	t.cmd.Args[0] = roleName
	// No environment: it would be readable by what the run starts.
	t.cmd.Env = []string{}
	t.cmd.Dir = string(os.PathSeparator)
	t.cmd.Stderr = t.tail
	t.cmd.WaitDelay = watchMargin
	t.cmd.ExtraFiles = p.child
	t.cmd.SysProcAttr = ownSession()
	if err := t.cmd.Start(); err != nil {
		p.closeAll()
		return nil, fmt.Errorf("%w: %w", ErrSupervisor, err)
	}
	closeFiles(p.child)
	go t.hear()
	return t, nil
}

// pipes makes the pipes of one tree, in the order of their numbers in the child,
// and remembers the first failure.
type pipes struct {
	child, parent []*os.File
	err           error
}

func (p *pipes) toChild() *os.File {
	r, w := p.open()
	p.child, p.parent = append(p.child, r), append(p.parent, w)
	return w
}

func (p *pipes) fromChild() *os.File {
	r, w := p.open()
	p.child, p.parent = append(p.child, w), append(p.parent, r)
	return r
}

func (p *pipes) open() (r, w *os.File) {
	if p.err != nil {
		return nil, nil
	}
	r, w, p.err = os.Pipe()
	return r, w
}

func (p *pipes) closeAll() {
	closeFiles(p.child)
	closeFiles(p.parent)
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// hear passes on what the supervisor says. It ends with the supervisor.
func (t *Tree) hear() {
	defer close(t.words)
	from := json.NewDecoder(t.report)
	for {
		var w word
		if err := from.Decode(&w); err != nil {
			_ = t.report.Close()
			return
		}
		t.words <- w
	}
}

// handshake gives the specification to a supervisor that has shown that it is one.
// Before that nothing of the run can have been started.
func (t *Tree) handshake(spec Spec, path string) error {
	timer := time.NewTimer(startBound)
	defer timer.Stop()
	w, ok := t.expect(timer)
	switch {
	case ok && w.Kind == saidFailed:
		return spawnError(spec, path, w)
	case !ok || w.Kind != saidReady || w.Version != wireVersion:
		_ = t.cmd.Process.Kill()
		t.reapSupervisor()
		return fmt.Errorf("%w: %s did not answer as one; does that program call containment.SupervisorMain() first in main, and is it of the same version?%s", ErrSupervisor, t.cmd.Path, t.tail)
	}
	t.supervisor = w.Who
	first := order{Spec: &specOrder{
		Path: []byte(path), Argv: toBytes(spec.Argv), Dir: []byte(spec.Dir), Env: toBytes(spec.Env),
		Grace: t.cfg.Grace, DrainGrace: t.cfg.DrainGrace, GiveUp: t.cfg.GiveUp,
	}}
	_ = t.control.SetWriteDeadline(time.Now().Add(startBound))
	// A failure shows in the answer: there will be none.
	_ = json.NewEncoder(t.control).Encode(first)
	w, ok = t.expect(timer)
	switch {
	case ok && w.Kind == saidStarted:
		t.leader = w.Who
		return nil
	case ok && w.Kind == saidFailed:
		return spawnError(spec, path, w)
	case ok && w.Kind == saidEmpty:
		return fmt.Errorf("%w: it did not get the specification", ErrSupervisor)
	}
	// It may have started the leader. The end of the control pipe ends that tree,
	// but nobody would say so in time.
	left := sweep(t.supervisor)
	return fmt.Errorf("%w: the supervisor (pid %d) did not say whether it started the command; still seen: %v%s", ErrUnconfirmed, t.supervisor.PID, left, t.tail)
}

func (t *Tree) expect(timer *time.Timer) (word, bool) {
	tick := time.NewTicker(wakeEvery)
	defer tick.Stop()
	for {
		select {
		case w, ok := <-t.words:
			return w, ok
		case <-tick.C:
			wake(t.cmd.Process)
		case <-timer.C:
			return word{}, false
		}
	}
}

// abandon lets go of everything of a tree that did not start. The supervisor
// ends by itself when its control pipe closes.
func (t *Tree) abandon() {
	closeFiles([]*os.File{t.control, t.stdin})
	t.stdout.shut()
	t.stderr.shut()
	go func() {
		for range t.words { //nolint:revive // until the supervisor is gone
		}
	}()
	t.reapSupervisor()
}

// reapSupervisor waits for the supervisor's process, not for ever: a stopped one
// would hold the caller.
func (t *Tree) reapSupervisor() {
	t.reap.Do(func() {
		go func() {
			// How it ended is of no interest: what it said counts.
			_ = t.cmd.Wait()
			close(t.waited)
		}()
	})
	timer := time.NewTimer(watchMargin)
	defer timer.Stop()
	select {
	case <-t.waited:
	case <-timer.C:
	}
}

// feed writes the prompt. A command that ends unread, or does not read at all, is
// no error of the run's start: its own exit says what was wrong.
func (t *Tree) feed(spec Spec) {
	t.keepStdin = spec.KeepStdin
	t.feeding.Add(1)
	go func() {
		defer t.feeding.Done()
		_, err := t.stdin.Write(spec.Stdin)
		if err != nil || !spec.KeepStdin {
			_ = t.stdin.Close()
		}
	}()
}

// tail keeps the end of what is written to it.
type tail struct {
	max  int
	mu   sync.Mutex
	kept []byte
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, p...)
	if n := len(w.kept) - w.max; n > 0 {
		w.kept = append(w.kept[:0], w.kept[n:]...)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.kept) == 0 {
		return ""
	}
	return fmt.Sprintf("; it wrote: %q", w.kept)
}
