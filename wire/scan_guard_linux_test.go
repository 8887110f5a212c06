package wire

import (
	"bytes"
	"syscall"
	"testing"
)

// The scanner reads no byte behind its text: here that would be the end of the
// process.
func TestSkipsReadNothingBehindTheText(t *testing.T) {
	page := syscall.Getpagesize()
	pages, err := syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(pages) }()
	if err := syscall.Mprotect(pages[page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	for _, fill := range []string{"p", `\n`, `\\`} {
		for n := range 300 {
			text := pages[page-n : page : page]
			copy(text, bytes.Repeat([]byte(fill), 150+n))
			checkPlain(t, "skipPlain", skipPlain, 16, text)
			checkEscaped(t, "skipEscaped", skipEscaped, text)
			checkPlain(t, "skipPlainWords", skipPlainWords, wordSize, text)
			checkEscaped(t, "skipEscapedWords", skipEscapedWords, text)
			var e envelope
			if e.scan(text) {
				t.Fatalf("certain of %q", text)
			}
		}
	}
}
