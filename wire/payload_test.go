package wire

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Protocol section 4.2: a caller's payload is one JSON object that may be sent as
// it is, or it is refused with a reason, before anything else happens.
func TestNormalizeObject(t *testing.T) {
	for name, tt := range map[string]struct{ raw, want, why string }{
		"object":         {`{"a":1}`, `{"a":1}`, ""},
		"empty_object":   {`{}`, `{}`, ""},
		"white_space":    {"\n { \"a\" : 1.0 }\t\r\n", `{ "a" : 1.0 }`, ""},
		"repeated_names": {`{"a":1,"a":2}`, `{"a":1,"a":2}`, ""},
		"pair":           {`{"a":"\ud83d\ude00é"}`, `{"a":"\ud83d\ude00é"}`, ""},
		"deepest":        {nest(MaxDepth - 1), nest(MaxDepth - 1), ""},
		"too_deep":       {nest(MaxDepth), "", "not one complete JSON object: nested deeper than 511"},
		"empty":          {"", "", "not one complete JSON object: no JSON object"},
		"null":           {"null", "", "not one complete JSON object: no JSON object"},
		"array":          {"[{}]", "", "not one complete JSON object: no JSON object"},
		"text":           {`"{}"`, "", "not one complete JSON object: no JSON object"},
		"cut":            {`{"a":1`, "", "not one complete JSON object: cut short: the JSON does not end"},
		"two":            {`{}{}`, "", "not one complete JSON object: text after the JSON"},
		"nan":            {`{"a":NaN}`, "", "not one complete JSON object: not JSON near byte 5"},
		"lone_surrogate": {`{"a":"\ud800"}`, "", "not one complete JSON object: bad UTF-8 or a lone surrogate at byte 6"},
		"bad_utf8":       {"{\"a\":\"\xff\"}", "", "not one complete JSON object: bad UTF-8 or a lone surrogate at byte 6"},
		"bad_and_broken": {"{\"a\":\"\xff\",}", "", "not one complete JSON object: not JSON near byte 6"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NormalizeObject([]byte(tt.raw))
			if string(got) != tt.want {
				t.Errorf("NormalizeObject(%.60s) = %.60s, want %.60s", tt.raw, got, tt.want)
			}
			if tt.why == "" && err == nil {
				f := NewDecoder().Decode(AppendStart(nil, "j", got))
				if f.Type != RunStart || string(f.Body) != tt.want {
					t.Errorf("the start with it is %v, %s", f.Type, f.Why)
				}
				return
			}
			if !errors.Is(err, ErrNotObject) || err.Error() != tt.why {
				t.Errorf("NormalizeObject(%.60s): %v, want %s", tt.raw, err, tt.why)
			}
		})
	}
}

// The copy is the caller's no more.
func TestNormalizeObjectCopies(t *testing.T) {
	raw := []byte(`{"a":1}`)
	got, err := NormalizeObject(raw)
	raw[1] = '#'
	if err != nil || string(got) != `{"a":1}` || cap(got) != len(got) {
		t.Errorf("got %s in room for %d, %v", got, cap(got), err)
	}
}

// RFC 6455 section 5.5, case D24: a close reason has at most 123 bytes of UTF-8,
// cut on a character.
func TestCutReason(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"short", "short"},
		{strings.Repeat("a", 123), strings.Repeat("a", 123)},
		{strings.Repeat("a", 124), strings.Repeat("a", 123)},
		{strings.Repeat("é", 200), strings.Repeat("é", 61)},
		{"a" + strings.Repeat("é", 200), "a" + strings.Repeat("é", 61)},
		{strings.Repeat("a", 120) + "🚀", strings.Repeat("a", 120)},
		{strings.Repeat("a", 119) + "🚀", strings.Repeat("a", 119) + "🚀"},
		{"a\xffb", "a\uFFFDb"},
		{strings.Repeat("\xff", 200), "\uFFFD"},
		{strings.Repeat("a\xff", 200), strings.Repeat("a\uFFFD", 30) + "a"},
	} {
		if got := CutReason(tt.in); got != tt.want {
			t.Errorf("CutReason(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		got := CutReason(in)
		if len(got) > MaxReason || !utf8.ValidString(got) || !strings.HasPrefix(strings.ToValidUTF8(in, "\uFFFD"), got) {
			t.Fatalf("CutReason(%q) = %q", in, got)
		}
	})
}
