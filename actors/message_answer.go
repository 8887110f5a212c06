package actors

import (
	"time"

	"codingrelay/step"
)

// Answers to callers outside.
type (
	// Listened answers [ListenAsk].
	Listened struct{ Addr string }
	// Placed answers [RunAsk] and [RunFind]: where the run's job is.
	Placed struct {
		Job  step.Ref
		Info RunInfo
		// Existing is set when an idempotency key named an earlier run.
		Existing bool
	}
	// Cleared answers [ClearAsk].
	Cleared struct{ Where string }
	// Stopped answers [StopAsk].
	Stopped struct{}
	// Status answers [StatusAsk].
	Status struct {
		Listening    bool `json:"listening"`
		Stopping     bool `json:"stopping"`
		Connections  int  `json:"connections"`
		OpenRuns     int  `json:"open_runs"`
		RetainedRuns int  `json:"retained_runs"`
		Fences       int  `json:"fences"`
		// StoreFailing is set while a fence's record could not be written.
		StoreFailing bool `json:"store_failing"`
	}
	// Page answers [ReadAsk].
	Page struct {
		Items []Item
		// First is the sequence number of Items[0].
		First uint64
		// Truncated says that events From to To are gone.
		Truncated *Range
		// Outcome is set when nothing follows.
		Outcome *Outcome
		// Detached says that the reader was taken away.
		Detached bool
	}
)

// Range is a gap in a log, both ends included.
type Range struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// ProbeVerdict is what a probe found.
type ProbeVerdict uint8

// The verdicts.
const (
	ProbeAlive ProbeVerdict = iota + 1
	ProbeBusy               // it has open runs: the watchdog decides
	ProbeDead               // it closes itself; Gone follows
)

// FencePhase is the coarse state of a fence as the hub sees it.
type FencePhase uint8

// The phases.
const (
	PhaseClear FencePhase = iota
	PhaseLeased
	PhaseFenced
)

// FenceStatus is what the hub knows of a fence.
type FenceStatus struct {
	Key        string
	Phase      FencePhase
	Cancelling int
	// Failing is set while the record could not be written.
	Failing bool
	Info    FenceInfo
}

// RunSpec is what a run is made from, as policy sees it.
type RunSpec struct {
	DaemonID string
	Payload  []byte
	// Timeout is the run's limit; 0 is none.
	Timeout time.Duration
	// Wait is how long to wait for the daemon to come online.
	Wait        time.Duration
	OnOverflow  Overflow
	OnCallerEnd CallerEnd
	// Reader is the attached caller's reader, "" for a detached run.
	Reader   string
	HasTools bool
	// IdemKey makes the request repeatable; IdemHash is the hash of all of it.
	IdemKey, IdemHash string
}

// Overflow says what happens when a run's log is full and nobody may hold it.
type Overflow string

// The overflow rules.
const (
	OverflowTruncate Overflow = "truncate" // the oldest events go, with a mark
	OverflowCancel   Overflow = "cancel"   // the run is cancelled: slow_reader
)

// CallerEnd says what happens when an attached caller stays away.
type CallerEnd string

// The rules for a lost caller.
const (
	CallerEndCancel   CallerEnd = "cancel"
	CallerEndContinue CallerEnd = "continue"
)

// The seals: which actor takes which message.

func (ListenAsk) hubMessage()    {}
func (RunAsk) hubMessage()       {}
func (WaitAsk) hubMessage()      {}
func (ForgetAsk) hubMessage()    {}
func (DaemonsAsk) hubMessage()   {}
func (RunsAsk) hubMessage()      {}
func (RunFind) hubMessage()      {}
func (FencesAsk) hubMessage()    {}
func (StatusAsk) hubMessage()    {}
func (ClearAsk) hubMessage()     {}
func (StopAsk) hubMessage()      {}
func (Hello) hubMessage()        {}
func (Gone) hubMessage()         {}
func (Probed) hubMessage()       {}
func (AdmitAnswer) hubMessage()  {}
func (FenceChanged) hubMessage() {}
func (RunsResolved) hubMessage() {}
func (FenceCleared) hubMessage() {}
func (JobStarted) hubMessage()   {}
func (JobEnding) hubMessage()    {}
func (JobEnded) hubMessage()     {}
func (ActorFailed) hubMessage()  {}

func (Inbound) connMessage()    {}
func (Progress) connMessage()   {}
func (Admitted) connMessage()   {}
func (Rejected) connMessage()   {}
func (Probe) connMessage()      {}
func (CloseConn) connMessage()  {}
func (NoHolds) connMessage()    {}
func (Life) connMessage()       {}
func (Dispatch) connMessage()   {}
func (CancelRun) connMessage()  {}
func (TakeOut) connMessage()    {}
func (RunOver) connMessage()    {}
func (Credit) connMessage()     {}
func (HoldBegin) connMessage()  {}
func (HoldDone) connMessage()   {}
func (ToolAnswer) connMessage() {}

func (LifeSeen) jobMessage()        {}
func (Granted) jobMessage()         {}
func (LeaseRefused) jobMessage()    {}
func (Accepted) jobMessage()        {}
func (DispatchRefused) jobMessage() {}
func (TakenOut) jobMessage()        {}
func (Batch) jobMessage()           {}
func (RunFinished) jobMessage()     {}
func (ToolCall) jobMessage()        {}
func (ToolResult) jobMessage()      {}
func (ToolSent) jobMessage()        {}
func (HoldOver) jobMessage()        {}
func (LostConn) jobMessage()        {}
func (Released) jobMessage()        {}
func (Fenced) jobMessage()          {}
func (StopRun) jobMessage()         {}
func (Fail) jobMessage()            {}
func (Resolved) jobMessage()        {}
func (Retire) jobMessage()          {}
func (CancelAsk) jobMessage()       {}
func (OutcomeAsk) jobMessage()      {}
func (InfoAsk) jobMessage()         {}
func (Attach) jobMessage()          {}
func (Detach) jobMessage()          {}
func (ReadAsk) jobMessage()         {}

func (Admit) fenceMessage()       {}
func (Acquire) fenceMessage()     {}
func (Release) fenceMessage()     {}
func (Cancelling) fenceMessage()  {}
func (Unresolved) fenceMessage()  {}
func (LostLeases) fenceMessage()  {}
func (LateAck) fenceMessage()     {}
func (Clear) fenceMessage()       {}
func (RetireFence) fenceMessage() {}
