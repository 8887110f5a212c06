package actors

import (
	"codingrelay/step"
	"codingrelay/wire"
)

// HubMessage is the closed set of messages the hub accepts, beside
// [step.Boot], [step.Expired] and [step.Answer].
//
//sumtype:decl
type HubMessage interface{ hubMessage() }

// ConnMessage is the closed set of messages a connection accepts.
//
//sumtype:decl
type ConnMessage interface{ connMessage() }

// JobMessage is the closed set of messages a job accepts.
//
//sumtype:decl
type JobMessage interface{ jobMessage() }

// FenceMessage is the closed set of messages a fence accepts.
//
//sumtype:decl
type FenceMessage interface{ fenceMessage() }

// To the hub, from outside. Each is answered once through its token.
type (
	// ListenAsk opens the listener. Answered with [Listened] or *Error. Any
	// number with one configuration succeed and open one listener (I10).
	ListenAsk struct {
		Token  step.Token
		Config ListenConfig
	}
	// RunAsk asks for a run. Answered with [Placed] when run.start was given to
	// the writer or the run ended before, or with *Error when it was refused.
	RunAsk struct {
		Token   step.Token
		RunID   string
		Request RunSpec
	}
	// WaitAsk waits until a daemon is online. Answered with [DaemonInfo] or *Error.
	WaitAsk struct {
		Token    step.Token
		DaemonID string
	}
	// ForgetAsk says that whoever sent the RunAsk with this run id is gone: a run
	// that only waits is given up, one that was placed is cancelled.
	ForgetAsk struct{ RunID string }
	// DaemonsAsk, RunsAsk, RunFind, FencesAsk and StatusAsk read what the hub
	// knows; answered with []DaemonInfo, []RunInfo, [Placed] or *Error,
	// []FenceInfo and [Status].
	DaemonsAsk struct{ Token step.Token }
	RunsAsk    struct{ Token step.Token }
	RunFind    struct {
		Token step.Token
		RunID string
	}
	FencesAsk struct{ Token step.Token }
	StatusAsk struct{ Token step.Token }
	// ClearAsk lifts a fence on an operator's word. Answered with [Cleared] or *Error.
	ClearAsk struct {
		Token    step.Token
		Key      string
		FenceID  string
		Reason   string
		Operator string
	}
	// StopAsk stops the hub. Answered with [Stopped] when nothing is left. A
	// second one is answered with the first.
	StopAsk struct{ Token step.Token }
)

// To the hub, from its actors.
type (
	// Hello is a connection's valid hello. Answered with [Admitted] or [Rejected].
	Hello struct {
		DaemonID    string
		Incarnation string
		Remote      string
		Metadata    []byte
		Extensions  wire.Extensions
	}
	// Gone is a connection's last message, after its last frame and after every
	// Accepted. Open are the runs that were accepted and not finished; nothing
	// else of this connection can still be running.
	Gone struct {
		Incarnation string
		Reason      string
		Open        []string
	}
	// Probed answers [Probe].
	Probed struct {
		Incarnation string
		Verdict     ProbeVerdict
	}
	// AdmitAnswer answers [Admit].
	AdmitAnswer struct {
		Key         string
		Incarnation string
		OK          bool
		Status      FenceStatus
	}
	// FenceChanged is told by a fence whenever its status changes, before
	// anybody else learns of the change.
	FenceChanged struct{ Status FenceStatus }
	// RunsResolved says that unresolved runs were resolved; the hub tells the
	// jobs that still serve their logs.
	RunsResolved struct {
		Key  string
		Runs []string
	}
	// FenceCleared answers [Clear].
	FenceCleared struct {
		Key   string
		Err   *Error
		Where string
	}
	// JobStarted says that run.start was given to the writer.
	JobStarted struct{ RunID string }
	// JobEnding says that a job began to end.
	JobEnding struct{ RunID string }
	// JobEnded says how a run ended; LogBytes is what its log keeps.
	JobEnded struct {
		RunID    string
		Outcome  Outcome
		LogBytes int
	}
	// ActorFailed is told by the shim when an actor panicked.
	ActorFailed struct{ Ref step.Ref }
)

// To a connection.
type (
	// Inbound is what the link's reader and writer put down since the last turn.
	// The executor makes it; Frames come before Closed. Read is the link's count of
	// bytes by then.
	Inbound struct {
		Frames  []wire.Frame
		Read    uint64
		Pong    bool
		Flushed bool
		Closed  *wire.End
	}
	// Progress answers [OpProgress].
	Progress struct {
		Cause         string
		Read, Written uint64
	}
	// Admitted answers [Hello]: say daemon.ready.
	Admitted struct{ Extensions wire.Extensions }
	// Rejected answers [Hello]: close with 1008 and this reason.
	Rejected struct{ Reason string }
	// Probe asks an idle holder for life. Answered with [Probed].
	Probe struct{}
	// CloseConn ends the connection: from the hub.
	CloseConn struct {
		Code   int
		Reason string
	}
	// NoHolds ends every hold and forbids new ones: the hub is stopping.
	NoHolds struct{}
	// Life asks, before a lease is taken, whether the peer is there. Answered
	// with [LifeSeen].
	Life struct{ RunID string }
	// Dispatch gives a run to its connection. Answered with [Accepted],
	// [DispatchRefused] or [TakenOut].
	Dispatch struct {
		RunID   string
		Fence   step.Ref
		Payload []byte
	}
	// CancelRun ends a run: its start is taken out, or run.cancel is written.
	// A second one changes nothing.
	CancelRun struct{ RunID string }
	// TakeOut takes a start out of the queue if it is still there. Answered with
	// [TakenOut]; not answered when the start was accepted already.
	TakeOut struct{ RunID string }
	// RunOver says that the job has settled; Unresolved makes the connection owe
	// the acknowledgement to the fence.
	RunOver struct {
		RunID      string
		Unresolved bool
	}
	// Credit gives back what the job's log has taken.
	Credit struct {
		RunID string
		Bytes int
	}
	// HoldBegin asks to hold the socket back for a slow reader; answered with
	// [HoldOver] at once or later. HoldDone says that it is over.
	HoldBegin struct{ RunID string }
	HoldDone  struct{ RunID string }
	// ToolAnswer is the answer to a tool call; the connection says [ToolSent]
	// when it was given to the writer. Request is what was asked, whose ids an
	// error must echo; Call is 0 for a refusal that no budget covers.
	ToolAnswer struct {
		RunID     string
		RequestID string
		Call      uint64
		Request   []byte
		Payload   []byte
	}
)

// To a job.
type (
	// LifeSeen answers [Life].
	LifeSeen struct{ OK bool }
	// Granted answers [Acquire]: the lease is durable.
	Granted struct{ Durable bool }
	// LeaseRefused answers [Acquire]: nothing was kept.
	LeaseRefused struct{ Err *Error }
	// Accepted says that run.start was given to the writer.
	Accepted struct{}
	// DispatchRefused says that run.start will not be sent.
	DispatchRefused struct{ Err *Error }
	// TakenOut says that run.start was taken out of the queue.
	TakenOut struct{}
	// Batch is the run's share of one turn of its connection, in order.
	Batch struct{ Items []Item }
	// RunFinished is the owner's acknowledgement.
	RunFinished struct{ Receipt *wire.Receipt }
	// ToolCall is a tool call of the agent.
	ToolCall struct {
		RequestID string
		Payload   []byte
	}
	// ToolResult answers [OpCallTool]; the executor makes it.
	ToolResult struct {
		Call    uint64
		Payload []byte
		Err     error
	}
	// ToolSent says that an answer was given to the writer.
	ToolSent struct{ Call uint64 }
	// HoldOver says that no hold is allowed (any more): apply the overflow rule.
	HoldOver struct{}
	// LostConn says that the run's connection is gone.
	LostConn struct{ Reason string }
	// Released answers [Release]: the record no longer holds the run.
	Released struct{ Durable bool }
	// Fenced answers [Unresolved].
	Fenced struct {
		FenceID string
		Durable bool
	}
	// StopRun ends the run because the hub stops.
	StopRun struct{}
	// Fail ends the run at once, not clean: an actor it needs has failed.
	Fail struct{}
	// Resolved says that the fence this run raised was lifted.
	Resolved struct{}
	// Retire ends the actor of an ended run.
	Retire struct{}

	// CancelAsk cancels the run. Answered with the [Outcome] after the barrier.
	CancelAsk struct{ Token step.Token }
	// OutcomeAsk is answered with the [Outcome] when there is one.
	OutcomeAsk struct{ Token step.Token }
	// InfoAsk is answered with [RunInfo] at once.
	InfoAsk struct{ Token step.Token }
	// Attach registers a reader that may hold the run back. Answered with bool.
	Attach struct {
		Token  step.Token
		Reader string
		After  uint64
		// Caller makes the reader the run's caller: losing it starts the grace.
		Caller bool
	}
	// Detach takes a reader away and answers its open ReadAsk.
	Detach struct{ Reader string }
	// ReadAsk reads on from a cursor. Answered with [Page] when there is
	// something to read.
	ReadAsk struct {
		Token    step.Token
		Reader   string
		After    uint64
		MaxBytes int
	}
)

// To a fence.
type (
	// Admit asks whether a connection may be admitted. Answered with [AdmitAnswer].
	Admit struct {
		Incarnation string
		DaemonID    string
		Metadata    []byte
	}
	// Acquire asks for a lease. Answered with [Granted] or [LeaseRefused].
	Acquire struct {
		RunID       string
		Incarnation string
	}
	// Release gives a lease back: never sent, or acknowledged. Answered with [Released].
	Release struct{ RunID string }
	// Cancelling says that a run is being cancelled: nothing is granted meanwhile.
	Cancelling struct{ RunID string }
	// Unresolved says that a run ended without an acknowledgement. Answered with
	// [Fenced]. A second one is answered alike and changes nothing.
	Unresolved struct {
		RunID  string
		Reason string
	}
	// LostLeases says that a connection is gone. Open are the runs that may
	// still be alive there; All distrusts the connection and takes every lease.
	LostLeases struct {
		Incarnation string
		Reason      string
		Open        []string
		All         bool
	}
	// LateAck is the acknowledgement of a run that had ended unresolved.
	LateAck struct{ RunID string }
	// Clear lifts the fence on an operator's word. Answered with [FenceCleared].
	Clear struct {
		FenceID string
		Reason  string
	}
	// RetireFence ends a fence that is clear and is ignored by any other; Force
	// ends it in any state, its record stays: the hub has stopped.
	RetireFence struct{ Force bool }
)
