//go:build !linux && !darwin

package containment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
)

const ownExecutable = ""

var errNotDir = errors.New("not a folder")

// Detect says which mechanism this machine offers: none.
func Detect(Mode) (Level, error) {
	return "", fmt.Errorf("%w: no way is known yet to prove that a process tree is gone on %s; run the daemon on Linux (or, with --containment weak, on macOS)", ErrUnsupported, runtime.GOOS)
}

func hasPipes() bool { return false }

func superviseMain() int { return 1 }

func mayEnter(string) error { return nil }

func mayExecute(string) error { return nil }

func spawnError(_ Spec, path string, _ word) error {
	return &SpawnError{Reason: ErrUnsupported, Path: path}
}

func ownSession() *syscall.SysProcAttr { return nil }

func wake(*os.Process) {}

func sweep(Identity) []int { return nil }

func readNow(*os.File, []byte) (int, error) { return 0, io.EOF }
