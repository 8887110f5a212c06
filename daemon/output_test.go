package daemon

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// output is an output event as a caller reads it.
type output struct {
	Type string `json:"type"`
	Data struct {
		Stream  string `json:"stream"`
		Text    string `json:"text"`
		Partial bool   `json:"partial"`
	} `json:"data"`
}

func outputOf(t testing.TB, event []byte) output {
	t.Helper()
	var o output
	if err := json.Unmarshal(event, &o); err != nil {
		t.Fatalf("event %.200s: %v", event, err)
	}
	return o
}

func outputText(t testing.TB, event []byte) string { return outputOf(t, event).Data.Text }

type piece struct {
	text    string
	partial bool
}

func cutAll(limit int, chunks ...string) (pieces []piece) {
	c := lineCutter{limit: limit}
	give := func(text []byte, partial bool) { pieces = append(pieces, piece{string(text), partial}) }
	for _, chunk := range chunks {
		c.feed([]byte(chunk), give)
	}
	c.end(give)
	return pieces
}

// docs/exec.md: each line is one event, with its end; a last line without one is
// an event, too.
func TestLinesAreCutAtTheirEnds(t *testing.T) {
	for name, c := range map[string]struct {
		chunks []string
		want   []piece
	}{
		"one":          {[]string{"a\n"}, []piece{{"a\n", false}}},
		"two_in_one":   {[]string{"a\nb\n"}, []piece{{"a\n", false}, {"b\n", false}}},
		"straddling":   {[]string{"a", "b\nc", "\n"}, []piece{{"ab\n", false}, {"c\n", false}}},
		"no_end":       {[]string{"a\nb"}, []piece{{"a\n", false}, {"b", false}}},
		"crlf":         {[]string{"a\r\n\r\n"}, []piece{{"a\r\n", false}, {"\r\n", false}}},
		"lone_cr":      {[]string{"10%\r20%\r"}, []piece{{"10%\r20%\r", false}}},
		"empty_lines":  {[]string{"\n\n"}, []piece{{"\n", false}, {"\n", false}}},
		"just_fits":    {[]string{"1234567\n"}, []piece{{"1234567\n", false}}},
		"one_over":     {[]string{"12345678\n"}, []piece{{"12345678", true}, {"\n", false}}},
		"long":         {[]string{"1234567890", "abcdefghij\nx"}, []piece{{"12345678", true}, {"90abcdef", true}, {"ghij\n", false}, {"x", false}}},
		"long_no_end":  {[]string{"1234567890"}, []piece{{"12345678", true}, {"90", false}}},
		"between_char": {[]string{"123456", "≤≤\n"}, []piece{{"123456", true}, {"≤≤\n", false}}},
		"nothing":      {[]string{""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cutAll(8, c.chunks...); !slices.Equal(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// docs/exec.md: the texts put together are the stream; no text is above the
// limit; a text that is not partial ends a line, or the stream; and no character
// is cut.
func TestTextsPutTogetherAreTheStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(4, 12).Draw(t, "limit")
		stream := rapid.StringOf(rapid.SampledFrom([]rune("ab\n\n\r≤🚀"))).Draw(t, "stream")
		var chunks []string
		for rest := stream; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "read")
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		var all strings.Builder
		pieces := cutAll(limit, chunks...)
		for i, p := range pieces {
			all.WriteString(p.text)
			if len(p.text) > limit || p.text == "" || !utf8.ValidString(p.text) {
				t.Fatalf("piece %q with limit %d", p.text, limit)
			}
			ends := strings.HasSuffix(p.text, "\n") || i == len(pieces)-1
			if p.partial == ends {
				t.Fatalf("piece %d of %+v: partial=%t", i, pieces, p.partial)
			}
		}
		if all.String() != stream {
			t.Fatalf("the pieces %+v are not the stream %q", pieces, stream)
		}
	})
}

// Bytes that are no UTF-8 are cut anywhere, and become U+FFFD.
func TestBadBytesBecomeReplacementCharacters(t *testing.T) {
	bad := strings.Repeat("\x80", 20)
	for _, p := range cutAll(8, bad+"\n") {
		if len(p.text) > 8 {
			t.Errorf("a piece of %d bytes", len(p.text))
		}
	}
	if got, want := outputText(t, outputEvent("stdout", []byte("a\xffb\xf0\x9f\x9a\n"), false)), "a\ufffdb\ufffd\ufffd\ufffd\n"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if got := outputOf(t, outputEvent("stderr", []byte("x"), true)); !got.Data.Partial || got.Data.Stream != "stderr" || got.Type != "output" {
		t.Errorf("the event is %+v", got)
	}
}

func TestTailIsCutBetweenCharacters(t *testing.T) {
	for in, want := range map[string]string{"abc": "abc", "abcdefgh": "efgh", "ab≤cd": "cd", "≤≤": "≤", "\x80\x80\x80\x80\x80\x80": "\x80\x80\x80\x80"} {
		if got := string(tailOf([]byte(in), 4)); got != want {
			t.Errorf("tail of %q is %q, want %q", in, got, want)
		}
	}
	if got := headOf("ab≤cd", 4); got != "ab" {
		t.Errorf("head is %q", got)
	}
}
