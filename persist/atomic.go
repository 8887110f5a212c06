package persist

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	fileMode   fs.FileMode = 0o600
	folderMode fs.FileMode = 0o700

	// tempPrefix begins the name of every temporary file of ours; sixteen hex
	// digits follow. A start removes what has such a name and nothing else.
	tempPrefix = ".relay-tmp-"
)

// folder is what a durable change needs of a folder. It is small so that tests
// can record the order of its calls and fail each of them.
type folder interface {
	// create makes a new file with exactly these permissions, which it never
	// exceeds, not even at first.
	create(name string, perm fs.FileMode) (tempFile, error)
	// mkdir makes a new folder, 0700.
	mkdir(name string) error
	rename(from, to string) error
	remove(name string) error
	// open gives the handle that syncs a folder, "." or one in it. It is opened
	// before what is to be synced is done: the kernel tells of a failed
	// write-back only those who had the folder open when it failed.
	open(name string) (folderHandle, error)
}

type tempFile interface {
	io.WriteCloser
	Sync() error
}

type folderHandle interface {
	io.Closer
	Sync() error
}

// WriteFileAtomic replaces the file at path with data so that whoever looks, at
// any time and after any crash, finds the old content or the new, and is durable
// on return. The file has the permissions perm (0 means 0600) before anybody can
// open it, whatever the umask. A symbolic link at path is replaced, not
// followed. On an error no temporary file is left, and the old file stays,
// except when only the folder's sync failed. It is safe for concurrent use; the
// last rename wins.
func WriteFileAtomic(path string, data []byte, perm fs.FileMode) error {
	if perm == 0 {
		perm = fileMode
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("persist: write %s: %w", path, err)
	}
	defer root.Close() // nothing was written through this handle
	if err := writeAtomic(rootFolder{root}, filepath.Base(path), data, perm); err != nil {
		return fmt.Errorf("persist: write %s: %w", path, err)
	}
	return nil
}

// unsyncedError: the rename is done, but whether it survives a power cut is not
// known.
type unsyncedError struct{ err error }

func (e *unsyncedError) Error() string { return "sync the folder: " + e.err.Error() }
func (e *unsyncedError) Unwrap() error { return e.err }

// writeAtomic is the one way in which a file of ours comes into being. The order
// is what a power cut cannot break: content, then name, then folder.
func writeAtomic(f folder, name string, data []byte, perm fs.FileMode) error {
	dir, err := f.open(".")
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	defer dir.Close() // only synced through; its error is Sync's
	temp := tempName()
	if err := writeTemp(f, temp, data, perm); err != nil {
		return err
	}
	if err := f.rename(temp, name); err != nil {
		return errors.Join(fmt.Errorf("rename: %w", err), f.remove(temp))
	}
	if err := dir.Sync(); err != nil {
		return &unsyncedError{err}
	}
	return nil
}

// writeTemp leaves a synced file, or none.
func writeTemp(f folder, temp string, data []byte, perm fs.FileMode) error {
	file, err := f.create(temp, perm)
	if err != nil {
		return fmt.Errorf("create a temporary file: %w", err)
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write a temporary file: %w", err), f.remove(temp))
	}
	return nil
}

func tempName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return tempPrefix + hex.EncodeToString(b[:])
}

// isTemp tells whether [tempName] could have made name.
func isTemp(name string) bool {
	digits, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// rootFolder is the real folder. It is held by a descriptor, so a path that is
// pointed elsewhere meanwhile is never written to by mistake.
type rootFolder struct{ root *os.Root }

// openNew makes a file with no more than perm and 0600, from its first moment.
func (r rootFolder) openNew(name string, perm fs.FileMode) (*os.File, error) {
	return r.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode&perm)
}

func (r rootFolder) create(name string, perm fs.FileMode) (tempFile, error) {
	file, err := r.openNew(name, perm)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().Perm() != perm {
		// A umask may have taken more away, and perm may give more than 0600.
		err = file.Chmod(perm)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), r.root.Remove(name))
	}
	return file, nil
}

func (r rootFolder) mkdir(name string) error {
	if err := r.root.Mkdir(name, folderMode); err != nil {
		return err
	}
	return r.root.Chmod(name, folderMode)
}

func (r rootFolder) rename(from, to string) error { return r.root.Rename(from, to) }

func (r rootFolder) remove(name string) error { return r.root.Remove(name) }

func (r rootFolder) open(name string) (folderHandle, error) {
	file, err := r.root.Open(name)
	if err != nil {
		return nil, err
	}
	return syncedFolder{file}, nil
}

type syncedFolder struct{ *os.File }

func (s syncedFolder) Sync() error {
	if err := s.File.Sync(); err != nil && !noFolderSync(err) {
		return err
	}
	return nil
}
