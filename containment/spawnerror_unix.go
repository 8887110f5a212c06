//go:build linux || darwin

package containment

import (
	"os"

	"golang.org/x/sys/unix"
)

const errNotDir = unix.ENOTDIR

// mayEnter says whether this process may list and enter the folder, by its
// effective ids: those are what the supervisor runs with.
func mayEnter(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.R_OK|unix.X_OK, unix.AT_EACCESS)
}

func mayExecute(file string) error {
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}

// spawnError turns what a supervisor says of a failed start into the error that
// the checks before the start would have given, had they seen it.
func spawnError(spec Spec, path string, w word) error {
	errno := unix.Errno(w.Errno)
	switch w.Stage {
	case stageContain:
		return &SpawnError{Reason: ErrUnsupported, Hint: "the supervisor cannot become the reaper of the run", Err: errno}
	case stageDir:
		return dirError(spec.Dir, errno)
	case stageExec:
	}
	e := &SpawnError{Reason: ErrSpawn, Path: path, Err: errno}
	switch errno {
	case unix.ENOENT:
		e.Reason = ErrCommandNotFound
		if _, err := os.Stat(path); err == nil {
			e.Reason = ErrCommandNotExecutable
			e.Hint = "the file is there, but the interpreter it names (its first line, or its loader) is not"
		}
	case unix.ENOEXEC:
		e.Reason = ErrCommandNotExecutable
		e.Hint = "it is no program for this machine, and no script with a #! line"
	case unix.EACCES, unix.ENOTDIR, unix.ELOOP:
		e.Reason = ErrCommandNotExecutable
	case unix.E2BIG:
		e.Reason = ErrTooLong
	}
	return e
}
