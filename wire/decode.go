package wire

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Why a complete JSON object is ignored.
const (
	whyType    = "type missing or no string"
	whyKind    = " missing or no string" // after a key's name
	whyEvent   = "event missing or no object"
	whyPayload = "payload missing or no object"
	whyText    = " holds bad UTF-8 or a lone surrogate" // after a key's name
	whyRepeat  = "a name repeated at top level"
)

const (
	// scratchMax is how much scratch a resting decoder keeps, in bytes.
	scratchMax = 64 << 10
	// idMax is the longest job id that is kept for the next frame, in bytes.
	idMax = 128
)

// Decoder turns messages into frames. It reuses its scratch: one decoder serves
// one connection, from one goroutine.
type Decoder struct {
	walk walker
	env  envelope
	// numbers holds a message with its bare tokens mended, body one value with
	// its text mended. They are two because the second is made from the first.
	numbers, body []byte
	// ids are the last job ids seen, so that a run's many events share one.
	ids    [fewNames]string
	nextID int
	last   head
	// given: the message under way, of whole bytes of memory, is the frame's.
	given bool
	whole int
}

// NewDecoder makes a decoder.
func NewDecoder() *Decoder { return &Decoder{} }

// Decode makes a frame of one message. The message may be used again afterwards.
//
// The frame is Ignored, with a reason (protocol section 1, *validated first*),
// when the message is not exactly one JSON object; repeats a name at its top
// level (compared without escapes); nests deeper than [MaxDepth]; has a type
// that is missing or unknown; or lacks a key of its type or has it in the wrong
// kind. A payload of mcp.request and mcp.response may be any JSON, and one that
// is left out is null. A hello is different: it is judged by [ParseHello], so
// only its object is proven here, and that its daemon_id is clean text.
//
// An Ignored frame has a JobID when the first [PrefixMax] bytes of the message
// hold, at top level, one complete job_id string. Nothing else of it is used.
//
// A job_id or request_id with bad UTF-8 or a lone surrogate is no text that
// anybody was given, so its frame is ignored; to mend it could make two ids one.
// Elsewhere such text becomes U+FFFD.
func (d *Decoder) Decode(msg []byte) Frame {
	d.given = false
	return d.any(msg)
}

// DecodeGiven does what [Decoder.Decode] does with a message that is given away:
// the frame's body may lie in it, if it fills at least seven eighths of its
// memory, so it must not be written to any more. That spares a large message's
// copy.
func (d *Decoder) DecodeGiven(msg []byte) Frame {
	d.given = true
	return d.any(msg)
}

func (d *Decoder) any(msg []byte) Frame {
	d.whole = cap(msg)
	if f, ok := d.usual(msg); ok {
		return f
	}
	return d.strict(msg)
}

// strict makes the frame of any message, by the strict walk.
func (d *Decoder) strict(msg []byte) Frame {
	f, why := d.decode(msg)
	if why != "" {
		f = Frame{JobID: d.findJob(msg), Why: why}
	}
	f.Bytes = len(msg)
	d.rest()
	return f
}

// Oversize makes the frame of a message that was too large to keep: total is its
// size and prefix its first [PrefixMax] bytes (more are not looked at).
func (d *Decoder) Oversize(prefix []byte, total int) Frame {
	f := Frame{Type: Oversize, Bytes: total, JobID: d.findJob(prefix), Why: "larger than this side takes"}
	d.rest()
	return f
}

// decode proves msg, mending it only if it must, and judges it.
func (d *Decoder) decode(msg []byte) (Frame, string) {
	if deeper(msg, MaxDepth) >= 0 {
		return Frame{}, whyBroken(errTooDeep)
	}
	why := d.prove(msg, strictJSON)
	if why == "" {
		return d.judge()
	}
	if why == whyRepeat {
		return Frame{}, why
	}
	mended, changed := mendNumbers(d.numbers[:0], msg)
	d.numbers = mended
	if !changed {
		if clean(msg) {
			return Frame{}, why // nothing to mend: it would fail again
		}
		mended = msg
	}
	if why := d.prove(mended, tolerantJSON); why != "" {
		return Frame{}, why
	}
	d.env.dirty = true
	return d.judge()
}

// prove fills the envelope from text, or says why text is no frame.
func (d *Decoder) prove(text []byte, options []jsontext.Options) string {
	d.env.reset()
	err := d.walk.open(text, options)
	if err != nil {
		return whyBroken(err)
	}
	start := int(d.walk.dec.InputOffset()) - 1
	repeated := false
	for {
		name, value, ok, err := d.walk.next()
		if err != nil {
			return whyBroken(err)
		}
		if !ok {
			break
		}
		// Go on to the end all the same: what is not JSON is called that.
		repeated = repeated || !d.env.add(name, value)
	}
	if repeated {
		return whyRepeat
	}
	d.env.whole = text[start:int(d.walk.dec.InputOffset())]
	return ""
}

// judge makes a frame of a proven object, or says why it is ignored.
func (d *Decoder) judge() (Frame, string) {
	e := &d.env
	typ, why := typeOf(e.typ)
	if why != "" {
		return Frame{}, why
	}
	f, want := Frame{Type: typ}, &shapes[typ]
	if want.job {
		if f.JobID, why = d.id("job_id", e.job); why != "" {
			return Frame{}, why
		}
	}
	if want.request {
		if f.RequestID, why = d.id("request_id", e.request); why != "" {
			return Frame{}, why
		}
	}
	if typ == DaemonHello && e.dirty && !clean(e.daemon) {
		return Frame{}, "daemon_id" + whyText
	}
	value, why := e.value(want.body)
	if why != "" {
		return Frame{}, why
	}
	f.Body = d.own(value)
	return f, ""
}

// typeOf finds the frame type that a token names, or says why there is none.
func typeOf(token []byte) (Type, string) {
	if isString(token) {
		inside := token[1 : len(token)-1]
		if string(inside) == shapes[RunEvent].name {
			return RunEvent, "" // nearly all frames are
		}
		if t, ok := types[string(inside)]; ok {
			return t, "" // no escapes
		}
	}
	name, ok := unquote(token)
	if !ok {
		return Ignored, whyType
	}
	if t, ok := types[name]; ok {
		return t, ""
	}
	return Ignored, "unknown type " + clip(name)
}

// own gives the frame memory of its own: of the exact size, or the message that
// was given away, when the body is nearly all of it.
func (d *Decoder) own(value []byte) []byte {
	if value == nil {
		return nil
	}
	if d.env.dirty {
		d.body = mendText(d.body[:0], value)
		value = d.body
	}
	if d.given && !d.env.dirty && len(value) >= d.whole-d.whole/8 {
		return value[:len(value):len(value)]
	}
	body := make([]byte, len(value))
	copy(body, value)
	return body
}

// id gives the id that a token is, or says why the key of that name holds none.
// An id of the last few is given again instead of made anew.
func (d *Decoder) id(key string, token []byte) (id, why string) {
	if !isString(token) {
		return "", key + whyKind
	}
	if d.env.dirty && !clean(token) {
		return "", key + whyText
	}
	inside := token[1 : len(token)-1]
	for _, kept := range d.ids {
		if kept == string(inside) {
			return kept, ""
		}
	}
	id, ok := unquote(token)
	if !ok {
		return "", key + whyText
	}
	// Only an id without escapes can be found again by its raw bytes; a request
	// id never comes back.
	if key == "job_id" && len(id) == len(inside) && len(id) <= idMax {
		d.ids[d.nextID] = id
		d.nextID = (d.nextID + 1) % len(d.ids)
	}
	return id, ""
}

// findJob finds the one complete job_id string at the top level of a message's
// beginning, whatever the rest may be (protocol section 1). Two of them name
// nobody.
func (d *Decoder) findJob(msg []byte) string {
	prefix := msg[:min(len(msg), PrefixMax)]
	if at := deeper(prefix, MaxDepth); at >= 0 {
		prefix = prefix[:at]
	}
	mended, changed := mendNumbers(d.numbers[:0], prefix)
	d.numbers = mended
	if changed {
		prefix = mended
	}
	if d.walk.open(prefix, tolerantJSON) != nil {
		return ""
	}
	job, found := "", false
	for {
		name, value, ok, err := d.walk.next()
		if err != nil || !ok {
			return job
		}
		if string(name) != "job_id" {
			continue
		}
		said, ok := unquote(value)
		if !ok || found || !clean(value) {
			return ""
		}
		job, found = said, true
	}
}

// rest lets go of the message and of scratch that one large message made.
func (d *Decoder) rest() {
	d.walk.release()
	d.env.reset()
	d.numbers, d.body, d.walk.name = keep(d.numbers), keep(d.body), keep(d.walk.name)
	d.env.names = keep(d.env.names)
}

func keep(scratch []byte) []byte {
	if cap(scratch) > scratchMax {
		return nil
	}
	return scratch[:0]
}

func isObject(token []byte) bool { return len(token) > 0 && token[0] == '{' }
func isString(token []byte) bool { return len(token) > 0 && token[0] == '"' }

// clip quotes a peer's word for a log line, cut to a length that suits one.
func clip(word string) string {
	const most = 32
	if len(word) > most {
		n := most
		for n > 0 && !utf8.RuneStart(word[n]) {
			n--
		}
		return fmt.Sprintf("%q…", word[:n])
	}
	return fmt.Sprintf("%q", word)
}
