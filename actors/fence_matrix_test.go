package actors

import (
	"errors"
	"testing"

	"codingrelay/step"
)

// I2, I7, I11: what a fence does with each message in each state. While it is
// saving the executor puts other mail aside, so there only answers come.
func TestFenceMatrix(t *testing.T) {
	cfg := Config{}.withDefaults()
	build := func() step.Machine { return newFence("k", "box", nil, true, cfg) }
	state := func(m step.Machine) string {
		f := m.(*Fence)
		s := f.phase.String()
		if len(f.cancelling) > 0 {
			s += "/cancelling"
		}
		if f.failing {
			s += "/failing"
		}
		return s
	}
	hub := HubRef
	acquire := told{from: matrixJob, m: Acquire{RunID: "r1", Incarnation: "c1"}}
	cancelling := told{from: matrixJob, m: Cancelling{RunID: "r1"}}
	unresolved := told{from: matrixJob, m: Unresolved{RunID: "r1", Reason: "cancel_timeout"}}
	leased := []told{{m: step.Boot{}}, acquire, saved(1)}
	with := func(more ...told) []told { return append(leased[:len(leased):len(leased)], more...) }
	ways := []scenario{
		{"clear", []told{{m: step.Boot{}}}},
		{"leased", leased},
		{"leased, its connection gone, settling", with(told{from: hub, m: LostLeases{Incarnation: "c1"}})},
		{"cancelling", with(cancelling)},
		{"fenced", with(cancelling, unresolved, saved(2))},
		{"fenced, the save failed", with(unresolved, notSaved(2))},
		{"released, the removal failed", with(told{from: matrixJob, m: Release{RunID: "r1"}}, notSaved(2))},
	}
	messages := []told{
		{from: hub, m: Admit{Incarnation: "c2", DaemonID: "box"}},
		{from: matrixJob, m: Acquire{RunID: "r2", Incarnation: "c1"}},
		{from: matrixJob, m: Acquire{RunID: "r2", Incarnation: "c2"}},
		{from: matrixJob, m: Release{RunID: "r1"}},
		{from: matrixJob, m: Release{RunID: "nobody"}},
		cancelling, unresolved,
		{from: matrixJob, m: Unresolved{RunID: "nobody"}},
		{from: hub, m: LostLeases{Incarnation: "c1", Open: []string{"r1"}}},
		{from: hub, m: LostLeases{Incarnation: "c1"}},
		{from: hub, m: LostLeases{Incarnation: "c1", All: true}},
		{from: hub, m: LostLeases{Incarnation: "other", All: true}},
		{from: matrixConn, m: LateAck{RunID: "r1"}},
		{from: matrixConn, m: LateAck{RunID: "nobody"}},
		{from: hub, m: Clear{FenceID: "another"}},
		{from: hub, m: RetireFence{}},
		{from: hub, m: RetireFence{Force: true}},
		{m: fire("retry")},
		{m: step.Answer{Question: 1, Late: true}},
	}
	matrix(t, "fence_matrix.golden", build, state, ways, messages)
}

func saved(q uint64) told { return told{m: step.Answer{Question: q}} }

func notSaved(q uint64) told {
	return told{m: step.Answer{Question: q, Err: errors.New("no space left on device")}}
}
