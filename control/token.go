package control

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"codingrelay/persist"
)

const (
	// TokenPrefix begins every API token that [NewToken] makes, so that one that
	// leaked into a text can be found.
	TokenPrefix = "rly_api_"
	// tokenBytes is how much of a token is random: 256 bits.
	tokenBytes = 32
)

// NewToken makes an API token: [TokenPrefix] and 256 random bits.
func NewToken() string {
	var b [tokenBytes]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// LoadOrCreateToken reads the API token in the file at path. When there is no
// file it makes one with a fresh token, 0600 from its first byte on, and the
// folder above it, 0700. White space, line ends and a byte order mark around the
// token are no part of it. A file without a token, or one that other users may
// read or write, is refused: the error says what to do and holds nothing of the
// file's content.
func LoadOrCreateToken(path string) (string, error) {
	token, err := persist.ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		token, err = createToken(path)
	}
	if err != nil {
		return "", fmt.Errorf("control: API token: %w", err)
	}
	if err := usableToken(token); err != nil {
		return "", fmt.Errorf("control: API token in %s: %w", path, err)
	}
	return token, nil
}

func createToken(path string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// The file comes into being whole, private, and once: of two processes that
	// start at the same time, both must know the same token.
	text := []byte(NewToken() + "\n")
	draft := path + "." + rand.Text()
	if err := persist.WriteFileAtomic(draft, text, 0o600); err != nil {
		return "", err
	}
	err := os.Link(draft, path)
	if removed := os.Remove(draft); removed != nil {
		return "", removed
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		// A file system without hard links.
		if err := persist.WriteFileAtomic(path, text, 0o600); err != nil {
			return "", err
		}
	}
	return persist.ReadSecret(path)
}

var errTokenForm = errors.New("a token is 1 to 4096 printable ASCII characters without white space, since it travels in a header; make another one")

// usableToken refuses what cannot be sent as a bearer token (RFC 6750 section
// 2.1 allows less, but tokens come from other programs, too).
func usableToken(token string) error {
	if token == "" || len(token) > 4096 || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errTokenForm
	}
	return nil
}
