package persist

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"codingrelay/lease"
)

// children are the roles this test binary can play as a process of its own.
var children = map[string]func(dir string) error{}

const (
	childEnv    = "RELAY_PERSIST_CHILD"
	childDirEnv = "RELAY_PERSIST_DIR"
)

func TestMain(m *testing.M) {
	if role, ok := children[os.Getenv(childEnv)]; ok {
		if err := role(os.Getenv(childDirEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is a process of this test binary in a role.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	talk  *os.File // its standard input; closing it asks a waiting child to end
}

// startChild runs a role on dir and ends it with the test at the latest.
func startChild(t *testing.T, role, dir string, env ...string) *child {
	t.Helper()
	c := prepareChild(t, role, dir, env...)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// prepareChild is startChild without the start.
func prepareChild(t *testing.T, role, dir string, env ...string) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	// A child under the race detector would sleep for a second before it exits.
	cmd.Env = append(append(os.Environ(), childEnv+"="+role, childDirEnv+"="+dir, "GORACE=atexit_sleep_ms=0"), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, talk, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = in
	c := &child{cmd: cmd, lines: bufio.NewScanner(out), talk: talk}
	t.Cleanup(func() {
		talk.Close()
		in.Close()
		if cmd.Process != nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return c
}

// line is the next line the child prints; "" when it has ended.
func (c *child) line() string {
	if !c.lines.Scan() {
		return ""
	}
	return c.lines.Text()
}

// untilAsked prints that the child is ready and blocks until its parent closes
// the child's standard input.
func untilAsked() {
	fmt.Println("ready")
	var b [1]byte
	os.Stdin.Read(b[:])
}

func record(id string, runs ...string) lease.Record {
	at := time.Date(2026, 11, 5, 7, 8, 9, 0, time.UTC)
	rec := lease.Record{
		Version: lease.Version, DaemonID: id, FenceID: "fence-of-" + id, UpdatedAt: at,
		Metadata: json.RawMessage(`{"pid":7}`),
	}
	if len(runs) == 0 {
		runs = []string{"r1"}
	}
	for _, r := range runs {
		rec.Runs = append(rec.Runs, lease.Run{RunID: r, Incarnation: "i1", LeasedAt: at})
	}
	return rec
}

func encoded(t testing.TB, rec lease.Record) []byte {
	t.Helper()
	data, err := lease.Encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func open(t testing.TB, dir string) *Files {
	t.Helper()
	s, err := Open(dir, Options{Program: "test"})
	if err != nil {
		t.Fatalf("Open(%s): %v", dir, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func load(t testing.TB, s Store) []lease.Entry {
	t.Helper()
	entries, err := s.Load()
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return entries
}

// onlyEntry is the one entry of a store that must have exactly one.
func onlyEntry(t testing.TB, s Store) lease.Entry {
	t.Helper()
	entries := load(t, s)
	if len(entries) != 1 {
		t.Fatalf("Load gave %d entries, want 1: %+v", len(entries), entries)
	}
	return entries[0]
}

func mustSave(t testing.TB, s Store, recs ...lease.Record) {
	t.Helper()
	for _, rec := range recs {
		if err := s.Save(rec); err != nil {
			t.Fatalf("Save(%s): %v", rec.DaemonID, err)
		}
	}
}

func put(t testing.TB, dir, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// names lists a folder without the lock file, sorted.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		if e.Name() != lockName {
			list = append(list, e.Name())
		}
	}
	sort.Strings(list)
	return list
}

// spyFolder records what is done to a folder, and lets a test fail or delay it.
type spyFolder struct {
	folder
	// before is asked before each step; an error is the step's result.
	before func(step string) error

	mu    sync.Mutex
	steps []string
}

// spy puts a spyFolder into a store.
func spy(s *Files, before func(step string) error) *spyFolder {
	f := &spyFolder{folder: s.disk, before: before}
	s.disk = f
	return f
}

func (f *spyFolder) step(words ...string) error {
	for i, w := range words {
		if isTemp(w) {
			words[i] = "TEMP"
		}
	}
	text := strings.Join(words, " ")
	f.mu.Lock()
	f.steps = append(f.steps, text)
	f.mu.Unlock()
	if f.before == nil {
		return nil
	}
	return f.before(text)
}

func (f *spyFolder) create(name string, perm os.FileMode) (tempFile, error) {
	if err := f.step("create", name); err != nil {
		return nil, err
	}
	file, err := f.folder.create(name, perm)
	return spyFile{file, f, name}, err
}

func (f *spyFolder) mkdir(name string) error {
	if err := f.step("mkdir", name); err != nil {
		return err
	}
	return f.folder.mkdir(name)
}

func (f *spyFolder) rename(from, to string) error {
	if err := f.step("rename", from, to); err != nil {
		return err
	}
	return f.folder.rename(from, to)
}

func (f *spyFolder) remove(name string) error {
	if err := f.step("remove", name); err != nil {
		return err
	}
	return f.folder.remove(name)
}

func (f *spyFolder) open(name string) (folderHandle, error) {
	if err := f.step("open", name); err != nil {
		return nil, err
	}
	h, err := f.folder.open(name)
	return spyHandle{h, f, name}, err
}

type spyFile struct {
	tempFile
	spy  *spyFolder
	name string
}

func (f spyFile) Write(p []byte) (int, error) {
	if err := f.spy.step("write", f.name); err != nil {
		n, _ := f.tempFile.Write(p[:len(p)/2]) // a full disk takes a part
		return n, err
	}
	return f.tempFile.Write(p)
}

func (f spyFile) Sync() error {
	if err := f.spy.step("sync", f.name); err != nil {
		return err
	}
	return f.tempFile.Sync()
}

func (f spyFile) Close() error {
	return errors.Join(f.spy.step("close", f.name), f.tempFile.Close())
}

type spyHandle struct {
	folderHandle
	spy  *spyFolder
	name string
}

func (h spyHandle) Sync() error {
	if err := h.spy.step("syncfolder", h.name); err != nil {
		return err
	}
	return h.folderHandle.Sync()
}
