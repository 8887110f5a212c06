package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// The bare tokens that Python's json module writes and RFC 8259 does not know.
var (
	notANumber = []byte("NaN")
	infinity   = []byte("Infinity")
)

const (
	null        = "null"
	replacement = "\uFFFD"
)

// mendNumbers appends text with each bare NaN, Infinity and -Infinity outside
// strings as null. It knows no grammar: the result is validated again, and a
// token glued to something else stays as wrong as it was (1NaN becomes 1null).
// It reports whether it changed anything.
func mendNumbers(dst, text []byte) ([]byte, bool) {
	if !bytes.Contains(text, notANumber) && !bytes.Contains(text, infinity) {
		return dst, false
	}
	done, changed := 0, false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i)
			continue
		case 'N', 'I', '-':
		default:
			continue
		}
		n := bareNumber(text[i:])
		if n == 0 {
			continue
		}
		dst = append(append(dst, text[done:i]...), null...)
		done, changed = i+n, true
		i = done - 1
	}
	return append(dst, text[done:]...), changed
}

// bareNumber gives the length of the bare token that text begins with, or 0.
func bareNumber(text []byte) int {
	if bytes.HasPrefix(text, notANumber) {
		return len(notANumber)
	}
	sign := 0
	if text[0] == '-' {
		sign = 1
	}
	if bytes.HasPrefix(text[sign:], infinity) {
		return sign + len(infinity)
	}
	return 0
}

// mendText appends text with each lone surrogate escape and each byte that is
// not UTF-8 as U+FFFD. The text must be JSON to a tolerant decoder: then such
// bytes, and backslashes, are only in strings.
func mendText(dst, text []byte) []byte {
	for {
		start, end := nextBad(text)
		dst = append(dst, text[:start]...)
		if start == end {
			return dst
		}
		dst = append(dst, replacement...)
		text = text[end:]
	}
}

// clean reports whether mendText would change nothing.
func clean(text []byte) bool {
	start, end := nextBad(text)
	return start == end
}

// nextBad finds the first thing that [mendText] replaces; both offsets are the
// text's length when there is none.
func nextBad(text []byte) (start, end int) {
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf && c != '\\' {
			i++
			continue
		}
		n, bad := unitLen(text[i:])
		if bad {
			return i, i + n
		}
		i += n
	}
	return len(text), len(text)
}

// unitLen gives the length of the character or escape sequence that the text
// begins with, both halves of a surrogate pair being one, and whether it is bad:
// a byte that is not UTF-8, or half a pair alone.
func unitLen(text []byte) (n int, bad bool) {
	if text[0] != '\\' {
		r, n := utf8.DecodeRune(text)
		return n, r == utf8.RuneError && n == 1
	}
	r, ok := codeUnit(text)
	if !ok {
		return min(2, len(text)), false
	}
	if !utf16.IsSurrogate(r) {
		return 6, false
	}
	if low, ok := codeUnit(text[6:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
		return 12, false
	}
	return 6, true
}

// codeUnit reads the UTF-16 code unit of a \uXXXX escape.
func codeUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range text[2:6] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
