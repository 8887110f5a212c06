package persist_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"codingrelay/lease"
	"codingrelay/persist"
)

// A hub saves a lease before it sends run.start. Killed in mid-run, it finds the
// lease again, and the daemon is fenced until an operator has looked.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "relay-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	store, err := persist.Open(filepath.Join(dir, "hub"), persist.Options{Program: "relay serve"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	err = store.Save(lease.Record{
		DaemonID: "laptop", FenceID: "f1",
		Runs: []lease.Run{{RunID: "r1", Incarnation: "i1", LeasedAt: time.Unix(0, 0)}},
	})
	fmt.Println("saved:", err)

	_, err = persist.Open(filepath.Join(dir, "hub"), persist.Options{})
	var locked *persist.LockedError
	fmt.Println("a second hub:", errors.As(err, &locked), locked.Holder.Program)

	entries, _ := store.Load()
	for _, e := range entries {
		fmt.Println("fenced:", e.DaemonID, e.FenceID, e.Record.Runs[0].RunID)
	}
	where, err := store.Archive(lease.Key("laptop"))
	fmt.Println("cleared:", where != "", err)
	// Output:
	// saved: <nil>
	// a second hub: true relay serve
	// fenced: laptop f1 r1
	// cleared: true <nil>
}

// A test tells a store to go wrong in one call.
func ExampleNewFaulty() {
	store := persist.NewFaulty(persist.NewMemory(),
		persist.Fault{Op: persist.OpSave, Nth: 2, Err: errors.New("disk full")})
	rec := lease.Record{DaemonID: "laptop", FenceID: "f1", Runs: []lease.Run{{RunID: "r1", Incarnation: "i1"}}}
	fmt.Println(store.Save(rec))
	fmt.Println(store.Save(rec))
	// Output:
	// <nil>
	// persist: injected: disk full
}
