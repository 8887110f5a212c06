package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codingrelay/persist"
	"codingrelay/wire"
)

const (
	haltName = "halted.json"
	// liftedName is where the last halt is kept that the owner lifted.
	liftedName  = "halted.lifted.json"
	haltVersion = 1
	// haltBytesMax is far above any record of ours.
	haltBytesMax = 1 << 20
)

// UnreadableRun stands for the run in a halt file that cannot be read.
const UnreadableRun = "unreadable"

// HaltedError says that this daemon has left something behind that nobody could
// prove gone, so it refuses to dial, also after a restart (protocol section 8).
// The exit code of a program that ends with it is 78.
type HaltedError struct {
	DaemonID string
	// File is where it is recorded.
	File string
	Runs []HaltedRun
}

// Error names the runs and says what to do.
func (e *HaltedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "daemon %q has halted: it is not confirmed that everything is gone that it started for ", e.DaemonID)
	for i, r := range e.Runs {
		if i > 0 {
			b.WriteString("; and for ")
		}
		fmt.Fprintf(&b, "run %s (%s)", headOf(r.RunID, 128), headOf(r.Reason, 512))
	}
	fmt.Fprintf(&b, "; look for those processes on this machine and end them, then say so for each run with --accept-unclean RUN (recorded in %s)", e.File)
	return b.String()
}

// haltRecord is the file's content.
type haltRecord struct {
	Version  int          `json:"version"`
	DaemonID string       `json:"daemon_id"`
	Runs     []haltedJSON `json:"runs"`
}

type haltedJSON struct {
	RunID      string    `json:"run_id"`
	At         time.Time `json:"at"`
	Reason     string    `json:"reason"`
	Mechanism  string    `json:"mechanism,omitempty"`
	ExitCode   *int      `json:"exit_code,omitempty"`
	Signal     string    `json:"signal,omitempty"`
	Killed     int       `json:"killed,omitempty"`
	Survivors  int       `json:"survivors,omitempty"`
	DurationMS int64     `json:"duration_ms,omitempty"`
	Weak       bool      `json:"weak,omitempty"`
}

// haltFile is the halt of one daemon id on this machine.
type haltFile struct {
	path, daemonID string

	mu   sync.Mutex
	runs []HaltedRun
}

// openHalt reads the file. One that cannot be read halts: what it said may be
// true.
func openHalt(dir, daemonID string) (*haltFile, error) {
	h := &haltFile{path: filepath.Join(dir, haltName), daemonID: daemonID}
	info, err := os.Lstat(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("daemon: look for a halt: %w", err)
	}
	var rec haltRecord
	if rec, err = readHalt(h.path, info); err != nil {
		h.runs = []HaltedRun{{RunID: UnreadableRun, Reason: err.Error()}}
		return h, nil
	}
	for _, r := range rec.Runs {
		h.runs = append(h.runs, r.run())
	}
	return h, nil
}

func readHalt(path string, info fs.FileInfo) (haltRecord, error) {
	var rec haltRecord
	if !info.Mode().IsRegular() || info.Size() > haltBytesMax {
		return rec, errors.New("the record is no file of this program's")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return rec, fmt.Errorf("the record cannot be read: %w", err)
	}
	if err := json.Unmarshal(data, &rec); err != nil || rec.Version != haltVersion || len(rec.Runs) == 0 {
		return rec, errors.New("the record cannot be understood")
	}
	return rec, nil
}

// save makes the halt durable; runs are added to those that are there.
func (h *haltFile) save(runs []HaltedRun) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range runs {
		if h.find(r.RunID) < 0 {
			h.runs = append(h.runs, r)
		}
	}
	return h.write(haltName, h.runs)
}

func (h *haltFile) find(run string) int {
	for i, r := range h.runs {
		if r.RunID == run {
			return i
		}
	}
	return -1
}

func (h *haltFile) write(name string, runs []HaltedRun) error {
	rec := haltRecord{Version: haltVersion, DaemonID: h.daemonID}
	for _, r := range runs {
		rec.Runs = append(rec.Runs, jsonOf(r))
	}
	data, err := json.Marshal(rec, jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return fmt.Errorf("daemon: write the halt: %w", err)
	}
	return persist.WriteFileAtomic(filepath.Join(filepath.Dir(h.path), name), append(data, '\n'), 0o600)
}

// accept lifts one run's halt. What was recorded is kept aside.
func (h *haltFile) accept(run string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.find(run)
	if i < 0 {
		var known []string
		for _, r := range h.runs {
			known = append(known, r.RunID)
		}
		if known == nil {
			return fmt.Errorf("daemon %q has not halted; there is nothing to accept", h.daemonID)
		}
		return fmt.Errorf("daemon %q has not halted for run %q, but for %s", h.daemonID, run, strings.Join(known, ", "))
	}
	left := append(append([]HaltedRun(nil), h.runs[:i]...), h.runs[i+1:]...)
	var err error
	switch {
	case run == UnreadableRun, len(left) == 0:
		err = os.Rename(h.path, filepath.Join(filepath.Dir(h.path), liftedName))
	default:
		err = h.write(haltName, left)
	}
	if err != nil {
		return fmt.Errorf("daemon: lift the halt: %w", err)
	}
	h.runs = left
	return nil
}

// err is the halt as an error, or nil.
func (h *haltFile) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.runs) == 0 {
		return nil
	}
	return &HaltedError{DaemonID: h.daemonID, File: h.path, Runs: append([]HaltedRun(nil), h.runs...)}
}

func jsonOf(r HaltedRun) haltedJSON {
	return haltedJSON{
		RunID: r.RunID, At: r.At.UTC(), Reason: r.Reason,
		Mechanism: r.Receipt.Mechanism, ExitCode: r.Receipt.ExitCode, Signal: r.Receipt.Signal, Killed: r.Receipt.Killed,
		Survivors: r.Receipt.Survivors, DurationMS: r.Receipt.DurationMS, Weak: r.Receipt.Weak,
	}
}

func (j haltedJSON) run() HaltedRun {
	return HaltedRun{RunID: j.RunID, At: j.At, Reason: j.Reason, Receipt: wire.Receipt{
		Mechanism: j.Mechanism, ExitCode: j.ExitCode, Signal: j.Signal, Killed: j.Killed,
		Survivors: j.Survivors, DurationMS: j.DurationMS, Weak: j.Weak,
	}}
}
