package transport

import (
	"github.com/coder/websocket"
)

const (
	// coalesceBytes is how much waits in memory before it goes to the kernel.
	coalesceBytes = 64 << 10
	// pieceBytes is how much the kernel is given at once: the stall watchdog
	// and Progress see a large message move in such steps.
	pieceBytes = 32 << 10
	// fragmentBytes is the largest frame; a larger message is sent in several.
	fragmentBytes = 256 << 10
	// pongsMax is how many answers may wait for a peer that sends pings and does
	// not read; further pings go unanswered (RFC 6455 section 5.5.3 allows it).
	pongsMax = 256
)

// pingPayload is what our pings carry; the answer brings it back.
var pingPayload = []byte("relay")

// append adds to what waits for the kernel. l.mu is held.
func (l *link) append(p []byte) {
	if l.out == nil {
		l.out = borrow()
	}
	l.out.b = append(l.out.b, p...)
}

// kick starts the pump unless it runs. l.mu is held.
func (l *link) kick() {
	if l.started && !l.running && !l.gone {
		l.running = true
		go l.pump()
	}
}

// pump writes until nothing is left to write.
func (l *link) pump() {
	for l.step() {
	}
}

// step does the next thing there is to do and reports whether there was one.
func (l *link) step() bool {
	l.mu.Lock()
	waiting := l.out != nil && len(l.out.b) > 0
	switch {
	case l.gone:
		l.rest()
		return false
	case l.pinging && !l.sealed && !l.over:
		l.pinging = false
		l.appendControl(finPing, pingPayload)
		l.mu.Unlock()
	case l.next < len(l.frames) && !l.over && (!waiting || len(l.out.b) < coalesceBytes):
		frame := l.frames[l.next]
		l.next++
		l.mu.Unlock()
		l.put(frame)
	case waiting:
		l.mu.Unlock()
		l.drain()
	case l.flushing && !l.over:
		l.frames, l.flushing = nil, false
		l.mu.Unlock()
		l.sink.Flushed()
	case l.closing && !l.sealed && !l.over:
		l.appendControl(finClose, closePayload(l.closeCode, l.closeReason))
		l.sealed = true
		l.change.Broadcast()
		l.armClose(closeWait) // the handshake begins now
		l.mu.Unlock()
	case l.hangup:
		l.mu.Unlock()
		_ = l.sock.rw.Close()
		l.mu.Lock()
		l.gone = true
		l.mu.Unlock()
	default:
		l.rest()
		return false
	}
	return true
}

// appendControl adds a frame of our own. l.mu is held, by the pump, which is not
// inside a message.
func (l *link) appendControl(op byte, payload []byte) {
	var frame [2 + 4 + 125]byte
	l.append(appendControl(frame[:0], op, l.client, payload))
}

// rest ends the pump and gives its memory back. l.mu is held, and released.
func (l *link) rest() {
	giveBack(l.out)
	giveBack(l.spare)
	l.out, l.spare = nil, nil
	l.running = false
	l.change.Broadcast()
	l.mu.Unlock()
}

// put gives one message to the library, which puts it in out. A message above
// fragmentBytes goes on to the kernel as it comes. The library refuses when a
// close frame has passed either way; then the rest of the flush is void.
func (l *link) put(frame []byte) {
	err := l.putMessage(frame)
	if err == nil {
		return
	}
	l.mu.Lock()
	l.over = true
	l.change.Broadcast()
	l.mu.Unlock()
}

func (l *link) putMessage(frame []byte) error {
	if len(frame) <= fragmentBytes {
		return l.ws.Write(noDeadline, websocket.MessageText, frame)
	}
	w, err := l.ws.Writer(noDeadline, websocket.MessageText)
	if err != nil {
		return err
	}
	for len(frame) > 0 {
		n := min(len(frame), fragmentBytes)
		if _, err := w.Write(frame[:n]); err != nil {
			return err
		}
		frame = frame[n:]
		l.drain()
	}
	return w.Close()
}

// drain gives all that waits to the kernel. Meanwhile the reader may append
// answers to pings to the other buffer.
func (l *link) drain() {
	l.mu.Lock()
	batch := l.out
	l.out, l.spare, l.pongs = l.spare, nil, 0
	l.mu.Unlock()
	if batch == nil {
		return
	}
	l.toKernel(batch.b)
	batch.b = batch.b[:0]
	l.mu.Lock()
	l.spare = batch
	l.mu.Unlock()
}

// toKernel writes in pieces, each of which the watchdog allows WriteStall.
func (l *link) toKernel(b []byte) {
	for len(b) > 0 {
		l.stallTimer.Reset(l.limits.WriteStall)
		n, err := l.sock.Write(b[:min(len(b), pieceBytes)])
		if err != nil {
			l.stallTimer.Stop()
			l.mute(err)
			return
		}
		b = b[n:]
	}
	l.stallTimer.Stop()
}

// mute gives up writing. It does not cut the connection: what the peer sent
// before it went is still to be read (protocol section 5), and the reader comes
// to the end of it by itself.
func (l *link) mute(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.because("writing: " + err.Error())
	l.over, l.sealed = true, true
	l.change.Broadcast()
	if l.out != nil {
		l.out.b = l.out.b[:0]
	}
}

// answerPing tells the library whether to answer a ping.
func (l *link) answerPing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pongs++
	return l.pongs <= pongsMax && !l.sealed
}
