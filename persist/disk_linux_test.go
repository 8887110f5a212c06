package persist

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codingrelay/lease"

	"github.com/google/go-cmp/cmp"
)

func init() {
	// fulldisk runs its checks in a mount namespace of its own, on a file system
	// of 64 KiB that nobody else sees and that goes with the process.
	children["fulldisk"] = func(dir string) error {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=700"); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		return onFullDisk(dir)
	}
	// nobody looks at a folder as a user that may not read everything.
	children["nobody"] = func(dir string) error {
		if os.Getuid() == 0 {
			if err := syscall.Setuid(65534); err != nil {
				return err
			}
		}
		return asNobody(dir)
	}
}

// D29 and design section 5, disk full at acquire, at fencing and at release, on
// a real file system that is full: the old record stays, the error is ENOSPC,
// and a removal works.
func TestFullDiskKeepsWhatWasSaved(t *testing.T) {
	c := childInNamespace(t, "fulldisk", t.TempDir())
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("a mount namespace of its own cannot be made: %v", err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("child: %v", err)
	}
}

// childInNamespace prepares a child that may mount; without root it becomes the
// root of a user namespace.
func childInNamespace(t *testing.T, role, dir string) *child {
	t.Helper()
	c := prepareChild(t, role, dir)
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	c.cmd.SysProcAttr = attr
	return c
}

func onFullDisk(dir string) error {
	s, err := Open(filepath.Join(dir, "hub"), Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := errors.Join(s.Save(record("leased", "old")), s.Save(record("done"))); err != nil {
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	if err := fill(ballast); err != nil {
		return err
	}
	before := listing(s.dir)
	for what, rec := range map[string]lease.Record{
		"acquire": record("new"), "fencing": record("leased", "old", "second"),
	} {
		if err := s.Save(rec); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), s.dir) {
			return fmt.Errorf("at %s: Save = %w, want ENOSPC and the folder's name", what, err)
		}
	}
	if diff := cmp.Diff(before, listing(s.dir)); diff != "" {
		return fmt.Errorf("the full disk changed the folder (-before +after):\n%s", diff)
	}
	entries, err := s.Load()
	if err != nil || len(entries) != 2 {
		return fmt.Errorf("on the full disk Load gives %+v, %w", entries, err)
	}
	for _, e := range entries {
		want := record("done")
		if e.DaemonID == "leased" {
			want = record("leased", "old")
		}
		if diff := cmp.Diff(&want, e.Record); diff != "" {
			return fmt.Errorf("an old record is spoilt (-want +got):\n%s", diff)
		}
	}
	if err := s.Remove(lease.Key("done")); err != nil {
		return fmt.Errorf("at release: %w", err)
	}
	if err := s.Close(); err != nil {
		return err
	}
	return afterFullDisk(s.dir, ballast)
}

// afterFullDisk starts again while the disk is still full, then makes room.
func afterFullDisk(dir, ballast string) error {
	if err := fill(ballast); err != nil { // what the removal gave back
		return err
	}
	s, err := Open(dir, Options{})
	if err != nil {
		return fmt.Errorf("a restart on the full disk: %w", err)
	}
	defer s.Close()
	entries, err := s.Load()
	if err != nil || len(entries) != 1 || entries[0].DaemonID != "leased" {
		return fmt.Errorf("a restart on the full disk finds %+v, %w", entries, err)
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	return s.Save(record("new"))
}

// fill writes until the disk takes no more.
func fill(ballast string) error {
	f, err := os.OpenFile(ballast, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for chunk := make([]byte, 4096); err == nil; {
		_, err = f.Write(chunk)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

func listing(dir string) []string {
	var list []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// Weakness 31 and protocol section 6, as a user without root's rights: an entry
// that may not be read fences its name; a folder that may not be read or written
// refuses the start by name.
func TestEntryAndFolderWithoutPermission(t *testing.T) {
	dir := t.TempDir()
	// The child gives root's rights up, so it must be let in and own the folder.
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	if os.Getuid() == 0 {
		must(t, os.Chown(dir, 65534, 65534))
	}
	c := startChild(t, "nobody", dir)
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("child: %v", err)
	}
}

func asNobody(dir string) error {
	hub := filepath.Join(dir, "hub")
	s, err := Open(hub, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	name := filepath.Join(hub, lease.Key("a")+recordExt)
	if err := errors.Join(s.Save(record("a")), os.Chmod(name, 0)); err != nil {
		return err
	}
	entries, err := s.Load()
	if err != nil || len(entries) != 1 || entries[0].Key != lease.Key("a") || entries[0].Record != nil ||
		!strings.Contains(entries[0].Problem, "permission denied") {
		return fmt.Errorf("an entry without rights: %+v, %w", entries, err)
	}
	if where, err := s.Archive(lease.Key("a")); err != nil || where == "" {
		return fmt.Errorf("its clear: %q, %w", where, err)
	}
	if err := s.Close(); err != nil {
		return err
	}
	return closedFolders(dir)
}

// closedFolders opens folders that lack a right, used before or not.
func closedFolders(dir string) error {
	for i, mode := range []os.FileMode{0, 0o500, 0o300, 0, 0o500, 0o300} {
		closed := filepath.Join(dir, fmt.Sprintf("closed-%d", i))
		if i >= 3 {
			s, err := Open(closed, Options{})
			if err = errors.Join(err, s.Close()); err != nil {
				return err
			}
		} else if err := os.Mkdir(closed, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(closed, mode); err != nil {
			return err
		}
		_, err := Open(closed, Options{})
		if err := os.Chmod(closed, 0o700); err != nil { // or it cannot be cleaned up
			return err
		}
		var folder *FolderError
		if !errors.As(err, &folder) || folder.Dir != closed || !errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("a folder with mode %o, used before %t: Open = %w, want a FolderError", mode, i >= 3, err)
		}
	}
	return nil
}
