package daemon

import (
	"errors"
	"strings"
)

var (
	errOpenQuote  = errors.New("a quote is not closed")
	errLoneEscape = errors.New("it ends with a backslash")
)

// splitWords splits a command line as a POSIX shell does (XCU 2.2, quoting), and
// does nothing else that a shell does: no variables, patterns, operators or
// comments.
func splitWords(line string) ([]string, error) {
	var (
		words []string
		word  strings.Builder
		open  bool // a word has begun, though it may be empty ('')
	)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n', '\r':
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		case '\\':
			if i++; i == len(line) {
				return nil, errLoneEscape
			}
			open = true
			if line[i] != '\n' {
				word.WriteByte(line[i])
			}
		case '\'':
			n := strings.IndexByte(line[i+1:], '\'')
			if n < 0 {
				return nil, errOpenQuote
			}
			word.WriteString(line[i+1 : i+1+n])
			i += n + 1
			open = true
		case '"':
			n, err := doubleQuoted(line[i+1:], &word)
			if err != nil {
				return nil, err
			}
			i += n
			open = true
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if open {
		words = append(words, word.String())
	}
	return words, nil
}

// doubleQuoted reads up to the closing quote and returns how many bytes that
// took, the quote included.
func doubleQuoted(text string, word *strings.Builder) (int, error) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return i + 1, nil
		case '\\':
			if i+1 < len(text) && strings.IndexByte("\"\\$`\n", text[i+1]) >= 0 {
				i++
				if text[i] == '\n' {
					continue
				}
			}
			word.WriteByte(text[i])
		default:
			word.WriteByte(c)
		}
	}
	return 0, errOpenQuote
}
