//go:build unix

package persist

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codingrelay/lease"
)

func init() {
	// umask does all that makes files and folders under the umask it is given,
	// and looks at a file's mode in the moment it comes into being.
	children["umask"] = func(dir string) error {
		var mask int
		if _, err := fmt.Sscanf(os.Getenv("RELAY_PERSIST_UMASK"), "%o", &mask); err != nil {
			return err
		}
		syscall.Umask(mask)
		s, err := Open(filepath.Join(dir, "deep", "hub"), Options{})
		if err != nil {
			return err
		}
		if err := newFilesArePrivate(s); err != nil {
			return err
		}
		if err := errors.Join(s.Save(record("a")), s.Save(record("b"))); err != nil {
			return err
		}
		if _, err := s.Archive(lease.Key("a")); err != nil {
			return err
		}
		secret := filepath.Join(dir, "deep", "token")
		for range 2 { // a rewrite is as private as the first
			if err := WriteFileAtomic(secret, []byte("s"), 0); err != nil {
				return err
			}
		}
		if err := WriteFileAtomic(filepath.Join(dir, "deep", "public"), []byte("s"), 0o644); err != nil {
			return err
		}
		return s.Close()
	}
}

// newFilesArePrivate looks at files in the moment they come into being, before
// their mode is corrected for the umask.
func newFilesArePrivate(s *Files) error {
	for _, perm := range []fs.FileMode{0o600, 0o644, 0o400} {
		file, err := rootFolder{s.root}.openNew("probe", perm)
		if err != nil {
			return err
		}
		info, err := file.Stat()
		if err = errors.Join(err, file.Close(), s.root.Remove("probe")); err != nil {
			return err
		}
		if more := info.Mode().Perm() &^ (perm & 0o600); more != 0 {
			return fmt.Errorf("a file that is to be %v is %v at first", perm, info.Mode().Perm())
		}
	}
	return nil
}

// D30, weakness 38: 0600 and 0700 whatever the umask, one that takes nothing
// away and one that takes everything.
func TestFilesArePrivateUnderAnyUmask(t *testing.T) {
	for _, mask := range []string{"000", "022", "777"} {
		t.Run(mask, func(t *testing.T) {
			dir := t.TempDir()
			c := startChild(t, "umask", dir, "RELAY_PERSIST_UMASK="+mask)
			if err := c.cmd.Wait(); err != nil {
				t.Fatalf("child: %v", err)
			}
			seen := 0
			must(t, filepath.WalkDir(filepath.Join(dir, "deep"), func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				want := fileMode
				if d.IsDir() {
					want = folderMode
				}
				if d.Name() == "public" {
					want = 0o644
				}
				if err != nil || info.Mode().Perm() != want {
					t.Errorf("%s is %v (%v), want %v", path, info.Mode(), err, want)
				}
				seen++
				return nil
			}))
			if seen != 9 { // deep, hub, lock, b, cleared, its subfolder, a in it, token, public
				t.Errorf("%d files and folders were made, want 9", seen)
			}
		})
	}
}

// D30: a looser entry or lock file is tightened, and so is a looser folder of a
// store, which is told; another program's folder is refused and left alone.
func TestLooserFilesAreTightenedOrRefused(t *testing.T) {
	key := lease.Key("a")
	for name, tt := range map[string]struct {
		files   []string
		refused bool
	}{
		"empty":             {nil, false},
		"markers_only":      {[]string{key + markerExt}, false},
		"with_our_lock":     {[]string{lockName, key + recordExt, "notes.txt"}, false},
		"of_something_else": {[]string{key + recordExt, "passwd"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.Chmod(dir, 0o777))
			for _, f := range tt.files {
				put(t, dir, f, nil)
				must(t, os.Chmod(filepath.Join(dir, f), 0o666))
			}
			var log bytes.Buffer
			s, err := Open(dir, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if tt.refused {
				var folder *FolderError
				if !errors.As(err, &folder) || !strings.Contains(err.Error(), "chmod 700") {
					t.Errorf("Open = %v, want a FolderError that says chmod 700", err)
				}
				wantMode(t, dir, 0o777)
				return
			}
			must(t, err)
			defer s.Close()
			load(t, s)
			wantMode(t, dir, folderMode)
			for _, f := range append(tt.files, lockName) {
				if _, _, entry := splitName(f); entry || f == lockName {
					wantMode(t, filepath.Join(dir, f), fileMode)
				}
			}
			if !strings.Contains(log.String(), "was open to other users") {
				t.Errorf("nobody is told: %q", log.String())
			}
		})
	}
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != want {
		t.Errorf("%s is %v (%v), want %v", path, info.Mode(), err, want)
	}
}

// A named pipe under an entry's name fences, and nobody waits for its writer.
func TestNamedPipeFencesWithoutBeingOpened(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	must(t, syscall.Mkfifo(filepath.Join(dir, lease.Key("a")+markerExt), 0o600))
	if e := onlyEntry(t, s); e.Key != lease.Key("a") || !strings.Contains(e.Problem, "special file") {
		t.Errorf("the entry is %+v", e)
	}
}

// A pipe in place of the lock file cannot be locked and must not be waited for.
func TestOpenRefusesAPipeAsLock(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, lockName), 0o600))
	must(t, os.Chmod(dir, 0o700))
	_, err := Open(dir, Options{})
	var folder *FolderError
	if !errors.As(err, &folder) || !strings.Contains(err.Error(), "special file") {
		t.Errorf("Open = %v, want a FolderError", err)
	}
}

// I12: nothing stays open, also after refusals.
func TestNothingStaysOpen(t *testing.T) {
	base := t.TempDir()
	put(t, base, "file", nil)
	held := filepath.Join(base, "held")
	open(t, held)
	cycle := func() {
		s, err := Open(filepath.Join(base, "hub"), Options{})
		must(t, err)
		mustSave(t, s, record("a"), record("a"))
		load(t, s)
		_, err = s.Archive(lease.Key("a"))
		must(t, err)
		must(t, s.Close())
		for _, dir := range []string{filepath.Join(base, "file"), held} {
			if _, err := Open(dir, Options{}); err == nil {
				t.Fatalf("Open(%s) took it", dir)
			}
		}
		must(t, WriteFileAtomic(filepath.Join(base, "f"), []byte("x"), 0))
	}
	cycle()
	before := lowestFree(t)
	for range 20 {
		cycle()
	}
	if after := lowestFree(t); after != before {
		t.Errorf("the lowest free descriptor was %d and is %d now", before, after)
	}
}

// lowestFree is the descriptor the system gives next: it grows with each leak.
func lowestFree(t *testing.T) uintptr {
	t.Helper()
	f, err := os.Open(os.DevNull)
	must(t, err)
	defer f.Close()
	return f.Fd()
}

// In the moment before a new holder writes its name, the lock file can name a
// process that was killed, or nobody: a refused process looks again.
func TestRefusedProcessDoesNotNameADeadHolder(t *testing.T) {
	c := startChild(t, "umask", t.TempDir(), "RELAY_PERSIST_UMASK=077")
	must(t, c.cmd.Wait())
	host, err := os.Hostname()
	must(t, err)
	want := Holder{PID: os.Getpid(), Host: host, Program: "living"}
	reads := []func() (Holder, error){
		func() (Holder, error) { return Holder{PID: c.cmd.Process.Pid, Host: host, Program: "dead"}, nil },
		func() (Holder, error) { return Holder{}, io.ErrUnexpectedEOF },
		func() (Holder, error) { return Holder{}, nil },
		func() (Holder, error) { return want, nil },
	}
	n := 0
	got := awaitHolder(func() (Holder, error) { n++; return reads[n-1]() })
	if got != want || n != len(reads) {
		t.Errorf("after %d looks the holder is %+v, want %+v after %d", n, got, want, len(reads))
	}
	// Of another machine's processes nothing is known here.
	far := Holder{PID: c.cmd.Process.Pid, Host: host + "-other", Program: "far"}
	if got := awaitHolder(func() (Holder, error) { return far, nil }); got != far {
		t.Errorf("the holder is %+v, want %+v", got, far)
	}
}
