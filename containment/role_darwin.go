package containment

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ownExecutable is empty: the file is asked for when it is needed.
const ownExecutable = ""

// proves is false: orphans go to launchd here, so having no child proves nothing,
// and the tree is empty when two looks in a row find nobody.
const proves = false

// Detect says which mechanism this machine offers, or [ErrUnsupported] when it has
// none that mode accepts.
func Detect(mode Mode) (Level, error) {
	if mode != Weak {
		return "", fmt.Errorf("%w: macOS cannot prove that a process tree is gone; the owner of this machine may accept less with --containment weak (Config.Mode = Weak)", ErrUnsupported)
	}
	return LevelGroupWalk, nil
}

func becomeReaper() error { return nil }

// sealFiles marks everything but stdin, stdout and stderr close-on-exec.
func sealFiles() error {
	const first = 3
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		var fd int
		if _, err := fmt.Sscan(name, &fd); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func nameProcess(string) {}

// nextEnded reaps one ended child, the leader too: there is no look that leaves
// it in place. From then on its group is only signalled member by member.
func nextEnded(int) (pid int, exit Exit, ok bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return 0, Exit{}, false
		}
		if status.Signaled() {
			return pid, Exit{Code: -1, Signal: status.Signal()}, true
		}
		return pid, Exit{Code: status.ExitStatus()}, true
	}
}

// reap has nothing to do: nextEnded has reaped.
func reap(int) {}

// childless says whether the supervisor has no child left.
func childless() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR), err == nil && pid > 0:
			continue
		default:
			return errors.Is(err, unix.ECHILD)
		}
	}
}
