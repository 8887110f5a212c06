package wire

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// isPlain says of one byte what [special] says of eight.
func isPlain(c byte) bool { return c >= ' ' && c < 0x80 && c != '"' && c != '\\' }

// checkPlain fails unless skip gives the place of the first special byte, or of a
// tail without one that is shorter than a block.
func checkPlain(t failer, name string, skip func([]byte) int, block int, text []byte) {
	t.Helper()
	n := skip(text)
	if n < 0 || n > len(text) {
		t.Fatalf("%s(%q) = %d", name, text, n)
	}
	for i, c := range text[:n] {
		if !isPlain(c) {
			t.Fatalf("%s(%q) = %d goes over byte %d", name, text, n, i)
		}
	}
	if len(text)-n >= block && isPlain(text[n]) {
		t.Fatalf("%s(%q) = %d stops at a plain byte", name, text, n)
	}
}

// checkEscaped fails unless skip stops between two characters, all of them plain
// or one of the escapes of a letter.
func checkEscaped(t failer, name string, skip func([]byte) int, text []byte) {
	t.Helper()
	n := skip(text)
	i := 0
	for i < n {
		switch {
		case text[i] == '\\' && i+1 < len(text) && strings.IndexByte(`"\nrt`, text[i+1]) >= 0:
			i += 2
		case isPlain(text[i]):
			i++
		default:
			t.Fatalf("%s(%q) = %d goes over byte %d", name, text, n, i)
		}
	}
	if i != n {
		t.Fatalf("%s(%q) = %d stops within a sequence", name, text, n)
	}
}

// checkSkips checks both widths, and that nothing behind the text counts.
func checkSkips(t failer, text []byte) {
	t.Helper()
	checkPlain(t, "skipPlain", skipPlain, 16, text)
	checkPlain(t, "skipPlainWords", skipPlainWords, wordSize, text)
	checkEscaped(t, "skipEscaped", skipEscaped, text)
	checkEscaped(t, "skipEscapedWords", skipEscapedWords, text)
	for _, behind := range []string{strings.Repeat("p", 70), strings.Repeat(`\n`, 35), strings.Repeat("\x00", 70)} {
		longer := append(bytes.Clone(text), behind...)
		if a, b := skipPlain(text), skipPlain(longer[:len(text)]); a != b {
			t.Fatalf("skipPlain(%q) = %d, with %q behind it %d", text, a, behind[:1], b)
		}
		if a, b := skipEscaped(text), skipEscaped(longer[:len(text)]); a != b {
			t.Fatalf("skipEscaped(%q) = %d, with %q behind it %d", text, a, behind[:1], b)
		}
	}
}

// RFC 8259 section 7: every byte, alone and after a backslash, at every place of
// the scanner's blocks, among plain bytes and among escapes.
func TestSkipsStopAtEveryByteAtEveryPlace(t *testing.T) {
	for b := range 256 {
		for at := range 131 {
			for _, fill := range []string{"p", `\n`, `\\`} {
				text := bytes.Repeat([]byte(fill), 160/len(fill))
				text[at] = byte(b)
				checkPlain(t, "skipPlain", skipPlain, 16, text)
				checkPlain(t, "skipPlainWords", skipPlainWords, wordSize, text)
				checkEscaped(t, "skipEscaped", skipEscaped, text)
				checkEscaped(t, "skipEscapedWords", skipEscapedWords, text)
			}
		}
	}
}

// RFC 8259 section 7: every short pattern of backslashes and quotes, about every
// border of the scanner's blocks.
func TestSkipsKnowEveryPatternOfEscapes(t *testing.T) {
	var tail [64]byte
	for i := range tail {
		tail[i] = 'p'
	}
	each([]string{`\`, `"`, "n", "x"}, 5, func(pattern string) {
		for _, at := range []int{0, 2, 4, 5, 6, 7, 12, 13, 14, 15, 28, 29, 30, 31, 60, 61, 62, 63} {
			text := append([]byte(strings.Repeat(`\n`, at/2)+strings.Repeat("p", at%2)+pattern), tail[:]...)
			checkEscaped(t, "skipEscaped", skipEscaped, text)
			checkEscaped(t, "skipEscapedWords", skipEscapedWords, text)
		}
	})
}

// Nothing behind a text counts, and any text of common and uncommon pieces is
// gone over right.
func TestSkipsAgreeWithSingleBytes(t *testing.T) {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
		"p", "pppppppp", "pppppppppppppppp", `\n`, `\"`, `\\`, `\\\\`, `\t\r`, `"`, `\`, `\u0041`, `\x`, "é", "\x1f", " ", "\x7f", "\x80", "\xff",
	}), 0, 40)
	rapid.Check(t, func(t *rapid.T) { checkSkips(t, []byte(strings.Join(pieces.Draw(t, "pieces"), ""))) })
}

// Long runs are gone over, not left to the slow way.
func TestSkipsGoOverWhatIsCommon(t *testing.T) {
	for _, piece := range []string{`\n`, `\\`, `\"a\",`, `ab\tcd`} {
		text := []byte(piece + strings.Repeat(piece, 100))
		for name, skip := range map[string]func([]byte) int{"skipEscaped": skipEscaped, "skipEscapedWords": skipEscapedWords} {
			if n := skip(text); n < len(text)-33 {
				t.Errorf("%s goes over %d of %d bytes of %q", name, n, len(text), piece)
			}
		}
	}
	prose := bytes.Repeat([]byte("plain "), 100)
	if n := skipPlain(prose); n < len(prose)-15 {
		t.Errorf("skipPlain goes over %d of %d bytes", n, len(prose))
	}
}
