package wire

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// The oracle decides by encoding/json and regular expressions what [Decoder]
// decides by jsontext and by hand, slowly.
type oracle struct {
	ok   bool
	typ  Type
	job  string
	req  string
	body json.RawMessage
	// dirty: the body is equal only after mending.
	dirty bool
}

var (
	reBare   = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)
	reEscape = regexp.MustCompile(`\\u[0-9a-fA-F]{4}|\\.`)
)

// consult gives the oracle's decision.
func consult(msg []byte) oracle {
	text := reBare.ReplaceAllFunc(msg, func(m []byte) []byte {
		if m[0] == '"' {
			return m
		}
		return []byte("null")
	})
	top, order := oracleMembers(text)
	if top == nil || oracleDepth(text) > 512 {
		return oracle{}
	}
	for i, name := range order {
		for _, other := range order[:i] {
			if name == other {
				return oracle{}
			}
		}
	}
	var name string
	if json.Unmarshal(top["type"], &name) != nil || top["type"][0] != '"' {
		return oracle{}
	}
	o := oracle{dirty: !oracleClean(text) || !bytes.Equal(text, msg)}
	for t := DaemonHello; t < typeCount; t++ {
		if t.String() == name {
			o.typ, o.ok = t, true
		}
	}
	o.judge(top, text)
	return o
}

// judge looks at the keys of the type.
func (o *oracle) judge(top map[string]json.RawMessage, text []byte) {
	id := func(key string, into *string) {
		raw := top[key]
		o.ok = o.ok && len(raw) > 0 && raw[0] == '"' && oracleClean(raw) && json.Unmarshal(raw, into) == nil
	}
	object := func(key string) {
		o.body = top[key]
		o.ok = o.ok && len(o.body) > 0 && o.body[0] == '{'
	}
	switch o.typ {
	case RunEvent, RunStart, RunCancel, RunFinished, MCPRequest, MCPResponse:
		id("job_id", &o.job)
	}
	switch o.typ {
	case RunEvent:
		object("event")
	case RunStart:
		object("payload")
	case MCPRequest, MCPResponse:
		id("request_id", &o.req)
		if o.body = top["payload"]; o.body == nil {
			o.body = json.RawMessage("null")
		}
	case DaemonHello:
		o.ok = o.ok && oracleClean(top["daemon_id"])
		o.body = bytes.Trim(text, " \t\r\n")
	case RunFinished, DaemonReady:
		o.body = bytes.Trim(text, " \t\r\n")
	}
}

// oracleMembers gives the top level of one object, or nil.
func oracleMembers(text []byte) (map[string]json.RawMessage, []string) {
	if !json.Valid(text) {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, nil
	}
	top, order := map[string]json.RawMessage{}, []string{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, nil
		}
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return nil, nil
		}
		top[name.(string)] = raw
		order = append(order, name.(string))
	}
	return top, order
}

func oracleDepth(text []byte) (deepest int) {
	dec := json.NewDecoder(bytes.NewReader(text))
	for depth := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			return deepest
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// oracleClean reports whether valid JSON is valid UTF-8 without half pairs: then
// encoding/json puts in no U+FFFD of its own.
func oracleClean(raw []byte) bool {
	if !utf8.Valid(raw) {
		return false
	}
	meant := bytes.Count(raw, []byte("\uFFFD"))
	for _, e := range reEscape.FindAll(raw, -1) {
		if strings.EqualFold(string(e), `\ufffd`) {
			meant++
		}
	}
	found := 0
	for _, s := range reBare.FindAll(raw, -1) {
		var said string
		if s[0] == '"' && json.Unmarshal(s, &said) == nil {
			found += strings.Count(said, "\uFFFD")
		}
	}
	return found == meant
}

// sameJSON compares what two texts mean, number tokens as written.
func sameJSON(t *testing.T, a, b []byte) {
	t.Helper()
	read := func(text []byte) (v any) {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return v
	}
	if diff := cmp.Diff(read(a), read(b)); diff != "" {
		t.Errorf("%q and %q differ:\n%s", a, b, diff)
	}
}

func checkDecode(t *testing.T, d *Decoder, msg []byte) {
	f := d.Decode(msg)
	if f.Bytes != len(msg) || (f.Type == Ignored) != (f.Why != "") {
		t.Fatalf("%q: %d bytes, %v, why %q", msg, f.Bytes, f.Type, f.Why)
	}
	want := consult(msg)
	if (f.Type != Ignored) != want.ok {
		t.Fatalf("%q: got %v %s, the oracle says %t", msg, f.Type, f.Why, want.ok)
	}
	if f.Type == Ignored {
		if f.Body != nil || f.RequestID != "" {
			t.Fatalf("%q: an ignored frame with body %q, request %q", msg, f.Body, f.RequestID)
		}
		if over := d.Oversize(msg, len(msg)); over.JobID != f.JobID {
			t.Fatalf("%q: ignored it is of job %q, oversize of %q", msg, f.JobID, over.JobID)
		}
		return
	}
	if f.Type != want.typ || f.JobID != want.job || f.RequestID != want.req {
		t.Fatalf("%q: got %v %q %q, the oracle says %v %q %q", msg, f.Type, f.JobID, f.RequestID, want.typ, want.job, want.req)
	}
	if (f.Body == nil) != (want.body == nil) {
		t.Fatalf("%q: body %q, the oracle says %q", msg, f.Body, want.body)
	}
	if f.Body != nil {
		checkBody(t, f, want)
	}
	// Long messages are cut only where it is most likely to matter.
	for n := max(0, len(msg)-300); n < len(msg); n++ {
		if trimmed := bytes.TrimRight(msg, " \t\r\n"); n >= len(trimmed) {
			break
		}
		if p := d.Decode(msg[:n]); p.Type != Ignored {
			t.Fatalf("%q is a frame, and so are its first %d bytes", msg, n)
		}
	}
}

func checkBody(t *testing.T, f Frame, want oracle) {
	t.Helper()
	if !json.Valid(f.Body) || !jsontext.Value(f.Body).IsValid(strictJSON...) || !utf8.Valid(f.Body) {
		t.Fatalf("%v: body %q is not valid", f.Type, f.Body)
	}
	if !want.dirty && !bytes.Equal(f.Body, want.body) {
		t.Fatalf("%v: body %q, want it unchanged: %q", f.Type, f.Body, want.body)
	}
	sameJSON(t, f.Body, want.body)
	if len(f.Body) > 3*f.Bytes+len(null) {
		t.Fatalf("%v: %d bytes of body from %d", f.Type, len(f.Body), f.Bytes)
	}
}

// Protocol section 1: nothing panics, what is a frame is one to encoding/json and
// jsontext too, and the other way round; bodies are valid; prefixes are ignored.
func FuzzDecode(f *testing.F) {
	for _, msg := range sent() {
		f.Add(msg)
	}
	for _, tt := range accepted {
		f.Add([]byte(tt.msg))
	}
	for _, tt := range refused {
		if len(tt.msg) < 5000 {
			f.Add([]byte(tt.msg))
		}
	}
	for _, tt := range mendedEvents {
		f.Add(AppendEvent(nil, "j", []byte(tt.in)))
	}
	for _, tt := range prefixes {
		f.Add([]byte(tt.msg))
	}
	d := NewDecoder()
	f.Fuzz(func(t *testing.T, msg []byte) { checkDecode(t, d, msg) })
}

// Protocol section 3.2: no first frame panics, and what is admitted keeps the
// rules; the same for everything that reads a body.
func FuzzParse(f *testing.F) {
	for _, tt := range goodHellos {
		f.Add([]byte(tt.msg))
	}
	for _, tt := range badHellos {
		f.Add([]byte(tt.msg))
	}
	for _, msg := range sent() {
		f.Add(msg)
	}
	d := NewDecoder()
	f.Fuzz(func(t *testing.T, msg []byte) {
		frame := d.Decode(msg)
		h, err := ParseHello(frame)
		if err == nil {
			if id, err := ValidDaemonID(h.DaemonID); err != nil || id != h.DaemonID {
				t.Errorf("admitted as %q: %v", h.DaemonID, err)
			}
			if len(h.Metadata) > MaxMetadata || h.Metadata != nil && !json.Valid(h.Metadata) {
				t.Errorf("metadata %q", h.Metadata)
			}
			again, err := ParseHello(d.Decode(AppendHello(nil, h)))
			if diff := cmp.Diff(h, again); err != nil || diff != "" {
				t.Errorf("said again (-want +got):\n%s%v", diff, err)
			}
		}
		if r := ParseReceipt(frame); r != nil && r.Mechanism == "" {
			t.Errorf("receipt %+v", r)
		}
		if r, err := ParseReady(frame); err == nil && r.Protocol != Protocol {
			t.Errorf("ready %+v", r)
		}
		if CutReason(err2text(err)) != err2text(err) && frame.Type != Ignored {
			t.Errorf("reason %q does not fit", err)
		}
	})
}

func err2text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// JSON-RPC 2.0: an answer is valid and bounded, whatever was asked, and null
// exactly when none is owed; an event that is split stays valid.
func FuzzPayload(f *testing.F) {
	for _, tt := range asked {
		if len(tt.payload) < 5000 {
			f.Add([]byte(tt.payload))
		}
	}
	f.Add(output(`"` + strings.Repeat(`\ud83d\ude80`, 40) + `"`))
	d := NewDecoder()
	f.Fuzz(func(t *testing.T, payload []byte) {
		answer := JSONRPCErrors(payload, -32000, "x")
		if !json.Valid(answer) || len(answer) > maxErrors+len(payload)+100 {
			t.Errorf("answer %q", answer)
		}
		if none := string(answer) == null; none != JSONRPCNotification(payload) {
			t.Errorf("answer %q, notification %t", answer, !none)
		}
		object, err := NormalizeObject(payload)
		if err != nil {
			return
		}
		for _, frame := range EventFrames("j", object, 300) {
			if e := d.Decode(frame); e.Type != RunEvent || len(frame) > 300 {
				t.Errorf("frame %q: %v %s", frame, e.Type, e.Why)
			}
		}
	})
}
