package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// LineBytesMax is the longest line that counts, in bytes, without its newline. Of a
// longer one an event.dropped tells.
const LineBytesMax = 16 << 20

// readLines gives each line, without its newline, and how long it was; of one above
// limit it gives nil. The text is valid until give returns.
func readLines(from io.Reader, limit int, give func(text []byte, size int)) {
	r := bufio.NewReaderSize(from, 64<<10)
	text, size := []byte{}, 0
	for {
		piece, err := r.ReadSlice('\n')
		whole := err == nil
		piece = bytes.TrimSuffix(piece, []byte("\n"))
		if size += len(piece); size <= limit {
			text = append(text, piece...)
		} else {
			text = nil // its memory, too
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if whole || size > 0 {
			if size > limit {
				give(nil, size)
			} else {
				give(text, size)
			}
			if size > limit {
				text = []byte{}
			}
			text, size = text[:0], 0
		}
		if !whole {
			return
		}
	}
}
