package acp

import (
	"errors"
	"strings"
)

var (
	errOpenQuote  = errors.New("a quote is not closed")
	errLoneEscape = errors.New("it ends with a backslash")
)

// splitWords splits a command line by the quoting rules of the POSIX shell (XCU
// 2.2): single quotes, double quotes, backslash. Nothing else of a shell is done:
// a dollar, a star or a semicolon stands for itself.
func splitWords(text string) ([]string, error) {
	var words []string
	word, begun := "", false
	for text != "" {
		i := strings.IndexAny(text, " \t\r\n\\'\"")
		if i < 0 {
			word, begun, text = word+text, true, ""
			break
		}
		if i > 0 {
			word, begun = word+text[:i], true
		}
		mark := text[i]
		text = text[i+1:]
		var part string
		var err error
		switch mark {
		case '\\':
			part, text, err = escaped(text)
		case '\'':
			part, text, err = singleQuoted(text)
		case '"':
			part, text, err = doubleQuoted(text)
		default:
			if begun {
				words = append(words, word)
			}
			word, begun = "", false
			continue
		}
		if err != nil {
			return nil, err
		}
		word, begun = word+part, true
	}
	if begun {
		words = append(words, word)
	}
	return words, nil
}

// escaped gives the character after a backslash; an escaped newline is nothing.
func escaped(text string) (part, rest string, err error) {
	switch {
	case text == "":
		return "", "", errLoneEscape
	case text[0] == '\n':
		return "", text[1:], nil
	}
	return text[:1], text[1:], nil
}

func singleQuoted(text string) (part, rest string, err error) {
	part, rest, closed := strings.Cut(text, "'")
	if !closed {
		return "", "", errOpenQuote
	}
	return part, rest, nil
}

// doubleQuoted gives what stands before the closing quote. A backslash counts
// there only before the characters that would mean something.
func doubleQuoted(text string) (part, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], nil
		case c == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\\n", text[i+1]) >= 0:
			i++
			if text[i] != '\n' {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errOpenQuote
}
