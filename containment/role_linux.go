package containment

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ownExecutable is the running program even when its file was replaced or removed
// since: a supervisor must be of the daemon's own version.
const ownExecutable = "/proc/self/exe"

// proves says that an answer of childless is a proof: the supervisor is the
// reaper of every orphan of its tree, so a tree that is not empty has a member
// that is the supervisor's own child.
const proves = true

// Detect says which mechanism this machine offers, or [ErrUnsupported] when it has
// none that mode accepts.
func Detect(Mode) (Level, error) {
	if _, err := findProcess(os.Getpid()); err != nil {
		return "", fmt.Errorf("%w: /proc cannot be read, and without it no process tree can be followed: %w", ErrUnsupported, err)
	}
	return LevelSupervisor, nil
}

func becomeReaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// sealFiles marks everything but stdin, stdout and stderr close-on-exec, also
// what somebody left open in the daemon: the leader inherits nothing else.
func sealFiles() error {
	const first = 3
	err := unix.CloseRange(first, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	dir, err := os.Open("/proc/self/fd") // kernels before 5.11
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// nameProcess is for people who read a process list.
func nameProcess(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0)
}

// childInfo is the part of a siginfo that waitid fills for a child.
type childInfo struct {
	pid    int32
	uid    uint32
	status int32
}

// nextEnded takes one ended child, and reaps it, unless it is the leader: that
// one is only looked at. As long as it stays unreaped its number, which is the
// number of its group, belongs to it: a signal to the group cannot reach anybody else.
// ok is false when no child has ended.
func nextEnded(leader int) (pid int, exit Exit, ok bool) {
	for {
		var info unix.Siginfo
		// __WALL: also children that were cloned with another exit signal.
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || info.Signo == 0 {
			return 0, Exit{}, false
		}
		child := childOf(&info)
		pid = int(child.pid)
		if pid != leader {
			reap(pid)
		}
		return pid, exitOf(info.Code, child.status), true
	}
}

// childOf finds the union of siginfo, which begins at the first place after three
// ints that is aligned for a pointer.
func childOf(info *unix.Siginfo) *childInfo {
	const ints, ptr = 3 * unsafe.Sizeof(int32(0)), unsafe.Sizeof(uintptr(0))
	const at = (ints + ptr - 1) / ptr * ptr
	return (*childInfo)(unsafe.Add(unsafe.Pointer(info), at))
}

// CLD_EXITED of sigaction(2); the other two codes of an ended child are signals.
const cldExited = 1

func exitOf(code, status int32) Exit {
	if code == cldExited {
		return Exit{Code: int(status)}
	}
	return Exit{Code: -1, Signal: unix.Signal(status)}
}

// reap takes one ended child away. It does not wait for one that lives.
func reap(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, unix.WNOHANG|unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// childless reaps every child that has ended and says whether none is left at
// all. Only the supervisor's own process calls it, never a daemon's.
func childless() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR), err == nil && pid > 0:
			continue
		default:
			return errors.Is(err, unix.ECHILD)
		}
	}
}
