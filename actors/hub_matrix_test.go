package actors

import (
	"fmt"
	"testing"
	"time"

	"codingrelay/lease"
	"codingrelay/step"
)

// I1, I10: what the hub does with each message in each state.
func TestHubMatrix(t *testing.T) {
	cfg := Config{MaxRuns: 2}.withDefaults()
	build := func() step.Machine { return newHub(hubConfig{config: cfg, durable: true, prefix: "p"}) }
	state := func(m step.Machine) string {
		h := m.(*hubActor)
		return fmt.Sprintf("%s d%d r%d/%d", h.state, len(h.daemons), h.open, len(h.jobs))
	}
	key := lease.Key("box")
	listening := []told{{m: step.Boot{}}, {m: ListenAsk{Token: 1}}, {m: step.Answer{Question: 1, Value: "addr"}}}
	hello := func(inc string) told {
		return told{from: step.Ref{Kind: KindConn, ID: inc}, m: Hello{DaemonID: "box", Incarnation: inc}}
	}
	admitted := append(listening[:3:3], hello("c1"), told{m: AdmitAnswer{Key: key, Incarnation: "c1", OK: true}})
	runAsk := func(id string) told {
		return told{after: time.Second, m: RunAsk{Token: 2, RunID: id, Request: RunSpec{DaemonID: "box", Payload: []byte(`{}`), IdemKey: "k" + id, IdemHash: id}}}
	}
	with := func(more ...told) []told { return append(admitted[:len(admitted):len(admitted)], more...) }
	fenced := told{m: FenceChanged{Status: FenceStatus{Key: key, Phase: PhaseFenced, Info: FenceInfo{Key: key, DaemonID: "box", FenceID: "f1"}}}}
	ended := told{after: 2 * time.Second, m: JobEnded{RunID: "r1", Outcome: Outcome{Result: Finished, Clean: true, EndedAt: t0}}}
	ways := []scenario{
		{"not listening", []told{{m: step.Boot{}}}},
		{"listening, nobody there", listening},
		{"a hello waits for its fence", append(listening[:3:3], hello("c1"))},
		{"a daemon is there", admitted},
		{"its holder is being probed for a newcomer", with(told{after: time.Hour, from: step.Ref{Kind: KindConn, ID: "c2"}, m: Hello{DaemonID: "box", Incarnation: "c2"}})},
		{"a run is asked for", with(runAsk("r1"))},
		{"a run is running", with(runAsk("r1"), told{m: JobStarted{RunID: "r1"}})},
		{"a run has ended", with(runAsk("r1"), told{m: JobStarted{RunID: "r1"}}, ended)},
		{"fenced, still connected", with(fenced)},
		{"fenced, being cleared", with(fenced, told{m: ClearAsk{Token: 3, Key: key, FenceID: "f1", Reason: "x"}})},
		{"stopping", with(runAsk("r1"), told{m: JobStarted{RunID: "r1"}}, told{m: StopAsk{Token: 4}})},
		{"stopping, sockets closing", with(told{m: StopAsk{Token: 4}})},
	}
	conn := func(inc string) step.Ref { return step.Ref{Kind: KindConn, ID: inc} }
	messages := []told{
		{m: ListenAsk{Token: 9}},
		{m: ListenAsk{Token: 9, Config: ListenConfig{Token: "other"}}},
		{after: time.Minute, from: conn("c3"), m: Hello{DaemonID: "box", Incarnation: "c3"}},
		{from: conn("c1"), m: Gone{Incarnation: "c1", Open: []string{"r1"}}},
		{from: conn("x"), m: Gone{Incarnation: "x"}},
		{from: conn("c1"), m: Probed{Incarnation: "c1", Verdict: ProbeAlive}},
		{from: conn("c1"), m: Probed{Incarnation: "c1", Verdict: ProbeDead}},
		{m: AdmitAnswer{Key: key, Incarnation: "c1", OK: true}},
		{m: AdmitAnswer{Key: key, Incarnation: "c1"}},
		fenced,
		{m: FenceChanged{Status: FenceStatus{Key: key}}},
		{m: RunsResolved{Key: key, Runs: []string{"r1"}}},
		{m: FenceCleared{Key: key}},
		{m: FenceCleared{Key: key, Err: errorf(CodeFenceChanged, "x")}},
		{m: JobStarted{RunID: "r1"}},
		{m: JobEnding{RunID: "r1"}},
		ended,
		{m: JobEnded{RunID: "r1", Outcome: Outcome{Result: Refused, Code: CodeBusy, EndedAt: t0}}},
		{m: ActorFailed{Ref: conn("c1")}},
		{m: ActorFailed{Ref: step.Ref{Kind: KindJob, ID: "r1"}}},
		{m: ActorFailed{Ref: step.Ref{Kind: KindFence, ID: fmt.Sprintf("p-%.16s-1", key)}}},
		runAsk("r5"), runAsk("r1"),
		{m: RunAsk{Token: 9, RunID: "r6", Request: RunSpec{DaemonID: "box", Payload: []byte(`{}`), IdemKey: "kr1", IdemHash: "other"}}},
		{m: RunAsk{Token: 9, RunID: "r7", Request: RunSpec{DaemonID: "nobody", Wait: time.Second}}},
		{m: WaitAsk{Token: 9, DaemonID: "box"}},
		{m: ForgetAsk{RunID: "r1"}},
		{m: DaemonsAsk{Token: 9}},
		{m: RunsAsk{Token: 9}},
		{m: RunFind{Token: 9, RunID: "r1"}},
		{m: FencesAsk{Token: 9}},
		{m: StatusAsk{Token: 9}},
		{m: ClearAsk{Token: 9, Key: key, FenceID: "f1"}},
		{m: ClearAsk{Token: 9, Key: key, FenceID: "old"}},
		{m: StopAsk{Token: 9}},
		{after: time.Hour, m: fire("retention")},
		{after: time.Hour, m: fire("wait")},
		{m: step.Answer{Question: 1, Late: true}},
	}
	matrix(t, "hub_matrix.golden", build, state, ways, messages)
}
