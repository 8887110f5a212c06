package transport_test

import (
	"bytes"
	"fmt"
	"testing"

	"codingrelay/transport"
	"codingrelay/wire"
)

// A frame owns its memory (wire.Sink): events that came are not touched by those
// that come later, whatever sizes follow each other, whether the reader had made
// memory of that size or not.
func TestLargeEventsKeepTheirBodies(t *testing.T) {
	sizes := []int{
		300, 100 << 10, 100 << 10, 100<<10 - 1, 100<<10 + 1, 90 << 10, 100 << 10, 200, 100 << 10, 64 << 10, 8 << 10, 8 << 10, 8<<10 - 200, 8 << 10,
		300, 120 << 10, 300, 120 << 10, 300, 120 << 10, 300, 15 << 10, 15 << 10, // fill borrowed memory
		512 << 10, 512 << 10, 512<<10 + 1, 512<<10 + 1, 1 << 20, 1 << 20, 300, 64 << 10, 256 << 10, 256 << 10,
	}
	everyWay(t, transport.Limits{}, func(t *testing.T, hub, daemon end) {
		body := func(i, size int) []byte {
			b := fmt.Appendf(nil, `{"n":%d,"text":"`, i)
			return append(append(b, bytes.Repeat([]byte{byte('a' + i%26)}, size)...), `"}`...)
		}
		var got []wire.Frame // all are looked at after the last has come
		for i, size := range sizes {
			daemon.write(t, wire.AppendEvent(nil, "j", body(i, size)))
			f := hub.sink.frame(t)
			hub.link.Credit(f.Bytes)
			got = append(got, f)
		}
		for i, f := range got {
			if want := body(i, sizes[i]); !bytes.Equal(f.Body, want) {
				t.Errorf("event %d of %d bytes has another body: %.40q…", i, len(want), f.Body)
			}
			if waste := cap(f.Body) - len(f.Body); waste != 0 {
				t.Errorf("event %d of %d bytes could be written to for %d more", i, len(f.Body), waste)
			}
		}
	})
}
