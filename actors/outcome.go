package actors

import (
	"time"

	"codingrelay/wire"
)

// Result is how a run ended. The first cause names it (protocol section 5).
type Result string

// The results.
const (
	Finished     Result = "finished"     // the daemon said run.finished by itself
	Cancelled    Result = "cancelled"    // a caller, or the stopping hub, ended it
	TimedOut     Result = "timed_out"    // its timeout passed
	Disconnected Result = "disconnected" // its connection was lost
	Refused      Result = "refused"      // it was never sent
	Failed       Result = "failed"       // the hub itself failed: a bug
)

// Reasons that an outcome or a fence names.
const (
	ReasonCancelTimeout = "cancel_timeout"
	ReasonDisconnected  = "daemon_disconnected"
	ReasonHubStopping   = "hub_stopping"
	ReasonHubCrashed    = "hub_crashed"
	ReasonSlowReader    = "slow_reader"
	ReasonCallerGone    = "caller_gone"
	ReasonInternal      = "internal_error"
)

// Outcome is the one end of a run. Nothing is added after it except ResolvedAt.
type Outcome struct {
	Result Result `json:"result"`
	// Clean says that everything the run started is gone: run.finished came from
	// the daemon that owned it, or run.start was never sent (invariant I5).
	Clean bool `json:"clean"`
	// Durable says that what the outcome relies on is on disk: for one that is
	// not clean, that a restarted hub will still refuse this daemon id.
	Durable bool `json:"durable"`
	// Reason says more about the cause; empty for an ordinary end.
	Reason string `json:"reason,omitempty"`
	// Code is the error code of a refused run.
	Code Code `json:"code,omitempty"`
	// Message explains Code.
	Message string `json:"message,omitempty"`
	// FenceID names the fence an unclean end raised.
	FenceID string `json:"fence_id,omitempty"`
	// Dropped counts messages of the run that could not be taken (oversize or
	// broken frames).
	Dropped int `json:"dropped,omitempty"`
	// Events is the last sequence number in the run's log.
	Events uint64 `json:"events"`
	// CreatedAt is when the hub took the run, StartedAt when run.start was given
	// to the socket's writer, EndingAt when the first cause of the end came,
	// EndedAt when the outcome was settled.
	CreatedAt time.Time  `json:"created_at"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndingAt  *time.Time `json:"ending_at,omitempty"`
	EndedAt   time.Time  `json:"ended_at"`
	// ResolvedAt is when a late acknowledgement or an operator lifted the fence
	// this run raised.
	ResolvedAt *time.Time `json:"resolved_at,omitempty"`
	// Receipt is the daemon's account of the clean-up, if it gave one.
	Receipt *wire.Receipt `json:"receipt,omitempty"`
}

// RunState is the coarse state of a run as callers see it.
type RunState string

// The states of a run.
const (
	StateAcquiring  RunState = "acquiring"
	StateDispatched RunState = "dispatched"
	StateRunning    RunState = "running"
	StateEnding     RunState = "ending"
	StateEnded      RunState = "ended"
)

// RunInfo describes one run.
type RunInfo struct {
	RunID       string    `json:"run_id"`
	DaemonID    string    `json:"daemon_id"`
	Incarnation string    `json:"incarnation"`
	State       RunState  `json:"state"`
	CreatedAt   time.Time `json:"created_at"`
	// Timeout is the run's limit in milliseconds; 0 is none.
	TimeoutMS int64 `json:"timeout_ms"`
	// Events is the last sequence number in the log; a list of runs knows it only
	// of those that have ended.
	Events  uint64   `json:"events"`
	Outcome *Outcome `json:"outcome,omitempty"`
}

// DaemonInfo describes one connected daemon.
type DaemonInfo struct {
	DaemonID    string    `json:"daemon_id"`
	Incarnation string    `json:"incarnation"`
	Remote      string    `json:"remote"`
	ConnectedAt time.Time `json:"connected_at"`
	// OpenRuns are the ids of its open runs, in the order they were placed.
	OpenRuns   []string `json:"open_runs"`
	Cancelling bool     `json:"cancelling"`
	// Fenced is set when it is connected but takes no new work.
	Fenced     bool     `json:"fenced"`
	Extensions []string `json:"extensions,omitempty"`
	// Metadata is the hello's object; it carries no authority.
	Metadata RawJSON `json:"metadata,omitempty"`
}

// FenceInfo describes one fence.
type FenceInfo struct {
	// DaemonID is empty when only the hash is known.
	DaemonID string `json:"daemon_id,omitempty"`
	// Key is the lower-case hex SHA-256 of the daemon id.
	Key     string    `json:"sha256"`
	FenceID string    `json:"fence_id"`
	Reason  string    `json:"reason"`
	Since   time.Time `json:"since"`
	// Unresolved are the runs that caused it.
	Unresolved []FencedRun `json:"unresolved"`
	// Durable is false while its record could not be written.
	Durable  bool    `json:"durable"`
	Metadata RawJSON `json:"metadata,omitempty"`
}

// FencedRun is one run that keeps a fence up.
type FencedRun struct {
	RunID       string    `json:"run_id"`
	Incarnation string    `json:"incarnation"`
	Reason      string    `json:"reason"`
	At          time.Time `json:"at"`
}

// RawJSON is verbatim JSON text.
type RawJSON []byte

// MarshalJSON returns the text, or null when there is none.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps a copy of the text.
func (r *RawJSON) UnmarshalJSON(b []byte) error {
	*r = append((*r)[:0], b...)
	return nil
}
