//go:build linux

package containment

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// write makes a file and returns its path.
func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// D09: what cannot run is refused with the reason, naming the folder or the
// command, whichever is wrong, and where it was looked for.
func TestStartNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "plain"), "x", 0o644)
	write(t, filepath.Join(dir, "no-interpreter"), "#!/nowhere/sh\n", 0o755)
	write(t, filepath.Join(dir, "no-format"), "just text\n", 0o755)
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := "PATH=/usr/bin:" + dir
	type refusal struct {
		spec Spec
		want error
		says []string
	}
	at := func(dir string, argv ...string) Spec { return Spec{Argv: argv, Dir: dir, Env: []string{path}} }
	for name, tt := range map[string]refusal{
		"dir_missing":         {at(dir+"/none", "true"), ErrDirMissing, []string{"working folder", dir + "/none"}},
		"dir_is_a_file":       {at(file, "true"), ErrDirNotFolder, []string{"working folder", file}},
		"dir_below_a_file":    {at(file+"/x", "true"), ErrDirNotFolder, []string{file + "/x"}},
		"dir_relative":        {at("some/where", "true"), ErrSpec, []string{"some/where", "absolute"}},
		"not_on_path":         {at(dir, "no-such-agent"), ErrCommandNotFound, []string{"command", "no-such-agent", "/usr/bin:" + dir, "the run's own PATH"}},
		"on_path_not_exec":    {at(dir, "plain"), ErrCommandNotExecutable, []string{file}},
		"on_path_a_folder":    {at(dir, "folder"), ErrCommandIsFolder, []string{dir + "/folder"}},
		"no_path":             {Spec{Argv: []string{"true"}, Dir: dir}, ErrCommandNotFound, []string{"no PATH"}},
		"empty_path":          {Spec{Argv: []string{"true"}, Dir: dir, Env: []string{"PATH="}}, ErrCommandNotFound, []string{"looked in"}},
		"first_path_counts":   {Spec{Argv: []string{"true"}, Dir: dir, Env: []string{"PATH=/nowhere", "PATH=/usr/bin"}}, ErrCommandNotFound, []string{"/nowhere"}},
		"relative_path_entry": {Spec{Argv: []string{"no-format"}, Dir: dir, Env: []string{"PATH=.:"}}, ErrCommandNotFound, nil},
		"path_given_missing":  {at(dir, "./none"), ErrCommandNotFound, []string{dir + "/none"}},
		"path_given_not_exec": {at(dir, file), ErrCommandNotExecutable, []string{file}},
		"path_given_a_folder": {at(dir, "./folder"), ErrCommandIsFolder, []string{"/folder"}},
		"a_device":            {at(dir, "/dev/null"), ErrCommandNotExecutable, []string{"not a regular file"}},
		"no_interpreter":      {at(dir, "./no-interpreter"), ErrCommandNotExecutable, []string{"interpreter"}},
		"no_format":           {at(dir, "./no-format"), ErrCommandNotExecutable, []string{"#!"}},
		"no_command":          {at(dir), ErrSpec, []string{"no command"}},
		"nul_in_argument":     {at(dir, "true", "a\x00b"), ErrSpec, []string{"argument 1"}},
		"nul_in_dir":          {at("/\x00", "true"), ErrSpec, []string{"working folder"}},
		"long_argument":       {at(dir, "true", strings.Repeat("s3cret", 30_000)), ErrTooLong, []string{"argument 1", "stdin"}},
		"long_variable":       {Spec{Argv: []string{"true"}, Dir: dir, Env: []string{path, "BIG=" + strings.Repeat("s3cret", 30_000)}}, ErrTooLong, []string{"BIG"}},
		"bad_variable":        {Spec{Argv: []string{"true"}, Dir: dir, Env: []string{path, "s3cret"}}, ErrSpec, []string{"entry 1"}},
		"too_long_in_sum":     {at(dir, append([]string{"true"}, slices.Repeat([]string{strings.Repeat("x", 100_000)}, 70)...)...), ErrTooLong, []string{"stdin"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, tt.spec, tt.want, tt.says...)
		})
	}
}

func refused(t *testing.T, spec Spec, want error, says ...string) {
	t.Helper()
	tree, err := Start(quick(), spec)
	if err == nil {
		_ = tree.Close()
		t.Fatal("it was started")
	}
	if !errors.Is(err, want) || errors.Is(err, ErrUnconfirmed) {
		t.Errorf("error %q; want %q", err, want)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q; want it to say %q", err, s)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %q tells a value", err)
	}
}

// D09: a folder that may not be read, and a command that may not be run, by this
// user. The superuser may everything, so the check is made on a thread that is nobody.
func TestStartRefusesWhatThisUserMayNotUse(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	// Nobody must be able to come as far as that.
	for dir := base; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	locked := filepath.Join(base, "locked")
	// It may be entered, so only the look before the start can refuse it.
	if err := os.Mkdir(locked, 0o711); err != nil {
		t.Fatal(err)
	}
	command := write(t, filepath.Join(base, "command"), "#!/bin/sh\n", 0o700)
	if os.Geteuid() != 0 {
		if err := errors.Join(os.Chmod(locked, 0o100), os.Chmod(command, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan [2]error)
	go func() {
		// Not unlocked: the thread, and its loss of rights, end with the goroutine.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			const nobody = 65534
			if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), nobody, ^uintptr(0)); errno != 0 {
				t.Errorf("setresuid: %v", errno)
			}
		}
		_, first := Start(quick(), Spec{Argv: []string{"/bin/true"}, Dir: locked})
		_, second := Start(quick(), Spec{Argv: []string{command}, Dir: "/"})
		failed <- [2]error{first, second}
	}()
	got := <-failed
	if !errors.Is(got[0], ErrDirDenied) || !strings.Contains(got[0].Error(), locked) {
		t.Errorf("folder: %v; want %q naming %s", got[0], ErrDirDenied, locked)
	}
	if !errors.Is(got[1], ErrCommandNotExecutable) || !strings.Contains(got[1].Error(), command) {
		t.Errorf("command: %v; want %q naming %s", got[1], ErrCommandNotExecutable, command)
	}
}

// D09: the command is found where the run's own PATH says, also relative to the
// working folder, and argv[0] stays as it was given.
func TestStartFindsTheCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "hello"), "#!/bin/sh\necho \"$0 in $PWD: $1\"\n", 0o755)
	for name, spec := range map[string]Spec{
		"by_path":     {Argv: []string{"hello", "x"}, Dir: dir, Env: []string{"PATH=/nowhere:" + dir}},
		"by_relative": {Argv: []string{"./hello", "x"}, Dir: dir},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, quick(), spec)
			if got := r.line(); !strings.HasSuffix(got, "hello in "+dir+": x") {
				t.Errorf("the command said %q; want it to be hello, in %s, with x", got, dir)
			}
			r.clean()
		})
	}
}
