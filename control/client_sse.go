package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// lineMax is the longest line of a stream that a client takes: twice the largest
// frame of a daemon.
const lineMax = 16 << 20

// EventKind says what a [StreamEvent] is.
type EventKind string

// The kinds of events that a client hands on.
const (
	KindEvent     EventKind = sseEvent     // Data is the daemon's event
	KindDropped   EventKind = sseDropped   // a message of Bytes bytes could not be taken
	KindTruncated EventKind = sseTruncated // the entries in Range are gone
	KindEnd       EventKind = sseEnd       // Outcome is how the run ended; nothing follows
)

// StreamEvent is one entry of a run's stream.
type StreamEvent struct {
	Kind EventKind
	// Seq is the entry's number in the log, from 1; 0 for KindEnd.
	Seq uint64
	// Data is the entry's JSON. It is the caller's.
	Data json.RawMessage
	// Bytes, Range and Outcome are set as Kind says.
	Bytes   int
	Range   *Range
	Outcome *Outcome
}

// Errors of a stream that trying again cannot mend.
var (
	// ErrReplaced ends the stream of a caller when another has taken over.
	ErrReplaced = errors.New("control: another stream has become this run's caller")
	// ErrStream is wrapped by errors about a stream that breaks its own rules.
	ErrStream = errors.New("control: the stream is broken")
)

// sseMessage is one server-sent event as it came.
type sseMessage struct {
	id, name string
	data     []byte
}

// sseReader reads server-sent events (WHATWG HTML section 9.2.6; a byte order
// mark and a bare CR as line end, which no server of ours sends, are not known).
type sseReader struct{ in *bufio.Reader }

func newSSEReader(r io.Reader) *sseReader { return &sseReader{bufio.NewReaderSize(r, 64<<10)} }

// next returns the next event. An event that the end of the stream cuts short is
// none: its error is io.ErrUnexpectedEOF, a clean end's is io.EOF.
func (r *sseReader) next() (sseMessage, error) {
	var m sseMessage
	begun, lines := false, 0
	for {
		line, err := r.line()
		if err != nil {
			if begun && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return sseMessage{}, err
		}
		if len(line) == 0 {
			if lines > 0 {
				return m, nil
			}
			m, begun = sseMessage{}, false
			continue
		}
		begun = true
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			m.id = string(value)
		case "event":
			m.name = string(value)
		case "data":
			if lines++; lines > 1 {
				m.data = append(m.data, '\n')
			}
			if len(m.data)+len(value) > lineMax {
				return sseMessage{}, fmt.Errorf("%w: an event above %d bytes", ErrStream, lineMax)
			}
			m.data = append(m.data, value...)
		default: // a comment, or a field of a newer server
		}
	}
}

// line returns a line without its end. It is valid until the next call.
func (r *sseReader) line() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(long) > lineMax {
				return nil, fmt.Errorf("%w: a line above %d bytes", ErrStream, lineMax)
			}
			line, err = r.in.ReadSlice('\n')
			long = append(long, line...)
		}
		line = long
	}
	if err != nil {
		if len(line) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
}

// event makes an event of a message; ok is false for one that means nothing here.
func (m sseMessage) event() (e StreamEvent, ok bool, err error) {
	e = StreamEvent{Kind: EventKind(m.name), Data: m.data}
	switch e.Kind {
	case KindEvent:
	case KindDropped:
		var mark droppedMark
		err = json.Unmarshal(m.data, &mark)
		e.Bytes = mark.Bytes
	case KindTruncated:
		err = json.Unmarshal(m.data, &e.Range)
	case KindEnd:
		err = json.Unmarshal(m.data, &e.Outcome)
	default:
		return e, false, nil
	}
	if err == nil && e.Kind != KindEnd {
		e.Seq, err = strconv.ParseUint(m.id, 10, 64)
	}
	if err == nil && (e.Kind == KindTruncated && e.Range == nil || e.Kind == KindEnd && e.Outcome == nil) {
		err = errors.New("no object")
	}
	if err != nil {
		return e, false, fmt.Errorf("%w: an event %q that cannot be read: %w", ErrStream, m.name, err)
	}
	return e, true, nil
}

// watched ends a read that nothing comes for: a connection whose other end is
// gone without a word looks exactly like a stream without events, but for the
// comments.
type watched struct {
	io.ReadCloser
	ctx     context.Context // the request's
	silence time.Duration
	cut     context.CancelCauseFunc
}

// Read implements [io.Reader].
func (w *watched) Read(p []byte) (int, error) {
	clock := time.AfterFunc(w.silence, func() { w.cut(errSilent) })
	defer clock.Stop()
	n, err := w.ReadCloser.Read(p)
	if err != nil {
		err = silent(w.ctx, err)
	}
	return n, err
}
