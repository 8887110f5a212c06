package wire

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrNotObject is returned by [NormalizeObject] for a payload that may not be
// sent. The error that wraps it says what is wrong and where.
var ErrNotObject = errors.New("not one complete JSON object")

// NormalizeObject proves a caller's payload before it is put in a frame: it must
// be exactly one JSON object in valid UTF-8, without lone surrogates, nested at
// most [MaxDepth]-1 deep (the frame around it is one level). What comes from a
// caller is refused, not mended: only a caller can say what was meant. The result
// is a copy without the white space around the object, otherwise byte for byte.
func NormalizeObject(raw []byte) ([]byte, error) {
	if deeper(raw, MaxDepth-1) >= 0 {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrNotObject, MaxDepth-1)
	}
	var w walker
	start, err := w.prove(raw, strictJSON)
	if err != nil {
		why := whyBroken(err)
		if at, end := nextBad(raw); at < end {
			if _, err := w.prove(raw, tolerantJSON); err == nil {
				why = fmt.Sprintf("bad UTF-8 or a lone surrogate at byte %d", at)
			}
		}
		return nil, fmt.Errorf("%w: %s", ErrNotObject, why)
	}
	object := raw[start:int(w.dec.InputOffset())]
	return append(make([]byte, 0, len(object)), object...), nil
}

// MaxReason is the longest close reason in bytes (RFC 6455 section 5.5: 125 for a
// control frame, of which the code takes two).
const MaxReason = 123

// CutReason makes a close reason of any text: valid UTF-8 (bad bytes become
// U+FFFD) of at most [MaxReason] bytes, cut between characters.
func CutReason(reason string) string {
	reason = strings.ToValidUTF8(reason, replacement)
	if len(reason) <= MaxReason {
		return reason
	}
	n := MaxReason
	for !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n]
}
