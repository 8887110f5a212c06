package wire

import "strconv"

// EventFrames gives the run.event messages that carry one event to a peer that
// takes maxFrame bytes (protocol section 1, *Sizes*): one, or several when an
// output event must be cut, or one that tells that another event was dropped.
func EventFrames(job string, event []byte, maxFrame int) [][]byte {
	pieces, ok := SplitOutput(job, event, maxFrame)
	if !ok {
		size := len(AppendEvent(nil, job, nil)) + len(event)
		pieces = [][]byte{DroppedEvent(size, maxFrame)}
	}
	frames := make([][]byte, 0, len(pieces))
	for _, piece := range pieces {
		frames = append(frames, AppendEvent(nil, job, piece))
	}
	return frames
}

// SplitOutput cuts an event {"type":"output","data":{"stream":…,"text":…}} into
// events of which each, as a run.event of that job, is a message of at most
// maxFrame bytes. The texts put together are the event's text; each is cut
// between characters; whatever else the event holds is in every piece. An event
// that fits is its own only piece, of whatever type.
//
// It is not ok when the event does not fit and is no such event, or when its text
// is not what makes it large: other keys would be sent again with every piece.
func SplitOutput(job string, event []byte, maxFrame int) (pieces [][]byte, ok bool) {
	room := maxFrame - len(AppendEvent(nil, job, nil))
	if len(event) <= room {
		return [][]byte{event}, true
	}
	start, end := outputText(event)
	if start < 0 {
		return nil, false
	}
	head, content, tail := event[:start], event[start:end], event[end:]
	budget := room - len(head) - len(tail)
	if budget < room/2 || budget < maxEscape {
		return nil, false
	}
	for len(content) > 0 {
		n := cut(content, budget)
		piece := make([]byte, 0, len(head)+n+len(tail))
		pieces = append(pieces, append(append(append(piece, head...), content[:n]...), tail...))
		content = content[n:]
	}
	return pieces, true
}

// DroppedEvent is the event that stands for one that was too large to send, of
// size bytes as a message, where limit bytes were allowed.
func DroppedEvent(size, limit int) []byte {
	b := append([]byte(nil), `{"type":"event.dropped","data":{"bytes":`...)
	b = append(strconv.AppendInt(b, int64(size), 10), `,"limit":`...)
	return append(strconv.AppendInt(b, int64(limit), 10), "}}"...)
}

// maxEscape is the longest unit that [cut] keeps whole: an escaped surrogate
// pair.
const maxEscape = 12

// cut gives the length of the longest beginning of a string token's inside that
// has at most budget bytes and ends between characters.
func cut(content []byte, budget int) int {
	if len(content) <= budget {
		return len(content)
	}
	done := 0
	for done < len(content) {
		n, _ := unitLen(content[done:])
		if done+n > budget {
			break
		}
		done += n
	}
	return done
}

// outputText finds the inside of the text of an output event, by its offsets in
// the event; start is negative when it is none, or when a name that matters is
// there twice.
func outputText(event []byte) (start, end int) {
	typ, _, ok := member(event, "type")
	if said, isText := unquote(typ); !ok || !isText || said != "output" {
		return -1, -1
	}
	data, dataAt, ok := member(event, "data")
	if !ok || !isObject(data) {
		return -1, -1
	}
	text, at, ok := member(data, "text")
	if !ok || !isString(text) {
		return -1, -1
	}
	return dataAt + at + 1, dataAt + at + len(text) - 1
}

// member finds the one member of that name in an object, and its value's offset.
func member(object []byte, name string) (value []byte, at int, ok bool) {
	count := 0
	err := members(object, func(n, v []byte, offset int) {
		if string(n) == name {
			count++
			value, at = v, offset
		}
	})
	return value, at, err == nil && count == 1
}
