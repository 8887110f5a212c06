package persist

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"codingrelay/lease"
)

// Load reads the whole folder. It fails only when the folder itself cannot be
// read: whatever an entry is, it fences the hash it is named by, and no other
// (protocol section 6). At most [lease.MaxBytes] of each are looked at.
func (s *Files) Load() ([]lease.Entry, error) {
	keys, err := s.list()
	if err != nil {
		return nil, err
	}
	entries := make([]lease.Entry, 0, len(keys))
	for _, key := range keys {
		e, there, err := s.load(key)
		if err != nil {
			return nil, err
		}
		if there {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// list gives the keys that something in the folder is named by, sorted.
func (s *Files) list() ([]string, error) {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	names, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, unreadable(s.dir, err)
	}
	var keys []string
	for _, n := range names {
		if key, _, ok := splitName(n.Name()); ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// load makes the entry of one key; there is false when it was removed since the
// folder was listed.
func (s *Files) load(key string) (e lease.Entry, there bool, err error) {
	end, err := s.begin(key) // so that no save of ours changes what is read
	if err != nil {
		return lease.Entry{}, false, err
	}
	defer end()
	record, marker := s.find(key+recordExt), s.find(key+markerExt)
	if record == nil && marker == nil {
		return lease.Entry{}, false, nil
	}
	return newEntry(key, record, marker), true, nil
}

// find reads one file; nil when there is none. What cannot be read is described
// instead: nothing in the folder may keep a hub from starting.
func (s *Files) find(name string) *found {
	info, err := s.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &found{name: name, problem: cannotRead(err)}
	}
	f := &found{name: name, mod: info.ModTime(), problem: irregular(info.Mode())}
	if f.problem != "" {
		return f // opening a named pipe would wait for its writer
	}
	if f.data, err = s.read(name, info); err != nil {
		f.problem = cannotRead(err)
		return f
	}
	f.size = info.Size()
	if len(f.data) > lease.MaxBytes {
		f.problem = tooLarge
	}
	return f
}

func (s *Files) read(name string, want fs.FileInfo) ([]byte, error) {
	file, err := s.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(info, want) {
		return nil, errors.New("it was replaced while it was read")
	}
	if loose(info.Mode()) {
		// A Python hub makes its markers 0644.
		if err := file.Chmod(fileMode); err != nil {
			s.log.Warn("an entry is open to other users and cannot be made private", "name", name, "error", err)
		}
	}
	return io.ReadAll(io.LimitReader(file, lease.MaxBytes+1))
}

// cannotRead leaves out the path, which is the reader's business alone, and
// keeps the words the same from one restart to the next.
func cannotRead(err error) string {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return "cannot be read: " + oneLine(err.Error())
}
