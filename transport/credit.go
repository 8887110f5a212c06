package transport

import (
	"fmt"
	"sync"
)

// credit is the inbound room of one link (design section 7): the reader takes,
// the owner gives back.
type credit struct {
	mu     sync.Mutex
	change sync.Cond
	limit  int // negative: nothing is counted
	used   int
	closed bool
}

func newCredit(limit int) *credit {
	c := &credit{limit: limit}
	c.change.L = &c.mu
	return c
}

// take counts n bytes and reports true, after waiting for room if it must. It
// reports false, and counts nothing, when there is no room and the link is
// closing. What is larger than the whole limit passes when nothing is counted.
func (c *credit) take(n int) bool {
	if c.limit < 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.used > 0 && c.used+n > c.limit {
		if c.closed {
			return false
		}
		c.change.Wait()
	}
	c.used += n
	return true
}

// give takes n bytes off the count. Giving back what was not taken is a bug of
// the owner that would let memory grow without a bound (I14), so it panics.
func (c *credit) give(n int) {
	if c.limit < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < 0 || n > c.used {
		panic(fmt.Sprintf("transport: Credit(%d) while %d bytes are counted", n, c.used))
	}
	c.used -= n
	c.change.Signal()
}

// close ends the wait for room: the link is closing.
func (c *credit) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.change.Signal()
}
