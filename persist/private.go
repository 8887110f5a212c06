package persist

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// openPrivate makes the folder (and its parents) when it is missing, makes sure
// that only its owner can enter it, and opens it. tightened tells whether it was
// open to others before. Errors are [FolderError].
func openPrivate(dir string) (root *os.Root, abs string, tightened bool, err error) {
	if dir == "" {
		return nil, "", false, &FolderError{Dir: `""`, Problem: "has no name", Fix: "name a folder"}
	}
	if abs, err = filepath.Abs(dir); err != nil {
		return nil, "", false, &FolderError{Dir: dir, Problem: "cannot be found", Fix: "give its full path", Err: err}
	}
	if err := makeFolder(abs, syncPath); err != nil {
		return nil, "", false, err
	}
	if root, err = os.OpenRoot(abs); err != nil {
		return nil, "", false, unreadable(abs, err)
	}
	tightened, err = tighten(root, abs)
	if err == nil {
		// Whoever made the folder may have been killed before this. A parent
		// that may not be read is not ours to sync.
		if err = syncPath(filepath.Dir(abs)); errors.Is(err, fs.ErrPermission) {
			err = nil
		}
		if err != nil {
			err = unreadable(abs, err)
		}
	}
	if err != nil {
		_ = root.Close() // only looked through
		return nil, "", false, err
	}
	return root, abs, tightened, nil
}

func unreadable(dir string, err error) error {
	return &FolderError{
		Dir: dir, Problem: "cannot be read", Err: err,
		Fix: "give the user that runs this the right to read and write it, or choose another folder",
	}
}

// makeFolder is MkdirAll that syncs the parent of each folder it makes: a record
// is only durable when every folder above it is.
func makeFolder(path string, sync func(dir string) error) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &FolderError{Dir: path, Problem: "is not a folder", Fix: "move that file away, or choose another folder"}
	case !errors.Is(err, fs.ErrNotExist):
		return unreadable(path, err)
	}
	parent := filepath.Dir(path)
	if parent == path {
		return unreadable(path, err)
	}
	if err := makeFolder(parent, sync); err != nil {
		return err
	}
	err = os.Mkdir(path, folderMode)
	if err == nil {
		err = os.Chmod(path, folderMode) // a umask may have taken the owner's bits
	} else if info, again := os.Stat(path); again == nil && info.IsDir() {
		err = nil // another process was faster
	}
	if err == nil {
		err = sync(parent)
	}
	if err != nil {
		return &FolderError{
			Dir: path, Problem: "cannot be made", Err: err,
			Fix: "make it by hand (mode 0700) for the user that runs this, or choose another folder",
		}
	}
	return nil
}

// tighten takes everybody else's rights away from a folder that is empty or
// looks like ours. Any other one is refused: chmod on /etc, a home or a shared
// folder, by a mistyped path, would do more harm than not starting.
func tighten(root *os.Root, abs string) (bool, error) {
	info, err := root.Stat(".")
	if err != nil {
		return false, unreadable(abs, err)
	}
	if !loose(info.Mode()) {
		return false, nil
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return false, unreadable(abs, err)
	}
	if !looksOurs(entries) {
		return false, &FolderError{
			Dir: abs, Problem: "is open to other users and holds files that no store made",
			Fix: "choose a folder of its own, or make it private with chmod 700",
		}
	}
	err = root.Chmod(".", folderMode)
	if err == nil {
		if info, err = root.Stat("."); err == nil && loose(info.Mode()) {
			err = errors.New("its file system keeps no permissions")
		}
	}
	if err != nil {
		return false, &FolderError{
			Dir: abs, Problem: "is open to other users and cannot be made private", Err: err,
			Fix: "choose a folder that the user that runs this owns, on a file system with permissions",
		}
	}
	return true, nil
}

// looksOurs: a lock file of ours, or nothing but entries.
func looksOurs(entries []fs.DirEntry) bool {
	for _, e := range entries {
		if e.Name() == lockName && e.Type().IsRegular() {
			return true
		}
	}
	for _, e := range entries {
		if _, _, ok := splitName(e.Name()); !ok {
			return false
		}
	}
	return true
}

func syncPath(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncedFolder{file}.Sync(), file.Close())
}
