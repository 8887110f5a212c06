package control

import (
	"encoding/json"
	"time"
)

// The types of this file are the bodies of requests and answers, as openapi.json
// describes them. They are plain values.

// RunRequest asks for a run: the body of POST /v1/runs.
type RunRequest struct {
	DaemonID string `json:"daemon_id"`
	// Payload is one JSON object; it reaches the daemon unchanged.
	Payload json.RawMessage `json:"payload"`
	// TimeoutMS limits the run, in milliseconds from when run.start was sent. Nil
	// is the hub's default, 0 no limit.
	TimeoutMS *int64 `json:"timeout_ms,omitempty"`
	// WaitMS is how long to wait for the daemon to come online, in milliseconds.
	WaitMS int64 `json:"wait_ms,omitempty"`
	// Tools is refused for now: tools are not yet available over HTTP.
	Tools json.RawMessage `json:"tools,omitempty"`
	// OnDisconnect is cancel (default) or continue: what happens when the run's
	// caller, if it has one, stays away.
	OnDisconnect string `json:"on_disconnect,omitempty"`
	// OnOverflow is truncate (default) or cancel: what happens when the log is
	// full and a slow reader may not hold the run back any longer.
	OnOverflow string `json:"on_overflow,omitempty"`
	// IdempotencyKey makes the request repeatable: the same key with the same
	// request is the same run. At most 255 bytes.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// Run describes one run.
type Run struct {
	RunID       string `json:"run_id"`
	DaemonID    string `json:"daemon_id"`
	Incarnation string `json:"incarnation"`
	// State is acquiring, dispatched, running, ending or ended.
	State     string    `json:"state"`
	CreatedAt time.Time `json:"created_at"`
	// TimeoutMS is the run's limit in milliseconds; 0 is none.
	TimeoutMS int64 `json:"timeout_ms"`
	// Events is the last sequence number of the run's log; 0 in a list of runs
	// that have not ended.
	Events uint64 `json:"events"`
	// Outcome is set when State is ended.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Outcome is the one end of a run. Its fields are those of [actors.Outcome].
type Outcome struct {
	// Result is finished, cancelled, timed_out, disconnected, refused or failed.
	Result string `json:"result"`
	// Clean says that everything the run started is gone (invariant I5).
	Clean bool `json:"clean"`
	// Durable says that what the outcome relies on is on disk.
	Durable bool   `json:"durable"`
	Reason  string `json:"reason,omitempty"`
	// Code and Message explain a refused run. Code is prefix.code.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// FenceID names the fence that an unclean end raised.
	FenceID string `json:"fence_id,omitempty"`
	// Dropped counts messages of the run that could not be taken.
	Dropped int `json:"dropped,omitempty"`
	// Events is the last sequence number of the run's log.
	Events     uint64     `json:"events"`
	CreatedAt  time.Time  `json:"created_at"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	EndingAt   *time.Time `json:"ending_at,omitempty"`
	EndedAt    time.Time  `json:"ended_at"`
	ResolvedAt *time.Time `json:"resolved_at,omitempty"`
	// Receipt is the daemon's account of the clean-up, if it gave one.
	Receipt *Receipt `json:"receipt,omitempty"`
}

// Receipt is a daemon's account of how a run's processes ended. Its fields are
// those of [codingrelay/wire.Receipt].
type Receipt struct {
	Mechanism  string `json:"mechanism"`
	ExitCode   *int   `json:"exit_code,omitempty"`
	Signal     string `json:"signal,omitempty"`
	Killed     int    `json:"killed"`
	Survivors  int    `json:"survivors"`
	DurationMS int64  `json:"duration_ms"`
	Weak       bool   `json:"weak,omitempty"`
}

// CancelResult is the answer to a cancel: the outcome, after the barrier.
type CancelResult struct {
	RunID string `json:"run_id"`
	// TookMS is how long the end took, in milliseconds: from its first cause,
	// which may have been another cancel, until the outcome was settled.
	TookMS int64 `json:"took_ms"`
	Outcome
}

// Daemon describes one connected daemon.
type Daemon struct {
	DaemonID    string    `json:"daemon_id"`
	Incarnation string    `json:"incarnation"`
	Remote      string    `json:"remote"`
	ConnectedAt time.Time `json:"connected_at"`
	// OpenRuns are the ids of its open runs, in the order they were placed.
	OpenRuns   []string `json:"open_runs"`
	Cancelling bool     `json:"cancelling"`
	// Fenced is set when it is connected but takes no new work.
	Fenced     bool     `json:"fenced"`
	Extensions []string `json:"extensions"`
	// Metadata is the hello's object, or null; it carries no authority.
	Metadata json.RawMessage `json:"metadata"`
}

// Fence describes one fence.
type Fence struct {
	// DaemonID is empty when only the hash is known.
	DaemonID string `json:"daemon_id,omitempty"`
	// SHA256 is the lower-case hex SHA-256 of the daemon id.
	SHA256  string    `json:"sha256"`
	FenceID string    `json:"fence_id"`
	Reason  string    `json:"reason"`
	Since   time.Time `json:"since"`
	// Unresolved are the runs that keep it up.
	Unresolved []FencedRun `json:"unresolved"`
	// Durable is false while its record could not be written.
	Durable bool `json:"durable"`
	// Metadata is what the daemon said of itself in its hello, or null.
	Metadata json.RawMessage `json:"metadata"`
}

// FencedRun is one run that keeps a fence up.
type FencedRun struct {
	RunID       string    `json:"run_id"`
	Incarnation string    `json:"incarnation"`
	Reason      string    `json:"reason"`
	At          time.Time `json:"at"`
}

// ClearItem names one fence to clear: the daemon, by id or by hash, and the
// raising that was looked at.
type ClearItem struct {
	DaemonID string `json:"daemon_id,omitempty"`
	// SHA256 is the hash instead of the id: 64 hex digits.
	SHA256  string `json:"sha256,omitempty"`
	FenceID string `json:"fence_id"`
}

// Cleared says that a fence was lifted.
type Cleared struct {
	FenceID string `json:"fence_id"`
	// MovedTo is where the hub moved the fence's record.
	MovedTo string `json:"moved_to"`
}

// ClearResult is what became of one [ClearItem]: Cleared, or Error.
type ClearResult struct {
	ClearItem
	Cleared bool      `json:"cleared"`
	MovedTo string    `json:"moved_to,omitempty"`
	Error   *APIError `json:"error,omitempty"`
}

// Readiness says whether the hub takes work. Ready is what the status of /readyz
// says: listening, not stopping, and every fence is written down.
type Readiness struct {
	Ready        bool `json:"ready"`
	Listening    bool `json:"listening"`
	Stopping     bool `json:"stopping"`
	StoreFailing bool `json:"store_failing"`
	Connections  int  `json:"connections"`
	OpenRuns     int  `json:"open_runs"`
	RetainedRuns int  `json:"retained_runs"`
	Fences       int  `json:"fences"`
}

// Range is a gap in a run's log, both ends included.
type Range struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// The bodies that only wrap something.
type (
	runList struct {
		Runs []Run `json:"runs"`
	}
	daemonList struct {
		Daemons []Daemon `json:"daemons"`
	}
	fenceList struct {
		Fences []Fence `json:"fences"`
	}
	clearRequest struct {
		FenceID string `json:"fence_id"`
		Reason  string `json:"reason"`
	}
	bulkClearRequest struct {
		Items  []ClearItem `json:"items"`
		Reason string      `json:"reason"`
	}
	bulkClearAnswer struct {
		Results []ClearResult `json:"results"`
	}
	health struct {
		Status string `json:"status"`
	}
	droppedMark struct {
		Bytes int `json:"bytes"`
	}
	errorAnswer struct {
		Error *APIError `json:"error"`
	}
)
