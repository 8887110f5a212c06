package containment

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Tree is one running command and everything it starts. Its methods may be called
// from any goroutine.
type Tree struct {
	cfg        Config
	level      Level
	cmd        *exec.Cmd
	supervisor Identity
	leader     Identity

	control, report, stdin *os.File
	stdout, stderr         *output
	tail                   *tail
	keepStdin              bool
	feeding                sync.WaitGroup

	words  chan word     // from the supervisor; closed when it is gone
	ends   chan struct{} // one for each of stdout and stderr that has ended
	reap   sync.Once
	waited chan struct{} // the supervisor was reaped

	stop    sync.Once
	stopped chan struct{}

	exited  chan Exit
	drained chan struct{}
	verdict chan Report
	done    chan struct{} // closed when result is set
	result  Report
	proven  chan struct{}
	watched chan struct{} // closed when the supervisor is gone and was reaped
}

// Stdout is what the tree writes to its standard output. One goroutine reads it, to
// its end: a full pipe holds the writers back. It ends when no process has it open
// any more, at the latest with the tree.
func (t *Tree) Stdout() io.Reader { return t.stdout }

// Stderr is like Stdout for the standard error output.
func (t *Tree) Stderr() io.Reader { return t.stderr }

// Stdin is the command's standard input when Spec.KeepStdin was set, else nil. The
// caller closes it; writing fails after the tree has ended. The first write waits until
// Spec.Stdin was taken.
func (t *Tree) Stdin() io.WriteCloser {
	if !t.keepStdin {
		return nil
	}
	return &input{tree: t}
}

// input keeps the order of Spec.Stdin and what comes after it.
type input struct{ tree *Tree }

func (i *input) Write(p []byte) (int, error) {
	i.tree.feeding.Wait()
	return i.tree.stdin.Write(p)
}

func (i *input) Close() error {
	i.tree.feeding.Wait()
	return i.tree.stdin.Close()
}

// PID is the leader's process id. It may be reused as soon as the tree has ended.
func (t *Tree) PID() int { return t.leader.PID }

// Leader identifies the leader.
func (t *Tree) Leader() Identity { return t.leader }

// Supervisor identifies the supervisor: as long as it lives, it is still at work.
func (t *Tree) Supervisor() Identity { return t.supervisor }

// Level is the mechanism that watches over the tree.
func (t *Tree) Level() Level { return t.level }

// Exited gives the leader's end, once, and is then closed. It is closed without
// one when the leader's end did not become known. The rest of the tree may live on.
func (t *Tree) Exited() <-chan Exit { return t.exited }

// Drained is closed when the leader has ended and its output is complete: both
// streams have ended, or helpers have held them open for Config.DrainGrace. It is
// also closed with the verdict.
func (t *Tree) Drained() <-chan struct{} { return t.drained }

// Empty gives the verdict, once, and is then closed. Others use [Tree.Wait].
func (t *Tree) Empty() <-chan Report { return t.verdict }

// Wait waits for the verdict. The error is nil when all processes of the tree are
// proven to be gone (see Receipt.Weak), and [ErrUnconfirmed] otherwise.
func (t *Tree) Wait() (Receipt, error) {
	<-t.done
	return t.result.Receipt, t.result.Err
}

// Proven is closed when the tree was proven empty, also when that came after the
// verdict unconfirmed: a supervisor that has given up goes on trying.
func (t *Tree) Proven() <-chan struct{} { return t.proven }

// Stop begins the end of the tree and returns at once. Further calls do nothing:
// neither do they shorten a grace, nor disturb the clean-up.
func (t *Tree) Stop() {
	t.stop.Do(func() {
		close(t.stopped)
		// In words, and by closing: a copy of the pipe in a child that some host
		// has forked would keep the end from being seen.
		_ = t.control.SetWriteDeadline(time.Now().Add(time.Second))
		_ = json.NewEncoder(t.control).Encode(order{Stop: true})
		_ = t.control.Close()
		wake(t.cmd.Process)
	})
}

// Close stops the tree, waits for the verdict, and lets go of output that was not
// read. It returns what Wait returns as error.
func (t *Tree) Close() error {
	t.Stop()
	_, err := t.Wait()
	t.stdout.shut()
	t.stderr.shut()
	if err == nil {
		<-t.watched // the supervisor has ended, nothing of the tree is left here
	}
	return err
}

// watch turns what the supervisor says into what the tree's methods tell.
func (t *Tree) watch() {
	defer close(t.watched)
	w := &watcher{tree: t, begun: time.Now()}
	w.bound, w.drain = stoppedTimer(), stoppedTimer()
	defer w.bound.Stop()
	defer w.drain.Stop()
	tick := time.NewTicker(wakeEvery)
	defer tick.Stop()
	stopped := t.stopped
	for !w.decided {
		select {
		case <-tick.C:
			wake(t.cmd.Process)
		case said, ok := <-t.words:
			if !ok {
				w.lost()
				break
			}
			w.hear(said)
		case <-stopped:
			stopped = nil
			w.begun = time.Now()
			w.bound.Reset(t.cfg.GiveUp + watchMargin)
		case <-t.ends:
			w.ends++
			w.maybeDrained()
		case <-w.drain.C:
			w.drainOver = true
			w.maybeDrained()
		case <-w.bound.C:
			w.decide(nil, fmt.Errorf("%w: the supervisor (pid %d) does not answer; it and whatever it started must be looked at by hand", ErrUnconfirmed, t.supervisor.PID))
		}
	}
	// After an unconfirmed end the supervisor may still find its proof.
	for said := range t.words {
		w.late(said)
	}
	t.reapSupervisor()
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
