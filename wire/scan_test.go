package wire

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// failer is what a test, a fuzz target and a property have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// scanChecker compares the scanner with the strict walk.
type scanChecker struct {
	strict Decoder
	got    envelope
	whole  Decoder
}

// check fails when the scanner is certain of a message that the strict walk
// refuses or finds another envelope in, and when it is not certain of one that
// the strict walk takes as it is, unless a top-level name has an escape. It
// reports whether the scanner was certain.
func (c *scanChecker) check(t failer, msg []byte) bool {
	t.Helper()
	c.got.reset()
	certain := c.got.scan(msg)
	want := deeper(msg, MaxDepth) < 0 && c.strict.prove(msg, strictJSON) == ""
	if certain != want && (certain || !c.escapedName(msg)) {
		t.Fatalf("%.300q: the scanner says %t, the strict walk %t", msg, certain, want)
	}
	if !certain {
		return false // the strict walk makes the frame
	}
	a, b := c.got.tokens(), c.strict.env.tokens()
	for i := range a {
		if !bytes.Equal(a[i], b[i]) || (a[i] == nil) != (b[i] == nil) {
			t.Fatalf("%.300q: the scanner finds %q, the strict walk %q", msg, a[i], b[i])
		}
	}
	f, g := c.whole.Decode(msg), c.strict.strict(msg)
	same := f.Type == g.Type && f.Bytes == g.Bytes && f.JobID == g.JobID && f.RequestID == g.RequestID && f.Why == g.Why
	if !same || !bytes.Equal(f.Body, g.Body) || (f.Body == nil) != (g.Body == nil) {
		t.Fatalf("%.300q: frames (-strict +decoded):\n%s", msg, cmp.Diff(g, f))
	}
	return true
}

// tokens is all that counts of an envelope.
func (e *envelope) tokens() [7][]byte {
	return [...][]byte{e.typ, e.job, e.request, e.event, e.payload, e.daemon, e.whole}
}

// escapedName says that a message, which is one object, has a top-level name with
// an escape in it.
func (c *scanChecker) escapedName(msg []byte) bool {
	found := false
	err := members(msg, func(name, _ []byte, at int) {
		// The raw name ends before the colon that comes before the value.
		raw := bytes.TrimRight(msg[:at], " \t\r\n:")
		found = found || !bytes.HasSuffix(raw, append(append([]byte{'"'}, name...), '"'))
	})
	return err == nil && found
}

// inEvent puts a value into a frame, as a member of its event.
func inEvent(value string) []byte {
	return []byte(`{"type":"run.event","job_id":"j","event":{"a":` + value + `,"b":1}}`)
}

// each gives every text made of at most n of the pieces.
func each(pieces []string, n int, visit func(string)) {
	var grow func(text string, left int)
	grow = func(text string, left int) {
		visit(text)
		if left == 0 {
			return
		}
		for _, p := range pieces {
			grow(text+p, left-1)
		}
	}
	grow("", n)
}

// RFC 8259 section 6: what is a number, by every text of up to five of the bytes
// that numbers are made of.
func TestScanKnowsEveryShortNumber(t *testing.T) {
	var c scanChecker
	certain := 0
	each(strings.Split("-+.eE019", ""), 5, func(text string) {
		if c.check(t, inEvent(text)) {
			certain++
		}
	})
	if certain < 1000 {
		t.Errorf("certain of %d numbers", certain)
	}
}

// RFC 8259 sections 2 to 5: what is an object and an array, by every short
// sequence of tokens.
func TestScanKnowsEveryShortStructure(t *testing.T) {
	var c scanChecker
	certain := 0
	each([]string{"{", "}", "[", "]", ",", ":", `"a"`, "1", " "}, 5, func(text string) {
		if c.check(t, inEvent(text)) {
			certain++
		}
		c.check(t, []byte(text))
	})
	if certain < 100 {
		t.Errorf("certain of %d values", certain)
	}
}

// RFC 8259 section 7: which quote ends a string, by every short pattern of
// backslashes and quotes, wherever it lies in the scanner's words.
func TestScanKnowsEveryPatternOfEscapes(t *testing.T) {
	var c scanChecker
	each([]string{`\`, `"`, "n", "x"}, 6, func(text string) {
		for _, before := range []string{"", `\n1234`, `\n12345678901`, `\"\"\"\"`} {
			c.check(t, inEvent(`"`+before+text+`1234567890"`))
		}
	})
}

// RFC 8259 section 7 and protocol section 1: every byte, alone, after a
// backslash and before a quote, at every place in the scanner's words and in its
// runs of words.
func TestScanKnowsEveryByteAtEveryPlace(t *testing.T) {
	var c scanChecker
	for b := range 256 {
		for _, lead := range []string{"", `\n`} {
			for _, form := range []string{"", `\`, `\\`} {
				for at := range 43 {
					if at > 17 && at < 37 {
						continue // like the places before, in the run's inner words
					}
					text := lead + strings.Repeat("p", at) + form + string([]byte{byte(b)})
					c.check(t, inEvent(`"`+text+`"`))
					c.check(t, inEvent(`"`+text+strings.Repeat("q", 40)+`"`))
				}
			}
		}
	}
}

// Unicode 3.9, table 3-7: every beginning of two bytes, with what may follow it.
func TestScanKnowsEveryUTF8Sequence(t *testing.T) {
	var c scanChecker
	for lead := 0x80; lead < 0x100; lead++ {
		for second := range 256 {
			for _, rest := range []string{"", "\x80", "\xbf\xbf", "\x80x", "\x80\xc0"} {
				text := string([]byte{byte(lead), byte(second)}) + rest
				if second < ' ' || second == '"' || second == '\\' {
					continue
				}
				if got := c.check(t, inEvent(`"`+text+`"`)); got != utf8.ValidString(text) {
					t.Fatalf("%q: the scanner says %t", text, got)
				}
			}
		}
	}
}

// Protocol section 1: half a surrogate pair is not for the scanner, and hex
// digits are hex digits.
func TestScanKnowsUnicodeEscapes(t *testing.T) {
	var c scanChecker
	pieces := []string{`\u0041`, `\uD83d`, `\ude00`, `\udbFF`, `\udfff`, `\ue000`, `\ud7fF`, `\uDC00`, `\u00g0`, `\u 041`, `\u12`, `\n`, "x"}
	certain := 0
	each(pieces, 4, func(text string) {
		if c.check(t, inEvent(`"`+text+`"`)) {
			certain++
		}
	})
	if certain < 100 {
		t.Errorf("certain of %d texts", certain)
	}
}

// Protocol section 1: 512 levels, the frame's own object among them, are the most.
func TestScanCountsLevels(t *testing.T) {
	var c scanChecker
	for _, pair := range []string{"[]", "{}"} {
		for depth := MaxDepth - 3; depth < MaxDepth+2; depth++ {
			open := pair[:1]
			if open == "{" {
				open = `{"a":`
			}
			value := strings.Repeat(open, depth) + "1" + strings.Repeat(pair[1:], depth)
			msg := []byte(`{"payload":` + value + `}`)
			if got, want := c.check(t, msg), depth < MaxDepth; got != want {
				t.Errorf("%d levels of %s: certain %t, want %t", depth+1, pair, got, want)
			}
		}
	}
}

// The scanner is certain of what peers send: all that stands in the tables of
// this package and what our own side writes.
func TestScanIsCertainOfOrdinaryFrames(t *testing.T) {
	var c scanChecker
	for _, msg := range sent() {
		if !c.check(t, msg) {
			t.Errorf("not certain of %q", msg)
		}
	}
	for _, tt := range accepted {
		c.check(t, []byte(tt.msg))
	}
	for _, tt := range refused {
		if c.check(t, []byte(tt.msg)) && c.whole.Decode([]byte(tt.msg)).Type != Ignored {
			t.Errorf("took %.300q", tt.msg)
		}
	}
	for _, sample := range scanTexts {
		for n := range 60 {
			text := strings.Repeat(sample.text, 1+n/20)
			if msg := inEvent(`"` + strings.Repeat("p", n) + text + `"`); !c.check(t, msg) {
				t.Errorf("not certain of %q", msg)
			}
		}
	}
}

// Protocol section 1: a strict prefix of an object is never an object, wherever
// it was cut.
func TestScanRefusesEveryPrefix(t *testing.T) {
	var e envelope
	refuse := func(t failer, msg []byte) {
		for n := range len(msg) {
			e.reset()
			if e.scan(msg[:n:n]) {
				t.Fatalf("certain of the first %d bytes of %q", n, msg)
			}
		}
	}
	for _, msg := range sent() {
		refuse(t, msg)
	}
	for _, sample := range scanTexts {
		refuse(t, inEvent(`"`+strings.Repeat(sample.text, 5)+`"`))
	}
	rapid.Check(t, func(t *rapid.T) { refuse(t, genSent().Draw(t, "sent").msg) })
}

// The scanner and the strict walk agree on valid objects of any shape, and on
// those with one byte changed, left out or put in.
func TestScanAgreesWithTheStrictWalk(t *testing.T) {
	var c scanChecker
	rapid.Check(t, func(t *rapid.T) {
		msg := []byte(genObject(3).Draw(t, "object"))
		c.check(t, msg)
		at := rapid.IntRange(0, len(msg)-1).Draw(t, "at")
		b := rapid.SampledFrom([]byte("\"\\{}[]:,0-.eutn \x00\x1f\x7f\x80\xc3\xff")).Draw(t, "byte")
		switch rapid.IntRange(0, 2).Draw(t, "change") {
		case 0:
			msg[at] = b
		case 1:
			msg = append(msg[:at], msg[at+1:]...)
		case 2:
			msg = append(msg[:at], append([]byte{b}, msg[at:]...)...)
		}
		c.check(t, msg)
	})
}

// Protocol section 1: an event that begins as the last one did is judged as if it
// were the first, whatever follows the beginning.
func TestSameBeginningChangesNothing(t *testing.T) {
	const beginning = `{"type":"run.event", "x":[1], "job_id":"j\u0041", "event": `
	ends := []string{
		`{}}`, `{"a":1} } `, `{"a":"\n\\"}}`, `{}`, ``, `{`, `{}}}`, `{}},`, `{}}{}`, `{},}`, `{},"event":{}}`, `{},"type":"run.event"}`, `{},"x":1}`,
		`{},"y":1}`, `{},"job_id":"k"}`, `{},"job_\u0069d":"k"}`, `[]}`, `"{}"}`, `null}`, ` {}}`, `{"a":NaN}}`, "{\"a\":\"\xff\"}}", `{"a":"\ud800"}}`,
		`{"a":01}}`, `{"a":1}]`, strings.Repeat(`{"a":`, 511) + `1` + strings.Repeat(`}`, 512), strings.Repeat(`{"a":`, 512) + `1` + strings.Repeat(`}`, 513),
	}
	for _, other := range []string{beginning, strings.Replace(beginning, "j", "k", 2), `{"type":"run.event","event": `, ` ` + beginning} {
		for _, end := range ends {
			d := NewDecoder()
			for _, msg := range []string{beginning + `{"first":1}}`, other + end, beginning + end, other + end, beginning + `{}}`} {
				want, got := new(Decoder).strict([]byte(msg)), d.Decode([]byte(msg))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%.200q after others (-alone +after):\n%s", msg, diff)
				}
			}
		}
	}
}

// Protocol section 1: what the scanner is certain of, the strict walk takes with
// the same envelope, and the frames are the same; what the strict walk takes as
// it is, the scanner is certain of, but for top-level names with escapes.
func FuzzScan(f *testing.F) {
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
	for _, sample := range scanTexts {
		f.Add(inEvent(`"` + strings.Repeat(sample.text, 3) + `"`))
	}
	var c scanChecker
	f.Fuzz(func(t *testing.T, msg []byte) { c.check(t, msg) })
}
