package persist

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"codingrelay/lease"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// reopenable is a store together with what a restart makes of it.
type reopenable struct {
	Store
	restart func() Store
	plant   func(name string, content []byte)
}

// stores are the implementations that must not be told apart.
func stores() map[string]func(t *testing.T) *reopenable {
	return map[string]func(t *testing.T) *reopenable{
		"files": func(t *testing.T) *reopenable {
			dir := t.TempDir()
			s := open(t, dir)
			return &reopenable{
				Store: s,
				restart: func() Store {
					s.Close()
					s = open(t, dir)
					return s
				},
				plant: func(name string, content []byte) { put(t, dir, name, content) },
			}
		},
		"memory": func(*testing.T) *reopenable {
			s := NewMemory()
			return &reopenable{
				Store:   s,
				restart: func() Store { s = s.Reopen(); return s },
				plant:   s.Plant,
			}
		},
		"faulty_without_faults": func(*testing.T) *reopenable {
			s := NewMemory()
			return &reopenable{
				Store:   NewFaulty(s),
				restart: func() Store { s = s.Reopen(); return NewFaulty(s) },
				plant:   s.Plant,
			}
		},
	}
}

func eachStore(t *testing.T, test func(t *testing.T, s *reopenable)) {
	for name, make := range stores() {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

// I2, I7: what was saved is what a restart finds, in the order of the keys.
func TestStoreGivesBackWhatItSaved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *reopenable) {
		want := map[string]lease.Record{}
		for i := range 20 {
			rec := record(fmt.Sprintf("dämon %d", i), "r1", "r2")
			mustSave(t, s, record(rec.DaemonID), rec) // the second replaces the first
			want[lease.Key(rec.DaemonID)] = rec
		}
		got := map[string]lease.Record{}
		last := ""
		for _, e := range load(t, s.restart()) {
			if e.Key <= last {
				t.Errorf("key %s comes after %s", e.Key, last)
			}
			last = e.Key
			if e.Record == nil || e.Problem != "" {
				t.Fatalf("entry %+v is unreadable", e)
			}
			if e.DaemonID != e.Record.DaemonID || e.FenceID != e.Record.FenceID {
				t.Errorf("entry %+v does not agree with its record", e)
			}
			got[e.Key] = *e.Record
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after a restart (-saved +found):\n%s", diff)
		}
	})
}

// Design section 5, at release: a removal is applied on return, and one of what
// is not there is no error.
func TestStoreRemovesOnlyThatRecord(t *testing.T) {
	eachStore(t, func(t *testing.T, s *reopenable) {
		mustSave(t, s, record("a"), record("b"))
		for range 2 {
			if err := s.Remove(lease.Key("a")); err != nil {
				t.Fatalf("Remove: %v", err)
			}
			if e := onlyEntry(t, s); e.DaemonID != "b" {
				t.Fatalf("what is left is %+v, want b", e)
			}
		}
		if e := onlyEntry(t, s.restart()); e.DaemonID != "b" {
			t.Errorf("after a restart: %+v, want b", e)
		}
	})
}

// Protocol section 6: a clear moves all that fences the id, and nothing else.
func TestStoreArchivesRecordAndMarker(t *testing.T) {
	eachStore(t, func(t *testing.T, s *reopenable) {
		key := lease.Key("a")
		mustSave(t, s, record("a"), record("b"))
		s.plant(key+markerExt, []byte("a"))
		where, err := s.Archive(key)
		if err != nil || where == "" {
			t.Fatalf("Archive = %q, %v", where, err)
		}
		if e := onlyEntry(t, s.restart()); e.DaemonID != "b" {
			t.Errorf("what is left is %+v, want b", e)
		}
	})
}

// A clear of a fence that never reached the disk succeeds and says nothing was
// there.
func TestStoreArchivesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *reopenable) {
		if where, err := s.Archive(lease.Key("a")); where != "" || err != nil {
			t.Errorf("Archive of nothing = %q, %v; want nothing", where, err)
		}
	})
}

// Two clears of one id do not share a place, so neither can overwrite.
func TestStoreArchivesToANewPlaceEachTime(t *testing.T) {
	eachStore(t, func(t *testing.T, s *reopenable) {
		seen := map[string]bool{}
		for range 5 {
			mustSave(t, s, record("a"))
			where, err := s.Archive(lease.Key("a"))
			if err != nil || seen[where] {
				t.Fatalf("Archive = %q, %v; places so far %v", where, err, seen)
			}
			seen[where] = true
		}
	})
}

// Keys become file names: anything else than a hash must not reach the disk.
func TestStoreRefusesWhatIsNoKey(t *testing.T) {
	eachStore(t, func(t *testing.T, s *reopenable) {
		for _, key := range []string{
			"", "a", "../" + lease.Key("a")[3:], lease.Key("a") + "0", strings.ToUpper(lease.Key("a")),
		} {
			if err := s.Remove(key); !errors.Is(err, ErrKey) {
				t.Errorf("Remove(%q) = %v, want ErrKey", key, err)
			}
			if _, err := s.Archive(key); !errors.Is(err, ErrKey) {
				t.Errorf("Archive(%q) = %v, want ErrKey", key, err)
			}
		}
	})
}

// I2: a record that a restart could not read is refused, and the old one stays.
func TestStoreRefusesAnInvalidRecord(t *testing.T) {
	eachStore(t, func(t *testing.T, s *reopenable) {
		mustSave(t, s, record("a"))
		bad := record("a")
		bad.FenceID = ""
		if err := s.Save(bad); err == nil {
			t.Error("Save took a record without fence id")
		}
		if e := onlyEntry(t, s); e.FenceID != "fence-of-a" {
			t.Errorf("the old record is gone: %+v", e)
		}
	})
}

// I12: after Close nothing is touched any more, and closing again is harmless.
func TestStoreRefusesAfterClose(t *testing.T) {
	eachStore(t, func(t *testing.T, s *reopenable) {
		mustSave(t, s, record("a"))
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
		}
		_, loadErr := s.Load()
		_, archiveErr := s.Archive(lease.Key("a"))
		for name, err := range map[string]error{
			"Load": loadErr, "Archive": archiveErr,
			"Save": s.Save(record("a")), "Remove": s.Remove(lease.Key("a")),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Close = %v, want ErrClosed", name, err)
			}
		}
		onlyEntry(t, s.restart())
	})
}

// One fence actor per id saves in parallel; no record may take another's place.
func TestStoreIsSafeForManyGoroutines(t *testing.T) {
	eachStore(t, func(t *testing.T, s *reopenable) {
		const ids, rounds = 8, 10
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() {
				id := fmt.Sprint("d", i)
				for n := range rounds {
					if err := s.Save(record(id, fmt.Sprint("r", n))); err != nil {
						t.Errorf("Save: %v", err)
					}
					if n == rounds-1 {
						break // the last one stays
					}
					if n%3 == 0 {
						if _, err := s.Archive(lease.Key(id)); err != nil {
							t.Errorf("Archive: %v", err)
						}
					} else if err := s.Remove(lease.Key(id)); err != nil {
						t.Errorf("Remove: %v", err)
					}
				}
			})
		}
		for range rounds {
			for _, e := range load(t, s) {
				if e.Problem != "" {
					t.Errorf("an entry was seen half written: %+v", e)
				}
			}
		}
		wg.Wait()
		for _, e := range load(t, s) {
			if e.Record == nil || e.Record.Runs[0].RunID != fmt.Sprint("r", rounds-1) {
				t.Errorf("the last record of %s is %+v", e.DaemonID, e.Record)
			}
		}
		if n := len(load(t, s)); n != ids {
			t.Errorf("%d entries, want %d", n, ids)
		}
	})
}

// The memory twin is only a twin when the same bytes give the same fences.
func TestMemoryIsTheTwinOfFiles(t *testing.T) {
	dir := t.TempDir()
	key := lease.Key("d")
	for name, content := range map[string]string{
		"record":           string(encoded(t, record("d"))),
		"torn":             string(encoded(t, record("d"))[:40]),
		"of_another":       string(encoded(t, record("other"))),
		"empty":            "",
		"id":               "d",
		"id_and_newline":   "d\n",
		"bad_utf8":         "\xff\xfe",
		"zeros":            strings.Repeat("\x00", 100),
		"too_large":        strings.Repeat("x", lease.MaxBytes+100),
		"largest":          strings.Repeat(" ", lease.MaxBytes),
		"later_version":    `{"version":2}`,
		"control_in_error": "{\"\x1b[31m",
	} {
		for _, ext := range []string{recordExt, markerExt} {
			t.Run(name+ext, func(t *testing.T) {
				sub := dir + "/" + name + ext
				files, memory := open(t, sub), NewMemory()
				put(t, sub, key+ext, []byte(content))
				memory.Plant(key+ext, []byte(content))
				noTime := cmpopts.IgnoreFields(lease.Entry{}, "ModTime")
				if diff := cmp.Diff(onlyEntry(t, files), onlyEntry(t, memory), noTime); diff != "" {
					t.Errorf("(-files +memory):\n%s", diff)
				}
			})
		}
	}
}

// A restart in memory is a restart: the process before it can do nothing more.
func TestMemoryReopenClosesTheOldStore(t *testing.T) {
	old := NewMemory()
	next := old.Reopen()
	if err := old.Save(record("a")); !errors.Is(err, ErrClosed) {
		t.Errorf("Save on the old store = %v, want ErrClosed", err)
	}
	mustSave(t, next, record("a"))
}

// I5: an outcome is durable only when its store is.
func TestOnlyFilesAreDurable(t *testing.T) {
	files, memory := open(t, t.TempDir()), NewMemory()
	for name, tt := range map[string]struct {
		store Store
		want  bool
	}{
		"files": {files, true}, "memory": {memory, false},
		"faulty_files": {NewFaulty(files), true}, "faulty_memory": {NewFaulty(memory), false},
	} {
		if got := tt.store.Durable(); got != tt.want {
			t.Errorf("%s: Durable() = %t, want %t", name, got, tt.want)
		}
	}
}
