package persist

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codingrelay/lease"
)

func init() {
	// hold keeps a store open until its parent has seen enough.
	children["hold"] = func(dir string) error {
		s, err := Open(dir, Options{Program: "relay serve"})
		if err != nil {
			return err
		}
		untilAsked()
		return s.Close()
	}
	// race tries once, tells what came of it, and keeps what it got.
	children["race"] = func(dir string) error {
		s, err := Open(dir, Options{Program: "racer"})
		if locked := (*LockedError)(nil); errors.As(err, &locked) {
			fmt.Println("locked by", locked.Holder.PID)
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println("holder", os.Getpid())
		untilAsked()
		return s.Close()
	}
}

// Weakness 35: two hubs never share a folder; the second is told who has it and
// what to do, and changes nothing.
func TestSecondProcessIsToldWhoHoldsTheFolder(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, "hold", dir)
	if got := c.line(); got != "ready" {
		t.Fatalf("the first process says %q", got)
	}
	_, err := Open(dir, Options{})
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("Open = %v, want a LockedError", err)
	}
	host, _ := os.Hostname()
	h := locked.Holder
	if h.PID != c.cmd.Process.Pid || h.Program != "relay serve" || h.Host != host || h.Since.IsZero() {
		t.Errorf("holder %+v, want pid %d, relay serve, on %s", h, c.cmd.Process.Pid, host)
	}
	for _, part := range []string{dir, fmt.Sprint("pid ", h.PID), "relay serve", host, "stop that process"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	c.talk.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("the first process: %v", err)
	}
	mustSave(t, open(t, dir), record("a"))
}

// I10 in kind: of any number of processes that start at once one gets the
// folder, and all the others name exactly that one.
func TestOfManyProcessesOneGetsTheFolder(t *testing.T) {
	dir := t.TempDir()
	kids := make([]*child, 6)
	for i := range kids {
		kids[i] = startChild(t, "race", dir)
	}
	holder, refused := "", []string{}
	for _, c := range kids {
		switch word, pid, _ := strings.Cut(c.line(), " "); word {
		case "holder":
			if holder != "" {
				t.Errorf("both %s and %s hold the folder", holder, pid)
			}
			holder = pid
		case "locked":
			refused = append(refused, strings.TrimPrefix(pid, "by "))
		default:
			t.Errorf("a process says %q", word)
		}
	}
	if holder == "" || len(refused) != len(kids)-1 {
		t.Fatalf("holder %q, %d refused", holder, len(refused))
	}
	for _, by := range refused {
		if by != holder {
			t.Errorf("a refused process names %s, the holder is %s", by, holder)
		}
	}
}

// A hub that was killed leaves its name in the lock file, not its lock.
func TestLockOfAKilledProcessIsFree(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, "hold", dir)
	c.line()
	must(t, c.cmd.Process.Kill())
	c.cmd.Wait()
	if text, err := os.ReadFile(filepath.Join(dir, lockName)); err != nil || !bytes.Contains(text, []byte("relay serve")) {
		t.Fatalf("the killed process left %q, %v; this test needs its name there", text, err)
	}
	open(t, dir)
	_, err := Open(dir, Options{})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() || locked.Holder.Program != "test" {
		t.Errorf("Open = %v, want a LockedError that names this process", err)
	}
}

// Whatever a lock file holds, it is only the lock that counts.
func TestStaleLockFileIsOverwritten(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "garbage": "\x00\xff", "long": strings.Repeat("x", 10*holderBytes),
		"other": `{"pid":1,"program":"init","host":"h","since":"2026-01-01T00:00:00Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, lockName, []byte(text))
			l, err := LockDir(dir, "relay\ndaemon "+strings.Repeat("ü", 500))
			if err != nil {
				t.Fatal(err)
			}
			_, err = LockDir(dir, "second")
			var locked *LockedError
			if !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() ||
				!strings.HasPrefix(locked.Holder.Program, "relay?daemon ü") {
				t.Errorf("LockDir = %v, want a LockedError that names this process", err)
			}
			if info, err := os.Stat(filepath.Join(dir, lockName)); err != nil || info.Size() > holderOffset+holderBytes {
				t.Errorf("something of the old content is left: %v, %v", info, err)
			}
			must(t, l.Close())
			must(t, l.Close())
			l, err = LockDir(dir, "third")
			if err != nil {
				t.Fatal(err)
			}
			must(t, l.Close())
		})
	}
}

// A holder that could not write its name (full disk) still holds.
func TestLockWithoutANameIsStillALock(t *testing.T) {
	dir := t.TempDir()
	l, err := LockDir(dir, "first")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	must(t, os.Truncate(filepath.Join(dir, lockName), 0))
	_, err = LockDir(dir, "second")
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != 0 || !strings.Contains(err.Error(), "another process") {
		t.Errorf("LockDir = %v, want a LockedError without a name", err)
	}
}

// The lock file outlives its holder: unlinking it could take the lock from one
// who just got it. Its name is taken out, so nobody else can be taken for it.
func TestLockFileStaysAfterClose(t *testing.T) {
	dir := t.TempDir()
	l, err := LockDir(dir, "first")
	if err != nil {
		t.Fatal(err)
	}
	if l.Dir() != dir {
		t.Errorf("Dir() = %s, want %s", l.Dir(), dir)
	}
	before, err := os.Stat(filepath.Join(dir, lockName))
	must(t, err)
	must(t, l.Close())
	after, err := os.Stat(filepath.Join(dir, lockName))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("after Close the lock file is another one (%v)", err)
	}
	text, _ := os.ReadFile(filepath.Join(dir, lockName))
	if strings.TrimSpace(string(text)) != "" {
		t.Errorf("after Close the lock file says %q", text)
	}
}

// Weakness 36: a folder that cannot be one is known at the start, by name, with
// what to do.
func TestOpenRefusesWhatCannotBeAFolder(t *testing.T) {
	base := t.TempDir()
	put(t, base, "file", nil)
	for _, d := range []string{"linked", "dirlock"} {
		must(t, os.Mkdir(filepath.Join(base, d), 0o700))
	}
	must(t, os.Symlink(filepath.Join(base, "file"), filepath.Join(base, "linked", lockName)))
	must(t, os.Mkdir(filepath.Join(base, "dirlock", lockName), 0o700))
	must(t, os.Symlink(filepath.Join(base, "nowhere"), filepath.Join(base, "dangling")))
	for name, tt := range map[string]struct{ dir, want string }{
		"a_file":           {filepath.Join(base, "file"), "is not a folder"},
		"below_a_file":     {filepath.Join(base, "file", "hub"), ""},
		"no_name":          {"", "has no name"},
		"dangling_link":    {filepath.Join(base, "dangling"), "cannot be made"},
		"name_too_long":    {filepath.Join(base, strings.Repeat("x", 300)), ""},
		"lock_is_a_link":   {filepath.Join(base, "linked"), "symbolic link"},
		"lock_is_a_folder": {filepath.Join(base, "dirlock"), "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(tt.dir, Options{})
			var folder *FolderError
			if !errors.As(err, &folder) {
				t.Fatalf("Open = %v, %v; want a FolderError", s, err)
			}
			if folder.Fix == "" || !strings.Contains(err.Error(), folder.Dir) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q names no folder, no fix or not %q", err, tt.want)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(base, "file")); err != nil || len(text) != 0 {
		t.Errorf("the linked file was written to: %q, %v", text, err)
	}
}

// The names of a store's folder that are no fences: our own are cleaned up or
// known, each other one is told once, none is touched.
func TestOpenSweepsItsTempFilesAndWarnsOfTheRest(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	temp, strange := tempName(), []string{
		"notes.txt", tempPrefix + "x", lease.Key("a") + ".json.bak", strings.ToUpper(lease.Key("a")) + recordExt, ".pending",
		"two\nlines",
	}
	put(t, dir, temp, []byte("half"))
	put(t, dir, lease.Key("a")+recordExt, nil)
	must(t, os.Mkdir(filepath.Join(dir, clearedName), 0o700))
	folder := tempName() // not a file: not ours
	must(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
	for _, name := range strange {
		put(t, dir, name, []byte("mine"))
	}
	var log bytes.Buffer
	s, err := Open(dir, Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	left := strings.Join(names(t, dir), "|")
	if strings.Contains(left, temp) || !strings.Contains(left, folder) {
		t.Errorf("the temporary file is still there, or the folder is not: %s", left)
	}
	for _, name := range strange {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != "mine" {
			t.Errorf("%q was touched: %q, %v", name, got, err)
		}
		if n := strings.Count(log.String(), fmt.Sprintf(`"name":%q`, name)); n != 1 {
			t.Errorf("%q is told %d times, want once:\n%s", name, n, log.String())
		}
	}
	if n := strings.Count(log.String(), `"level":"WARN"`); n != len(strange)+1 {
		t.Errorf("%d warnings, want %d:\n%s", n, len(strange)+1, log.String())
	}
	onlyEntry(t, s)
}
