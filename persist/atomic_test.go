package persist

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// D29, D30: a small file is replaced whole, and nothing else is left.
func TestWriteFileAtomicReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "relay.json")
	for _, text := range []string{"one", "a longer second", ""} {
		must(t, WriteFileAtomic(path, []byte(text), 0))
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("got %q, %v; want %q", got, err, text)
		}
	}
	if diff := cmp.Diff([]string{"relay.json"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// A path may be relative, as users give it.
func TestWriteFileAtomicTakesARelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, WriteFileAtomic("token", []byte("x"), 0))
	if got, err := os.ReadFile("token"); err != nil || string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A secret written to a path where somebody planted a link does not land in the
// link's target.
func TestWriteFileAtomicReplacesALink(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "target", []byte("theirs"))
	must(t, os.Symlink("target", filepath.Join(dir, "token")))
	must(t, WriteFileAtomic(filepath.Join(dir, "token"), []byte("secret"), 0))
	if got, _ := os.ReadFile(filepath.Join(dir, "target")); string(got) != "theirs" {
		t.Errorf("the target holds %q", got)
	}
	if info, err := os.Lstat(filepath.Join(dir, "token")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the link is still there: %v, %v", info, err)
	}
}

// Errors name the path, keep what was there and leave nothing behind.
func TestWriteFileAtomicRefusesWhatItCannotReplace(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	for name, path := range map[string]string{
		"a_folder":  filepath.Join(dir, "folder"),
		"no_folder": filepath.Join(dir, "missing", "token"),
	} {
		t.Run(name, func(t *testing.T) {
			err := WriteFileAtomic(path, []byte("secret"), 0)
			if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want an error that names the path and not the content", err)
			}
		})
	}
	if err := WriteFileAtomic(filepath.Join(dir, "missing", "x"), nil, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	if diff := cmp.Diff([]string{"folder"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Only what tempName makes is swept: a user's file is never taken for ours.
func TestTempNamesAreOurs(t *testing.T) {
	if name := tempName(); !isTemp(name) || name == tempName() {
		t.Errorf("tempName gives %q, twice or not as isTemp knows it", name)
	}
	for _, name := range []string{
		"", ".relay-tmp-", ".relay-tmp-0123456789abcde", ".relay-tmp-0123456789abcdef0", ".relay-tmp-0123456789abcdeF",
		"relay-tmp-0123456789abcdef", "x.relay-tmp-0123456789abcdef", "token", ".token123",
	} {
		if isTemp(name) {
			t.Errorf("%q is taken for ours", name)
		}
	}
}

// D29: a record is durable only when every folder above it is, up to the first
// one that was there before.
func TestMakeFolderSyncsEveryParent(t *testing.T) {
	base := t.TempDir()
	var synced []string
	must(t, makeFolder(filepath.Join(base, "a", "b", "c"), func(dir string) error {
		synced = append(synced, dir)
		return nil
	}))
	want := []string{base, filepath.Join(base, "a"), filepath.Join(base, "a", "b")}
	if diff := cmp.Diff(want, synced); diff != "" {
		t.Errorf("synced (-want +got):\n%s", diff)
	}
	broken := errors.New("broken")
	err := makeFolder(filepath.Join(base, "d"), func(string) error { return broken })
	var folder *FolderError
	if !errors.As(err, &folder) || !errors.Is(err, broken) {
		t.Errorf("a sync that fails gives %v, want a FolderError of it", err)
	}
}
