package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"codingrelay/lease"
)

// Op is a kind of call to a store that [Faulty] can spoil.
type Op string

// The calls that can be spoiled.
const (
	OpLoad    Op = "load"
	OpSave    Op = "save"
	OpRemove  Op = "remove"
	OpArchive Op = "archive"
)

// Fault spoils one call, or every call of its kind. The zero values of Key, Err,
// Late, Torn and Hold leave the call as it is.
type Fault struct {
	Op Op
	// Nth says which call is spoiled: the nth of those that match Op and Key
	// after the fault was added, from 1. 0 spoils all of them.
	Nth int
	// Key limits the fault to one daemon id's calls; empty: any.
	Key string
	// Err is what the caller gets. Unless Late or Torn is set, the store
	// underneath does not learn of the call.
	Err error
	// Late carries the call out and then returns Err all the same: the answer of
	// a slow disk that comes after everybody gave up.
	Late bool
	// Torn makes a Save leave half a document, as a disk that lies about its
	// syncs does; a later Load finds an entry that cannot be read.
	Torn bool
	// Hold keeps the call waiting before anything else happens.
	Hold *Hold
}

// Hold is a gate that calls wait at.
type Hold struct {
	arrived, released chan struct{}
	arrive, release   sync.Once
}

// NewHold makes a closed gate.
func NewHold() *Hold {
	return &Hold{arrived: make(chan struct{}), released: make(chan struct{})}
}

// Arrived is closed when the first call waits at the gate.
func (h *Hold) Arrived() <-chan struct{} { return h.arrived }

// Release opens the gate for good. Releasing again does nothing.
func (h *Hold) Release() { h.release.Do(func() { close(h.released) }) }

func (h *Hold) wait() {
	h.arrive.Do(func() { close(h.arrived) })
	<-h.released
}

// Faulty is a store that goes wrong when it is told to; it is for tests and
// simulation. All else is the inner store's.
type Faulty struct {
	inner Store

	mu     sync.Mutex
	faults []*plannedFault
	calls  map[Op]int
}

type plannedFault struct {
	Fault
	seen int // matching calls so far
}

// tearable is a store that [Fault].Torn works on.
type tearable interface {
	tear(rec lease.Record) error
}

var (
	_ Store    = (*Faulty)(nil)
	_ tearable = (*Files)(nil)
	_ tearable = (*Memory)(nil)
)

// NewFaulty wraps a store. [Fault].Torn needs one of this package.
func NewFaulty(inner Store, faults ...Fault) *Faulty {
	f := &Faulty{inner: inner, calls: map[Op]int{}}
	for _, fault := range faults {
		f.Inject(fault)
	}
	return f
}

// Inject adds a fault. When several match one call, the first added is taken and
// the others count the call.
func (f *Faulty) Inject(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &plannedFault{Fault: fault})
}

// Clear takes all faults back; calls that wait at a gate go on waiting.
func (f *Faulty) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// Calls tells how many calls of a kind have begun.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// meet counts the call and gives the fault it runs into.
func (f *Faulty) meet(op Op, key string) Fault {
	f.mu.Lock()
	f.calls[op]++
	var hit *Fault
	f.faults = slices.DeleteFunc(f.faults, func(p *plannedFault) bool {
		if p.Op != op || p.Key != "" && p.Key != key {
			return false
		}
		p.seen++
		due := p.Nth == 0 || p.Nth <= p.seen
		if due && hit == nil {
			hit = &p.Fault
			return p.Nth != 0 // it has done its work
		}
		return false
	})
	f.mu.Unlock()
	if hit == nil {
		return Fault{}
	}
	if hit.Hold != nil {
		hit.Hold.wait()
	}
	return *hit
}

// spoil carries a call out as the fault wants it.
func (f *Faulty) spoil(fault Fault, call func() error) error {
	if fault.Err == nil {
		return call()
	}
	if fault.Late {
		if err := call(); err != nil {
			return err
		}
	}
	return fmt.Errorf("persist: injected: %w", fault.Err)
}

// Load implements [Store].
func (f *Faulty) Load() (entries []lease.Entry, err error) {
	err = f.spoil(f.meet(OpLoad, ""), func() (err error) {
		entries, err = f.inner.Load()
		return err
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// Save implements [Store].
func (f *Faulty) Save(rec lease.Record) error {
	fault := f.meet(OpSave, lease.Key(rec.DaemonID))
	if fault.Torn {
		if err := f.tear(rec); err != nil {
			return err
		}
		if fault.Err == nil {
			return nil
		}
		return fmt.Errorf("persist: injected: %w", fault.Err)
	}
	return f.spoil(fault, func() error { return f.inner.Save(rec) })
}

// Remove implements [Store].
func (f *Faulty) Remove(key string) error {
	return f.spoil(f.meet(OpRemove, key), func() error { return f.inner.Remove(key) })
}

// Archive implements [Store].
func (f *Faulty) Archive(key string) (where string, err error) {
	err = f.spoil(f.meet(OpArchive, key), func() (err error) {
		where, err = f.inner.Archive(key)
		return err
	})
	return where, err
}

// Durable is the inner store's answer.
func (f *Faulty) Durable() bool { return f.inner.Durable() }

// Close closes the inner store; no fault spoils it.
func (f *Faulty) Close() error { return f.inner.Close() }

func (f *Faulty) tear(rec lease.Record) error {
	if t, ok := f.inner.(tearable); ok {
		return t.tear(rec)
	}
	return fmt.Errorf("persist: a %T cannot be torn", f.inner)
}

// tear writes half the record over what is there, without any of the care that
// Save takes.
func (s *Files) tear(rec lease.Record) error {
	data, err := lease.Encode(rec)
	if err != nil {
		return err
	}
	end, err := s.begin(lease.Key(rec.DaemonID))
	if err != nil {
		return err
	}
	defer end()
	name := lease.Key(rec.DaemonID) + recordExt
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(data[:len(data)/2])
	return errors.Join(err, file.Close())
}
