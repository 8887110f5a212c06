package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/coder/websocket"

	"codingrelay/wire"
)

// codeNone is told when the peer sent no close frame (RFC 6455 section 7.4.1).
const codeNone = 1006

// handle is where the library finds the link, which is made in mid-handshake. Its
// methods tell of pings and pongs; the library calls them on the goroutine that
// reads, which is the reader's alone.
type handle struct{ l *link }

func (h *handle) onPing(context.Context, []byte) bool { return h.l.answerPing() }
func (h *handle) onPong(context.Context, []byte)      { h.l.sink.Pong() }

// read is the reader: the one goroutine that reads, and tells the sink.
func (l *link) read() {
	r := reader{l: l, dec: wire.NewDecoder()}
	var err error
	for err == nil {
		err = r.message()
	}
	end := l.judge(err)
	l.settle()
	l.sink.Closed(end)
}

type reader struct {
	l   *link
	dec *wire.Decoder
	// discard: nothing more is given to the sink. Reading goes on until the peer
	// answers the close, so that it sees our close frame and no reset.
	discard bool
	// like is the size of the last large message, or 0: a stream of events is
	// much alike, and one that fits memory made for it needs no copy.
	like int
}

// Messages of a size in this range are read into memory of their own, which
// becomes their frame's. Below, a copy out of memory that is in the cache costs
// less; above, memory would be held for what has not come.
const (
	givenMin = 8 << 10
	givenMax = 512 << 10
)

// message reads one message and gives its frame to the sink.
func (r *reader) message() error {
	if r.discard {
		r.l.awaitSeal()
	}
	_, src, err := r.l.ws.Reader(noDeadline) // text or binary: taken alike
	if err != nil {
		return err
	}
	frame, err := r.read(src)
	if err != nil || r.discard {
		return err
	}
	if frame.Type == wire.RunEvent && !r.l.credit.take(frame.Bytes) || r.l.cutOff() {
		r.discard = true
		return nil
	}
	r.l.sink.Frame(frame)
	return nil
}

// read reads one message to its end: into borrowed memory, or, after a large one,
// into memory for another like it.
func (r *reader) read(src io.Reader) (wire.Frame, error) {
	if r.like > 0 {
		// One byte more, to find the end without growing.
		return r.take(src, &buffer{b: make([]byte, 0, r.like+1)}, true)
	}
	buf := borrow()
	defer giveBack(buf)
	return r.take(src, buf, false)
}

// take reads one message to its end, with room for it in buf, which is given to
// the frame or not.
func (r *reader) take(src io.Reader, buf *buffer, given bool) (wire.Frame, error) {
	b := buf.b[:0]
	total, kept := 0, true
	for {
		if len(b) == cap(b) {
			b = grow(b)
		}
		n, err := src.Read(b[len(b):cap(b)])
		total += n
		if kept {
			b = b[:len(b)+n]
		}
		buf.b = b
		if err != nil {
			if err = r.ended(err); err != nil || r.discard {
				return wire.Frame{}, err
			}
			if !kept {
				return r.dec.Oversize(b, total), nil
			}
			if r.like = 0; total >= givenMin && total <= givenMax {
				r.like = total
			}
			if given {
				return r.dec.DecodeGiven(b), nil
			}
			return r.dec.Decode(b), nil
		}
		if r.tooLarge(total) && kept {
			kept = false
			b = b[:min(len(b), wire.PrefixMax)]
		}
	}
}

// ended makes the error of a finished message. The library says io.EOF at the
// end of a message, and also when TCP ended within it; but then it has asked the
// socket for more and got an error.
func (r *reader) ended(err error) error {
	if errors.Is(err, io.EOF) && r.l.sock.failure == nil {
		return nil
	}
	return err
}

// tooLarge reports that a message of which total bytes came is not kept, and
// closes the link if that is too much to throw away in peace.
func (r *reader) tooLarge(total int) bool {
	if r.discard {
		return true
	}
	limit := int(r.l.inboundMax.Load())
	switch {
	case total <= limit:
		return false
	case limit < wire.OurMaxFrame:
		r.l.Close(int(websocket.StatusPolicyViolation),
			fmt.Sprintf("say daemon.hello first, in at most %d bytes", limit))
		r.discard = true
	case total > wire.HardMaxFrame:
		r.l.Close(int(websocket.StatusMessageTooBig),
			fmt.Sprintf("a message is larger than %d bytes", wire.HardMaxFrame))
		r.discard = true
	}
	return true
}

// awaitSeal returns when our close frame is written, or never will be. What comes
// next may be the peer's close frame, whose answer must not take its place.
func (l *link) awaitSeal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.sealed && !l.over {
		l.change.Wait()
	}
}

// grow doubles a full buffer, up to what is kept of a message and a little. It
// follows what came, never what was announced.
func grow(b []byte) []byte {
	size := 2 * cap(b)
	if most := wire.OurMaxFrame + bufferBytes; size > most && cap(b) < most {
		size = most
	}
	more := make([]byte, len(b), size)
	copy(more, b)
	return more
}

// judge says how the connection ended, given the library's last error, and makes
// sure that it has.
func (l *link) judge(err error) wire.End {
	var said websocket.CloseError
	if errors.As(err, &said) {
		return wire.End{Code: int(said.Code), Reason: strings.ToValidUTF8(said.Reason, "\uFFFD")}
	}
	if l.sock.failure == nil {
		// The peer broke RFC 6455, or the library closed. Its close frame must
		// reach the peer, which it would not if we reset a connection with
		// unread bytes in it.
		l.linger()
		l.cut(err.Error())
	} else {
		l.cut(describe("reading", l.sock.failure))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return wire.End{Code: codeNone, Reason: l.cause}
}

// linger reads until the peer hangs up, or for [closeWait].
func (l *link) linger() {
	l.mu.Lock()
	l.over = true
	if !l.closing {
		l.armClose(closeWait)
	}
	l.mu.Unlock()
	buf := borrow()
	defer giveBack(buf)
	for l.sock.failure == nil {
		_, _ = l.sock.Read(buf.b[:cap(buf.b)])
	}
}

// settle returns when the socket is closed and nothing of the link runs.
func (l *link) settle() {
	l.mu.Lock()
	for l.running || !l.gone {
		l.change.Wait()
	}
	if l.closeTimer != nil {
		l.closeTimer.Stop()
	}
	l.stallTimer.Stop()
	l.mu.Unlock()
	l.credit.close()
	_ = l.ws.CloseNow() // gives the library's buffers back
}

// describe makes a local error's text for [wire.End]; io.EOF alone says little.
func describe(doing string, err error) string {
	if errors.Is(err, io.EOF) {
		return "the peer ended the connection without a close frame"
	}
	return doing + ": " + err.Error()
}
