package control

import (
	"sync"

	"codingrelay/actors"
)

// outcomes waits for the ends of the runs that are being streamed: one goroutine
// and one question to the hub for each run, however many streams come and go. The
// outcome is then known here even when the hub stops and forgets the run before a
// slow stream has come to its end.
type outcomes struct {
	server *Server
	mu     sync.Mutex
	open   map[string]*watch // by run id
	group  sync.WaitGroup
}

// watch is the wait for one run's end. out and err are set before done is closed.
type watch struct {
	done chan struct{}
	out  actors.Outcome
	err  error
}

// of returns the wait for a run's end.
func (o *outcomes) of(run *actors.Run) *watch {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.open[run.ID()]; w != nil {
		return w
	}
	w := &watch{done: make(chan struct{})}
	o.open[run.ID()] = w
	o.group.Go(func() {
		w.out, w.err = run.Wait(o.server.life)
		o.mu.Lock()
		delete(o.open, run.ID())
		o.mu.Unlock()
		close(w.done)
	})
	return w
}

// wait returns when nothing is waited for any more; the server's life is over.
func (o *outcomes) wait() { o.group.Wait() }
