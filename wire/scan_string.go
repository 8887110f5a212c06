package wire

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Eight bytes of a string are looked at as one word, a byte a lane. A test leaves
// its answer in the highest bit of each lane.
const (
	laneLow  = 0x0101010101010101
	laneHigh = 0x80 * laneLow
	wordSize = 8
)

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// special marks the bytes that are more than one plain character of a string:
// control characters, quotes, backslashes, and all that is not ASCII. Above the
// lowest mark others may be wrong, by the borrow of a subtraction.
//
// Turning the bit of value 2 puts the quote just above the control characters and
// leaves those among themselves, so that one comparison finds both. Of what is
// not ASCII each of the two comparisons alone finds all but a few, others each.
func special(x uint64) uint64 {
	low := (x ^ 2*laneLow) - ('"'^2+1)*laneLow
	backslash := (x ^ '\\'*laneLow) - laneLow
	return (low | backslash) & laneHigh
}

// differs marks, in a word that is all ASCII, exactly the lanes that do not hold
// c; what it leaves in the other bits means nothing.
func differs(x uint64, c byte) uint64 { return (x ^ uint64(c)*laneLow) + 0x7f*laneLow }

// gather puts the marks of a word into one byte, the first lane lowest. The
// factor moves the mark of lane k to bit 56+k; no two partial products meet.
func gather(marks uint64) uint64 { return marks * 0x0002040810204081 >> 56 }

// scanString gives the offset after the quote that ends a string whose inside
// begins at i, or a negative one.
func scanString(text []byte, i int) int {
	// Most strings, as names, end within a word.
	if i+wordSize <= len(text) {
		if marks := special(word(text[i:])); marks != 0 {
			if i += bits.TrailingZeros64(marks) / 8; text[i] == '"' {
				return i + 1
			}
		}
	}
	for i >= 0 {
		if i = scanPlain(text, i); i >= len(text) {
			return -1
		}
		switch c := text[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i = scanEscapes(text, i)
		case c >= utf8.RuneSelf:
			i = scanRunes(text, i)
		default:
			return -1
		}
	}
	return -1
}

// scanPlain gives the offset of the first special byte from i on, or the text's
// length.
func scanPlain(text []byte, i int) int {
	// Most strings are short; only after a plain word is it worth more.
	if i+wordSize <= len(text) {
		if marks := special(word(text[i:])); marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
		i += wordSize
		i += skipPlain(text[i:])
	}
	i += skipPlainWords(text[i:])
	for i < len(text) && special(uint64(text[i])|' '*(laneLow-1)) == 0 {
		i++
	}
	return i
}

// skipPlainWords is skipPlain in words: it leaves less than one.
func skipPlainWords(text []byte) int {
	rest := text
	for len(rest) >= wordSize {
		if marks := special(word(rest)); marks != 0 {
			return len(text) - len(rest) + bits.TrailingZeros64(marks)/8
		}
		rest = rest[wordSize:]
	}
	return len(text) - len(rest)
}

// escaped says of each pattern of backslashes in eight bytes which of the bytes
// are the second of an escape sequence, as marks. The index has the first byte's
// backslash in bit 0, and bit 8 set when the first byte is the second of a
// sequence. Bit 0 of the entry says so of the byte after the eighth.
var escaped = func() (table [512]uint64) {
	for pattern := range table {
		second := pattern >> wordSize
		for k := range wordSize {
			table[pattern] |= uint64(second) << (8*k + 7)
			second = pattern >> k & 1 &^ second
		}
		table[pattern] |= uint64(second)
	}
	return table
}()

// scanEscapes goes over text from the backslash at i on, as far as escapes are
// frequent and common. It goes over the sequence at i in any case, or gives a
// negative offset when that is not certain.
func scanEscapes(text []byte, i int) int {
	if i+1 < len(text) && text[i+1] == 'u' {
		return scanEscape(text, i) // a peer that writes one writes many
	}
	if n := skipEscaped(text[i:]); n > 0 {
		return i + n
	}
	if n := skipEscapedWords(text[i:]); n > 0 {
		return i + n
	}
	return scanEscape(text, i)
}

// skipEscapedWords is skipEscaped in words, without a branch for each escape.
func skipEscapedWords(text []byte) int {
	rest, entry, lately := text, uint64(0), uint64(1)
	for len(rest) >= wordSize && lately != 0 {
		x := word(rest)
		noBackslash, noQuote := differs(x, '\\'), differs(x, '"')
		unknown := noBackslash & noQuote & differs(x, 'n') & differs(x, 'r') & differs(x, 't')
		next := escaped[(entry&1)<<wordSize|gather(^noBackslash&laneHigh)]
		// What must not be: no ASCII, or a control character; an unknown escape; a
		// quote that is not escaped. For a control character the subtraction
		// borrows, which is as good as a mark.
		if (x|(x-' '*laneLow)|unknown&next|^noQuote&^next)&laneHigh != 0 {
			break
		}
		entry = next
		lately = lately>>8 | next
		rest = rest[wordSize:]
	}
	return len(text) - len(rest) - int(entry&1)
}

// scanEscape goes over the escape sequence at i, and over those like \u0041 that
// follow at once: some peers send all that is not ASCII so. Half a surrogate
// pair alone is for the strict walk.
func scanEscape(text []byte, i int) int {
	if i+1 >= len(text) {
		return -1
	}
	switch text[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	}
	start := i
	for i+6 <= len(text) && text[i] == '\\' && text[i+1] == 'u' {
		d := text[i+2 : i+6]
		if hexDigits[d[0]]|hexDigits[d[1]]|hexDigits[d[2]]|hexDigits[d[3]] != 1 {
			return -1
		}
		if d[0]|0x20 == 'd' && d[1] >= '8' { // a surrogate
			n, bad := unitLen(text[i:])
			if bad {
				return -1
			}
			i += n
			continue
		}
		i += 6
	}
	if i == start {
		return -1
	}
	return i
}

// hexDigits has 1 for each hexadecimal digit and 2 for all else.
var hexDigits = func() (table [256]byte) {
	for c := range table {
		table[c] = 2
	}
	for _, c := range "0123456789abcdefABCDEF" {
		table[c] = 1
	}
	return table
}()

// scanRunes goes over the characters from i on that are not ASCII, by the table
// of well-formed sequences (Unicode 3.9, table 3-7).
func scanRunes(text []byte, i int) int {
	for i < len(text) && text[i] >= utf8.RuneSelf {
		if c := text[i]; i+wordSize/2 <= len(text) && c != 0xe0 && c != 0xed && c < 0xf0 {
			x := binary.LittleEndian.Uint32(text[i:])
			if c >= 0xe0 && x&0xc0c000 == 0x808000 {
				i += 3
				continue
			}
			if c >= 0xc2 && c < 0xe0 && x&0xc000 == 0x8000 {
				i += 2
				continue
			}
			return -1
		}
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return -1
		}
		i += n
	}
	return i
}
