package containment

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// output is the reading end of the tree's stdout or stderr.
//
// A pipe ends when its last writer has closed it. A tree that is gone has no
// writer left, but a process outside the tree may have been handed the pipe over
// a socket. So the end of the tree is made the end of the output: what the pipe
// holds then is still read, but nothing is waited for.
type output struct {
	file  *os.File
	ended func() // called once, when there is nothing more to read

	over   atomic.Bool // the tree has its verdict
	closed atomic.Bool
	close  sync.Once
}

// Read is for one reader at a time. It ends with [io.EOF].
func (o *output) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for !o.over.Load() {
		n, err := o.file.Read(p)
		if n > 0 {
			return n, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue // only set together with over
		}
		return 0, o.end(err)
	}
	n, err := readNow(o.file, p)
	if n > 0 {
		return n, nil
	}
	return 0, o.end(err)
}

// end closes the pipe after its last read. That it is closed already is the end,
// too, and no error.
func (o *output) end(err error) error {
	if o.closed.Load() {
		return io.EOF
	}
	o.shut()
	return err
}

// finish ends the waiting: the tree has its verdict.
func (o *output) finish() {
	o.over.Store(true)
	// An error means that the file is closed already.
	_ = o.file.SetReadDeadline(time.Unix(1, 0))
}

// shut closes the pipe. It may be called at any time, from any goroutine.
func (o *output) shut() {
	o.close.Do(func() {
		o.closed.Store(true)
		_ = o.file.Close()
		o.ended()
	})
}
