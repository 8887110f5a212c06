//go:build linux || darwin

package containment

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownSession puts a supervisor into a session of its own: no terminal, and no
// signal that is meant for the daemon's group.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// wake lets a supervisor go on that a member of its run has stopped.
func wake(p *os.Process) { _ = p.Signal(unix.SIGCONT) }

// sweep ends whom a lost supervisor left in its session, and returns the pids that
// are still there afterwards. It is done before the supervisor is waited for:
// until then the number of the session cannot be given to anybody else. It is no
// proof of anything: who has left the session is not found.
func sweep(supervisor Identity) []int {
	const rounds, pause = 50, 20 * time.Millisecond
	var left []int
	for range rounds {
		if p, err := findProcess(supervisor.PID); err != nil || p.Start != supervisor.Start {
			return left
		}
		table, err := processTable()
		if err != nil {
			return left
		}
		left = left[:0]
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
			for _, p := range table {
				if p.sid != supervisor.PID || p.PID == supervisor.PID || p.ended {
					continue
				}
				if sig == unix.SIGKILL {
					left = append(left, p.PID)
				}
				_ = signalProcess(p.Identity, sig)
			}
		}
		if len(left) == 0 {
			return nil
		}
		<-time.After(pause)
	}
	return left
}

// readNow reads what a pipe holds without waiting for more; nothing is io.EOF.
func readNow(f *os.File, p []byte) (int, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	n, readErr := 0, error(nil)
	// Control and not Read: the deadline that woke the reader has passed. The file
	// is non-blocking, so this does not wait.
	if err := conn.Control(func(fd uintptr) { n, readErr = ignoringEINTR(int(fd), p) }); err != nil {
		return 0, err
	}
	if n > 0 {
		return n, nil
	}
	if readErr == nil || errors.Is(readErr, unix.EAGAIN) {
		return 0, io.EOF
	}
	return 0, readErr
}

func ignoringEINTR(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Read(fd, p)
		if !errors.Is(err, unix.EINTR) {
			return max(0, n), err
		}
	}
}
