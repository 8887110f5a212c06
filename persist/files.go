package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"codingrelay/lease"
)

// Store is what [Files], [Memory] and [Faulty] have in common. All methods are
// safe for concurrent use. Calls for one key are carried out one after the
// other; calls for different keys do not wait for each other.
type Store interface {
	// Load gives everything the store holds, in the order of its keys. Every
	// entry is a fence (invariant I7).
	Load() ([]lease.Entry, error)
	// Save records rec in place of what its daemon id had; durable on return.
	Save(rec lease.Record) error
	// Remove drops the record of a key. It is applied on return and need not be
	// durable. That there is none is no error.
	Remove(key string) error
	// Archive moves all that fences a key aside, durably, and says where to. It
	// never deletes or overwrites. That there is nothing is no error; where is
	// empty then.
	Archive(key string) (where string, err error)
	// Durable tells whether what was saved survives the process.
	Durable() bool
	// Close waits for the calls under way and gives the store back. Every later
	// call returns [ErrClosed], a further Close nil.
	Close() error
}

// Options are the settings of [Open] that have a default.
type Options struct {
	// Program is the name a second process is told when it finds the folder
	// locked, for example "relay serve". Default: the executable's base name.
	Program string
	// Logger gets a warning for each name in the folder that is no entry, and a
	// line when the folder was tightened or cleaned. Default: nobody.
	Logger *slog.Logger
}

// Files is the store of one installation in one folder; see the package comment
// for its layout.
type Files struct {
	dir  string
	lock *Lock
	root *os.Root
	disk folder
	log  *slog.Logger
	keys keyLocks

	life   sync.RWMutex // held for reading by every call, for writing by Close
	closed bool
}

var _ Store = (*Files)(nil)

// Open makes the folder when it is missing, locks it and reads through it once,
// so that a folder that cannot be used is known before anything listens
// (protocol section 6). The error is a [*LockedError] or a [*FolderError].
//
// The folder is the store's own: nothing else should be put there. To take over
// from a Python hub, copy its *.pending files into it first.
func Open(dir string, opts Options) (*Files, error) {
	if opts.Program == "" {
		opts.Program = filepath.Base(os.Args[0])
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := LockDir(dir, opts.Program)
	if err != nil {
		return nil, err
	}
	s := &Files{
		dir: lock.dir, lock: lock, root: lock.root, disk: rootFolder{lock.root},
		log: opts.Logger.With("folder", lock.dir),
	}
	if err := s.lookAround(); err != nil {
		_ = lock.Close() // err is what counts
		return nil, err
	}
	return s, nil
}

// lookAround tells the logger what is unusual about the folder.
func (s *Files) lookAround() error {
	if s.lock.tightened {
		s.log.Warn("the state folder was open to other users; it is private now")
	}
	if n := len(s.lock.swept); n > 0 {
		s.log.Info("removed temporary files of a process that was killed", "count", n)
	}
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return unreadable(s.dir, err)
	}
	for _, e := range entries {
		name := e.Name()
		if _, _, entry := splitName(name); !entry && name != lockName && name != clearedName {
			s.log.Warn("ignored a file in the state folder that is no fence", "name", name)
		}
	}
	return nil
}

// Durable is true: what Save returned for survives a power cut.
func (s *Files) Durable() bool { return true }

// Save writes the record of rec.DaemonID; when it returns nil a restart finds
// exactly this record, whatever happens to the machine. An error wraps the
// system's ([errors.Is] finds syscall.ENOSPC); the old record then stays, or
// none, and no temporary file. One case differs: when only the sync of the
// folder failed and there was an old record, the new one has replaced it for
// this process, and which of the two a power cut leaves is not known.
func (s *Files) Save(rec lease.Record) error {
	key := lease.Key(rec.DaemonID)
	fail := func(err error) error { return s.failed("save", key, err) }
	data, err := lease.Encode(rec)
	if err != nil {
		return fail(err)
	}
	end, err := s.begin(key)
	if err != nil {
		return err
	}
	defer end()
	if err := s.lock.Check(); err != nil {
		return fail(err)
	}
	name := key + recordExt
	old, err := s.record(name)
	if err != nil {
		return fail(err)
	}
	err = writeAtomic(s.disk, name, data, fileMode)
	if unsynced := (*unsyncedError)(nil); errors.As(err, &unsynced) && !old {
		// The caller is told that nothing was saved and sends nothing: what was
		// written must not fence after a restart (invariant I7).
		err = errors.Join(err, s.disk.remove(name))
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// Remove unlinks the record of key. A marker of a Python hub stays: only an
// operator's clear moves it.
func (s *Files) Remove(key string) error {
	end, err := s.begin(key)
	if err != nil {
		return err
	}
	defer end()
	err = s.lock.Check()
	if err == nil {
		var there bool
		if there, err = s.record(key + recordExt); there && err == nil {
			err = s.disk.remove(key + recordExt)
		}
	}
	if err != nil {
		return s.failed("remove", key, err)
	}
	return nil
}

// Close waits for the calls under way, also for one that hangs in a sync: as
// long as it may still rename, nobody else may have the folder.
func (s *Files) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.lock.Close(); err != nil {
		return fmt.Errorf("persist: close %s: %w", s.dir, err)
	}
	return nil
}

// begin opens a call that concerns key; end closes it.
func (s *Files) begin(key string) (end func(), err error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return nil, ErrClosed
	}
	unlock := s.keys.lock(key)
	return func() {
		unlock()
		s.life.RUnlock()
	}, nil
}

// record tells whether a regular file has that name.
func (s *Files) record(name string) (bool, error) {
	info, err := s.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular():
		return false, fmt.Errorf("%w: %s %s", ErrNotAFile, name, irregular(info.Mode()))
	}
	return true, nil
}

func (s *Files) failed(what, key string, err error) error {
	return fmt.Errorf("persist: %s %s… in %s: %w", what, key[:12], s.dir, err)
}
