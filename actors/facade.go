package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/anthdm/hollywood/actor"
	"github.com/google/uuid"

	"codingrelay/lease"
	"codingrelay/step"
)

// ListenConfig says where daemons dial in. Two are the same when all fields are
// equal as given; port 0 equals port 0.
type ListenConfig struct {
	Host string
	Port int
	// Token is the one secret all daemons of this installation know. Empty means
	// no authentication, which is allowed on loopback only unless Force is set.
	Token string
	// Shared is the shared profile: a strong token and a durable store are
	// required (protocol section 7).
	Shared bool
	// Force allows an empty token on other addresses than loopback.
	Force bool
}

// Hub is the facade of the hub actors: what a program embeds. Its methods are
// safe for concurrent use.
type Hub struct {
	cfg   Config
	host  *step.Host
	world *world
	done  chan struct{}
}

// Start starts the hub's actors and reads the whole store: every lease and fence
// in it is a fence before anything can listen (I7). engine is the host program's
// own, or nil for a new one. An error leaves nothing behind.
func Start(engine *actor.Engine, cfg Config, ports Ports) (*Hub, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if ports.Store == nil {
		return nil, errors.New("actors: Ports.Store is required; persist.Open or persist.NewMemory makes one")
	}
	cfg = cfg.withDefaults()
	entries, err := ports.Store.Load()
	if err != nil {
		return nil, fmt.Errorf("actors: read the store: %w", err)
	}
	if engine == nil {
		if engine, err = actor.NewEngine(actor.NewEngineConfig()); err != nil {
			return nil, fmt.Errorf("actors: start an engine: %w", err)
		}
	}
	h := &Hub{cfg: cfg, done: make(chan struct{})}
	h.world = newWorld(cfg, ports)
	h.host = step.NewHost(step.Config{
		Engine: engine, Name: "relay-" + uuid.NewString(),
		PortFor: h.world.portFor, OnFailure: h.world.failed, Logger: ports.Logger,
	})
	h.world.host = h.host
	h.host.Spawn(HubRef, newHub(hubConfig{config: cfg, durable: ports.Store.Durable(), entries: entries, prefix: uuid.NewString()}), h.world.portFor(HubRef))
	go h.await(h.host.Done(HubRef))
	return h, nil
}

// await closes Done when the hub actor has ended and nothing of it is left.
func (h *Hub) await(hubEnded <-chan struct{}) {
	<-hubEnded
	_ = h.host.Idle(context.Background())
	h.world.wait()
	close(h.done)
}

// Done is closed when the hub has ended: stopped, or failed ([Hub.Err]).
func (h *Hub) Done() <-chan struct{} { return h.done }

// Err returns why the hub failed, or nil. It is settled when Done is closed.
func (h *Hub) Err() error { return h.world.failure() }

// ask puts a question to the hub actor and gives its answer a type.
func ask[T any](ctx context.Context, h *Hub, to step.Ref, build func(step.Token) any) (T, error) {
	var zero T
	v, err := h.host.Ask(ctx, to, build)
	switch {
	case errors.Is(err, step.ErrNoActor) || errors.Is(err, step.ErrEnded):
		if to != HubRef {
			return zero, h.prefixed(errorf(CodeRunNotFound, "run %q is not known (any more)", to.ID))
		}
		if ferr := h.Err(); ferr != nil {
			return zero, h.prefixed(errorf(CodeInternal, "the hub has failed: %v", ferr))
		}
		return zero, h.prefixed(errorf(CodeHubNotStarted, "the hub is not started (any more)"))
	case err != nil:
		return zero, err
	}
	switch v := v.(type) {
	case T:
		return v, nil
	case *Error:
		return zero, h.prefixed(v)
	default:
		panic(fmt.Sprintf("actors: answer %T where %T was due", v, zero))
	}
}

// prefixed copies an error and gives it the installation's prefix.
func (h *Hub) prefixed(e *Error) *Error {
	c := *e
	c.Prefix = h.cfg.ErrorPrefix
	return &c
}

// Listen opens the listener for daemons and returns its address. It is
// serialized and idempotent: any number of concurrent calls with one
// configuration open one listener and all succeed; another configuration is
// refused and changes nothing (I10).
func (h *Hub) Listen(ctx context.Context, cfg ListenConfig) (string, error) {
	if err := cfg.check(h.world.ports.Store.Durable()); err != nil {
		return "", h.prefixed(err)
	}
	l, err := ask[Listened](ctx, h, HubRef, func(t step.Token) any { return ListenAsk{Token: t, Config: cfg} })
	return l.Addr, err
}

// Daemons lists the connected daemons by id.
func (h *Hub) Daemons(ctx context.Context) ([]DaemonInfo, error) {
	return ask[[]DaemonInfo](ctx, h, HubRef, func(t step.Token) any { return DaemonsAsk{Token: t} })
}

// WaitForDaemon returns when the daemon is connected and can take work. It fails
// at once when the id is fenced, and when ctx ends.
func (h *Hub) WaitForDaemon(ctx context.Context, daemonID string) (DaemonInfo, error) {
	return ask[DaemonInfo](ctx, h, HubRef, func(t step.Token) any { return WaitAsk{Token: t, DaemonID: daemonID} })
}

// Fences lists every fence, by key.
func (h *Hub) Fences(ctx context.Context) ([]FenceInfo, error) {
	return ask[[]FenceInfo](ctx, h, HubRef, func(t step.Token) any { return FencesAsk{Token: t} })
}

// ClearFence lifts a fence on an operator's word: somebody looked at the machine
// and found nothing of the old runs (protocol section 6). daemon is an id or
// "sha256:<hash>"; fenceID must name the present raising. It returns where the
// record was moved to.
func (h *Hub) ClearFence(ctx context.Context, daemon, fenceID, reason, operator string) (string, error) {
	if strings.TrimSpace(reason) == "" || fenceID == "" || daemon == "" {
		return "", h.prefixed(errorf(CodeInvalidRequest, "clearing a fence needs the daemon, its fence_id and a reason"))
	}
	c, err := ask[Cleared](ctx, h, HubRef, func(t step.Token) any {
		return ClearAsk{Token: t, Key: keyOf(daemon), FenceID: fenceID, Reason: reason, Operator: operator}
	})
	return c.Where, err
}

// keyOf is the store key of a daemon id or of "sha256:<hash>".
func keyOf(daemon string) string {
	if hash, ok := strings.CutPrefix(daemon, "sha256:"); ok {
		return strings.ToLower(hash)
	}
	return lease.Key(daemon)
}

// Runs lists every run that is open or still readable, oldest first.
func (h *Hub) Runs(ctx context.Context) ([]RunInfo, error) {
	return ask[[]RunInfo](ctx, h, HubRef, func(t step.Token) any { return RunsAsk{Token: t} })
}

// Status says how the hub is.
func (h *Hub) Status(ctx context.Context) (Status, error) {
	return ask[Status](ctx, h, HubRef, func(t step.Token) any { return StatusAsk{Token: t} })
}

// Stop closes the door, ends every open run with the barrier, and then closes
// the sockets and the listener (protocol section 5). ctx limits the waiting,
// never the barrier: when it ends first the stop goes on.
func (h *Hub) Stop(ctx context.Context) error {
	if _, err := ask[Stopped](ctx, h, HubRef, func(t step.Token) any { return StopAsk{Token: t} }); err != nil &&
		CodeOf(err) != CodeHubNotStarted {
		return err
	}
	select {
	case <-h.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RunRequest asks for a run.
type RunRequest struct {
	DaemonID string
	// Payload is one JSON object; it reaches the daemon unchanged.
	Payload []byte
	// Tools answers the run's tool calls; nil means there are none.
	Tools Tools
	// Timeout limits the run from when run.start was given to the writer. 0 means
	// Config.RunTimeout, NoTimeout none.
	Timeout time.Duration
	// Wait is how long to wait for the daemon to come online.
	Wait time.Duration
	// OnOverflow says what happens when the log is full and the reader must not
	// hold the run back any longer. Default OverflowTruncate.
	OnOverflow Overflow
	// Attached makes the run's caller a reader from the start: it may hold the run
	// back ([Run.Events]), and OnCallerEnd applies when it stays away.
	Attached bool
	// OnCallerEnd is for attached runs. Default CallerEndCancel.
	OnCallerEnd CallerEnd
	// IdempotencyKey makes the request repeatable: the same key with the same
	// request is the same run, with another it is refused.
	IdempotencyKey string
}

// NoTimeout as RunRequest.Timeout means no limit.
const NoTimeout time.Duration = -1
