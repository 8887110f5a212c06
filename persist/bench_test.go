package persist

import (
	"fmt"
	"sync"
	"testing"

	"codingrelay/lease"
)

// One life cycle is what a run costs on disk: its lease is saved before
// run.start and removed after run.finished.
func lifeCycle(b *testing.B, s Store, rec lease.Record) {
	if err := s.Save(rec); err != nil {
		b.Fatal(err)
	}
	if err := s.Remove(lease.Key(rec.DaemonID)); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkLifeCycle(b *testing.B) {
	for name, s := range map[string]Store{"files": open(b, b.TempDir()), "memory": NewMemory()} {
		b.Run(name+"/serial", func(b *testing.B) {
			b.ReportAllocs()
			rec := record("d")
			for b.Loop() {
				lifeCycle(b, s, rec)
			}
		})
		b.Run(name+"/daemons=8", func(b *testing.B) {
			b.ReportAllocs()
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					rec := record(fmt.Sprint("d", i))
					for n := i; n < b.N; n += 8 {
						if err := s.Save(rec); err != nil {
							b.Error(err)
						}
						if err := s.Remove(lease.Key(rec.DaemonID)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkLoad is a start with a thousand fences.
func BenchmarkLoad(b *testing.B) {
	s := open(b, b.TempDir())
	for i := range 1000 {
		put(b, s.dir, lease.Key(fmt.Sprint(i))+recordExt, encoded(b, record(fmt.Sprint(i))))
	}
	for b.Loop() {
		if got := len(load(b, s)); got != 1000 {
			b.Fatalf("%d entries", got)
		}
	}
}
