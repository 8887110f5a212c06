package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	errNoObject = errors.New("no JSON object")
	errNoArray  = errors.New("no JSON array")
	errTrailing = errors.New("text after the JSON")
	errTooDeep  = fmt.Errorf("nested deeper than %d", MaxDepth)
)

// Both let names repeat: only the top level forbids it, and that is counted by
// the callers. The first is for text that may be passed on as it is; the second
// takes bad UTF-8 and lone surrogates too, for [mend].
var (
	strictJSON   = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(false)}
	tolerantJSON = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
)

// walker goes over the members of one JSON object and proves the object on the
// way: only after next has returned false with no error is it known to be
// complete and alone. It keeps nothing of a text but a reference, until the next
// open or release.
type walker struct {
	dec  jsontext.Decoder
	buf  bytes.Buffer
	text []byte
	name []byte // scratch for names with escapes
}

// open begins with text's object.
func (w *walker) open(text []byte, options []jsontext.Options) error {
	w.text = text
	// A bytes.Buffer is read in place, so the values are slices of text.
	w.buf = *bytes.NewBuffer(text)
	w.dec.Reset(&w.buf, options...)
	if w.dec.PeekKind() == '{' {
		_, err := w.dec.ReadToken()
		return err
	}
	// The decoder only saw the first token; nothing else need be wrong with it.
	if _, err := w.dec.ReadToken(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return errNoObject
}

// next gives the next member: its name without quotes and escapes, valid until
// the following call, and its value's exact bytes, a slice of the text. It
// returns false at the end of the object or with the error that makes the text
// no object.
func (w *walker) next() (name, value []byte, ok bool, err error) {
	if w.dec.PeekKind() == '}' {
		if _, err = w.dec.ReadToken(); err != nil {
			return nil, nil, false, err
		}
		if _, err = w.dec.ReadToken(); errors.Is(err, io.EOF) {
			return nil, nil, false, nil
		}
		return nil, nil, false, errTrailing
	}
	if name, err = w.read(); err != nil {
		return nil, nil, false, err
	}
	if value, err = w.read(); err != nil {
		return nil, nil, false, err
	}
	return w.unquoteName(name), value, true, nil
}

// prove goes over all of a text's object and gives the offset of its first byte;
// its last is before dec.InputOffset.
func (w *walker) prove(text []byte, options []jsontext.Options) (start int, err error) {
	err = w.open(text, options)
	start = int(w.dec.InputOffset()) - 1
	for more := err == nil; more && err == nil; {
		_, _, more, err = w.next()
	}
	return start, err
}

// read gives the next token or value as a slice of the text. The decoder's own
// slice is promised only until its next read; the offsets hold.
func (w *walker) read() ([]byte, error) {
	v, err := w.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(w.dec.InputOffset())
	return w.text[end-len(v) : end : end], nil
}

func (w *walker) unquoteName(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return quoted[1 : len(quoted)-1]
	}
	// The token is proven; the only errors left are those that a tolerant walk
	// has let through, and they become U+FFFD in a name as they do elsewhere.
	w.name, _ = jsontext.AppendUnquote(w.name[:0], quoted)
	return w.name
}

// release forgets the text, so that a resting walker does not pin it.
func (w *walker) release() {
	w.text = nil
	w.buf = bytes.Buffer{}
	w.dec.Reset(&w.buf, strictJSON...)
}

// members gives each member of the object in text to visit, with the offset of
// its value, and then says whether the text was one complete object; until then
// nothing of it may count.
func members(text []byte, visit func(name, value []byte, offset int)) error {
	return new(walker).members(text, visit)
}

// members does what the function does, with a walker that is used again.
func (w *walker) members(text []byte, visit func(name, value []byte, offset int)) error {
	if deeper(text, MaxDepth) >= 0 {
		return errTooDeep
	}
	err := w.open(text, strictJSON)
	for err == nil {
		var name, value []byte
		var ok bool
		if name, value, ok, err = w.next(); !ok {
			break
		}
		visit(name, value, int(w.dec.InputOffset())-len(value))
	}
	return err
}

// elements gives each element of the array in text to visit, and then says
// whether the text was one complete array; until then nothing of it may count.
// When visit returns false it stops, and the rest of the text is not looked at.
func elements(text []byte, visit func(element []byte) (more bool)) error {
	if deeper(text, MaxDepth) >= 0 {
		return errTooDeep
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), strictJSON...)
	if dec.PeekKind() != '[' {
		return errNoArray
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		element, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if !visit(element) {
			return nil
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

// whyBroken says in a few words what is wrong with a text, without any of the
// text: it may be a hello's, with a token in it.
func whyBroken(err error) string {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut short: the JSON does not end"
	case errors.Is(err, errNoObject), errors.Is(err, errTrailing), errors.Is(err, errTooDeep):
		return err.Error()
	case errors.As(err, &syntax):
		return fmt.Sprintf("not JSON near byte %d", syntax.ByteOffset)
	default:
		return "not JSON"
	}
}

// deeper gives the offset of the first bracket that nests deeper than limit, or
// -1. It needs no valid JSON, only quotes; it comes before the decoder, whose
// recursion it bounds. In valid JSON it is exact.
func deeper(text []byte, limit int) int {
	// Counting is many times faster than looking, and nearly always enough.
	if bytes.Count(text, []byte{'{'})+bytes.Count(text, []byte{'['}) <= limit {
		return -1
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			if depth++; depth > limit {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// skipString gives the offset of the quote that ends the string whose first
// quote is at i, or the text's length.
func skipString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(text)
}

// unquote gives what a JSON string token says; false for any other token.
func unquote(token []byte) (string, bool) {
	if len(token) < 2 || token[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(token, '\\') < 0 {
		return string(token[1 : len(token)-1]), true
	}
	said, err := jsontext.AppendUnquote(nil, token)
	return string(said), err == nil
}
