package control

import (
	"context"
	"sync"

	"codingrelay/actors"
)

// queueBytes is how much of a log lies between reading it and writing it. One
// event above it passes alone.
const queueBytes = 64 << 10

// queue takes events from the goroutine that reads the hub to the one that writes
// the socket. It is bounded, so a reader that takes nothing is seen by the hub.
type queue struct {
	mu     sync.Mutex
	events []actors.Event
	bytes  int
	end    *ending
	ready  chan struct{} // holds one when there is something to take
	room   chan struct{} // holds one when something was taken
}

// ending says why no event follows: the log is over, or err.
type ending struct{ err error }

func newQueue() *queue {
	return &queue{ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds an event. It waits for room, and returns false when ctx ended first.
// One goroutine puts.
func (q *queue) put(ctx context.Context, e actors.Event) bool {
	for !q.add(e) {
		select {
		case <-q.room:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

func (q *queue) add(e actors.Event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := len(e.Data) + eventOverhead
	if len(q.events) > 0 && q.bytes+size > queueBytes {
		return false
	}
	q.events = append(q.events, e)
	q.bytes += size
	signal(q.ready)
	return true
}

// finish says that nothing follows.
func (q *queue) finish(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end = &ending{err}
	signal(q.ready)
}

// take returns everything that is there, and the ending when nothing follows it.
// spare is a slice to reuse. One goroutine takes.
func (q *queue) take(spare []actors.Event) ([]actors.Event, *ending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	clear(spare)
	q.events, q.bytes = spare[:0], 0
	signal(q.room)
	return events, q.end
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
