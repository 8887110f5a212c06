package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"codingrelay/actors"
)

// The names of the events in a stream; doc.go says what each holds.
const (
	sseEvent     = "event"
	sseDropped   = "dropped"
	sseTruncated = "truncated"
	sseStarted   = "started"
	sseReplaced  = "replaced"
	sseEnd       = "end"
)

// sseComment keeps proxies and clients from thinking that the stream has died.
const sseComment = ": the run goes on\n\n"

// eventOverhead is about what an event costs beside its data, in memory and on
// the wire.
const eventOverhead = 64

// appendEvent appends one entry of a run's log.
func appendEvent(dst []byte, e actors.Event) []byte {
	switch {
	case e.Truncated != nil:
		dst = appendFact(dst, e.Truncated.To, sseTruncated, Range{From: e.Truncated.From, To: e.Truncated.To})
	case e.Kind == actors.ItemDropped:
		dst = appendFact(dst, e.Seq, sseDropped, droppedMark{Bytes: e.Bytes})
	default:
		dst = appendHead(dst, e.Seq, sseEvent)
		dst = appendOneLine(dst, e.Data)
		dst = append(dst, "\n\n"...)
	}
	return dst
}

// appendFact appends a fact of the hub's own. A cursor of 0 is left out: the
// reader's stays as it is.
func appendFact(dst []byte, cursor uint64, name string, body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("control: %T does not encode: %v", body, err)) // plain values always do
	}
	dst = appendHead(dst, cursor, name)
	dst = append(dst, text...)
	return append(dst, "\n\n"...)
}

func appendHead(dst []byte, cursor uint64, name string) []byte {
	if cursor > 0 {
		dst = strconv.AppendUint(append(dst, "id: "...), cursor, 10)
		dst = append(dst, '\n')
	}
	dst = append(append(dst, "event: "...), name...)
	return append(dst, "\ndata: "...)
}

// appendOneLine appends JSON text without line breaks. In valid JSON they stand
// between tokens only, where a space means the same, so every token stays as it
// is, byte for byte (a break inside data would end the line, or become another
// kind of break: WHATWG HTML section 9.2.6).
func appendOneLine(dst, text []byte) []byte {
	at := len(dst)
	dst = append(dst, text...)
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return dst
	}
	for i := at; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
	}
	return dst
}
