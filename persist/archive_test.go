package persist

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codingrelay/lease"

	"github.com/google/go-cmp/cmp"
)

// clearSteps records a clear, with the place's name as CLEARED.
func clearSteps(f *spyFolder) []string {
	var steps []string
	for _, step := range f.steps {
		words := strings.Fields(step)
		for i, w := range words {
			if rest, ok := strings.CutPrefix(w, clearedName+"/"); ok {
				_, name, _ := strings.Cut(rest, "/")
				words[i] = strings.TrimSuffix("CLEARED/"+name, "/")
			}
		}
		steps = append(steps, strings.Join(words, " "))
	}
	return steps
}

// Protocol section 6: a clear is durable on return. The new place reaches the
// disk before the old one does, so that no power cut loses an entry.
func TestClearSyncsTheNewPlaceBeforeTheOld(t *testing.T) {
	s := open(t, t.TempDir())
	key := lease.Key("a")
	mustSave(t, s, record("a"))
	put(t, s.dir, key+markerExt, []byte("a"))
	f := spy(s, nil)
	if _, err := s.Archive(key); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"open .",
		"mkdir cleared", "open .", "syncfolder .",
		"mkdir CLEARED", "open cleared", "syncfolder cleared",
		"open CLEARED",
		"rename " + key + markerExt + " CLEARED/" + key + markerExt,
		"rename " + key + recordExt + " CLEARED/" + key + recordExt,
		"syncfolder CLEARED", "syncfolder .",
	}
	if diff := cmp.Diff(want, clearSteps(f)); diff != "" {
		t.Errorf("steps of a clear (-want +got):\n%s", diff)
	}
}

// Protocol section 6: a failed removal leaves the fence. Whichever step of a
// clear fails, something still fences the id after a restart (unless all has
// moved), nothing is lost, and the clear can be repeated.
func TestClearThatFailsStillFences(t *testing.T) {
	key := lease.Key("a")
	const steps = 12
	for failing := range steps {
		s := open(t, t.TempDir())
		mustSave(t, s, record("a"))
		put(t, s.dir, key+markerExt, []byte("a"))
		n, broken := 0, ""
		spy(s, func(step string) error {
			if n++; n == failing+1 {
				broken = step
				return syscall.EIO
			}
			return nil
		})
		_, err := s.Archive(key)
		if broken == "" || !errors.Is(err, syscall.EIO) {
			t.Fatalf("step %d (%q) fails: Archive = %v, want EIO", failing, broken, err)
		}
		// Only the last step, the old place's sync, comes after all has moved.
		if got := len(load(t, s)); got != 1 && failing != steps-1 {
			t.Errorf("step %q fails: %d fences, want 1", broken, got)
		}
		if _, err := s.Archive(key); err != nil {
			t.Errorf("step %q failed: a second clear: %v", broken, err)
		}
		if got := load(t, s); len(got) != 0 {
			t.Errorf("step %q failed, after a second clear: %+v", broken, got)
		}
		for _, ext := range []string{recordExt, markerExt} {
			if found, _ := filepath.Glob(filepath.Join(s.dir, clearedName, "*", key+ext)); len(found) != 1 {
				t.Errorf("step %q failed: %s is cleared to %v, want one place", broken, ext, found)
			}
		}
	}
}

// A clear that had moved everything and could not sync is made durable by the
// next one, although nothing is there to move any more.
func TestClearOfNothingStillSyncs(t *testing.T) {
	s := open(t, t.TempDir())
	f := spy(s, nil)
	if where, err := s.Archive(lease.Key("a")); where != "" || err != nil {
		t.Fatalf("Archive = %q, %v", where, err)
	}
	if diff := cmp.Diff([]string{"open .", "syncfolder ."}, f.steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// What was cleared once is never overwritten: each clear keeps its own.
func TestClearKeepsEveryEarlierClear(t *testing.T) {
	s := open(t, t.TempDir())
	key := lease.Key("a")
	kept := map[string]string{}
	for _, run := range []string{"r1", "r2", "r3"} {
		mustSave(t, s, record("a", run))
		where, err := s.Archive(key)
		must(t, err)
		kept[where] = run
	}
	if len(kept) != 3 {
		t.Fatalf("three clears have %d places", len(kept))
	}
	for where, run := range kept {
		data, err := os.ReadFile(filepath.Join(where, key+recordExt))
		must(t, err)
		rec, err := lease.Decode(data)
		if err != nil || rec.Runs[0].RunID != run {
			t.Errorf("%s holds %+v (%v), want %s", where, rec, err, run)
		}
	}
}

// A clear must not follow a link out of the folder, nor take a file for one.
func TestClearRefusesAPlaceThatIsNoFolder(t *testing.T) {
	outside := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"file":        func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"link":        func(path string) error { return os.Symlink(outside, path) },
		"link_inside": func(path string) error { return os.Symlink(".", path) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			must(t, make(filepath.Join(s.dir, clearedName)))
			mustSave(t, s, record("a"))
			if where, err := s.Archive(lease.Key("a")); err == nil || !strings.Contains(err.Error(), clearedName) {
				t.Errorf("Archive = %q, %v; want an error that names %s", where, err, clearedName)
			}
			onlyEntry(t, s)
			if got := names(t, outside); len(got) != 0 {
				t.Errorf("outside of the folder: %v", got)
			}
		})
	}
}
