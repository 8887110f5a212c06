package acp

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// toolCallsMax is how many tool calls of a run are known at once.
	toolCallsMax = 4096
	// depthMax is how deep what an agent says of a tool may be nested; a frame
	// takes 512 in all (protocol section 1).
	depthMax = 256
	// escapeMax is how many bytes one byte of a text can become in JSON (\u001f).
	escapeMax = 6
	// eventOverhead is room for what stands around the texts of an event.
	eventOverhead = 4 << 10
)

// reporter turns an agent's updates into the events of protocol section 9.
type reporter struct {
	machine  *machine
	any      bool // something was said or done
	sequence int  // of the last delta

	messageID string
	said      []byte // the message so far, the beginning of it
	size      int    // how long it is
	quoted    []byte // the same as JSON without quotes; nil when it got too long

	tools map[string]*toolCall
}

// toolCall is a tool call that was told as started.
type toolCall struct {
	name string
	done bool
}

// text takes a piece of the agent's message. An id that changes begins a new
// message. A long piece comes in several deltas; when the message has become
// long, deltas no longer repeat it and say so.
func (r *reporter) text(piece, messageID string) {
	if piece == "" {
		return
	}
	if messageID != "" {
		if r.messageID != "" && r.messageID != messageID {
			r.said, r.size, r.quoted = nil, 0, nil
		}
		r.messageID = messageID
	}
	r.any = true
	limit := r.machine.opt.eventBytes
	for piece != "" {
		part := headOf(piece, max(limit/2/escapeMax, utf8.UTFMax))
		piece = piece[len(part):]
		r.delta(part, limit)
	}
}

func (r *reporter) delta(part string, limit int) {
	quoted := appendText(nil, part)
	inner := quoted[1 : len(quoted)-1]
	if r.size == 0 || r.quoted != nil {
		r.quoted = append(r.quoted, inner...)
		if len(r.quoted) > limit/4 {
			r.quoted = nil
		}
	}
	r.size += len(part)
	if room := limit - len(r.said); room > 0 {
		r.said = append(r.said, headOf(part, room)...)
	}
	if !r.machine.req.Streaming {
		return
	}
	r.sequence++
	b := append([]byte(`{"type":"message.delta","data":{"chunk":{"role":"assistant","content":`), quoted...)
	if r.quoted != nil {
		b = append(append(append(b, `,"all_content":"`...), r.quoted...), '"')
	} else {
		b = append(b, `,"all_content_omitted":true`...)
	}
	b = strconv.AppendInt(append(b, `,"msg_sequence":`...), int64(r.sequence), 10)
	b = strconv.AppendInt(append(b, `}},"sequence":`...), int64(r.sequence), 10)
	r.machine.emit(append(b, '}'))
}

// completed tells the whole message, if there is one. One that no event holds is
// cut, and says how long it was.
func (r *reporter) completed() {
	text := bytes.TrimSpace(r.said)
	if len(text) == 0 {
		return
	}
	room, cut := r.machine.opt.eventBytes-eventOverhead, r.size > len(r.said)
	quoted := appendText(nil, string(text))
	for len(quoted) > room {
		cut = true
		// Shorter by the part that was too much; escapes may lie unevenly, so look again.
		n := min(int(int64(len(text))*int64(room)/int64(len(quoted))), len(text)-1)
		text = []byte(headOf(string(text), n))
		quoted = appendText(nil, string(text))
	}
	b := append([]byte(`{"type":"message.completed","data":{"message":{"role":"assistant","content":`), quoted...)
	if cut {
		b = strconv.AppendInt(append(b, `,"truncated":true,"bytes":`...), int64(r.size), 10)
	}
	r.machine.emit(append(b, "}}}"...))
}

// tool takes what an agent says of a tool call. The first word of one is its
// start, whatever that word is; after its end nothing is told of it.
func (r *reporter) tool(raw jsontext.Value, update object) {
	id := stringOf(update["toolCallId"])
	if id == "" {
		return
	}
	r.any = true
	call := r.tools[id]
	if call == nil {
		if call = r.started(id, update); call == nil {
			return
		}
	}
	status := stringOf(update["status"])
	if call.done || (status != "completed" && status != "failed" && status != "cancelled") {
		return
	}
	call.done = true
	room := (r.machine.opt.eventBytes - eventOverhead) / escapeMax
	b := appendText([]byte(`{"type":"tool.call.completed","data":{"tool_call_id":`), headOf(id, 256))
	b = appendText(append(b, `,"tool_name":`...), call.name)
	if status == "completed" {
		b = append(append(b, `,"result":`...), fitting(raw, room*escapeMax)...)
		r.machine.emit(append(b, `,"error":null}}`...))
		return
	}
	b = appendText(append(b, `,"result":null,"error":`...), string(fitting(raw, room)))
	r.machine.emit(append(b, "}}"...))
}

// started tells the start of a tool call; nil when too many are known.
func (r *reporter) started(id string, update object) *toolCall {
	if len(r.tools) >= toolCallsMax {
		maps.DeleteFunc(r.tools, func(_ string, c *toolCall) bool { return c.done })
		if len(r.tools) >= toolCallsMax {
			return nil
		}
	}
	call := &toolCall{name: headOf(toolName(update), 256)}
	r.tools[id] = call
	parameters := []byte(`{}`)
	if in := update["rawInput"]; in.Kind() == '{' {
		parameters = fitting(in, r.machine.opt.eventBytes-eventOverhead)
	}
	b := appendText([]byte(`{"type":"tool.call.started","data":{"tool_call_id":`), headOf(id, 256))
	b = appendText(append(b, `,"tool_name":`...), call.name)
	b = append(append(b, `,"parameters":`...), parameters...)
	r.machine.emit(append(b, "}}"...))
	return call
}

// toolName finds the name that agents put in one of several places; the title is
// for people and the last resort.
func toolName(update object) string {
	meta := objectOf(update["_meta"])
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if name := stringOf(objectOf(meta[key])["toolName"]); name != "" {
			return name
		}
	}
	if name := first(update["name"], update["title"]); name != "" {
		return name
	}
	return "acp_tool"
}

// fitting gives an agent's object as it came (members unknown to us included), or a
// mark in its place when it is too long or too deep for an event.
func fitting(raw jsontext.Value, room int) []byte {
	v := jsontext.Value(bytes.Clone(raw))
	if !deep(v) && tidy(&v) == nil && len(v) <= room {
		return v
	}
	return append(strconv.AppendInt([]byte(`{"truncated":true,"bytes":`), int64(len(raw)), 10), '}')
}

// deep reports whether a valid JSON value is nested deeper than depthMax.
func deep(v jsontext.Value) bool {
	depth, quoted := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > depthMax {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
