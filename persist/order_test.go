package persist

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"codingrelay/lease"

	"github.com/google/go-cmp/cmp"
)

// Weakness 33, D29: the folder is synced too, and in this order: a power cut
// after any step leaves the old record or the new one.
func TestSaveSyncsFileThenRenamesThenSyncsFolder(t *testing.T) {
	s := open(t, t.TempDir())
	f := spy(s, nil)
	mustSave(t, s, record("a"))
	name := lease.Key("a") + recordExt
	want := []string{
		"open .", "create TEMP", "write TEMP", "sync TEMP", "close TEMP", "rename TEMP " + name, "syncfolder .",
	}
	if diff := cmp.Diff(want, f.steps); diff != "" {
		t.Errorf("steps of a save (-want +got):\n%s", diff)
	}
}

// Design section 5: a removal is applied, and its sync is not waited for.
func TestRemoveIsAppliedWithoutSync(t *testing.T) {
	s := open(t, t.TempDir())
	mustSave(t, s, record("a"))
	f := spy(s, nil)
	if err := s.Remove(lease.Key("a")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"remove " + lease.Key("a") + recordExt}, f.steps); diff != "" {
		t.Errorf("steps of a removal (-want +got):\n%s", diff)
	}
	if got := load(t, s); len(got) != 0 {
		t.Errorf("after the removal: %+v", got)
	}
}

// D29: whichever step fails, the old record stays (or none), the caller gets
// the system's error, and no temporary file is left.
func TestSaveThatFailsLeavesWhatWasThere(t *testing.T) {
	for _, failing := range []string{"open", "create", "write", "sync", "close", "rename", "syncfolder"} {
		for name, old := range map[string]bool{"first": false, "again": true} {
			t.Run(failing+"_"+name, func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, dir)
				if old {
					mustSave(t, s, record("a", "old"))
				}
				spy(s, func(step string) error {
					if strings.HasPrefix(step, failing+" ") {
						return &os.PathError{Op: failing, Path: "x", Err: syscall.ENOSPC}
					}
					return nil
				})
				err := s.Save(record("a", "new"))
				if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
					t.Fatalf("Save = %v, want ENOSPC and the folder's name", err)
				}
				want := []string{}
				if old {
					want = append(want, lease.Key("a")+recordExt)
				}
				if diff := cmp.Diff(want, names(t, dir)); diff != "" {
					t.Fatalf("files left (-want +got):\n%s", diff)
				}
				if !old {
					return
				}
				run := "old"
				if failing == "syncfolder" {
					run = "new" // the one documented exception
				}
				if e := onlyEntry(t, s); e.Record == nil || e.Record.Runs[0].RunID != run {
					t.Errorf("the record is %+v, want the %s one", e, run)
				}
			})
		}
	}
}

// Design section 5, at release: a removal that fails says so and can be tried
// again.
func TestRemoveThatFailsLeavesTheRecord(t *testing.T) {
	s := open(t, t.TempDir())
	mustSave(t, s, record("a"))
	fail := true
	spy(s, func(string) error {
		if fail {
			return syscall.EIO
		}
		return nil
	})
	if err := s.Remove(lease.Key("a")); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Remove = %v, want EIO", err)
	}
	onlyEntry(t, s)
	fail = false
	if err := s.Remove(lease.Key("a")); err != nil {
		t.Fatal(err)
	}
	if got := load(t, s); len(got) != 0 {
		t.Errorf("after the second try: %+v", got)
	}
}

// hangingSync makes the first save hang in its sync until the hold is released,
// at the test's end at the latest.
func hangingSync(t *testing.T, s *Files) (*Hold, *spyFolder) {
	hold := NewHold()
	t.Cleanup(hold.Release)
	var one atomic.Bool
	return hold, spy(s, func(step string) error {
		if step == "sync TEMP" && !one.Swap(true) {
			hold.wait()
		}
		return nil
	})
}

// Weakness 26: one id's slow disk is not another id's.
func TestSavesOfDifferentIDsDoNotWaitForEachOther(t *testing.T) {
	s := open(t, t.TempDir())
	hold, _ := hangingSync(t, s)
	slow := make(chan error, 1)
	go func() { slow <- s.Save(record("slow")) }()
	<-hold.Arrived()
	quick := make(chan error, 1)
	go func() {
		quick <- errors.Join(s.Save(record("quick")), s.Remove(lease.Key("quick")), s.Save(record("quick")))
	}()
	select {
	case err := <-quick:
		if err != nil {
			t.Errorf("the other id: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the other id waits for a sync that is not its own")
	}
	if e := onlyEntryOf(t, s, "quick"); e.DaemonID != "quick" {
		t.Errorf("while one save hangs: %+v", e)
	}
	hold.Release()
	if err := <-slow; err != nil {
		t.Error(err)
	}
}

// onlyEntryOf reads one id's entry without waiting for the others'.
func onlyEntryOf(t *testing.T, s *Files, id string) lease.Entry {
	t.Helper()
	e, there, err := s.load(lease.Key(id))
	if err != nil || !there {
		t.Fatalf("load(%s): there %t, %v", id, there, err)
	}
	return e
}

// Design section 5: a save that completes after it counted as failed is followed
// by its removal, so a removal must not overtake a save that hangs.
func TestRemoveComesAfterASaveThatHangs(t *testing.T) {
	s := open(t, t.TempDir())
	hold, f := hangingSync(t, s)
	saved, removed := make(chan error, 1), make(chan error, 1)
	go func() { saved <- s.Save(record("a")) }()
	<-hold.Arrived()
	go func() { removed <- s.Remove(lease.Key("a")) }()
	waitUntil(t, "the removal waits", func() bool {
		s.keys.mu.Lock()
		defer s.keys.mu.Unlock()
		return s.keys.keys[lease.Key("a")].users == 2
	})
	hold.Release()
	if err := errors.Join(<-saved, <-removed); err != nil {
		t.Fatal(err)
	}
	if last := f.steps[len(f.steps)-1]; !strings.HasPrefix(last, "remove "+lease.Key("a")) {
		t.Errorf("the last step is %q, want the removal; all: %q", last, f.steps)
	}
	if got := load(t, s); len(got) != 0 {
		t.Errorf("the record is back: %+v", got)
	}
	if len(s.keys.keys) != 0 {
		t.Errorf("locks are left for %d keys", len(s.keys.keys))
	}
}

// waitUntil looks again until cond holds.
func waitUntil(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("in ten seconds not seen: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// I12: the lock is not given back while a save may still rename.
func TestCloseWaitsForTheSaveUnderWay(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	hold, _ := hangingSync(t, s)
	saved, closed := make(chan error, 1), make(chan error, 1)
	go func() { saved <- s.Save(record("a")) }()
	<-hold.Arrived()
	go func() { closed <- s.Close() }()
	waitUntil(t, "Close waits", func() bool {
		if s.life.TryRLock() { // refused as soon as a writer waits
			s.life.RUnlock()
			return false
		}
		return true
	})
	var locked *LockedError
	if _, err := Open(dir, Options{}); !errors.As(err, &locked) {
		t.Errorf("Open during Close = %v, want a LockedError", err)
	}
	hold.Release()
	if err := errors.Join(<-saved, <-closed); err != nil {
		t.Fatal(err)
	}
	if e := onlyEntry(t, open(t, dir)); e.DaemonID != "a" {
		t.Errorf("the next holder finds %+v", e)
	}
}

// A folder that was swept or swapped under a running hub must not be written
// to: what lands there is not found by a restart (or is another hub's).
func TestStoreRefusesToWriteWithoutItsLock(t *testing.T) {
	for name, breakIt := range map[string]func(t *testing.T, dir string){
		"lock_removed": func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, lockName))) },
		"lock_replaced": func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, lockName), filepath.Join(dir, "other")))
			put(t, dir, lockName, nil)
		},
		"folder_swept": func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
		"folder_recreated": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(dir))
			open(t, dir)
		},
		"folder_moved": func(t *testing.T, dir string) {
			must(t, os.Rename(dir, dir+"-old"))
			open(t, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "hub")
			s := open(t, dir)
			breakIt(t, dir)
			for what, err := range map[string]error{
				"Save": s.Save(record("a")), "Remove": s.Remove(lease.Key("a")), "Archive": archiveError(s, "a"),
			} {
				if !errors.Is(err, ErrLockLost) {
					t.Errorf("%s = %v, want ErrLockLost", what, err)
				}
			}
		})
	}
}

func archiveError(s Store, id string) error {
	_, err := s.Archive(lease.Key(id))
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
