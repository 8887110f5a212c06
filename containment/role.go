package containment

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
)

// How a process knows that it was started as a supervisor: by exactly these two
// words and by the pipes that come with them. An environment variable would be
// inherited by what a run starts, and is easily set by accident.
const (
	roleName = "relay-supervisor"
	roleWord = "coding-relay-supervisor-v1"
)

// mainCalled remembers that this program knows the supervisor's role, so that
// starting it again gives a supervisor.
var mainCalled atomic.Bool

// SupervisorMain must be the first call in main, and in TestMain, of a program
// that starts trees with its own executable. In a process that was started as a
// supervisor it does that work and never returns; otherwise it returns at once.
func SupervisorMain() {
	if hasRole() && hasPipes() {
		// Not os.Exit: the exit hooks of the program that this executable also is
		// (profiles, the race detector's second of waiting) are not for a supervisor.
		syscall.Exit(superviseMain())
	}
	mainCalled.Store(true)
}

func hasRole() bool {
	return len(os.Args) == 2 && os.Args[0] == roleName && os.Args[1] == roleWord
}

// supervisorPath is the executable that Start starts as a supervisor.
func supervisorPath(cfg Config) (string, error) {
	switch {
	case hasRole() && !mainCalled.Load():
		// Without this, a program that never calls SupervisorMain and names itself
		// in Config.Supervisor would start itself for ever.
		return "", fmt.Errorf("%w (this process itself was started as a supervisor)", ErrNoSupervisor)
	case cfg.Supervisor != "":
		return cfg.Supervisor, nil
	case !mainCalled.Load():
		return "", ErrNoSupervisor
	case ownExecutable != "":
		return ownExecutable, nil
	}
	return os.Executable()
}
