package actors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"

	"github.com/google/uuid"

	"codingrelay/step"
	"codingrelay/wire"
)

// Run is a handle on one run. Its methods are safe for concurrent use.
type Run struct {
	hub      *Hub
	ref      step.Ref
	id       string
	daemonID string
	existing bool
	reader   string
}

// ID is the run's id, the job_id of the wire.
func (r *Run) ID() string { return r.id }

// DaemonID is the daemon the run was placed on.
func (r *Run) DaemonID() string { return r.daemonID }

// Existing reports whether an idempotency key named an earlier run.
func (r *Run) Existing() bool { return r.existing }

// Run starts a run and returns when run.start was given to the socket's writer,
// or when it ended before that for another cause than a refusal; a refusal is an
// *Error. When ctx ends, now or later, the run is cancelled with the barrier:
// use context.WithoutCancel for one that shall go on.
func (h *Hub) Run(ctx context.Context, req RunRequest) (*Run, error) {
	spec, err := h.spec(req)
	if err != nil {
		return nil, h.prefixed(err)
	}
	id := uuid.Must(uuid.NewV7()).String()
	if req.Attached {
		spec.Reader = "caller-" + id
	}
	if req.Tools != nil {
		h.world.offerTools(id, req.Tools)
	}
	placed, askErr := ask[Placed](ctx, h, HubRef, func(t step.Token) any {
		return RunAsk{Token: t, RunID: id, Request: spec}
	})
	if askErr != nil || placed.Info.RunID != id {
		h.world.withdrawTools(id)
	}
	if askErr != nil {
		if ctx.Err() != nil {
			h.host.Send(HubRef, HubRef, ForgetAsk{RunID: id})
		}
		return nil, askErr
	}
	r := &Run{hub: h, ref: placed.Job, id: placed.Info.RunID, daemonID: placed.Info.DaemonID, existing: placed.Existing}
	if !r.existing {
		r.reader = spec.Reader
		h.cancelWith(ctx, r)
	}
	return r, nil
}

// cancelWith ties a run to its caller's context until the run's actor has ended.
func (h *Hub) cancelWith(ctx context.Context, r *Run) {
	if ctx.Done() == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { h.host.Send(HubRef, r.ref, CancelAsk{}) })
	h.world.whenEnded(r.ref, func() { stop() })
}

func (h *Hub) spec(req RunRequest) (RunSpec, *Error) {
	payload, err := wire.NormalizeObject(req.Payload)
	if err != nil {
		return RunSpec{}, errorf(CodeInvalidRequest, "payload: %v", err)
	}
	if len(payload) > wire.OurMaxFrame-1024 {
		return RunSpec{}, errorf(CodePayloadTooLarge, "the payload of %d bytes is above the limit of %d", len(payload), wire.OurMaxFrame-1024)
	}
	id, err := wire.ValidDaemonID(req.DaemonID)
	if err != nil {
		return RunSpec{}, errorf(CodeInvalidRequest, "%v", err)
	}
	s := RunSpec{
		DaemonID: id, Payload: payload, Timeout: req.Timeout, Wait: req.Wait,
		OnOverflow: req.OnOverflow, OnCallerEnd: req.OnCallerEnd, HasTools: req.Tools != nil, IdemKey: req.IdempotencyKey,
	}
	switch {
	case s.Timeout == NoTimeout:
		s.Timeout = 0
	case s.Timeout == 0:
		s.Timeout = h.cfg.RunTimeout
	case s.Timeout < 0 || s.Wait < 0:
		return RunSpec{}, errorf(CodeInvalidRequest, "timeout and wait must not be negative")
	}
	if s.OnOverflow == "" {
		s.OnOverflow = OverflowTruncate
	}
	if s.OnCallerEnd == "" {
		s.OnCallerEnd = CallerEndCancel
	}
	if s.OnOverflow != OverflowTruncate && s.OnOverflow != OverflowCancel ||
		s.OnCallerEnd != CallerEndCancel && s.OnCallerEnd != CallerEndContinue {
		return RunSpec{}, errorf(CodeInvalidRequest, "on_overflow is truncate or cancel, on_disconnect is cancel or continue")
	}
	if len(s.IdemKey) > 255 {
		return RunSpec{}, errorf(CodeInvalidRequest, "the idempotency key is longer than 255 bytes")
	}
	s.IdemHash = hashSpec(s)
	return s, nil
}

// hashSpec is what two requests with one idempotency key are compared by.
func hashSpec(s RunSpec) string {
	b, err := json.Marshal(struct {
		D, P, O, C string
		T, W       int64
		H          bool
	}{s.DaemonID, string(s.Payload), string(s.OnOverflow), string(s.OnCallerEnd), int64(s.Timeout), int64(s.Wait), s.HasTools})
	if err != nil {
		panic(err) // plain values always encode
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// FindRun returns a handle on a run that is open or still readable.
func (h *Hub) FindRun(ctx context.Context, runID string) (*Run, error) {
	p, err := ask[Placed](ctx, h, HubRef, func(t step.Token) any { return RunFind{Token: t, RunID: runID} })
	if err != nil {
		return nil, err
	}
	return &Run{hub: h, ref: p.Job, id: runID, daemonID: p.Info.DaemonID}, nil
}

// Info describes the run as it is now.
func (r *Run) Info(ctx context.Context) (RunInfo, error) {
	return ask[RunInfo](ctx, r.hub, r.ref, func(t step.Token) any { return InfoAsk{Token: t} })
}

// Wait returns the run's outcome when it has one (I4). The error is ctx's, or
// says that the run is not known any more.
func (r *Run) Wait(ctx context.Context) (Outcome, error) {
	return ask[Outcome](ctx, r.hub, r.ref, func(t step.Token) any { return OutcomeAsk{Token: t} })
}

// Cancel ends the run and returns its outcome after the barrier: Clean says that
// everything it started is gone. More cancels change nothing. When ctx ends
// first, the barrier goes on without this caller.
func (r *Run) Cancel(ctx context.Context) (Outcome, error) {
	return ask[Outcome](ctx, r.hub, r.ref, func(t step.Token) any { return CancelAsk{Token: t} })
}

// Event is one entry of a run's log as a reader sees it.
type Event struct {
	// Seq counts the entries of the run from 1.
	Seq uint64
	// Kind says what it is; ItemHub and ItemDropped are the hub's own.
	Kind ItemKind
	// Data is the event's JSON as the daemon sent it. It must not be changed.
	Data []byte
	// Bytes is the size of the message a dropped mark stands for.
	Bytes int
	// Truncated is set on an entry of its own, without Seq: these are gone.
	Truncated *Range
}

// readBytes is how much one read takes at most.
const readBytes = 256 << 10

// ErrDetached ends the iteration of a reader that was replaced by another.
var ErrDetached = errors.New("actors: another reader has taken over this stream")

// Events iterates over what follows sequence number after, live, until the run
// has ended. While it is ranged over it may hold the run back: a slow loop slows
// its daemon down for at most Config.HoldMax. The iteration ends with an error
// when ctx ends, or the run is not known any more.
func (r *Run) Events(ctx context.Context, after uint64) iter.Seq2[Event, error] {
	return r.events(ctx, Reading{After: after, Hold: true})
}

// Reading says how to read a run's log.
type Reading struct {
	After uint64
	// Hold lets the reader hold the run back. Without it a slow reader is told
	// what it has missed.
	Hold bool
	// Caller makes the reader the run's caller: it takes over from an earlier one,
	// and losing it starts the grace (attached runs).
	Caller bool
	// Attached, if set, is called once, before the first entry, when the reader is
	// registered: who attaches later comes after it.
	Attached func()
}

// Read iterates like [Run.Events], as told.
func (r *Run) Read(ctx context.Context, how Reading) iter.Seq2[Event, error] {
	return r.events(ctx, how)
}

func (r *Run) events(ctx context.Context, how Reading) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		name := "reader-" + uuid.NewString()
		if how.Caller && r.reader != "" {
			name = r.reader // attached since before the run began
		}
		// The question may be under way when ctx ends: what it asked for is taken back.
		defer r.hub.host.Send(HubRef, r.ref, Detach{Reader: name})
		if how.Hold || how.Caller {
			if _, err := ask[bool](ctx, r.hub, r.ref, func(t step.Token) any {
				return Attach{Token: t, Reader: name, After: how.After, Caller: how.Caller}
			}); err != nil {
				yield(Event{}, err)
				return
			}
		}
		if how.Attached != nil {
			how.Attached()
		}
		after := how.After
		for {
			page, err := ask[Page](ctx, r.hub, r.ref, func(t step.Token) any {
				return ReadAsk{Token: t, Reader: name, After: after, MaxBytes: readBytes}
			})
			if err != nil {
				yield(Event{}, err)
				return
			}
			if page.Detached {
				yield(Event{}, ErrDetached)
				return
			}
			if !page.each(yield) || page.Outcome != nil {
				return
			}
			after = page.First + uint64(len(page.Items)) - 1
		}
	}
}

// each hands a page's entries on and reports whether to go on.
func (p Page) each(yield func(Event, error) bool) bool {
	if p.Truncated != nil && !yield(Event{Truncated: p.Truncated}, nil) {
		return false
	}
	for i, it := range p.Items {
		if !yield(Event{Seq: p.First + uint64(i), Kind: it.Kind, Data: it.Data, Bytes: it.Bytes}, nil) {
			return false
		}
	}
	return true
}
