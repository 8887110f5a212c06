package wire

import (
	"bytes"
	"fmt"
	"testing"
)

// scanTexts are what agents send: prose, JSON within JSON as the relay's own
// measurements have it, and text beyond ASCII, plain and as Python escapes it.
var scanTexts = []struct{ name, text string }{
	{"prose", "The quick brown fox jumps over the lazy dog and says so. "},
	{"escapes", `{\"a\":\"b\\n\",\"c\":[1,2]}\n`},
	{"sparse", `wrote a \"`},
	{"tabs", `\tif err != nil {\r\n\t\treturn err\r\n\t}\r\n`},
	{"runes", "敏捷的棕色狐狸跳过了懒狗，"},
	{"python", `\u654f\u6377\u7684\u68d5\u8272, `},
}

// The scanner alone, without the body's copy, and the strict walk that it spares.
func BenchmarkScan(b *testing.B) {
	for _, sample := range scanTexts {
		for _, size := range []int{200, 256 << 10} {
			event := []byte(`{"type":"output","data":{"text":"` + string(bytes.Repeat([]byte(sample.text), 1+size/len(sample.text))) + `"}}`)
			msg := AppendEvent(nil, "0123456789abcdef0123456789abcdef", event)
			b.Run(fmt.Sprintf("%s/%d", sample.name, size), func(b *testing.B) {
				var e envelope
				b.SetBytes(int64(len(msg)))
				b.ReportAllocs()
				for b.Loop() {
					e.reset()
					if !e.scan(msg) {
						b.Fatal("not certain")
					}
				}
			})
		}
	}
}
