package persist

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"codingrelay/lease"
)

// Memory is the store of a hub that forgets: the twin of [Files] with the same
// rules and the same bytes, in maps instead of a folder. What it holds survives
// [Memory.Reopen], as a folder survives a restart, and nothing else.
type Memory struct {
	disk   *memoryDisk
	closed bool // guarded by disk.mu
}

// memoryDisk stands for the folder. Its lock is held for a map access, never
// while a record is encoded.
type memoryDisk struct {
	mu      sync.Mutex
	files   map[string]memoryFile
	cleared map[string]memoryFile // by the path Archive told
	clears  int
}

type memoryFile struct {
	data []byte
	mod  time.Time
}

var _ Store = (*Memory)(nil)

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{disk: &memoryDisk{files: map[string]memoryFile{}, cleared: map[string]memoryFile{}}}
}

// Reopen is what a restarted process finds: a store with what this one holds.
// This one is closed by it, however its process ended.
func (m *Memory) Reopen() *Memory {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	m.closed = true
	return &Memory{disk: m.disk}
}

// Plant puts a file as if it had been found in the folder: another program's
// marker, or bytes that are no record. Load ignores a name that is no entry's.
func (m *Memory) Plant(name string, content []byte) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	m.disk.files[name] = memoryFile{data: slices.Clone(content)}
}

// Durable is false: an outcome that rests on this store says so.
func (m *Memory) Durable() bool { return false }

// Load implements [Store].
func (m *Memory) Load() ([]lease.Entry, error) {
	m.disk.mu.Lock()
	files := maps.Clone(m.disk.files)
	closed := m.closed
	m.disk.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	keys := map[string]bool{}
	for name := range files {
		if key, _, ok := splitName(name); ok {
			keys[key] = true
		}
	}
	find := func(name string) *found {
		file, ok := files[name]
		if !ok {
			return nil
		}
		f := &found{name: name, mod: file.mod, data: file.data, size: int64(len(file.data))}
		if len(f.data) > lease.MaxBytes {
			f.data = f.data[:lease.MaxBytes+1]
			f.problem = tooLarge
		}
		return f
	}
	entries := make([]lease.Entry, 0, len(keys))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		entries = append(entries, newEntry(key, find(key+recordExt), find(key+markerExt)))
	}
	return entries, nil
}

// Save implements [Store]. The time of the entry is the record's own, so that a
// simulated hub sees the same one in every run.
func (m *Memory) Save(rec lease.Record) error {
	data, err := lease.Encode(rec)
	if err != nil {
		return fmt.Errorf("persist: save: %w", err)
	}
	return m.with(lease.Key(rec.DaemonID), func(key string) {
		m.disk.files[key+recordExt] = memoryFile{data: data, mod: rec.UpdatedAt.UTC().Round(0)}
	})
}

// Remove implements [Store].
func (m *Memory) Remove(key string) error {
	return m.with(key, func(string) { delete(m.disk.files, key+recordExt) })
}

// Archive implements [Store].
func (m *Memory) Archive(key string) (where string, err error) {
	err = m.with(key, func(string) {
		for _, name := range []string{key + markerExt, key + recordExt} {
			file, ok := m.disk.files[name]
			if !ok {
				continue
			}
			if where == "" {
				m.disk.clears++
				where = fmt.Sprintf("memory:%s/%d-%s", clearedName, m.disk.clears, key[:12])
			}
			m.disk.cleared[where+"/"+name] = file
			delete(m.disk.files, name)
		}
	})
	return where, err
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	m.closed = true
	return nil
}

// with runs change under the lock when the key is one and the store is open.
func (m *Memory) with(key string, change func(key string)) error {
	if err := checkKey(key); err != nil {
		return err
	}
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	change(key)
	return nil
}

// tear leaves the first half of the record's text (see [Fault]).
func (m *Memory) tear(rec lease.Record) error {
	data, err := lease.Encode(rec)
	if err != nil {
		return err
	}
	m.Plant(lease.Key(rec.DaemonID)+recordExt, data[:len(data)/2])
	return nil
}
