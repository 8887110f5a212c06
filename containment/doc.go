// Package containment runs one command and everything it starts, and proves
// when all of it is gone.
//
// A daemon may acknowledge a run only when every process descended from what it
// started has ended (protocol section 8). Killing a process group is no such
// proof: one setsid and a descendant is out of its reach. So each run gets a
// supervisor, a small process of its own:
//
//	daemon ── control pipe ──▶ supervisor ──▶ leader ──▶ whatever it starts
//	   ◀───── report pipe ────     │             (its own process group)
//	   ◀───── stdout, stderr ──────┼──────────────┘
//	                               └─ child subreaper in a session of its own:
//	                                  every orphan below comes back to it
//
// On Linux the supervisor is the subreaper of the tree, so a descendant can leave
// the group, the session and its parents, and scrub its environment, but never
// the supervisor: while one lives, the supervisor has a child. It signals (TERM to the
// group, CONT, a grace, KILL to every descendant), reaps until the kernel says
// that it has no child left (ECHILD), and only then reports the tree as empty.
// The [Receipt] is that report.
//
//   - A supervisor that is gone without the report proves nothing: the tree is
//     [ErrUnconfirmed].
//   - When the control pipe closes the supervisor ends the tree: a daemon that
//     was killed leaves nothing behind.
//   - No parent-death signal is used; it belongs to a thread, not to a process.
//   - The daemon's process only waits for its supervisors, each by its own pid.
//     It never calls wait4(-1), which would take the host's own children.
//
// The supervisor is this executable, started again. A program that uses the
// package calls [SupervisorMain] first in main (and in TestMain), or names a
// program that does so in [Config].Supervisor.
//
// # What is covered
//
// All processes descended from the command. Not covered is work handed to other
// services (a container daemon, a user's service manager, at, a remote host),
// and a process put as root into another PID namespace than the supervisor's,
// which orphans to that namespace's init.
//
// macOS has no subreaper. There the tree is followed by parent, session and
// group until two looks in a row find nothing; it must be allowed by [Weak], and the
// receipt says weak. Other systems are refused with [ErrUnsupported].
package containment
