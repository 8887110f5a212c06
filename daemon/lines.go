package daemon

import "bytes"

// LineBytesMax is the longest text of one output event of the exec agent, in
// bytes. A longer line comes in several events; all but its last are marked
// partial.
const LineBytesMax = 256 << 10

// lineCutter cuts one stream into lines. Each keeps its newline, so that the
// texts put together are the stream, byte for byte, whatever its last line ends
// with.
type lineCutter struct {
	limit int
	rest  []byte // a line that has no end yet, at most limit bytes
}

// feed takes the next bytes and gives each line, or piece of a line, that they
// complete. What give gets is valid until it returns.
func (c *lineCutter) feed(p []byte, give func(text []byte, partial bool)) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		if end > 0 && len(c.rest) == 0 && end <= c.limit {
			give(p[:end], false)
			p = p[end:]
			continue
		}
		n := end
		if end == 0 {
			n = len(p)
		}
		c.rest = append(c.rest, p[:n]...)
		p = p[n:]
		done := 0
		for len(c.rest)-done > c.limit {
			k := cutAt(c.rest[done:], c.limit)
			give(c.rest[done:done+k], true)
			done += k
		}
		c.rest = append(c.rest[:0], c.rest[done:]...)
		if end > 0 {
			give(c.rest, false)
			c.rest = c.rest[:0]
		}
	}
}

// end gives a last line that has no newline.
func (c *lineCutter) end(give func(text []byte, partial bool)) {
	if len(c.rest) > 0 {
		give(c.rest, false)
		c.rest = nil
	}
}

// cutAt gives the longest beginning of a text that has at most limit bytes and
// ends between characters. What is no UTF-8 is cut anywhere.
func cutAt(text []byte, limit int) int {
	const longest = 4 // bytes of a character
	for k := limit; k > limit-longest && k > 0; k-- {
		if startsRune(text[k]) {
			return k
		}
	}
	return limit
}
