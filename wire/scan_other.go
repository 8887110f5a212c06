//go:build !amd64

package wire

// skipPlain and skipEscaped need no more than words where there is nothing wider;
// what they may leave is theirs to choose.

func skipPlain(text []byte) int { return skipPlainWords(text) }

func skipEscaped(text []byte) int { return skipEscapedWords(text) }
