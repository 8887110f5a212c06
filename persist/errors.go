package persist

import (
	"errors"
	"fmt"
	"strings"

	"codingrelay/lease"
)

var (
	// ErrClosed is returned by every method of a store after its Close.
	ErrClosed = errors.New("persist: the store is closed")

	// ErrLockLost is returned by a store whose lock file or folder is no longer
	// the one it locked: somebody removed or replaced it, so another process may
	// own the path by now and nothing more may be written.
	ErrLockLost = errors.New("persist: the state folder or its lock file was removed or replaced while in use: " +
		"stop every process that uses the folder, then start one")

	// ErrKey is returned for a key that is not what [lease.Key] makes.
	ErrKey = errors.New("persist: a key is 64 lower-case hex digits")

	// ErrNotAFile is returned by Save and Remove when something that is no
	// regular file has the record's name. It fences its hash and is left alone.
	ErrNotAFile = errors.New("persist: what has the record's name is no regular file: clear the fence to move it aside")
)

// FolderError says why a folder cannot be used and what to do about it.
type FolderError struct {
	Dir     string
	Problem string // what is wrong, as the predicate of a sentence
	Fix     string // what to do, in the imperative
	Err     error  // the system's error, if there was one
}

func (e *FolderError) Error() string {
	text := fmt.Sprintf("persist: the state folder %s %s", e.Dir, e.Problem)
	if e.Err != nil {
		text += fmt.Sprintf(" (%v)", e.Err)
	}
	return text + ": " + e.Fix
}

func (e *FolderError) Unwrap() error { return e.Err }

// LockedError says that another process uses the folder, and which.
type LockedError struct {
	Dir string
	// Holder is the zero Holder when it could not be found out.
	Holder Holder
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("persist: the state folder %s is in use by %s: "+
		"stop that process, or give this one a folder of its own", e.Dir, e.Holder)
}

// checkKey refuses what [lease.Key] cannot have made.
func checkKey(key string) error {
	if !validKey(key) {
		return fmt.Errorf("%w: %.80q is none", ErrKey, key)
	}
	return nil
}

// validKey tells whether key could have come from [lease.Key]. All names in a
// store are made of keys, so this also keeps separators out of them.
func validKey(key string) bool {
	return len(key) == len(lease.Key("")) && strings.Trim(key, "0123456789abcdef") == ""
}
