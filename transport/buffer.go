package transport

import "sync"

const (
	// bufferBytes is the first size of a buffer.
	bufferBytes = 16 << 10
	// bufferKeepBytes is the largest buffer kept for the next user: one message
	// of 8 MiB must not stay in memory for good.
	bufferKeepBytes = 512 << 10
)

// buffer is memory that links borrow: a reader for one message, a pump for what
// waits for the kernel. A link at rest has none.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, bufferBytes)} }}

func borrow() *buffer { return buffers.Get().(*buffer) }

// giveBack ends the use of b, which may be nil.
func giveBack(b *buffer) {
	if b == nil || cap(b.b) > bufferKeepBytes {
		return
	}
	b.b = b.b[:0]
	buffers.Put(b)
}
