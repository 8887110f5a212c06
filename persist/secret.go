package persist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// secretBytesMax is far above any token.
const secretBytesMax = 64 << 10

var (
	// ErrSecretEmpty is returned by [ReadSecret] for a file without a secret in
	// it. It must never be taken for an empty token, which would match one.
	ErrSecretEmpty = errors.New("the file holds no secret: put the token into it, alone")

	// ErrSecretOpen is returned by [ReadSecret] for a file that others than its
	// owner may read or write.
	ErrSecretOpen = errors.New("the file is open to other users: chmod 600 it, and make a new token, since this one may be known")
)

// ReadSecret reads a token file that a user wrote: white space and a byte order
// mark around the secret are no part of it. The file must be regular (a link to
// one is fine) or a pipe, and nobody but its owner may have rights on it. Errors
// name the file and never quote what is in it.
func ReadSecret(path string) (string, error) {
	secret, err := readSecret(path)
	if err != nil {
		if wrapped := (*fs.PathError)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // the path is said once
		}
		return "", fmt.Errorf("persist: read the secret in %s: %w", path, err)
	}
	return secret, nil
}

func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() // only read
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	mode := info.Mode()
	if !mode.IsRegular() && mode.Type() != fs.ModeNamedPipe {
		return "", errors.New("it is neither a file nor a pipe")
	}
	if loose(mode) {
		return "", ErrSecretOpen
	}
	text, err := io.ReadAll(io.LimitReader(file, secretBytesMax+1))
	if err != nil {
		return "", err
	}
	if len(text) > secretBytesMax {
		return "", fmt.Errorf("it has more than %d bytes: is it the right file?", secretBytesMax)
	}
	secret := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(text)), "\ufeff"))
	if secret == "" {
		return "", ErrSecretEmpty
	}
	return secret, nil
}
