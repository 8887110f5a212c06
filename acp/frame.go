package acp

import "bytes"

// LineBytesMax is the longest line of an agent that counts, in bytes, without its
// newline. A longer one is read to its end and thrown away, and the caller gets an
// event.dropped in its place (the mark of protocol section 1): it can be no
// message any more, and what comes after it must not suffer.
const LineBytesMax = 16 << 20

// line is one line of output.
type line struct {
	// text is the line without its newline; nil when it was too long.
	text []byte
	// bytes is how long the line was.
	bytes int
}

// framer cuts a stream into lines, whatever the pieces are in which it comes: a
// character that straddles two reads is whole again in its line.
type framer struct {
	limit int
	rest  []byte // a line that has no end yet, at most limit bytes
	size  int    // how long it is by now; above limit nothing of it is kept
}

// feed takes the next bytes and gives each line that they complete. The text given
// is the receiver's to keep. It stops, and returns false, when give does.
func (f *framer) feed(p []byte, give func(line) bool) bool {
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n')
		if n < 0 {
			f.add(p)
			return true
		}
		f.add(p[:n])
		p = p[n+1:]
		if !give(f.take()) {
			return false
		}
	}
	return true
}

// end gives a last line that has no newline.
func (f *framer) end(give func(line) bool) {
	if f.size > 0 {
		give(f.take())
	}
}

func (f *framer) add(p []byte) {
	f.size += len(p)
	if f.size > f.limit {
		f.rest = nil
		return
	}
	f.rest = append(f.rest, p...)
}

func (f *framer) take() line {
	l := line{text: f.rest, bytes: f.size}
	if f.size <= f.limit && l.text == nil {
		l.text = []byte{}
	}
	f.rest, f.size = nil, 0
	return l
}
