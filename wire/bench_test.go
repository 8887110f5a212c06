package wire

import (
	"bytes"
	"fmt"
	"testing"
)

// outputEvent is an output event of about n bytes, every eighth character of its
// text an escape, as agents' JSON lines are.
func outputEvent(n int) []byte {
	head, tail := []byte(`{"type":"output","data":{"stream":"stdout","text":"`), []byte(`"}}`)
	fill := bytes.Repeat([]byte(`wrote a \"`), n/10+1)
	return append(append(head, fill[:max(n-len(head)-len(tail), 10)/10*10]...), tail...)
}

// The hub's cost of one event: design section 7 allows one allocation, its body.
func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{200, 16 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			msg := AppendEvent(nil, "0123456789abcdef0123456789abcdef", outputEvent(size-70))
			d := NewDecoder()
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				if f := d.Decode(msg); f.Type != RunEvent {
					b.Fatal(f.Why)
				}
			}
		})
	}
}

// A Python peer's frame with NaN costs the second pass.
func BenchmarkDecodeMended(b *testing.B) {
	msg := AppendEvent(nil, "j", append(append([]byte(`{"n":NaN,"e":`), outputEvent(16<<10)...), '}'))
	d := NewDecoder()
	b.SetBytes(int64(len(msg)))
	b.ReportAllocs()
	for b.Loop() {
		if f := d.Decode(msg); f.Type != RunEvent {
			b.Fatal(f.Why)
		}
	}
}
