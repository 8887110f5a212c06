package control

import (
	"encoding/json"

	"codingrelay/actors"
	"codingrelay/wire"
)

// What the hub says, as the API says it.

func (s *Server) runOf(i actors.RunInfo) Run {
	r := Run{
		RunID: i.RunID, DaemonID: i.DaemonID, Incarnation: i.Incarnation, State: string(i.State),
		CreatedAt: i.CreatedAt, TimeoutMS: i.TimeoutMS, Events: i.Events,
	}
	if i.Outcome != nil {
		o := s.outcomeOf(*i.Outcome)
		r.Outcome = &o
	}
	return r
}

func (s *Server) outcomeOf(o actors.Outcome) Outcome {
	out := Outcome{
		Result: string(o.Result), Clean: o.Clean, Durable: o.Durable, Reason: o.Reason,
		Message: o.Message, FenceID: o.FenceID, Dropped: o.Dropped, Events: o.Events,
		CreatedAt: o.CreatedAt, StartedAt: o.StartedAt, EndingAt: o.EndingAt, EndedAt: o.EndedAt,
		ResolvedAt: o.ResolvedAt, Receipt: receiptOf(o.Receipt),
	}
	if o.Code != "" {
		out.Code = s.fullCode(o.Code)
	}
	return out
}

func receiptOf(r *wire.Receipt) *Receipt {
	if r == nil {
		return nil
	}
	return &Receipt{
		Mechanism: r.Mechanism, ExitCode: r.ExitCode, Signal: r.Signal, Killed: r.Killed,
		Survivors: r.Survivors, DurationMS: r.DurationMS, Weak: r.Weak,
	}
}

func daemonOf(i actors.DaemonInfo) Daemon {
	return Daemon{
		DaemonID: i.DaemonID, Incarnation: i.Incarnation, Remote: i.Remote, ConnectedAt: i.ConnectedAt,
		OpenRuns: orEmpty(i.OpenRuns), Cancelling: i.Cancelling, Fenced: i.Fenced,
		Extensions: orEmpty(i.Extensions), Metadata: json.RawMessage(i.Metadata),
	}
}

func fenceOf(i actors.FenceInfo) Fence {
	f := Fence{
		DaemonID: i.DaemonID, SHA256: i.Key, FenceID: i.FenceID, Reason: i.Reason, Since: i.Since,
		Durable: i.Durable, Unresolved: make([]FencedRun, 0, len(i.Unresolved)), Metadata: json.RawMessage(i.Metadata),
	}
	for _, r := range i.Unresolved {
		f.Unresolved = append(f.Unresolved, FencedRun(r))
	}
	return f
}

// orEmpty makes an empty list print as [], not as null.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func mapped[A, B any](list []A, f func(A) B) []B {
	out := make([]B, 0, len(list))
	for _, a := range list {
		out = append(out, f(a))
	}
	return out
}
