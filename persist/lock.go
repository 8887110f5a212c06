package persist

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"
)

const (
	lockName = "lock"

	// holderBytes is the size of the holder's name in the lock file. It is
	// written in one piece of always this size: a reader never sees the tail of
	// an older name.
	holderBytes = 1024

	// holderWait bounds how long a refused process waits for the name of the
	// one that was faster, which writes it right after it got the lock.
	holderWait  = time.Second
	holderPause = 5 * time.Millisecond
)

// Holder says which process holds a lock.
type Holder struct {
	PID int `json:"pid"`
	// Since is when it took the lock, UTC.
	Since   time.Time `json:"since"`
	Host    string    `json:"host"`
	Program string    `json:"program"`
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "another process (it could not be found out which)"
	}
	return fmt.Sprintf("%s (pid %d on %s, since %s)", h.Program, h.PID, h.Host, h.Since.Format(time.RFC3339))
}

// Lock is the exclusive right to a folder. The system takes it back when the
// process ends, however it ends. Safe for concurrent use.
type Lock struct {
	dir       string
	root      *os.Root
	flock     *flock.Flock
	info      fs.FileInfo // of the lock file that is locked
	tightened bool
	swept     []string // the temporary files that were removed

	once  sync.Once
	ended error
}

// LockDir makes the folder private (0700, made when it is missing, see the
// package comment), takes its lock, writes into it who holds it, and removes
// what cut-short writes left there. program is the name that another process is
// told; it must hold no secret. The error is a [*LockedError] when another
// process, or this one, holds the lock, else a [*FolderError].
func LockDir(dir, program string) (*Lock, error) {
	root, abs, tightened, err := openPrivate(dir)
	if err != nil {
		return nil, err
	}
	l := &Lock{dir: abs, root: root, tightened: tightened}
	if err := l.take(program); err != nil {
		_ = root.Close() // only looked through
		return nil, err
	}
	return l, nil
}

// Dir is the folder's full path.
func (l *Lock) Dir() string { return l.dir }

// Check tells whether the path still leads to the lock that is held: it returns
// [ErrLockLost] when the folder or the lock file was removed or replaced.
func (l *Lock) Check() error {
	info, err := os.Lstat(filepath.Join(l.dir, lockName))
	switch {
	case err == nil && os.SameFile(info, l.info):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("persist: look at the lock: %w", err)
	}
	return fmt.Errorf("%w (%s)", ErrLockLost, l.dir)
}

// Close gives the folder back. The lock file stays: removing it could take the
// lock from a process that just got it. Closing again does nothing.
func (l *Lock) Close() error {
	l.once.Do(func() {
		// Without the name a later holder cannot be taken for this one. That it
		// fails must not keep the lock.
		_ = l.writeHolder(Holder{})
		l.ended = errors.Join(l.flock.Close(), l.root.Close())
	})
	return l.ended
}

func (l *Lock) take(program string) error {
	fail := func(err error) error {
		return &FolderError{
			Dir: l.dir, Problem: "cannot be locked", Err: err,
			Fix: "see that " + lockName + " in it is a plain file that this user may write, on a file system " +
				"that is writable and knows locks, or choose another folder",
		}
	}
	if info, err := l.root.Lstat(lockName); err == nil && !info.Mode().IsRegular() {
		return fail(fmt.Errorf("%s %s", lockName, irregular(info.Mode())))
	}
	l.flock = flock.New(filepath.Join(l.dir, lockName),
		flock.SetFlag(os.O_CREATE|os.O_RDWR|noFollow), flock.SetPermissions(fileMode))
	got, err := l.flock.TryLock()
	if err != nil {
		return fail(err)
	}
	if !got {
		return &LockedError{Dir: l.dir, Holder: awaitHolder(func() (Holder, error) { return readHolder(l.root) })}
	}
	if err := l.settle(); err != nil {
		_ = l.flock.Close() // err is what counts
		return fail(err)
	}
	// A full disk must not keep a hub from reading its fences, so the name may
	// be missing.
	host, _ := os.Hostname()
	_ = l.writeHolder(Holder{PID: os.Getpid(), Since: time.Now().UTC(), Host: host, Program: program})
	return nil
}

// settle makes sure that what was locked is the file that is seen through the
// folder's descriptor and through its path, and cleans up after the last holder.
func (l *Lock) settle() error {
	var err error
	if l.info, err = l.flock.Stat(); err != nil {
		return err
	}
	seen, err := l.root.Lstat(lockName)
	if err != nil {
		return err
	}
	if !os.SameFile(seen, l.info) {
		return ErrLockLost
	}
	if err := l.Check(); err != nil {
		return err
	}
	if l.info.Mode().Perm() != fileMode {
		if err := l.root.Chmod(lockName, fileMode); err != nil {
			return err
		}
	}
	if err := l.probe(); err != nil {
		return err
	}
	return l.sweep()
}

// probe tells whether files can be made here: a hub that cannot save a lease
// should not start. A full disk is another matter, it may have room later.
func (l *Lock) probe() error {
	name := tempName()
	file, err := rootFolder{l.root}.openNew(name, fileMode)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		return nil
	}
	return errors.Join(file.Close(), l.root.Remove(name))
}

// writeHolder overwrites whatever the lock file says. The zero Holder erases.
func (l *Lock) writeHolder(h Holder) error {
	var text []byte
	if h.PID != 0 {
		h.Host, h.Program = short(h.Host), short(h.Program)
		var err error
		if text, err = json.Marshal(h); err != nil {
			return err
		}
	}
	block := bytes.Repeat([]byte{' '}, holderBytes)
	copy(block, text)
	block[holderBytes-1] = '\n'
	file, err := l.root.OpenFile(lockName, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(block, holderOffset)
	if err == nil {
		err = file.Truncate(holderOffset + holderBytes)
	}
	return errors.Join(err, file.Close())
}

// short bounds a name so that any two fit into holderBytes, and keeps it valid
// JSON text on one line.
func short(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == '\u007f' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// awaitHolder reads who holds the lock. Between getting the lock and writing
// the name lies a moment in which the file is empty or names a process that was
// killed; such a name is looked at again until holderWait is over.
func awaitHolder(read func() (Holder, error)) Holder {
	here, _ := os.Hostname()
	for end := time.Now().Add(holderWait); ; time.Sleep(holderPause) {
		h, err := read()
		if err == nil && h.PID != 0 && (h.Host != here || alive(h.PID)) || time.Now().After(end) {
			return h
		}
	}
}

func readHolder(root *os.Root) (Holder, error) {
	file, err := root.Open(lockName)
	if err != nil {
		return Holder{}, err
	}
	defer file.Close() // only read
	text, err := io.ReadAll(io.NewSectionReader(file, holderOffset, holderBytes))
	if err != nil {
		return Holder{}, err
	}
	var h Holder
	if err := json.Unmarshal(bytes.TrimSpace(text), &h); err != nil {
		return Holder{}, err
	}
	return h, nil
}

// sweep removes the temporary files of writers that were killed. The lock is
// held, so no writer of such a file lives.
func (l *Lock) sweep() error {
	entries, err := fs.ReadDir(l.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isTemp(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if err := l.root.Remove(e.Name()); err != nil {
			continue // it hurts nobody
		}
		l.swept = append(l.swept, e.Name())
	}
	return nil
}
