package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"time"
)

// clearedName is the folder of what operators cleared.
const clearedName = "cleared"

// Archive moves the record and the marker of key, whatever they are, into a
// fresh folder below cleared/ under the names they had: nothing can be
// overwritten there. On an error some may have been moved already; what is left
// still fences, and Archive can be called again. It is durable on return.
func (s *Files) Archive(key string) (string, error) {
	end, err := s.begin(key)
	if err != nil {
		return "", err
	}
	defer end()
	err = s.lock.Check()
	var where string
	if err == nil {
		where, err = s.moveAside(key)
	}
	if err != nil {
		return where, s.failed("clear", key, err)
	}
	return where, nil
}

func (s *Files) moveAside(key string) (string, error) {
	here, err := s.disk.open(".")
	if err != nil {
		return "", err
	}
	defer here.Close() // only synced through; its error is Sync's
	// The marker goes first: should the second move fail, the record, which
	// says more, is what still fences.
	var names []string
	for _, ext := range []string{markerExt, recordExt} {
		_, err := s.root.Lstat(key + ext)
		if err == nil {
			names = append(names, key+ext)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	if len(names) == 0 {
		// An earlier try may have moved them and failed to sync.
		return "", here.Sync()
	}
	sub, there, err := s.newCleared(key)
	if err != nil {
		return "", err
	}
	defer there.Close() // as above
	where := filepath.Join(s.dir, filepath.FromSlash(sub))
	for i, name := range names {
		if err := s.disk.rename(name, path.Join(sub, name)); err != nil {
			if i > 0 {
				return where, err
			}
			return "", errors.Join(err, s.disk.remove(sub))
		}
	}
	// The new place is synced before the old one: a power cut between the two
	// may show an entry twice, never not at all.
	if err := there.Sync(); err != nil {
		return where, errors.Join(err, s.moveBack(sub, names))
	}
	return where, here.Sync()
}

// moveBack undoes a clear whose new place may not survive.
func (s *Files) moveBack(sub string, names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, s.disk.rename(path.Join(sub, name), name))
	}
	return errors.Join(errs...)
}

// newCleared makes a folder that nobody else uses, and opens it.
func (s *Files) newCleared(key string) (string, folderHandle, error) {
	err := s.disk.mkdir(clearedName)
	if errors.Is(err, fs.ErrExist) {
		err = s.isFolder(clearedName)
	} else if err == nil {
		err = s.sync(".")
	}
	if err != nil {
		return "", nil, err
	}
	sub := path.Join(clearedName, fmt.Sprintf("%s-%s-%s",
		time.Now().UTC().Format("20060102T150405Z"), key[:12], tempName()[len(tempPrefix):]))
	if err := s.disk.mkdir(sub); err != nil {
		return "", nil, err
	}
	if err := s.sync(clearedName); err != nil {
		return "", nil, errors.Join(err, s.disk.remove(sub))
	}
	there, err := s.disk.open(sub)
	if err != nil {
		return "", nil, errors.Join(err, s.disk.remove(sub))
	}
	return sub, there, nil
}

func (s *Files) isFolder(name string) error {
	info, err := s.root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s in it is no folder: move it away", name)
	}
	return nil
}

func (s *Files) sync(name string) error {
	dir, err := s.disk.open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
