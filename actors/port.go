package actors

import (
	"context"
	"log/slog"
	"net"

	"codingrelay/lease"
	"codingrelay/wire"
)

// Ports are the hub's ways to the world, given at construction. Real ones are
// composed by the program, simulated ones by the simulator.
type Ports struct {
	// Store keeps the leases and fences. Required.
	Store Store
	// Listener accepts daemons. Required for [Hub.Listen].
	Listener Listener
	// Observer is told facts; nil is nobody.
	Observer Observer
	// Logger is told of bugs (panics) only; nil is nobody.
	Logger *slog.Logger
}

// Store keeps one document per daemon id. All methods may be called from many
// goroutines at once; operations on one key are never concurrent.
type Store interface {
	// Load returns everything found, in key order; each entry is a fence.
	Load() ([]lease.Entry, error)
	// Save returns when the record is durable.
	Save(rec lease.Record) error
	// Remove returns when the record's removal is applied; it need not be synced.
	Remove(key string) error
	// Archive moves everything that fences key aside, durably, and returns where.
	Archive(key string) (string, error)
	// Durable reports whether a restart finds what was saved.
	Durable() bool
}

// Listener opens the hub's listening socket.
type Listener interface {
	// Listen opens addr ("host:port"; port 0 picks one) and calls accept for
	// each daemon that dials, from any goroutine. accept returns where the
	// connection's frames go. An error is told to the caller of [Hub.Listen].
	Listen(ctx context.Context, addr string, accept Accept) (Listening, error)
}

// ListenerFunc is a function as [Listener].
type ListenerFunc func(ctx context.Context, addr string, accept Accept) (Listening, error)

// Listen calls f.
func (f ListenerFunc) Listen(ctx context.Context, addr string, accept Accept) (Listening, error) {
	return f(ctx, addr, accept)
}

// Accept takes a fresh socket: where it came from, its link, and a function to
// call once when its peer has been admitted, so that it no longer counts as
// unauthenticated. A nil sink refuses it.
type Accept func(remote string, link wire.Link, admitted func()) wire.Sink

// Listening is an open listener.
type Listening interface {
	// Addr is the address that was opened.
	Addr() net.Addr
	// Close stops accepting; links that were accepted live on.
	Close() error
}

// Tools answers the tool calls of one run. It is called from many goroutines.
// ctx ends when the call's time is up, the run's tools are revoked, or the run
// ends. The answer is a JSON-RPC answer; nil for notifications. An error becomes
// a JSON-RPC error whose text the agent sees. Tools that implement io.Closer are
// closed once, when the run's tools are revoked or the run has ended.
type Tools interface {
	Call(ctx context.Context, payload []byte) ([]byte, error)
}

// ToolsFunc is a function as [Tools].
type ToolsFunc func(ctx context.Context, payload []byte) ([]byte, error)

// Call calls f.
func (f ToolsFunc) Call(ctx context.Context, payload []byte) ([]byte, error) { return f(ctx, payload) }

// Observer is told what happens, for logs, metrics and audit. It is called on
// actors' turns and must return at once.
type Observer interface{ Observe(Fact) }

// FactKind says what a [Fact] is about.
type FactKind string

// The facts.
const (
	FactConnected    FactKind = "daemon_connected"
	FactRefusedHello FactKind = "hello_refused"
	FactGone         FactKind = "daemon_gone"
	FactRunStarted   FactKind = "run_started"
	FactRunEnded     FactKind = "run_ended"
	FactFenced       FactKind = "fenced"
	FactUnfenced     FactKind = "unfenced"
	FactFenceCleared FactKind = "fence_cleared" // audit: an operator did it
	FactStoreFailed  FactKind = "store_failed"
	FactFrameIgnored FactKind = "frame_ignored"
	FactHold         FactKind = "hold"
	FactFailure      FactKind = "actor_failed"
)

// Fact is one thing that happened. It never holds a payload or a token.
type Fact struct {
	Kind     FactKind
	DaemonID string
	Run      string
	FenceID  string
	// Text is a reason in words; Operator who cleared a fence.
	Text     string
	Operator string
	Outcome  *Outcome
}

// The operations that policies ask of their ports, for whoever executes them.
// Each belongs to one kind of actor; an executor that does not know one panics.
type (
	// OpOpen and OpCloseListener: hub.
	OpOpen          struct{ Addr, Token string }
	OpCloseListener struct{}

	// OpWrite to OpProgress: daemon_conn, on its link.
	OpWrite  struct{ Frames [][]byte }
	OpPing   struct{}
	OpCredit struct{ Bytes int }
	OpClose  struct {
		Code   int
		Reason string
	}
	OpDrop     struct{}
	OpAdmitted struct{}
	// OpProgress is answered with a [Progress] message of the same cause.
	OpProgress struct{ Cause string }

	// OpSave, OpRemove, OpArchive: fence, on its store; asked, so answered.
	OpSave    struct{ Record lease.Record }
	OpRemove  struct{ Key string }
	OpArchive struct{ Key string }

	// OpCallTool and OpRevokeTools: job, on its tools. A call is answered with a
	// [ToolResult].
	OpCallTool struct {
		Call    uint64
		Payload []byte
	}
	OpRevokeTools struct{}

	// OpObserve: any actor.
	OpObserve struct{ Fact Fact }
)
