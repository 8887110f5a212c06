package containment

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of [Start] and of a tree's end. Those about the folder or the command
// come wrapped in a [SpawnError]; test with [errors.Is].
var (
	// ErrUnconfirmed is a tree of which nobody could prove that it is gone: the
	// supervisor ended without its report, or survivors outlived Config.GiveUp.
	// A run that ends so is never acknowledged (protocol section 8).
	ErrUnconfirmed = errors.New("containment: not confirmed that all processes of the run are gone")
	// ErrNoSupervisor is returned by Start when there is no supervisor to start.
	ErrNoSupervisor = errors.New("containment: no supervisor: call containment.SupervisorMain() first in main (and in TestMain), or name a program that does so in Config.Supervisor")
	// ErrSupervisor is returned by Start when the supervisor did not come up, and
	// nothing of the run was started.
	ErrSupervisor = errors.New("containment: the supervisor did not start")
	// ErrUnsupported is returned by Detect and Start where no mechanism of the
	// wanted [Mode] exists.
	ErrUnsupported = errors.New("containment: not supported here")
	// ErrSpec is returned by Start for a Spec that no system could run.
	ErrSpec = errors.New("containment: the run's specification is not usable")

	ErrDirMissing           = errors.New("the working folder does not exist")
	ErrDirNotFolder         = errors.New("the working folder is not a folder")
	ErrDirDenied            = errors.New("the working folder may not be read or entered")
	ErrCommandNotFound      = errors.New("the command was not found")
	ErrCommandNotExecutable = errors.New("the command is not executable")
	ErrCommandIsFolder      = errors.New("the command is a folder")
	ErrTooLong              = errors.New("the arguments and environment are too long for this system; give large input on stdin")
	ErrSpawn                = errors.New("the system refused to start the command")
)

// SpawnError says why a command was not started. Nothing runs when Start returns one.
type SpawnError struct {
	// Reason is one of the sentinels of this package.
	Reason error
	// Path is the folder or the command that is wrong, as far as it is known.
	Path string
	// Looked are the folders of the run's PATH in which the command was looked
	// for; nil when it was given as a path.
	Looked []string
	// Hint is more of the circumstances, for people; may be empty.
	Hint string
	// Err is what the system said, or nil.
	Err error
}

// Error names what is wrong and where it was looked for. It holds no argument
// but the command's name, and nothing of the environment but PATH.
func (e *SpawnError) Error() string {
	var b strings.Builder
	b.WriteString("containment: " + e.Reason.Error())
	if e.Path != "" {
		fmt.Fprintf(&b, ": %q", e.Path)
	}
	if e.Looked != nil {
		fmt.Fprintf(&b, "; looked in %s (the run's own PATH)", strings.Join(e.Looked, ":"))
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap makes both the reason and the system's error visible to [errors.Is].
func (e *SpawnError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}
