package daemon

import (
	"fmt"
	"time"

	"codingrelay/wire"
)

// The operations that policies ask of their ports, for whoever executes them.
// Each belongs to one kind of actor.
type (
	// OpDial opens a link: session. The port reads the token anew, then answers
	// with exactly one [Dialed] or [DialFailed]. A new OpDial comes only after the
	// last link's end.
	OpDial struct{ Attempt uint64 }
	// OpHello writes the hello, with the token that only the port knows. It is a
	// flush like [OpWrite].
	OpHello struct{ Hello wire.Hello }
	// OpWrite to OpDrop are for the link there is; without one they do nothing,
	// but OpDrop also ends a dial under way.
	OpWrite struct{ Frames [][]byte }
	OpPing  struct{}
	OpClose struct {
		Code   int
		Reason string
	}
	OpDrop struct{}
	// OpProgress is answered with [Progress].
	OpProgress struct{}
	// OpHalt makes the halt durable: session, asked, so answered. Runs are all
	// runs of this daemon that are unconfirmed so far.
	OpHalt struct{ Runs []HaltedRun }
	// OpOver says how the session ended; nothing follows.
	OpOver struct {
		Halted []HaltedRun
		Crash  string
	}

	// OpRun starts the runner: run. What it does comes back as [Emitted].
	OpRun struct {
		JobID   string
		Payload []byte
	}
	// OpStop ends the runner's context and begins the end of every process tree
	// of the run.
	OpStop struct{}
	// OpDiscard throws away what the runner emits from now on, without blocking it.
	OpDiscard struct{}
	// OpReap ends what is left of the run's process trees after the runner has
	// returned; the verdict is Emitted.Gone.
	OpReap struct{}
	// OpCredit gives the runner room for that many bytes of events.
	OpCredit struct{ Bytes int }

	// OpObserve: any actor.
	OpObserve struct{ Fact Fact }
)

// FactKind says what a [Fact] is about.
type FactKind string

// The facts.
const (
	FactConnected    FactKind = "hub_connected"
	FactTrouble      FactKind = "hub_trouble"
	FactLost         FactKind = "hub_lost"
	FactRunStarted   FactKind = "run_started"
	FactRunRefused   FactKind = "run_refused"
	FactRunIgnored   FactKind = "run_start_ignored"
	FactRunEnding    FactKind = "run_ending"
	FactRunEnded     FactKind = "run_ended"
	FactUnconfirmed  FactKind = "run_unconfirmed"
	FactFrameIgnored FactKind = "frame_ignored"
	FactHaltFailed   FactKind = "halt_not_saved"
	FactTight        FactKind = "grace_too_long"
)

// Fact is one thing that happened, for logs. It never holds a payload or a token.
type Fact struct {
	Kind FactKind
	Run  string
	Text string
	// Again marks a trouble that was told before and has not changed.
	Again bool
	// Delay is how long until the next attempt, for troubles.
	Delay time.Duration
}

// HaltedRun is a run whose clean-up could not be confirmed.
type HaltedRun struct {
	RunID string
	// At is when that was clear.
	At time.Time
	// Reason says what is known of what may be left.
	Reason  string
	Receipt wire.Receipt
}

// Trouble is the kind of reason why there is no connection.
type Trouble uint8

// The kinds.
const (
	// TroubleNetwork: the hub cannot be reached, went away, or asked to come back.
	TroubleNetwork Trouble = iota
	// TroubleBusy: the id is fenced or in use, or the hub is full.
	TroubleBusy
	// TroubleToken: the token was refused, or its file cannot be used.
	TroubleToken
	// TroubleProtocol: the hub does not speak this protocol.
	TroubleProtocol
	// TroubleRefused: another refusal that only a person can repair.
	TroubleRefused
)

var troubleNames = [...]string{"network", "busy", "token", "protocol", "refused"}

// String returns the kind's name.
func (t Trouble) String() string {
	if int(t) < len(troubleNames) {
		return troubleNames[t]
	}
	return fmt.Sprintf("trouble %d", uint8(t))
}

// slow says that trying again soon cannot help.
func (t Trouble) slow() bool { return t >= TroubleToken }
