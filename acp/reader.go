package acp

import "io"

// readBytes is how much is read at once.
const readBytes = 64 << 10

// readLines gives the lines of an output until it ends, then closes the channel.
// When nobody wants lines any more it reads on, so that the writer is not held up.
func readLines(from io.Reader, lines chan<- line, over <-chan struct{}) {
	wanted := true
	give := func(l line) bool {
		select {
		case lines <- l:
		case <-over:
			wanted = false
		}
		return wanted
	}
	f := framer{limit: LineBytesMax}
	buf := make([]byte, readBytes)
	for {
		n, err := from.Read(buf)
		if wanted {
			f.feed(buf[:n], give)
		}
		if err != nil {
			if wanted {
				f.end(give)
			}
			close(lines)
			return
		}
		if !wanted {
			f.rest = nil
		}
	}
}
