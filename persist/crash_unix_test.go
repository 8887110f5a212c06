//go:build unix

package persist

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"codingrelay/lease"

	"github.com/google/go-cmp/cmp"
)

// numbered is the nth record of the writer that gets killed; its size varies by
// thousands of bytes, so that a mix of two would show.
func numbered(n int) lease.Record {
	rec := record("a", fmt.Sprint("r", n))
	rec.Metadata = json.RawMessage(`{"n":` + strconv.Itoa(n) + `,"fill":"` + strings.Repeat("x", n*7919%20_000) + `"}`)
	return rec
}

func numberOf(t *testing.T, e lease.Entry) int {
	t.Helper()
	if e.Record == nil {
		t.Fatalf("the record cannot be read: %s", e.Problem)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(e.Record.Runs[0].RunID, "r"))
	must(t, err)
	if diff := cmp.Diff(numbered(n), *e.Record); diff != "" {
		t.Fatalf("record %d is not what was written (-want +got):\n%s", n, diff)
	}
	return n
}

func init() {
	// write saves one record after the other and tells the number of each that
	// Save has returned for.
	children["write"] = func(dir string) error {
		s, err := Open(dir, Options{Program: "writer"})
		if err != nil {
			return err
		}
		for n := 1; ; n++ {
			if err := s.Save(numbered(n)); err != nil {
				return err
			}
			fmt.Println(n)
		}
	}
	// lease saves what a hub saves before run.start, and is killed in mid-run.
	children["lease"] = func(dir string) error {
		s, err := Open(dir, Options{Program: "hub"})
		if err != nil {
			return err
		}
		if err := s.Save(record(os.Getenv("RELAY_PERSIST_ID"))); err != nil {
			return err
		}
		untilAsked()
		return nil
	}
}

// D29: the writer is killed in the middle of its loop, again and again. What is
// found is one whole record: the last it was told about, or the one after it.
func TestKilledWriterLeavesAWholeRecord(t *testing.T) {
	kills := 20
	if os.Getenv("RELAY_SOAK") != "" {
		kills = 200
	}
	base := t.TempDir()
	cut := 0
	for i := range kills {
		dir := filepath.Join(base, strconv.Itoa(i))
		c := startChild(t, "write", dir)
		for range 1 + rand.IntN(30) {
			if c.line() == "" {
				t.Fatal("the writer ended by itself")
			}
		}
		must(t, c.cmd.Process.Kill())
		told := 0
		for line := c.lines.Text(); line != ""; line = c.line() {
			n, err := strconv.Atoi(line)
			must(t, err)
			told = n
		}
		c.cmd.Wait()
		if len(names(t, dir)) > 1 {
			cut++
		}
		s := open(t, dir) // its lock is free although it never gave it back
		if got := numberOf(t, onlyEntry(t, s)); got != told && got != told+1 {
			t.Errorf("kill %d: record %d is there, Save had returned for %d", i, got, told)
		}
		if left := names(t, dir); len(left) != 1 {
			t.Errorf("kill %d: files left after a start: %v", i, left)
		}
		must(t, s.Close())
	}
	t.Logf("%d of %d kills cut a write in two", cut, kills)
}

// Weaknesses 34 and 37, I7: a hub killed in mid-run is fenced for that daemon by
// whatever finds the folder next, also for an id outside of ASCII under a locale
// that knows only ASCII.
func TestLeaseSurvivesAKilledHub(t *testing.T) {
	for _, id := range []string{"d1", "dämon 机器 🚀"} {
		t.Run(id, func(t *testing.T) {
			dir := t.TempDir()
			c := startChild(t, "lease", dir, "LC_ALL=C", "LANG=C", "RELAY_PERSIST_ID="+id)
			if got := c.line(); got != "ready" {
				t.Fatalf("the hub says %q", got)
			}
			must(t, c.cmd.Process.Kill())
			c.cmd.Wait()
			e := onlyEntry(t, open(t, dir))
			if diff := cmp.Diff(record(id), *e.Record); diff != "" || e.DaemonID != id || e.Key != lease.Key(id) {
				t.Errorf("the restart finds %+v (-want +got):\n%s", e, diff)
			}
			if age := time.Since(e.ModTime); age < 0 || age > time.Minute {
				t.Errorf("the entry is %v old", age)
			}
		})
	}
}
