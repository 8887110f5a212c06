package control_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"codingrelay/control"
)

// D30: white space, line ends and a byte order mark are no part of a token; an
// empty file never becomes an empty token.
func TestTokenFileIsReadAsItIsMeant(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for content, want := range map[string]string{
		"tok": "tok", "tok\n": "tok", "tok\r\n": "tok", " tok \t": "tok", "\ufefftok\n": "tok", "\n\ntok\n\n": "tok",
		"": "", "\n": "", " \r\n ": "", "\ufeff": "", "two words": "", "a\nb": "", "t\u00f6k": "", "tok\x00": "",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := control.LoadOrCreateToken(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q gives %q, %v; want %q", content, got, err, want)
		}
		if inside := strings.TrimSpace(content); err != nil && inside != "" && strings.Contains(err.Error(), inside) {
			t.Errorf("the error quotes the file: %v", err)
		}
	}
}

// D30: a token file that others can read is refused, and says what to do.
func TestOpenTokenFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("tok"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := control.LoadOrCreateToken(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %o: error is %v, want one that names chmod 600", mode, err)
		}
	}
}

// D30: what a first start makes is private whatever the umask, of 256 random
// bits, the same for the next start, and made once by many at a time.
func TestFirstStartMakesAPrivateToken(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "new", "token")
	tokens := make([]string, 8)
	var group sync.WaitGroup
	for i := range tokens {
		group.Go(func() {
			var err error
			if tokens[i], err = control.LoadOrCreateToken(path); err != nil {
				t.Errorf("start %d: %v", i, err)
			}
		})
	}
	group.Wait()
	last, err := control.LoadOrCreateToken(path)
	if err != nil || !strings.HasPrefix(last, "rly_api_") || len(last) != len("rly_api_")+43 {
		t.Fatalf("token is %q, %v", last, err)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %o", filepath.Base(name), info.Mode(), err, want)
		}
	}
	for i, token := range tokens {
		if token != last {
			t.Errorf("start %d got %q, the file holds %q", i, token, last)
		}
	}
	if a, b := control.NewToken(), control.NewToken(); a == b {
		t.Error("two tokens are the same")
	}
}
