package transport

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"codingrelay/wire"
)

// Why this side ended a link without the peer.
const (
	causeDropped  = "dropped by this side"
	causeNoAnswer = "the peer did not answer the close in time"
)

// link is one open connection. It is the [wire.Link] of its owner.
type link struct {
	limits Limits
	client bool
	sock   *socket
	ws     *websocket.Conn
	sink   wire.Sink
	credit *credit
	// inboundMax is the largest message that is taken; the owner's admission
	// raises it.
	inboundMax atomic.Int64

	mu sync.Mutex
	// change is told when the pump ends, and when sealed or over is set.
	change sync.Cond
	// running: the pump lives. It is started by kick, once started is set.
	started, running bool

	// frames[next:] are still to be given to the library; flushing lasts until
	// all of them are with the kernel and the sink was told.
	frames   [][]byte
	next     int
	flushing bool
	// out waits for the kernel; spare is the other of the two buffers.
	out, spare *buffer
	// pongs counts the answers in out.
	pongs   int
	pinging bool

	// closing: the owner, or the reader, asked for a closing handshake.
	closing     bool
	closeCode   int
	closeReason string
	// sealed: our close frame is in out, and nothing may follow it (RFC 6455
	// section 5.5.1).
	sealed bool
	// over: the library takes no more messages. hangup: it has closed its
	// stream. gone: the socket is closed.
	over, hangup, gone bool
	// cause is why the connection ended, if not by the peer's close frame.
	cause string

	stallTimer, closeTimer *time.Timer
}

func newLink(limits Limits, client bool, sock *socket, inboundMax int) *link {
	l := &link{limits: limits.withDefaults(), client: client, sock: sock}
	l.credit = newCredit(l.limits.InboundCredit)
	l.change.L = &l.mu
	l.inboundMax.Store(int64(inboundMax))
	l.stallTimer = time.AfterFunc(l.limits.WriteStall, func() {
		l.cut("the peer took no byte for " + l.limits.WriteStall.String())
	})
	l.stallTimer.Stop()
	return l
}

// start begins reading and writing for a sink.
func (l *link) start(ws *websocket.Conn, sink wire.Sink) {
	l.ws, l.sink = ws, sink
	ws.SetReadLimit(-1) // ours is in the reader
	l.mu.Lock()
	l.started = true
	l.kick()
	l.mu.Unlock()
	go l.read()
}

// Write implements [wire.Link]. It panics when a flush is under way: the frames
// would be lost or sent out of order.
func (l *link) Write(frames [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.closing || l.gone {
		return // Sink.Closed tells
	}
	if l.flushing {
		panic("transport: Write before Flushed")
	}
	l.frames, l.next, l.flushing = frames, 0, true
	l.kick()
}

// Ping implements [wire.Link]. Pings asked for before one is written are one.
func (l *link) Ping() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pinging = true
	l.kick()
}

// Credit implements [wire.Link]. It panics when more is given than was taken.
func (l *link) Credit(n int) { l.credit.give(n) }

// Close implements [wire.Link]. The first close counts. A code that may not be
// sent (RFC 6455 section 7.4.1: 1005, 1006 and others) becomes 1011. While the
// handshake lasts, frames of the peer are still given to the sink, as far as
// there is credit for them without waiting.
func (l *link) Close(code int, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing || l.gone {
		return
	}
	if !sendable(code) {
		code = int(websocket.StatusInternalError)
	}
	l.closing, l.closeCode, l.closeReason = true, code, wire.CutReason(reason)
	wait := closeWait
	if l.flushing {
		wait = l.limits.WriteStall
	}
	l.armClose(wait)
	l.credit.close()
	l.kick()
}

// Drop implements [wire.Link].
func (l *link) Drop() { l.cut(causeDropped) }

// Progress implements [wire.Link].
func (l *link) Progress() (read, written uint64) {
	return l.sock.read.Load(), l.sock.written.Load()
}

// admit raises what one message may weigh to this side's own limit.
func (l *link) admit() { l.inboundMax.Store(wire.OurMaxFrame) }

// cut ends the connection at once; the first cause is the one that is told.
func (l *link) cut(cause string) {
	l.mu.Lock()
	l.because(cause)
	l.gone, l.over = true, true
	l.change.Broadcast()
	l.mu.Unlock()
	_ = l.sock.raw.Close() // wakes the reader and the pump
	l.credit.close()
}

// because keeps the first cause. l.mu is held.
func (l *link) because(cause string) {
	if l.cause == "" && !l.gone {
		l.cause = cause
	}
}

// cutOff reports whether the connection has been cut: then what the library
// still has of the peer's is not for the sink.
func (l *link) cutOff() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

// armClose makes sure that the connection ends in time. l.mu is held.
func (l *link) armClose(wait time.Duration) {
	if l.closeTimer == nil {
		l.closeTimer = time.AfterFunc(wait, func() { l.cut(causeNoAnswer) })
		return
	}
	l.closeTimer.Reset(wait)
}

// sendable reports whether a close frame may carry code.
func sendable(code int) bool {
	switch {
	case code >= 1000 && code <= 1003, code >= 1007 && code <= 1014:
		return true
	default:
		return code >= 3000 && code <= 4999
	}
}

// Opcodes of RFC 6455 section 5.2, with FIN.
const (
	finClose = 0x80 | 0x8
	finPing  = 0x80 | 0x9
)

// appendControl appends a control frame with a payload of at most 125 bytes. A
// client's is masked (RFC 6455 section 5.3).
func appendControl(dst []byte, op byte, client bool, payload []byte) []byte {
	dst = append(dst, op, byte(len(payload)))
	if !client {
		return append(dst, payload...)
	}
	dst[len(dst)-1] |= 0x80
	var key [4]byte
	_, _ = rand.Read(key[:]) // never fails (crypto/rand)
	dst = append(dst, key[:]...)
	for i, b := range payload {
		dst = append(dst, b^key[i%4])
	}
	return dst
}

func closePayload(code int, reason string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
}

// noDeadline is the context of every call into the library: one that could end
// would cost allocations per message and close the connection when it does.
var noDeadline = context.Background()
