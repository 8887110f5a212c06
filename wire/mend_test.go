package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mendedEvents are an event as a peer wrote it and as it is passed on.
var mendedEvents = map[string]struct{ in, want string }{
	"nan":              {`{"a":NaN}`, `{"a":null}`},
	"infinities":       {`{"a":[Infinity,-Infinity , NaN]}`, `{"a":[null,null , null]}`},
	"nan_in_text":      {`{"a":NaN,"b":"NaN -Infinity \" NaN"}`, `{"a":null,"b":"NaN -Infinity \" NaN"}`},
	"only_in_text":     {`{"b":"NaN"}`, `{"b":"NaN"}`},
	"in_name":          {`{"NaN":NaN}`, `{"NaN":null}`},
	"others_untouched": {`{"a":NaN, "n":1.50,"id":12345678901234567890}`, `{"a":null, "n":1.50,"id":12345678901234567890}`},
	"high_alone":       {`{"a":"x\ud83dy"}`, `{"a":"x` + "\uFFFD" + `y"}`},
	"low_alone":        {`{"a":"\uDE00"}`, `{"a":"` + "\uFFFD" + `"}`},
	"high_high_low":    {`{"a":"\ud83d\ud83d\ude00"}`, `{"a":"` + "\uFFFD" + `\ud83d\ude00"}`},
	"low_high":         {`{"a":"\ude00\ud83d"}`, `{"a":"` + "\uFFFD\uFFFD" + `"}`},
	"high_then_escape": {`{"a":"\ud83d\u0041\n"}`, `{"a":"` + "\uFFFD" + `\u0041\n"}`},
	"pair_untouched":   {`{"a":"\ud83d\ude00","b":NaN}`, `{"a":"\ud83d\ude00","b":null}`},
	"escaped_slash":    {`{"a":"\\ud83d","b":NaN}`, `{"a":"\\ud83d","b":null}`},
	"bad_byte":         {"{\"a\":\"x\xffy\"}", `{"a":"x` + "\uFFFD" + `y"}`},
	"cut_character":    {"{\"a\":\"d\xc3\"}", `{"a":"d` + "\uFFFD" + `"}`},
	"overlong":         {"{\"a\":\"\xc0\x80\"}", `{"a":"` + "\uFFFD\uFFFD" + `"}`},
	"raw_surrogate":    {"{\"a\":\"\xed\xa0\x80\"}", `{"a":"` + "\uFFFD\uFFFD\uFFFD" + `"}`},
	"bad_name":         {"{\"\xff\":1}", `{"` + "\uFFFD" + `":1}`},
	"good_text_stays":  {"{\"a\":\"\xff\",\"b\":\"dämon 你好 🚀 \uFFFD\"}", `{"a":"` + "\uFFFD" + `","b":"dämon 你好 🚀 ` + "\uFFFD" + `"}`},
	"all_at_once":      {"{\"a\":[NaN,\"\xff\\ud800\",-Infinity]}", `{"a":[null,"` + "\uFFFD\uFFFD" + `",null]}`},
}

// Protocol section 1: bare NaN, Infinity and -Infinity become null, a lone
// surrogate or bad byte becomes U+FFFD, and nothing else changes.
func TestDecodeMendsEvents(t *testing.T) {
	d := NewDecoder()
	for name, tt := range mendedEvents {
		t.Run(name, func(t *testing.T) {
			msg := AppendEvent(nil, "j", []byte(tt.in))
			want := Frame{Type: RunEvent, JobID: "j", Bytes: len(msg), Body: []byte(tt.want)}
			if diff := cmp.Diff(want, d.Decode(msg)); diff != "" {
				t.Errorf("event %q (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

// Protocol section 1: what is mended outside the body hurts nothing, and what a
// whole frame as Body holds is mended too.
func TestDecodeMendsAroundTheBody(t *testing.T) {
	for _, tt := range []struct{ msg, want string }{
		{"{\"x\":\"\xff\",\"y\":NaN,\"type\":\"run.event\",\"job_id\":\"j\",\"event\":{}}", `{}`},
		{"{\"\xff\":1,\"type\":\"run.event\",\"job_id\":\"j\",\"event\":{\"a\":\"é\"}}", `{"a":"é"}`},
		{`{"type":"run.finished","job_id":"j","x":Infinity,"signal":"\ud800"}`, `{"type":"run.finished","job_id":"j","x":null,"signal":"` + "\uFFFD" + `"}`},
		{`{"type":"mcp.request","job_id":"j","request_id":"r","payload":NaN}`, `null`},
	} {
		if f := NewDecoder().Decode([]byte(tt.msg)); string(f.Body) != tt.want || f.JobID != "j" {
			t.Errorf("Decode(%q) = %v, job %q, body %s; want %s", tt.msg, f.Type, f.JobID, f.Body, tt.want)
		}
	}
}

// The promise of Frame.Bytes: mending makes a body at most three times as long as
// the message.
func TestMendedBodyIsAtMostThreeTimesTheMessage(t *testing.T) {
	for _, event := range []string{
		`{"a":"` + strings.Repeat("\xff", 10_000) + `"}`,
		`{"a":[NaN` + strings.Repeat(",NaN", 10_000) + `]}`,
	} {
		msg := AppendEvent(nil, "j", []byte(event))
		f := NewDecoder().Decode(msg)
		if f.Type != RunEvent || len(f.Body) > 3*f.Bytes {
			t.Errorf("%v: body of %d bytes from a message of %d", f.Type, len(f.Body), f.Bytes)
		}
	}
}

// prefixes are beginnings of lost messages and whose they were.
var prefixes = map[string]struct{ msg, job string }{
	"first":            {`{"job_id":"j","event":{"a":"`, "j"},
	"after_others":     {`{"type":"run.event","x":{"y":[1,2]},"job_id":"j","event":{"a":"`, "j"},
	"just_complete":    {`{"job_id":"j"`, "j"},
	"escaped":          {`{"job\u005fid":"\u006a\"","event":{`, `j"`},
	"after_nan":        {`{"x":NaN,"job_id":"j","event":{`, "j"},
	"after_bad_utf8":   {"{\"x\":\"\xff\",\"job_id\":\"j\",\"event\":{", "j"},
	"broken_after":     {`{"job_id":"j"!`, "j"},
	"at_4_KiB":         {`{"x":"` + strings.Repeat("x", PrefixMax-20) + `","job_id":"j"`, "j"},
	"beyond_4_KiB":     {`{"x":"` + strings.Repeat("x", PrefixMax-19) + `","job_id":"j"`, ""},
	"cut_in_string":    {`{"job_id":"j`, ""},
	"cut_in_escape":    {`{"job_id":"j\`, ""},
	"below_top":        {`{"event":{"job_id":"j"},"x":"`, ""},
	"in_open_value":    {`{"event":{"job_id":"j","x":"`, ""},
	"in_text":          {`{"x":"\",\"job_id\":\"j\",","y":"`, ""},
	"as_value":         {`{"x":"job_id","y":"`, ""},
	"wrong_kind":       {`{"job_id":{"job_id":"j"},"x":"`, ""},
	"number":           {`{"job_id":7,"x":"`, ""},
	"twice":            {`{"job_id":"j","job_id":"k","x":"`, ""},
	"twice_wrong_kind": {`{"job_id":"j","job_id":7,"x":"`, ""},
	"bad_text":         {`{"job_id":"\ud800","x":"`, ""},
	"no_object":        {`["job_id","j"`, ""},
	"broken_before":    {`{"x":tru,"job_id":"j","y":"`, ""},
	"deep_before":      {`{"x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `,"job_id":"j"`, ""},
	"empty":            {``, ""},
}

// Protocol section 1, the one exception to "validated first": whose a lost message
// was is read from its first 4 KiB, for an oversize one and for an ignored one
// alike.
func TestLostMessageNamesItsJob(t *testing.T) {
	d := NewDecoder()
	for name, tt := range prefixes {
		t.Run(name, func(t *testing.T) {
			over := d.Oversize([]byte(tt.msg), 9<<20)
			if over.Type != Oversize || over.Bytes != 9<<20 || over.JobID != tt.job || over.Body != nil {
				t.Errorf("Oversize(%.60s…) = %v, %d bytes, job %q; want job %q", tt.msg, over.Type, over.Bytes, over.JobID, tt.job)
			}
			f := d.Decode([]byte(tt.msg))
			if f.Type != Ignored || f.JobID != tt.job {
				t.Errorf("Decode(%.60s…) = %v, job %q; want it ignored, job %q", tt.msg, f.Type, f.JobID, tt.job)
			}
		})
	}
}
