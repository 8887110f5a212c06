package daemon

import (
	"codingrelay/step"
	"codingrelay/wire"
)

// SessionMessage is the closed set of messages a session accepts, beside
// [step.Boot], [step.Expired], [step.Answer] and [step.Forgotten].
//
//sumtype:decl
type SessionMessage interface{ sessionMessage() }

// RunMessage is the closed set of messages a run accepts, beside [step.Boot] and
// [step.Expired].
//
//sumtype:decl
type RunMessage interface{ runMessage() }

// To the session, from its port. Attempt says which [OpDial] they belong to;
// what belongs to an earlier one is ignored (I15).
type (
	// Dialed says that there is a link: say hello. It comes before anything of
	// that link.
	Dialed struct{ Attempt uint64 }
	// DialFailed says that there will be none. Reason is for people and holds no
	// secret.
	DialFailed struct {
		Attempt uint64
		Trouble Trouble
		Reason  string
	}
	// Inbound is what the link's reader and writer put down since the last turn;
	// Frames come before Closed.
	Inbound struct {
		Attempt uint64
		Frames  []wire.Frame
		Pong    bool
		Flushed bool
		Closed  *wire.End
	}
	// Progress answers [OpProgress].
	Progress struct {
		Attempt       uint64
		Read, Written uint64
	}
)

// To the session, from its runs; the sender says which.
type (
	// Outgoing are frames of a run, in order.
	Outgoing struct{ Frames []OutFrame }
	// Settled says that the run is over and everything it started is gone: it may
	// be acknowledged. It is a run's last message.
	Settled struct{ Receipt wire.Receipt }
	// Unconfirmed says that nobody could prove that: the run must never be
	// acknowledged, and this daemon halts. It is a run's last message.
	Unconfirmed struct {
		Reason  string
		Receipt wire.Receipt
	}
)

// To the session, from outside.
type (
	// DrainAsk closes the door to new runs. Answered with [Drained] when none is
	// left and the hub has taken their ends. The connection stays.
	DrainAsk struct{ Token step.Token }
	// StopAsk ends every run, acknowledges them, closes the connection and ends
	// the session. Answered with [Stopped]; a second one alike.
	StopAsk struct{ Token step.Token }
	// StatusAsk is answered with [Status] at once.
	StatusAsk struct{ Token step.Token }
	// Crash says that a part of this daemon has failed. Nothing more is
	// acknowledged; the runs are ended, and the session ends with this reason.
	Crash struct{ Reason string }
)

// To a run.
type (
	// Emitted is what the runner put down since the last turn: Events come before
	// Returned, and Gone is last.
	Emitted struct {
		Events   [][]byte
		Returned *Returned
		Gone     *Gone
	}
	// Taken says that frames worth that much credit were given to the writer.
	Taken struct{ Bytes int }
	// StopRun begins the end of the run. The first cause names it, except that
	// StopLost always counts: then there is nobody to tell. More change nothing
	// and disturb no clean-up.
	StopRun struct{ Cause StopCause }
)

// Returned says that the runner has returned.
type Returned struct {
	// Failed tells a failure from a success; then Failure says which.
	Failed  bool
	Failure Failure
	// Completed is the data of run.completed, an object's JSON; nil means the
	// usual one.
	Completed []byte
}

// Gone is the verdict about everything the run started.
type Gone struct {
	// Confirmed says that all of it is gone. If not, Reason says what is known.
	Confirmed bool
	Reason    string
	Receipt   wire.Receipt
}

// StopCause says why a run is ended.
type StopCause uint8

// The causes.
const (
	// StopCancelled: the hub asked for it.
	StopCancelled StopCause = iota + 1
	// StopLost: the connection is gone, or must not be used any more.
	StopLost
	// StopStopping: this daemon stops.
	StopStopping
)

// OutFrame is one frame of a run on its way to the hub.
type OutFrame struct {
	Bytes []byte
	// Credit goes back to the run when the frame was given to the writer.
	Credit int
	// Final marks what must arrive: the terminal event and run.finished. Other
	// frames of a run that was ended may be dropped after a while.
	Final bool
}

// Answers to callers.
type (
	// Drained answers [DrainAsk].
	Drained struct{}
	// Stopped answers [StopAsk].
	Stopped struct{}
	// Status answers [StatusAsk].
	Status struct {
		// State is the session's state: waiting, dialing, greeting, serving,
		// closing, settling or over.
		State string
		// Runs is how many runs are not over.
		Runs int
		// Draining says that no new run is taken.
		Draining bool
		// Trouble is why there is no connection, in words; empty when there is one.
		Trouble string
	}
)

func (Dialed) sessionMessage()      {}
func (DialFailed) sessionMessage()  {}
func (Inbound) sessionMessage()     {}
func (Progress) sessionMessage()    {}
func (Outgoing) sessionMessage()    {}
func (Settled) sessionMessage()     {}
func (Unconfirmed) sessionMessage() {}
func (DrainAsk) sessionMessage()    {}
func (StopAsk) sessionMessage()     {}
func (StatusAsk) sessionMessage()   {}
func (Crash) sessionMessage()       {}

func (Emitted) runMessage() {}
func (Taken) runMessage()   {}
func (StopRun) runMessage() {}
