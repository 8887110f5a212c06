package persist

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"codingrelay/lease"
)

// strangeThing puts something that is no record under a name.
type strangeThing func(t testing.TB, dir, name string)

func content(text string) strangeThing {
	return func(t testing.TB, dir, name string) { put(t, dir, name, []byte(text)) }
}

// strangeThings are the ways in which an entry of the daemon "dämon" can be bad;
// weakness 31 lists the first few.
func strangeThings(t testing.TB) map[string]strangeThing {
	good := string(encoded(t, record("dämon")))
	return map[string]strangeThing{
		"not_utf8":   content("\xff\xfe\x00"),
		"torn_char":  content("d\xc3"),
		"empty":      content(""),
		"zeros":      content(strings.Repeat("\x00", 300)),
		"torn_json":  content(good[:len(good)/2]),
		"two":        content(good + good),
		"array":      content("[" + good + "]"),
		"version":    content(strings.Replace(good, `"version":1`, `"version":9`, 1)),
		"unknown":    content(strings.Replace(good, `"reason"`, `"x"`, 1) + "x"),
		"of_another": content(string(encoded(t, record("innocent")))),
		"other_id":   content("innocent"),
		"too_large":  content(good + strings.Repeat(" ", lease.MaxBytes)),
		"deep":       content(strings.Repeat("[", 200_000)),
		"directory": func(t testing.TB, dir, name string) {
			must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			put(t, filepath.Join(dir, name), "inside", []byte("x"))
		},
		"dangling_link": func(t testing.TB, dir, name string) {
			must(t, os.Symlink("/nonexistent/x", filepath.Join(dir, name)))
		},
		"link_to_a_record": func(t testing.TB, dir, name string) {
			target := filepath.Join(t.(*testing.T).TempDir(), "record")
			must(t, os.WriteFile(target, []byte(good), 0o600))
			must(t, os.Symlink(target, filepath.Join(dir, name)))
		},
		"link_inside": func(t testing.TB, dir, name string) {
			must(t, os.Symlink(lockName, filepath.Join(dir, name)))
		},
	}
}

// Weaknesses 31 and 32: whatever lies under a name, the hub starts, exactly the
// hash in the name is fenced, nobody else, and a clear moves it aside whole.
func TestUnreadableEntryFencesExactlyItsName(t *testing.T) {
	key := lease.Key("dämon")
	for name, make := range strangeThings(t) {
		for _, ext := range []string{recordExt, markerExt} {
			t.Run(name+ext, func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, dir)
				make(t, dir, key+ext)
				mustSave(t, s, record("healthy"))
				var bad *lease.Entry
				for _, e := range load(t, s) {
					switch e.Key {
					case key:
						bad = &e
					case lease.Key("healthy"):
					default:
						t.Errorf("somebody else is fenced: %+v", e)
					}
				}
				if bad == nil || bad.Record != nil || bad.DaemonID != "" || bad.Problem == "" || bad.FenceID == "" {
					t.Fatalf("the entry is %+v, want an unlabelled fence with a problem and a fence id", bad)
				}
				if strings.ContainsAny(bad.Problem, "\n\x00") || !utf8.ValidString(bad.Problem) || len(bad.Problem) > 500 {
					t.Errorf("the problem is not fit for a line: %q", bad.Problem)
				}
				must(t, s.Close())
				again := open(t, dir)
				for _, e := range load(t, again) {
					if e.Key == key && e.FenceID != bad.FenceID {
						t.Errorf("after a restart the fence id is %s, was %s", e.FenceID, bad.FenceID)
					}
				}
				clearsWhole(t, again, key, key+ext)
			})
		}
	}
}

// clearsWhole archives key and checks that the thing named name moved as it was.
func clearsWhole(t *testing.T, s *Files, key, name string) {
	t.Helper()
	before, err := os.Lstat(filepath.Join(s.dir, name))
	must(t, err)
	where, err := s.Archive(key)
	must(t, err)
	after, err := os.Lstat(filepath.Join(where, name))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the entry did not move to %s: %v", where, err)
	}
	if e := onlyEntry(t, s); e.DaemonID != "healthy" {
		t.Errorf("after the clear: %+v", e)
	}
}

// A changed entry is another raising: a clear that names the old fence id must
// not lift it (protocol section 6).
func TestDerivedFenceIDFollowsTheBytes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	seen := map[string]string{}
	look := func(what string) {
		e := onlyEntry(t, s)
		if !strings.HasPrefix(e.FenceID, "file-") {
			t.Errorf("%s: fence id %q", what, e.FenceID)
		}
		if other, ok := seen[e.FenceID]; ok {
			t.Errorf("%s has the fence id of %s", what, other)
		}
		seen[e.FenceID] = what
	}
	a, b := lease.Key("a"), lease.Key("b")
	put(t, dir, a+recordExt, []byte("x"))
	look("x")
	put(t, dir, a+recordExt, []byte("y"))
	look("y")
	put(t, dir, a+markerExt, []byte("a"))
	look("y_and_marker")
	must(t, os.Remove(filepath.Join(dir, a+recordExt)))
	look("marker")
	must(t, os.Rename(filepath.Join(dir, a+markerExt), filepath.Join(dir, b+markerExt)))
	look("same_bytes_of_another")
	must(t, os.Remove(filepath.Join(dir, b+markerExt)))
	must(t, os.Mkdir(filepath.Join(dir, b+markerExt), 0o700))
	look("directory")
	put(t, dir, a+recordExt, []byte(strings.Repeat("x", lease.MaxBytes+2)))
	must(t, os.Remove(filepath.Join(dir, b+markerExt)))
	look("large")
	put(t, dir, a+recordExt, []byte(strings.Repeat("x", lease.MaxBytes+3)))
	look("larger")
}

// Issue text and protocol section 6: the name of a Python hub's marker counts;
// its content labels it when its hash agrees.
func TestMarkerIsLabelledOnlyByItsOwnID(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	key := lease.Key("dämon 1")
	for text, want := range map[string]string{
		"dämon 1": "dämon 1", "dämon 1\n": "dämon 1", " dämon 1\r\n": "dämon 1",
		"dämon": "", "dämon 1\x00": "", "\ufeffdämon 1": "", "": "",
	} {
		put(t, dir, key+markerExt, []byte(text))
		e := onlyEntry(t, s)
		if e.Key != key || e.DaemonID != want || e.Record != nil || !strings.Contains(e.Problem, "Python hub") {
			t.Errorf("marker with %q: %+v, want the label %q", text, e, want)
		}
	}
}

// An id that is no UTF-8 passes no hello, so it labels nothing, although its hash
// agrees.
func TestMarkerOfAnImpossibleIDHasNoLabel(t *testing.T) {
	s := NewMemory()
	s.Plant(lease.Key("d\xff")+markerExt, []byte("d\xff"))
	if e := onlyEntry(t, s); e.Key != lease.Key("d\xff") || e.DaemonID != "" {
		t.Errorf("the entry is %+v, want no label", e)
	}
}

// Both a record and a marker of one id are one fence: the record says more. A
// record that cannot be read leaves the marker's label.
func TestRecordAndMarkerAreOneEntry(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	key := lease.Key("a")
	put(t, dir, key+markerExt, []byte("a"))
	mustSave(t, s, record("a"))
	if e := onlyEntry(t, s); e.Record == nil || e.FenceID != "fence-of-a" || e.Problem != "" {
		t.Errorf("with a good record: %+v", e)
	}
	put(t, dir, key+recordExt, []byte("{"))
	if e := onlyEntry(t, s); e.Record != nil || e.DaemonID != "a" || !strings.Contains(e.Problem, "record") {
		t.Errorf("with a bad record: %+v", e)
	}
	where, err := s.Archive(key)
	must(t, err)
	if got := names(t, where); len(got) != 2 {
		t.Errorf("the clear moved %v, want both", got)
	}
	if got := load(t, s); len(got) != 0 {
		t.Errorf("after the clear: %+v", got)
	}
}

// What is no regular file has the name of a record: it fences, so a save or a
// removal there is a bug upstream, and must not destroy it.
func TestSaveAndRemoveLeaveWhatIsNoFile(t *testing.T) {
	for _, name := range []string{"directory", "dangling_link", "link_to_a_record"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			path := filepath.Join(dir, lease.Key("dämon")+recordExt)
			strangeThings(t)[name](t, dir, filepath.Base(path))
			before, err := os.Lstat(path)
			must(t, err)
			saved, removed := s.Save(record("dämon")), s.Remove(lease.Key("dämon"))
			if saved == nil || removed == nil {
				t.Errorf("Save = %v, Remove = %v; want errors", saved, removed)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("it was replaced or removed: %v", err)
			}
		})
	}
}

// FuzzLoad: any bytes under an entry's name: Load never panics, never errors,
// and fences exactly that hash; a label is only ever the id that hashes to it.
func FuzzLoad(f *testing.F) {
	good := encoded(f, record("dämon"))
	for _, seed := range [][]byte{
		good, good[:50], encoded(f, record("innocent")), []byte("dämon"), []byte("dämon\n"),
		[]byte("innocent"),
		{},
		{0xff},
		make([]byte, 64), []byte(`{"version":2}`),
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	dir := f.TempDir()
	files := open(f, dir)
	key := lease.Key("dämon")
	f.Fuzz(func(t *testing.T, data []byte, marker bool) {
		name := key + recordExt
		if marker {
			name = key + markerExt
		}
		memory := NewMemory()
		memory.Plant(name, data)
		put(t, dir, name, data)
		defer os.Remove(filepath.Join(dir, name))
		fenceID := ""
		for _, s := range []Store{files, memory} {
			e := onlyEntry(t, s)
			if e.Key != key || e.FenceID == "" {
				t.Fatalf("%q fences %+v, want %s", data, e, key)
			}
			if e.DaemonID != "" && e.DaemonID != "dämon" {
				t.Fatalf("%q is labelled %q", data, e.DaemonID)
			}
			if (e.Record == nil) == (e.Problem == "") {
				t.Fatalf("%q: record %v, problem %q", data, e.Record, e.Problem)
			}
			if fenceID != "" && fenceID != e.FenceID {
				t.Fatalf("%q has two fence ids", data)
			}
			fenceID = e.FenceID
		}
	})
}
