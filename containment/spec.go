package containment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Spec is one command to run.
type Spec struct {
	// Argv is the command and its arguments. Argv[0] without a slash is looked for
	// in the folders of the PATH that is in Env; relative folders there are passed
	// over. With a slash it is a path, relative to Dir.
	Argv []string
	// Dir is the working folder, an absolute path.
	Dir string
	// Env is the whole environment, as KEY=value; nothing is added to it.
	Env []string
	// Stdin is written to the command's standard input, which is then closed. A
	// command that does not read it is no error.
	Stdin []byte
	// KeepStdin leaves the standard input open after Stdin was written; it is
	// then [Tree.Stdin], and the caller's to close.
	KeepStdin bool
}

// resolve finds the command's file and refuses, before anything is started, what
// cannot run. The errors are [SpawnError] or [ErrSpec].
func (s Spec) resolve() (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	if err := checkDir(s.Dir); err != nil {
		return "", err
	}
	name := s.Argv[0]
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(s.Dir, name)
		}
		return name, checkCommand(name)
	}
	return s.lookUp(name)
}

// check refuses what no system call could carry.
func (s Spec) check() error {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return fmt.Errorf("%w: no command is given", ErrSpec)
	}
	if !filepath.IsAbs(s.Dir) {
		return fmt.Errorf("%w: the working folder %q is not an absolute path", ErrSpec, s.Dir)
	}
	if strings.ContainsRune(s.Dir, 0) {
		return fmt.Errorf("%w: the working folder has a NUL byte in its name", ErrSpec)
	}
	for i, word := range s.Argv {
		if strings.ContainsRune(word, 0) {
			return fmt.Errorf("%w: argument %d has a NUL byte", ErrSpec, i)
		}
		if len(word) >= wordMax() {
			return &SpawnError{Reason: ErrTooLong, Hint: fmt.Sprintf("argument %d has %d bytes, one may have %d", i, len(word), wordMax()-1)}
		}
	}
	for i, entry := range s.Env {
		// Names only, and only of well-formed entries: a value may be a secret.
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || strings.ContainsRune(entry, 0) {
			return fmt.Errorf("%w: environment entry %d is not NAME=value, or has a NUL byte", ErrSpec, i)
		}
		if len(entry) >= wordMax() {
			return &SpawnError{Reason: ErrTooLong, Hint: fmt.Sprintf("the variable %s has %d bytes, one may have %d", name, len(entry), wordMax()-1)}
		}
	}
	return nil
}

// wordMax is the size, the closing NUL included, that Linux gives to one argument
// or variable (MAX_ARG_STRLEN in its binfmts.h). Other systems only limit the sum,
// to which the system's own E2BIG answers.
func wordMax() int { return 32 * os.Getpagesize() }

// lookUp searches the run's own PATH, not the daemon's: service managers start
// daemons with a short one, and the two must not be taken for each other.
func (s Spec) lookUp(name string) (string, error) {
	var path string
	set := false
	for _, entry := range s.Env {
		// The first one: that is what getenv in the child returns.
		if v, ok := strings.CutPrefix(entry, "PATH="); ok && !set {
			path, set = v, true
		}
	}
	if !set {
		return "", &SpawnError{Reason: ErrCommandNotFound, Path: name, Hint: "the run's environment has no PATH; give the full path of the command"}
	}
	looked := filepath.SplitList(path)
	var near *SpawnError
	for _, dir := range looked {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		err := checkCommand(file)
		if err == nil {
			return file, nil
		}
		var spawn *SpawnError
		if near == nil && errors.As(err, &spawn) && !errors.Is(err, ErrCommandNotFound) {
			near = spawn
		}
	}
	if near != nil {
		near.Looked = looked
		return "", near
	}
	if looked == nil {
		looked = []string{}
	}
	return "", &SpawnError{Reason: ErrCommandNotFound, Path: name, Looked: looked, Hint: "give its full path, or a PATH that has it"}
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return dirError(dir, err)
	case !info.IsDir():
		return &SpawnError{Reason: ErrDirNotFolder, Path: dir}
	}
	if err := mayEnter(dir); err != nil {
		return &SpawnError{Reason: ErrDirDenied, Path: dir, Err: err}
	}
	return nil
}

// dirError names what a failed stat or chdir says about the folder.
func dirError(dir string, err error) error {
	reason := ErrDirDenied
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason = ErrDirMissing
	case errors.Is(err, errNotDir):
		reason = ErrDirNotFolder
	}
	return &SpawnError{Reason: reason, Path: dir, Err: err}
}

func checkCommand(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotDir):
		return &SpawnError{Reason: ErrCommandNotFound, Path: file, Err: err}
	case err != nil:
		return &SpawnError{Reason: ErrCommandNotExecutable, Path: file, Err: err}
	case info.IsDir():
		return &SpawnError{Reason: ErrCommandIsFolder, Path: file}
	case !info.Mode().IsRegular():
		return &SpawnError{Reason: ErrCommandNotExecutable, Path: file, Hint: "it is not a regular file"}
	}
	if err := mayExecute(file); err != nil {
		return &SpawnError{Reason: ErrCommandNotExecutable, Path: file, Err: err}
	}
	return nil
}
