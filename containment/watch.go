package containment

import (
	"fmt"
	"time"
)

// watcher is the state of one tree's watch; only that goroutine uses it.
type watcher struct {
	tree *Tree

	begun     time.Time   // when the end began, for reports the supervisor did not make
	bound     *time.Timer // after it the supervisor is not believed in any more
	drain     *time.Timer
	drainOver bool
	ends      int // of stdout and stderr
	exit      *Exit
	drained   bool
	proven    bool
	decided   bool
}

func (w *watcher) hear(said word) {
	t := w.tree
	switch said.Kind {
	case saidExited:
		if w.exit != nil || said.Exit == nil {
			return
		}
		w.exit = said.Exit
		t.exited <- *said.Exit
		close(t.exited)
		w.drain.Reset(t.cfg.DrainGrace)
		w.maybeDrained()
		select {
		case <-t.stopped: // then the bound runs already
		default:
			w.begun = time.Now()
			w.bound.Reset(t.cfg.DrainGrace + t.cfg.GiveUp + watchMargin)
		}
	case saidEmpty:
		w.prove()
		// It ends right after this word; a daemon that is told empty has no
		// zombie left of it.
		t.reapSupervisor()
		w.decide(&said, nil)
	case saidStuck:
		w.decide(&said, fmt.Errorf("%w: still alive %v after the end began: pids %v; end them, or restart the machine", ErrUnconfirmed, said.Took.Round(time.Millisecond), said.Survivors))
	case saidReady, saidStarted, saidFailed:
	}
}

// lost is called when the supervisor is gone and has not said empty.
func (w *watcher) lost() {
	t := w.tree
	left := sweep(t.supervisor)
	t.reapSupervisor()
	w.decide(&word{Survivors: left, Took: time.Since(w.begun)},
		fmt.Errorf("%w: the supervisor (pid %d) is gone without a report; processes of the run may be alive (seen: %v)%s", ErrUnconfirmed, t.supervisor.PID, left, t.tail))
}

// late hears what comes after the verdict.
func (w *watcher) late(said word) {
	if said.Kind == saidEmpty {
		w.prove()
	}
}

func (w *watcher) prove() {
	if !w.proven {
		w.proven = true
		close(w.tree.proven)
	}
}

func (w *watcher) maybeDrained() {
	if !w.drained && w.exit != nil && (w.ends == 2 || w.drainOver) {
		w.drained = true
		close(w.tree.drained)
	}
}

// decide gives the verdict, once.
func (w *watcher) decide(said *word, err error) {
	t := w.tree
	if said == nil {
		said = &word{Took: time.Since(w.begun)}
	}
	w.decided = true
	t.result = Report{Err: err, Receipt: Receipt{
		Mechanism: t.level,
		Weak:      t.level.Weak(),
		Exit:      w.exit,
		Killed:    said.Killed,
		Survivors: said.Survivors,
		Duration:  said.Took,
	}}
	// The output ends with the tree, and nobody is left to write to.
	t.stdout.finish()
	t.stderr.finish()
	_ = t.stdin.Close()
	t.feeding.Wait()
	_ = t.control.Close()
	if w.exit == nil {
		close(t.exited)
	}
	if !w.drained {
		w.drained = true
		close(t.drained)
	}
	close(t.done)
	t.verdict <- t.result
	close(t.verdict)
}
