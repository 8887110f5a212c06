package acp

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func unmarshal(b []byte, v any) error { return json.Unmarshal(b, v) }

// framed cuts a stream that comes in pieces of these sizes, in turn.
func framed(stream []byte, limit int, sizes []byte) []line {
	f := framer{limit: limit}
	var out []line
	give := func(l line) bool { out = append(out, l); return true }
	for i := 0; len(stream) > 0; i++ {
		n := len(stream)
		if len(sizes) > 0 {
			n = min(int(sizes[i%len(sizes)])+1, n)
		}
		// A reader's buffer is used again: nothing given may point into it.
		piece := bytes.Clone(stream[:n])
		f.feed(piece, give)
		clear(piece)
		stream = stream[n:]
	}
	f.end(give)
	return out
}

// Cases D11, D13: lines do not depend on the pieces in which they come; a line above
// the limit is counted and gone, its neighbours stay.
func FuzzFramer(f *testing.F) {
	f.Add([]byte("a\n\nb≤\xff\nlast"), []byte{0, 2}, byte(3))
	f.Add([]byte(strings.Repeat("x", 300)+"\ny\n"), []byte{63}, byte(255))
	f.Add([]byte("12345\n1234\n123456"), []byte{}, byte(5))
	f.Fuzz(func(t *testing.T, stream, sizes []byte, limit byte) {
		var want []line
		rest := stream
		for len(rest) > 0 {
			text, after, _ := bytes.Cut(rest, []byte("\n"))
			l := line{text: text, bytes: len(text)}
			if len(text) > int(limit) {
				l.text = nil
			}
			want = append(want, l)
			rest = after
		}
		got := framed(stream, int(limit), sizes)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(line{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q by %v, limit %d (-want +got):\n%s", stream, sizes, limit, diff)
		}
		for i, l := range got {
			if (l.text == nil) != (l.bytes > int(limit)) {
				t.Errorf("line %d: text %q of %d bytes, limit %d", i, l.text, l.bytes, limit)
			}
		}
	})
}

// A line that is too long costs no memory beyond the limit.
func TestTooLongLineIsNotKept(t *testing.T) {
	f := framer{limit: 1 << 10}
	piece := bytes.Repeat([]byte("x"), 1<<10)
	for range 100 {
		f.feed(piece, func(line) bool { t.Error("a line"); return true })
		if cap(f.rest) > 4<<10 {
			t.Fatalf("%d bytes are kept", cap(f.rest))
		}
	}
	f.feed([]byte("\n"), func(l line) bool {
		if l.text != nil || l.bytes != 100<<10 {
			t.Errorf("got %+v", l)
		}
		return true
	})
}

// JSON-RPC 2.0 sections 4 and 5; cases D12: what is a message, and what is noise.
func TestMessagesAreToldFromNoise(t *testing.T) {
	for text, want := range map[string]bool{
		`{"jsonrpc":"2.0","method":"x"}`:         true,
		` {"method":"x","id":1} `:                true,
		`{"id":1,"result":null}`:                 true,
		`{"id":"a","error":{"code":1}}`:          true,
		`{"method":"x","method":"y"}`:            true,
		"{\"method\":\"x\xff\"}":                 true,
		`{"id":1}`:                               false,
		`{"id":null,"result":1}`:                 false,
		`{"method":1}`:                           false,
		`{"method":null}`:                        false,
		`{"result":1}`:                           false,
		`{"level":"info"}`:                       false,
		`[]`:                                     false,
		`null`:                                   false,
		`"text"`:                                 false,
		``:                                       false,
		"\t":                                     false,
		`{`:                                      false,
		`{"method":"x"} trailing`:                false,
		`{"method":"x"}{"method":"y"}`:           false,
		"\x1b[33mwarn\x1b[0m {\"method\":\"x\"}": false,
		`{"method":` + strings.Repeat("[", 20000): false,
	} {
		if _, err := parseMessage([]byte(text)); (err == nil) != want {
			t.Errorf("%.60q: message %t, want %t", text, err == nil, want)
		}
	}
}
