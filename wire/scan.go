package wire

import "bytes"

// The scanner proves the usual message in one pass, many bytes at a time, and
// finds its envelope without decoding the payload. It never refuses: it says
// *certainly one JSON object with these members*, or nothing, and then the strict
// walk decides, repairs and gives reasons. So it may be as narrow as suits it,
// but what it accepts, the strict walk accepts with the same envelope.

// scan fills an empty envelope from text, which must be by the strict rules one
// JSON object of at most [MaxDepth] levels without a name repeated at its top
// level. When it returns false that is not certain, and the envelope is spoilt.
func (e *envelope) scan(text []byte) bool {
	i := skipSpace(text, 0)
	if i >= len(text) || text[i] != '{' {
		return false
	}
	start := i
	i = skipSpace(text, i+1)
	if i < len(text) && text[i] == '}' {
		return e.scanned(text, start, i+1)
	}
	for {
		var name, value []byte
		if name, value, i = scanMember(text, i); i < 0 {
			return false
		}
		e.eventAt = 0
		if slot := e.slot(name); slot != nil {
			if *slot != nil {
				return false
			}
			*slot = value
			if slot == &e.event {
				e.eventAt = i - len(value)
			}
		} else if bytes.IndexByte(name, '\\') >= 0 || !e.addUnknown(name) {
			return false
		}
		i = skipSpace(text, i)
		if i >= len(text) {
			return false
		}
		switch text[i] {
		case ',':
			i = skipSpace(text, i+1)
		case '}':
			return e.scanned(text, start, i+1)
		default:
			return false
		}
	}
}

// scanned notes the object's extent, if nothing but white space is after it.
func (e *envelope) scanned(text []byte, start, end int) bool {
	e.whole = text[start:end]
	return skipSpace(text, end) == len(text)
}

// scanMember goes over the member whose name begins at i. The name comes without
// its quotes, its escapes as they are; the end is negative when it is not
// certain.
func scanMember(text []byte, i int) (name, value []byte, end int) {
	if i >= len(text) || text[i] != '"' {
		return nil, nil, -1
	}
	quote := scanString(text, i+1)
	at := scanColon(text, quote)
	if at < 0 {
		return nil, nil, -1
	}
	if end = scanValue(text, at); end < 0 {
		return nil, nil, -1
	}
	return text[i+1 : quote-1], text[at:end:end], end
}

// scanName goes over a name, its colon and the white space about it, and gives
// the offset of the value.
func scanName(text []byte, i int) int {
	if i >= len(text) || text[i] != '"' {
		return -1
	}
	return scanColon(text, scanString(text, i+1))
}

// scanColon goes over what is between a name that ends at i and its value.
func scanColon(text []byte, i int) int {
	if i < 0 {
		return -1
	}
	if i = skipSpace(text, i); i >= len(text) || text[i] != ':' {
		return -1
	}
	return skipSpace(text, i+1)
}

// levels says of each open bracket within a value whether it is an object's.
type levels [MaxDepth / 64]uint64

func (l *levels) set(depth int, object bool) {
	bit := uint64(1) << (depth % 64)
	l[depth/64] &^= bit
	if object {
		l[depth/64] |= bit
	}
}

func (l *levels) object(depth int) bool { return l[depth/64]>>(depth%64)&1 != 0 }

// scanValue gives the offset after the value that begins at i, a member of the
// frame's object, or a negative one.
func scanValue(text []byte, i int) int {
	if i < len(text) && text[i] != '{' && text[i] != '[' {
		return scanScalar(text, i)
	}
	var open levels
	depth := 0 // of the brackets open within the value
	for i < len(text) {
		if c := text[i]; c == '{' || c == '[' {
			// The frame's own object is a level too.
			if depth++; depth >= MaxDepth {
				return -1
			}
			open.set(depth, c == '{')
			i = skipSpace(text, i+1)
			if i < len(text) && text[i] != c+2 { // ASCII: ] and } are two after [ and {
				if c == '{' {
					if i = scanName(text, i); i < 0 {
						return -1
					}
				}
				continue
			}
		} else if i = scanScalar(text, i); i < 0 {
			return -1
		}
		if i, depth = scanAfter(text, i, depth, &open); i < 0 || depth == 0 {
			return i
		}
	}
	return -1
}

// scanAfter goes over what follows a value at that depth: closing brackets, and
// then a comma and perhaps a name. It stops where the next value begins, or,
// with depth 0, after the last bracket.
func scanAfter(text []byte, i, depth int, open *levels) (next, level int) {
	for i = skipSpace(text, i); i < len(text); i = skipSpace(text, i) {
		object := open.object(depth)
		switch c := text[i]; {
		case c == ',' && object:
			return scanName(text, skipSpace(text, i+1)), depth
		case c == ',':
			return skipSpace(text, i+1), depth
		case c == '}' && object, c == ']' && !object:
			i++
			if depth--; depth == 0 {
				return i, 0
			}
		default:
			return -1, depth
		}
	}
	return -1, depth
}

// scanScalar gives the offset after a value that is no object and no array.
func scanScalar(text []byte, i int) int {
	switch c := text[i]; c {
	case '"':
		return scanString(text, i+1)
	case 't':
		return scanWord(text, i, "true")
	case 'f':
		return scanWord(text, i, "false")
	case 'n':
		return scanWord(text, i, null)
	default:
		return scanNumber(text, i)
	}
}

func scanWord(text []byte, i int, word string) int {
	if end := i + len(word); end <= len(text) && string(text[i:end]) == word {
		return end
	}
	return -1
}

// scanNumber goes over a number by the grammar of RFC 8259 section 6.
func scanNumber(text []byte, i int) int {
	if text[i] == '-' {
		i++
	}
	if i < len(text) && text[i] == '0' {
		i++
	} else if i = scanDigits(text, i); i < 0 {
		return -1
	}
	if i < len(text) && text[i] == '.' {
		if i = scanDigits(text, i+1); i < 0 {
			return -1
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		return scanDigits(text, i)
	}
	return i
}

// scanDigits goes over one digit or more.
func scanDigits(text []byte, i int) int {
	start := i
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// skipSpace gives the offset of the first byte from i on that is no white space.
func skipSpace(text []byte, i int) int {
	for i < len(text) && text[i] <= ' ' && isSpace(text[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
