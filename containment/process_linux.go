package containment

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processTable reads /proc. Entries that end while it is read are left out.
func processTable() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	table := make([]process, 0, len(names))
	buf := make([]byte, 1024)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(int(dir.Fd()), pid, buf); err == nil {
			table = append(table, p)
		} else if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) {
			// Not seen is not the same as not there.
			return nil, err
		}
	}
	return table, nil
}

// findProcess reads one entry.
func findProcess(pid int) (process, error) {
	return readProcess(unix.AT_FDCWD, pid, make([]byte, 1024))
}

func readProcess(procFD, pid int, buf []byte) (process, error) {
	name := strconv.Itoa(pid) + "/stat"
	if procFD == unix.AT_FDCWD {
		name = "/proc/" + name
	}
	fd, err := unix.Openat(procFD, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, err
	}
	n, err := unix.Read(fd, buf)
	_ = unix.Close(fd)
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, buf[:n])
}

// Positions in /proc/PID/stat after the command name, which stands in brackets
// and may hold anything, brackets too (proc_pid_stat(5), fields 3 and later).
const (
	statState   = 0
	statPPID    = 1
	statPGID    = 2
	statSession = 3
	statThreads = 17
	statStart   = 19
)

var errStat = errors.New("containment: an entry of the process table cannot be understood")

func parseStat(pid int, stat []byte) (process, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return process{}, errStat
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) <= statStart {
		return process{}, errStat
	}
	p := process{Identity: Identity{PID: pid}}
	for _, f := range []struct {
		at int
		to *int
	}{{statPPID, &p.ppid}, {statPGID, &p.pgid}, {statSession, &p.sid}} {
		n, err := strconv.Atoi(string(fields[f.at]))
		if err != nil {
			return process{}, errStat
		}
		*f.to = n
	}
	start, err := strconv.ParseUint(string(fields[statStart]), 10, 64)
	if err != nil {
		return process{}, errStat
	}
	p.Start = start
	if strings.ContainsRune("ZXx", rune(fields[statState][0])) {
		// The state is the first thread's. When only that one has ended the process
		// lives on in its others, and counts them here.
		threads, err := strconv.Atoi(string(fields[statThreads]))
		p.ended = err == nil && threads <= 1
	}
	return p, nil
}

// signalProcess signals exactly that process: a number that was given to another
// one since is not signalled. The handle pins the process, and the second look
// says whom it pins.
func signalProcess(who Identity, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(who.PID, 0)
	if err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return err
	}
	pinned := err == nil
	if pinned {
		defer func() { _ = unix.Close(fd) }()
	}
	now, err := findProcess(who.PID)
	if err != nil {
		return err
	}
	if now.Start != who.Start {
		return unix.ESRCH
	}
	if pinned {
		return unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	// Kernels before 5.3, and sandboxes that forbid the call.
	return unix.Kill(who.PID, sig)
}
