package containment

import (
	"golang.org/x/sys/unix"
)

// darwinZombie is SZOMB of macOS's proc.h.
const darwinZombie = 5

// processTable asks the kernel for all processes.
func processTable() ([]process, error) {
	entries, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	table := make([]process, 0, len(entries))
	for i := range entries {
		table = append(table, fromKinfo(&entries[i]))
	}
	return table, nil
}

func findProcess(pid int) (process, error) {
	entries, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil {
		return process{}, err
	}
	if len(entries) == 0 {
		return process{}, unix.ESRCH
	}
	return fromKinfo(&entries[0]), nil
}

func fromKinfo(k *unix.KinfoProc) process {
	pid := int(k.Proc.P_pid)
	// The table has no session number; of a process that ended meanwhile it is 0,
	// which is nobody's.
	sid, _ := unix.Getsid(pid)
	return process{
		Identity: Identity{PID: pid, Start: uint64(k.Proc.P_starttime.Nano()) / 1000},
		ppid:     int(k.Eproc.Ppid),
		pgid:     int(k.Eproc.Pgid),
		sid:      sid,
		ended:    k.Proc.P_stat == darwinZombie,
	}
}

// signalProcess looks again before it signals. macOS has no handle that would pin
// the process in between; that is one reason why this level is called weak.
func signalProcess(who Identity, sig unix.Signal) error {
	now, err := findProcess(who.PID)
	if err != nil {
		return err
	}
	if now.Start != who.Start {
		return unix.ESRCH
	}
	return unix.Kill(who.PID, sig)
}
