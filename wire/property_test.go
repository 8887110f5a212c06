package wire

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// genSpace makes white space as JSON allows it, mostly none.
func genSpace() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n", "\t \r\n"})
}

// genText makes the token of a string: plain text, escapes and pairs.
func genText() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.StringMatching(`[ !#-\[\]-~]{1,8}`),
		rapid.SampledFrom([]string{`\"`, `\\`, `\/`, `\n`, `\u0041`, `\u0000`, `\uD83D\uDE00`, `\ud83d\ude80`, "é", "你好", "🚀", "\uFFFD", "NaN", "-Infinity", `{[`, `]}`, `\\ud800`}),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 6), func(p []string) string { return `"` + strings.Join(p, "") + `"` })
}

// genJSON makes the text of a valid JSON value, repeated names and all.
func genJSON(depth int) *rapid.Generator[string] {
	leaf := rapid.OneOf(
		genText(),
		rapid.SampledFrom([]string{"null", "true", "false", "0", "-0", "1.50", "1e9", "-1E-7", "12345678901234567890"}),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf, genObject(depth), rapid.Custom(func(t *rapid.T) string {
		list := rapid.SliceOfN(genJSON(depth-1), 0, 4).Draw(t, "elements")
		s := genSpace().Draw(t, "space")
		return "[" + s + strings.Join(list, s+","+s) + s + "]"
	}))
}

func genObject(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var list []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			s := genSpace().Draw(t, "space")
			list = append(list, genText().Draw(t, "name")+s+":"+s+genJSON(depth-1).Draw(t, "value"))
		}
		s := genSpace().Draw(t, "space")
		return "{" + s + strings.Join(list, s+","+s) + s + "}"
	})
}

// genSent makes a message and the frame it must become.
func genSent() *rapid.Generator[sentFrame] {
	return rapid.Custom(func(t *rapid.T) sentFrame {
		job, request := rapid.String().Draw(t, "job"), rapid.String().Draw(t, "request")
		object, any := []byte(genObject(2).Draw(t, "object")), []byte(genJSON(3).Draw(t, "any"))
		f := Frame{JobID: job}
		var msg []byte
		switch f.Type = rapid.SampledFrom([]Type{RunEvent, RunFinished, MCPRequest, RunStart, RunCancel, MCPResponse}).Draw(t, "type"); f.Type {
		case RunEvent:
			msg, f.Body = AppendEvent(nil, job, object), object
		case RunFinished:
			msg = AppendFinished(nil, job, genReceipt().Draw(t, "receipt"))
			f.Body = msg
		case MCPRequest:
			msg, f.Body, f.RequestID = AppendRequest(nil, request, job, any), any, request
		case RunStart:
			msg, f.Body = AppendStart(nil, job, object), object
		case RunCancel:
			msg = AppendCancel(nil, job)
		case MCPResponse:
			msg, f.Body, f.RequestID = AppendResponse(nil, request, job, any), any, request
		}
		f.Bytes = len(msg)
		return sentFrame{msg, f}
	})
}

type sentFrame struct {
	msg  []byte
	want Frame
}

func genReceipt() *rapid.Generator[*Receipt] {
	return rapid.Custom(func(t *rapid.T) *Receipt {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		r := &Receipt{
			Mechanism:  rapid.StringMatching(`[a-z+ é]{1,30}`).Draw(t, "mechanism"),
			Signal:     rapid.StringMatching(`(SIG[A-Z]{3,4})?`).Draw(t, "signal"),
			Killed:     int(rapid.Int32Min(0).Draw(t, "killed")),
			Survivors:  int(rapid.Int32Min(0).Draw(t, "survivors")),
			DurationMS: rapid.Int64Min(0).Draw(t, "duration"),
			Weak:       rapid.Bool().Draw(t, "weak"),
		}
		if rapid.Bool().Draw(t, "exited") {
			code := int(rapid.Int32().Draw(t, "exit code"))
			r.ExitCode = &code
		}
		return r
	})
}

// Protocol section 1: what we send is always valid, and what one side says is what
// the other side takes, byte for byte.
func TestFramesRoundTrip(t *testing.T) {
	d := NewDecoder()
	rapid.Check(t, func(t *rapid.T) {
		s := genSent().Draw(t, "sent")
		if diff := cmp.Diff(s.want, d.Decode(s.msg)); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", s.msg, diff)
		}
		space := genSpace().Draw(t, "around")
		s.msg = []byte(space + string(s.msg) + space)
		s.want.Bytes = len(s.msg)
		if diff := cmp.Diff(s.want, d.Decode(s.msg)); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", s.msg, diff)
		}
	})
}

// Protocol section 2: a receipt that goes out comes in.
func TestReceiptRoundTrip(t *testing.T) {
	d := NewDecoder()
	rapid.Check(t, func(t *rapid.T) {
		r := genReceipt().Draw(t, "receipt")
		if diff := cmp.Diff(r, ParseReceipt(d.Decode(AppendFinished(nil, "j", r)))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// Protocol section 3: what a daemon says of itself is what the hub reads.
func TestHelloRoundTrip(t *testing.T) {
	d := NewDecoder()
	rapid.Check(t, func(t *rapid.T) {
		h := Hello{
			DaemonID:   rapid.StringMatching(`[a-zé🚀"\\][a-z .é🚀"\\]{0,80}[a-zé🚀"\\]`).Draw(t, "id"),
			Token:      rapid.String().Draw(t, "token"),
			Protocol:   rapid.String().Draw(t, "protocol"),
			Extensions: genExtensions().Draw(t, "extensions"),
		}
		if rapid.Bool().Draw(t, "with metadata") {
			h.Metadata = []byte(genObject(2).Draw(t, "metadata"))
		}
		got, err := ParseHello(d.Decode(AppendHello(nil, h)))
		if diff := cmp.Diff(h, got); err != nil || diff != "" || got.Token != h.Token {
			t.Fatalf("%v, token %q, want %q (-want +got):\n%s", err, got.Token, h.Token, diff)
		}
		r := Ready{DaemonID: h.DaemonID, Protocol: Protocol, Extensions: h.Extensions}
		ready, err := ParseReady(d.Decode(AppendReady(nil, r)))
		if diff := cmp.Diff(r, ready); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// Protocol section 1: a strict prefix of a frame is never a frame, and names its
// job exactly when the job id is complete in the first 4 KiB.
func TestEveryPrefixIsIgnored(t *testing.T) {
	d := NewDecoder()
	check := func(t interface{ Fatalf(string, ...any) }, msg []byte, job string) {
		head := bytes.Index(msg, []byte(`"job_id":`)) + len(`"job_id":`)
		head += len(appendText(nil, job))
		for n := range len(msg) {
			want := ""
			if job != "" && n >= head && head <= PrefixMax {
				want = job
			}
			if f := d.Decode(msg[:n]); f.Type != Ignored || f.JobID != want || f.Body != nil {
				t.Fatalf("the first %d bytes of %q: %v, job %q; want it ignored, job %q", n, msg, f.Type, f.JobID, want)
			}
		}
	}
	for _, msg := range sent() {
		check(t, msg, d.Decode(msg).JobID)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := genSent().Draw(t, "sent")
		check(t, s.msg, s.want.JobID)
	})
}

// Protocol section 1: text that no peer should send becomes valid, and valid text
// stays as it is.
func TestMendedTextIsAlwaysValid(t *testing.T) {
	d := NewDecoder()
	bad := rapid.SampledFrom([]string{"\xff", "\xc3", "\xed\xa0\x80", `\ud800`, `\udfff`, `\ud83d\ud83d`, "x", "é", `\\`, `\n`, `\ud83d\ude00`})
	rapid.Check(t, func(t *rapid.T) {
		inside := strings.Join(rapid.SliceOf(bad).Draw(t, "pieces"), "")
		f := d.Decode(AppendEvent(nil, "j", []byte(`{"a":"`+inside+`"}`)))
		if f.Type != RunEvent || !utf8.Valid(f.Body) || !clean(f.Body) {
			t.Fatalf("%q became %v %q, %s", inside, f.Type, f.Body, f.Why)
		}
		if clean([]byte(inside)) && string(f.Body) != `{"a":"`+inside+`"}` {
			t.Fatalf("%q became %q", inside, f.Body)
		}
		if _, err := NormalizeObject(f.Body); err != nil {
			t.Fatalf("%q became %q: %v", inside, f.Body, err)
		}
	})
}
