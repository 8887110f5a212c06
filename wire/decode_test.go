package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nest is an object of that depth, itself included.
func nest(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
}

// accepted is what is a frame, and what becomes of it.
var accepted = map[string]struct {
	msg  string
	want Frame
}{
	"event":             {`{"type":"run.event","job_id":"j","event":{"a":1}}`, Frame{Type: RunEvent, JobID: "j", Body: []byte(`{"a":1}`)}},
	"event_without_any": {`{"type":"run.event","job_id":"j","event":{}}`, Frame{Type: RunEvent, JobID: "j", Body: []byte(`{}`)}},
	"keys_in_any_order": {`{"event":{},"job_id":"j","type":"run.event"}`, Frame{Type: RunEvent, JobID: "j", Body: []byte(`{}`)}},
	"white_space":       {" \r\n\t{ \"type\" : \"run.event\" , \"job_id\":\"j\",\"event\" :  { \"a\" :\t1 }  } \n", Frame{Type: RunEvent, JobID: "j", Body: []byte("{ \"a\" :\t1 }")}},
	"number_tokens":     {`{"type":"run.event","job_id":"j","event":{"a":[1.0,1e0,-0,0.10,12345678901234567890,1E+400]}}`, Frame{Type: RunEvent, JobID: "j", Body: []byte(`{"a":[1.0,1e0,-0,0.10,12345678901234567890,1E+400]}`)}},
	"escapes_stay":      {`{"type":"run.event","job_id":"j","event":{"a":"\u0041\/\ud83d\ude00\u0000"}}`, Frame{Type: RunEvent, JobID: "j", Body: []byte(`{"a":"\u0041\/\ud83d\ude00\u0000"}`)}},
	"repeats_below_top": {`{"type":"run.event","job_id":"j","event":{"a":1,"a":2}}`, Frame{Type: RunEvent, JobID: "j", Body: []byte(`{"a":1,"a":2}`)}},
	"unknown_names":     {`{"x":[],"type":"run.cancel","Type":1,"job_id":"j","":{},"event":7}`, Frame{Type: RunCancel, JobID: "j"}},
	"escaped_names":     {`{"t\u0079pe":"run.cance\u006c","job\u005fid":"\u006a\n"}`, Frame{Type: RunCancel, JobID: "j\n"}},
	"empty_job":         {`{"type":"run.cancel","job_id":""}`, Frame{Type: RunCancel}},
	"ping":              {`{"type":"daemon.ping"}`, Frame{Type: DaemonPing}},
	"ping_with_others":  {`{"type":"daemon.ping","job_id":5}`, Frame{Type: DaemonPing}},
	"pong":              {`{"type":"daemon.pong"}`, Frame{Type: DaemonPong}},
	"finished_is_whole": {` {"type":"run.finished","job_id":"j","killed":3} `, Frame{Type: RunFinished, JobID: "j", Body: []byte(`{"type":"run.finished","job_id":"j","killed":3}`)}},
	"request_batch":     {`{"type":"mcp.request","request_id":"r","job_id":"j","payload":[{"id":1.0}]}`, Frame{Type: MCPRequest, JobID: "j", RequestID: "r", Body: []byte(`[{"id":1.0}]`)}},
	"request_scalar":    {`{"type":"mcp.request","request_id":"r","job_id":"j","payload":"x"}`, Frame{Type: MCPRequest, JobID: "j", RequestID: "r", Body: []byte(`"x"`)}},
	"request_without":   {`{"type":"mcp.request","request_id":"r","job_id":"j"}`, Frame{Type: MCPRequest, JobID: "j", RequestID: "r", Body: []byte(`null`)}},
	"response_null":     {`{"type":"mcp.response","request_id":"r","job_id":"j","payload":null}`, Frame{Type: MCPResponse, JobID: "j", RequestID: "r", Body: []byte(`null`)}},
	"start":             {`{"type":"run.start","job_id":"j","payload":{"a":1}}`, Frame{Type: RunStart, JobID: "j", Body: []byte(`{"a":1}`)}},
	"hello_number":      {`{"type":"daemon.hello","daemon_id":5}`, Frame{Type: DaemonHello, Body: []byte(`{"type":"daemon.hello","daemon_id":5}`)}},
	"ready":             {`{"type":"daemon.ready","daemon_id":"d"}`, Frame{Type: DaemonReady, Body: []byte(`{"type":"daemon.ready","daemon_id":"d"}`)}},
	"deepest":           {`{"type":"run.event","job_id":"j","event":` + nest(MaxDepth-1) + `}`, Frame{Type: RunEvent, JobID: "j", Body: []byte(nest(MaxDepth - 1))}},
	"brackets_in_text":  {`{"type":"run.event","job_id":"j","event":{"a":"\"` + strings.Repeat("[{", 600) + `"}}`, Frame{Type: RunEvent, JobID: "j", Body: []byte(`{"a":"\"` + strings.Repeat("[{", 600) + `"}`)}},
}

// Protocol section 1: what is one complete JSON object with the keys of its type
// is a frame, and valid JSON in it passes byte for byte.
func TestDecodeTakesFrames(t *testing.T) {
	d := NewDecoder()
	for name, tt := range accepted {
		t.Run(name, func(t *testing.T) {
			tt.want.Bytes = len(tt.msg)
			if diff := cmp.Diff(tt.want, d.Decode([]byte(tt.msg))); diff != "" {
				t.Errorf("Decode(%s) (-want +got):\n%s", tt.msg, diff)
			}
		})
	}
}

// refused is what is ignored, why, and whose it was as far as that is known.
var refused = map[string]struct{ msg, why, job string }{
	"empty":               {"", "no JSON object", ""},
	"white_space":         {" \n", "no JSON object", ""},
	"array":               {`[{"type":"daemon.ping"}]`, "no JSON object", ""},
	"string":              {`"daemon.ping"`, "no JSON object", ""},
	"null":                {`null`, "no JSON object", ""},
	"text":                {`hello`, "not JSON near byte 0", ""},
	"byte_order_mark":     {"\xef\xbb\xbf{\"type\":\"daemon.ping\"}", "not JSON near byte 0", ""},
	"cut":                 {`{"type":"daemon.ping"`, "cut short: the JSON does not end", ""},
	"cut_in_name":         {`{"type":"run.cancel","job_id":"j","ev`, "cut short: the JSON does not end", "j"},
	"two_objects":         {`{"type":"daemon.ping"}{}`, "text after the JSON", ""},
	"text_after":          {`{"type":"daemon.ping"}x`, "text after the JSON", ""},
	"comma_at_end":        {`{"type":"daemon.ping",}`, "not JSON near byte 21", ""},
	"single_quotes":       {`{'type':'daemon.ping'}`, "not JSON near byte 1", ""},
	"comment":             {`{"type":"daemon.ping"/**/}`, "not JSON near byte 21", ""},
	"leading_zero":        {`{"type":"run.event","job_id":"j","event":{"a":01}}`, "not JSON near byte 47", "j"},
	"raw_control":         {"{\"type\":\"run.event\",\"job_id\":\"j\",\"event\":{\"a\":\"\n\"}}", "not JSON near byte 47", "j"},
	"bad_escape":          {`{"type":"run.event","job_id":"j","event":{"a":"\x"}}`, "not JSON near byte 47", "j"},
	"half_escape":         {`{"type":"run.event","job_id":"j","event":{"a":"\ud83"}}`, "not JSON near byte 47", "j"},
	"bad_utf8_outside":    {"{\"type\":\"run.cancel\",\"job_id\":\"j\"\xff}", "not JSON near byte 33", "j"},
	"bool_in_python":      {`{"type":"run.event","job_id":"j","event":{"a":True}}`, "not JSON near byte 46", "j"},
	"nan_glued":           {`{"type":"run.event","job_id":"j","event":{"a":1NaN}}`, "not JSON near byte 47", "j"},
	"nan_negative":        {`{"type":"run.event","job_id":"j","event":{"a":-NaN}}`, "not JSON near byte 47", "j"},
	"nan_and_worse":       {`{"type":"run.event","job_id":"j","event":{"a":NaN,}}`, "not JSON near byte 51", "j"},
	"nan_as_name":         {`{NaN:1,"type":"daemon.ping"}`, "not JSON near byte 1", ""},
	"nan_alone":           {`NaN`, "no JSON object", ""},
	"repeated_type":       {`{"type":"run.cancel","job_id":"j","type":"run.cancel"}`, "a name repeated at top level", "j"},
	"repeated_job":        {`{"type":"run.cancel","job_id":"j","job_id":"k"}`, "a name repeated at top level", ""},
	"repeated_unknown":    {`{"type":"run.cancel","job_id":"j","x":1,"x":1}`, "a name repeated at top level", "j"},
	"repeated_escaped":    {`{"type":"run.cancel","job_id":"j","\u0074ype":1}`, "a name repeated at top level", "j"},
	"repeated_mended":     {"{\"type\":\"run.cancel\",\"job_id\":\"j\",\"\xff\":1,\"\xfe\":1}", "a name repeated at top level", "j"},
	"repeated_and_broken": {`{"type":"run.cancel","job_id":"j","x":1,"x":1`, "cut short: the JSON does not end", "j"},
	"too_deep":            {`{"type":"run.event","job_id":"j","event":` + nest(MaxDepth) + `}`, "nested deeper than 512", "j"},
	"far_too_deep":        {`{"type":"run.event","job_id":"j","event":` + strings.Repeat("[", 200_000), "nested deeper than 512", "j"},
	"no_type":             {`{"job_id":"j"}`, "type missing or no string", "j"},
	"type_no_string":      {`{"type":["run.cancel"],"job_id":"j"}`, "type missing or no string", "j"},
	"name_in_capitals":    {`{"TYPE":"run.cancel","job_id":"j"}`, "type missing or no string", "j"},
	"unknown_type":        {`{"type":"run.cleanup","job_id":"j"}`, `unknown type "run.cleanup"`, "j"},
	"type_in_capitals":    {`{"type":"Run.Cancel","job_id":"j"}`, `unknown type "Run.Cancel"`, "j"},
	"type_of_ours":        {`{"type":"ignored","job_id":"j"}`, `unknown type "ignored"`, "j"},
	"long_type":           {`{"type":"` + strings.Repeat("é", 99) + `"}`, `unknown type "` + strings.Repeat("é", 16) + `"…`, ""},
	"no_job":              {`{"type":"run.cancel"}`, "job_id missing or no string", ""},
	"job_number":          {`{"type":"run.cancel","job_id":1}`, "job_id missing or no string", ""},
	"job_null":            {`{"type":"run.finished","job_id":null}`, "job_id missing or no string", ""},
	"job_lone_surrogate":  {`{"type":"run.cancel","job_id":"a\ud800"}`, "job_id holds bad UTF-8 or a lone surrogate", ""},
	"job_bad_utf8":        {"{\"type\":\"run.cancel\",\"job_id\":\"a\xff\"}", "job_id holds bad UTF-8 or a lone surrogate", ""},
	"no_event":            {`{"type":"run.event","job_id":"j"}`, "event missing or no object", "j"},
	"event_array":         {`{"type":"run.event","job_id":"j","event":[]}`, "event missing or no object", "j"},
	"event_null":          {`{"type":"run.event","job_id":"j","event":null}`, "event missing or no object", "j"},
	"no_payload":          {`{"type":"run.start","job_id":"j"}`, "payload missing or no object", "j"},
	"payload_string":      {`{"type":"run.start","job_id":"j","payload":"{}"}`, "payload missing or no object", "j"},
	"no_request":          {`{"type":"mcp.request","job_id":"j","payload":1}`, "request_id missing or no string", "j"},
	"request_number":      {`{"type":"mcp.request","job_id":"j","request_id":1,"payload":1}`, "request_id missing or no string", "j"},
	"request_bad":         {"{\"type\":\"mcp.response\",\"job_id\":\"j\",\"request_id\":\"\xff\",\"payload\":1}", "request_id holds bad UTF-8 or a lone surrogate", "j"},
	"request_surrogate":   {`{"type":"mcp.response","job_id":"j","request_id":"\uDFFF","payload":1}`, "request_id holds bad UTF-8 or a lone surrogate", "j"},
	"hello_bad_id":        {"{\"type\":\"daemon.hello\",\"daemon_id\":\"\xff\"}", "daemon_id holds bad UTF-8 or a lone surrogate", ""},
}

// Protocol section 1, "Validated first": everything else is ignored, and says why.
func TestDecodeIgnoresTheRest(t *testing.T) {
	d := NewDecoder()
	for name, tt := range refused {
		t.Run(name, func(t *testing.T) {
			want := Frame{Type: Ignored, Bytes: len(tt.msg), JobID: tt.job, Why: tt.why}
			if diff := cmp.Diff(want, d.Decode([]byte(tt.msg))); diff != "" {
				t.Errorf("Decode(%.80s) (-want +got):\n%s", tt.msg, diff)
			}
		})
	}
}

// Protocol section 1: a name may not repeat, however many names there are, and
// counting them does not cost the square of their number (I14).
func TestDecodeSeesRepeatAmongManyNames(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`{"type":"daemon.ping"`)
	for n := range 200_000 {
		b.WriteString(`,"k`)
		for ; n > 0; n /= 10 {
			b.WriteByte(byte('0' + n%10))
		}
		b.WriteString(`":0`)
	}
	d := NewDecoder()
	for i := range 1000 {
		d.env.addUnknown([]byte{'k', byte(i >> 8), byte(i)})
	}
	if n := len(d.env.ends); n > fewNames {
		t.Errorf("of 1,000 names %d are compared one by one", n)
	}
	if f := d.Decode(append(b.Bytes(), '}')); f.Type != DaemonPing {
		t.Errorf("200,000 names, none twice: got %v, %s", f.Type, f.Why)
	}
	if f := d.Decode([]byte(b.String() + `,"k7":0}`)); f.Why != whyRepeat {
		t.Errorf("200,000 names, one twice: got %v, %q", f.Type, f.Why)
	}
}

// The contract of Frame: it owns its memory, and a decoder keeps nothing of one
// message that reaches the next.
func TestDecodeGivesMemoryAway(t *testing.T) {
	d := NewDecoder()
	for name, tt := range accepted {
		msg := []byte(tt.msg)
		f := d.Decode(msg)
		for i := range msg {
			msg[i] = '#'
		}
		d.Decode([]byte(`{"type":"mcp.request","request_id":"other","job_id":"other","payload":"NaN\ud800"}`))
		tt.want.Bytes = len(msg)
		if diff := cmp.Diff(tt.want, f); diff != "" {
			t.Errorf("%s: changed after the message was reused (-want +got):\n%s", name, diff)
		}
		if cap(f.Body) != len(f.Body) {
			t.Errorf("%s: body has %d bytes in room for %d", name, len(f.Body), cap(f.Body))
		}
	}
}

// Ids that are kept for the next frame are not taken for others that are written
// alike: the text of one may be the escape of another.
func TestDecodeTellsIDsApart(t *testing.T) {
	d := NewDecoder()
	for _, job := range []string{`a\\n`, `a\n`, `a\\n`, `a`, `\u0061`, ``, `a\\\\n`, `a\n`} {
		var want string
		if err := json.Unmarshal([]byte(`"`+job+`"`), &want); err != nil {
			t.Fatal(err)
		}
		if f := d.Decode([]byte(`{"type":"run.cancel","job_id":"` + job + `"}`)); f.Type != RunCancel || f.JobID != want {
			t.Errorf("job %s: got %v %q, want %q", job, f.Type, f.JobID, want)
		}
	}
}

// Design section 7, I14: an event costs one allocation, its body, and a decoder
// at rest keeps little of a large message.
func TestDecodeAllocatesTheBodyOnly(t *testing.T) {
	d := NewDecoder()
	msg := AppendEvent(nil, "0123456789abcdef", outputEvent(1000))
	if n := testing.AllocsPerRun(100, func() { d.Decode(msg) }); n > 1 {
		t.Errorf("an event cost %v allocations, want 1", n)
	}
	d.Decode(append([]byte(`{"type":"x","n":NaN,"t":"`), strings.Repeat("\xff", 1<<20)+`"}`...))
	if kept := cap(d.numbers) + cap(d.body) + cap(d.env.names); kept > 3*scratchMax {
		t.Errorf("a decoder at rest keeps %d bytes", kept)
	}
	if d.walk.text != nil || d.env.whole != nil {
		t.Error("a decoder at rest refers to its last message")
	}
}

// A message that is given away is its frame's memory when the body is nearly all
// of it, and only then; the frame is the same as of one that is kept.
func TestDecodeGivenKeepsNearlyFullMessages(t *testing.T) {
	d, kept := NewDecoder(), NewDecoder()
	for _, tt := range []struct {
		name          string
		body, spare   int
		shared, dirty bool
	}{
		{"nearly all", 4000, 1, true, false},
		{"just seven eighths", 7 << 10, 0, true, false},
		{"too much spare memory", 4000, 700, false, false},
		{"a small body", 100, 0, false, false},
		{"mended text", 4000, 1, false, true},
	} {
		body := []byte(`{"text":"` + strings.Repeat("x", tt.body-11) + `"}`)
		if tt.dirty {
			body[20] = 0xff
		}
		msg := AppendEvent(nil, "j", body)
		if tt.name == "just seven eighths" {
			msg = append(msg, bytes.Repeat([]byte(" "), 8<<10-len(msg))...)
		}
		given := append(make([]byte, 0, len(msg)+tt.spare), msg...)
		want := kept.Decode(msg)
		got := d.DecodeGiven(given)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-kept +given):\n%s", tt.name, diff)
		}
		clear(given)
		if shared := !bytes.Equal(got.Body, want.Body); shared != tt.shared {
			t.Errorf("%s: shared memory %t, want %t", tt.name, shared, tt.shared)
		}
		if again := d.Decode(msg); !bytes.Equal(again.Body, want.Body) {
			t.Errorf("%s: then a kept message has body %.40q", tt.name, again.Body)
		}
	}
}
