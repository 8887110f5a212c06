package persist

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// D30: what editors and shells put around a token is no part of it.
func TestReadSecretTrimsWhatEditorsAdd(t *testing.T) {
	for _, text := range []string{
		"tok", "tok\n", "tok\r\n", " tok ", "\ufefftok", "\ufeff tok\n", "\n\ttok\n\n", " \ufefftok",
	} {
		dir := t.TempDir()
		put(t, dir, "token", []byte(text))
		if got, err := ReadSecret(filepath.Join(dir, "token")); err != nil || got != "tok" {
			t.Errorf("ReadSecret of %q = %q, %v; want tok", text, got, err)
		}
	}
}

// D30: an empty file is an error and never an empty token, which would match
// one.
func TestReadSecretRefusesEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "\n", " \r\n\t", "\ufeff", "\ufeff\n"} {
		dir := t.TempDir()
		put(t, dir, "token", []byte(text))
		if got, err := ReadSecret(filepath.Join(dir, "token")); !errors.Is(err, ErrSecretEmpty) || got != "" {
			t.Errorf("ReadSecret of %q = %q, %v; want ErrSecretEmpty", text, got, err)
		}
	}
}

// D30: a file that others may read is refused, and what is in it is never said.
func TestReadSecretRefusesWhatIsNoPrivateFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	put(t, dir, "private", []byte("tok"))
	put(t, dir, "open", []byte("sesame"))
	must(t, os.Chmod(path("open"), 0o640))
	put(t, dir, "huge", []byte(strings.Repeat("sesame", secretBytesMax)))
	must(t, os.Symlink("private", path("link")))
	must(t, os.Symlink("open", path("open_link")))

	if got, err := ReadSecret(path("link")); err != nil || got != "tok" {
		t.Errorf("ReadSecret of a link = %q, %v; want tok", got, err)
	}
	cases := map[string]error{"missing": fs.ErrNotExist, "huge": nil, ".": nil}
	if runtime.GOOS != "windows" {
		cases["open"], cases["open_link"] = ErrSecretOpen, ErrSecretOpen
	}
	for name, want := range cases {
		got, err := ReadSecret(path(name))
		if err == nil || got != "" || want != nil && !errors.Is(err, want) {
			t.Errorf("ReadSecret of %s = %q, %v; want %v", name, got, err, want)
			continue
		}
		if strings.Contains(err.Error(), "sesame") || strings.Count(err.Error(), path(name)) != 1 {
			t.Errorf("the error quotes the secret or does not name the file once: %v", err)
		}
	}
}
