package containment

import (
	"fmt"
	"syscall"
	"time"
)

// Exit is how a process ended: with a code, or by a signal.
type Exit struct {
	// Code is the exit code; -1 when a signal ended it.
	Code int `json:"code"`
	// Signal is the signal that ended it, or 0.
	Signal syscall.Signal `json:"signal,omitempty"`
}

// String is "exit 3" or "signal 9 (killed)".
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d (%v)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("exit %d", e.Code)
}

// Receipt is what is known about the end of a tree. It proves that the tree is
// gone only together with a nil error.
type Receipt struct {
	// Mechanism is what watched over the tree.
	Mechanism Level
	// Weak says that survivors were looked for, not excluded.
	Weak bool
	// Exit is how the leader ended; nil when that is not known.
	Exit *Exit
	// Killed counts the processes that were still alive when the grace was over
	// and that were sent KILL, the leader included.
	Killed int
	// Survivors are the pids that are known to be alive; nil when the tree is empty.
	Survivors []int
	// Duration is from the beginning of the end (the stop, or the leader's own
	// end) to the proof, or to giving up.
	Duration time.Duration
}

// Report is the verdict about a tree: its receipt, and nil or an error that is
// [ErrUnconfirmed].
type Report struct {
	Receipt Receipt
	Err     error
}

// Identity names a process in a way that a recycled pid does not match.
type Identity struct {
	PID int `json:"pid"`
	// Start is when it started, in the system's own unit (on Linux: clock ticks
	// since boot, field 22 of /proc/PID/stat; on macOS: microseconds).
	Start uint64 `json:"start"`
}
