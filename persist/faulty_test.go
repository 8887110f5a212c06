package persist

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"codingrelay/lease"
)

// A fault hits the call it names, and no other.
func TestFaultyFailsTheNthCallOnly(t *testing.T) {
	for op, call := range map[Op]func(Store) error{
		OpLoad:    func(s Store) error { _, err := s.Load(); return err },
		OpSave:    func(s Store) error { return s.Save(record("a")) },
		OpRemove:  func(s Store) error { return s.Remove(lease.Key("a")) },
		OpArchive: func(s Store) error { return archiveError(s, "a") },
	} {
		f := NewFaulty(NewMemory(), Fault{Op: op, Nth: 2, Err: syscall.ENOSPC})
		for n := 1; n <= 4; n++ {
			if err := call(f); errors.Is(err, syscall.ENOSPC) != (n == 2) || n != 2 && err != nil {
				t.Errorf("%s, call %d: %v", op, n, err)
			}
		}
		if got := f.Calls(op); got != 4 {
			t.Errorf("Calls(%s) = %d, want 4", op, got)
		}
	}
}

// Without Nth a fault lasts until it is taken back, and Key limits it.
func TestFaultyFailsEveryCallOfAKey(t *testing.T) {
	f := NewFaulty(NewMemory(), Fault{Op: OpSave, Key: lease.Key("a"), Err: syscall.EIO})
	for range 3 {
		if err := f.Save(record("a")); !errors.Is(err, syscall.EIO) {
			t.Errorf("Save(a) = %v, want EIO", err)
		}
		mustSave(t, f, record("b"))
	}
	if e := onlyEntry(t, f); e.DaemonID != "b" {
		t.Errorf("a failed save reached the store: %+v", e)
	}
	f.Clear()
	mustSave(t, f, record("a"))
}

// Two faults that wait for the same call: one hits it, the other the next.
func TestFaultyTakesTheFirstThatMatches(t *testing.T) {
	f := NewFaulty(NewMemory())
	f.Inject(Fault{Op: OpSave, Nth: 1, Err: syscall.ENOSPC})
	f.Inject(Fault{Op: OpSave, Nth: 1, Err: syscall.EIO})
	for _, want := range []error{syscall.ENOSPC, syscall.EIO, nil} {
		if err := f.Save(record("a")); !errors.Is(err, want) {
			t.Errorf("Save = %v, want %v", err, want)
		}
	}
}

// Design section 5: a save that completes after it counted as failed.
func TestFaultyLateSaveIsThereAllTheSame(t *testing.T) {
	f := NewFaulty(NewMemory(), Fault{Op: OpSave, Nth: 1, Late: true, Err: syscall.ETIMEDOUT})
	if err := f.Save(record("a")); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("Save = %v, want ETIMEDOUT", err)
	}
	if e := onlyEntry(t, f); e.Record == nil {
		t.Errorf("the late save is not there: %+v", e)
	}
}

// A torn save leaves an entry that fences its hash and no record, on files as in
// memory; a good save mends it.
func TestFaultyTornSaveFencesAsUnreadable(t *testing.T) {
	for name, inner := range map[string]Store{"files": open(t, t.TempDir()), "memory": NewMemory()} {
		t.Run(name, func(t *testing.T) {
			mustSave(t, inner, record("a"))
			f := NewFaulty(inner, Fault{Op: OpSave, Nth: 1, Torn: true, Err: syscall.EIO}, Fault{Op: OpSave, Nth: 2, Torn: true})
			if err := f.Save(record("a")); !errors.Is(err, syscall.EIO) {
				t.Errorf("Save = %v, want EIO", err)
			}
			mustSave(t, f, record("a")) // a disk that lies
			if e := onlyEntry(t, f); e.Record != nil || e.Key != lease.Key("a") || e.Problem == "" {
				t.Errorf("the torn entry is %+v", e)
			}
			mustSave(t, f, record("a"))
			if e := onlyEntry(t, f); e.Record == nil {
				t.Errorf("after a good save: %+v", e)
			}
		})
	}
	if err := NewFaulty(struct{ Store }{}, Fault{Op: OpSave, Torn: true}).Save(record("a")); err == nil {
		t.Error("a store that cannot be torn took it")
	}
}

// A held call waits where it is; the other ids' calls go on.
func TestFaultyHoldsUntilReleased(t *testing.T) {
	hold := NewHold()
	t.Cleanup(hold.Release)
	f := NewFaulty(NewMemory(), Fault{Op: OpSave, Nth: 1, Hold: hold}, Fault{Op: OpSave, Nth: 1, Hold: hold})
	var wg sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		wg.Go(func() {
			if err := f.Save(record(id)); err != nil {
				t.Errorf("Save(%s): %v", id, err)
			}
		})
	}
	<-hold.Arrived()
	waitUntil(t, "both saves wait", func() bool { return f.Calls(OpSave) == 2 })
	mustSave(t, f, record("c"))
	if e := onlyEntry(t, f); e.DaemonID != "c" {
		t.Errorf("while two saves are held: %+v", e)
	}
	hold.Release()
	hold.Release()
	wg.Wait()
	if got := len(load(t, f)); got != 3 {
		t.Errorf("after the release: %d entries, want 3", got)
	}
}
