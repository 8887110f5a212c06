package actors

import (
	"errors"
	"testing"
	"time"

	"codingrelay/step"
)

// I4, I5, I9, I15: what a job does with each message in each state.
func TestJobMatrix(t *testing.T) {
	cfg := Config{}.withDefaults()
	spec := RunSpec{DaemonID: "box", Payload: []byte(`{}`), Timeout: time.Hour, HasTools: true, OnOverflow: OverflowTruncate, OnCallerEnd: CallerEndCancel, Reader: "caller"}
	build := func() step.Machine { return newJob("r1", spec, "c1", matrixConn, matrixFence, cfg, t0) }
	state := func(m step.Machine) string {
		j := m.(*Job)
		s := j.state.String()
		if j.wait != waitNothing {
			s += "/" + jobWaitNames[j.wait]
		}
		return s
	}
	boot := told{m: step.Boot{}}
	life := told{from: matrixConn, m: LifeSeen{OK: true}}
	grant := told{from: matrixFence, m: Granted{Durable: true}}
	accept := told{from: matrixConn, m: Accepted{}}
	cancel := told{after: time.Second, m: CancelAsk{Token: 1}}
	finish := told{from: matrixConn, m: RunFinished{}}
	ways := []scenario{
		{"asked for life", []told{boot}},
		{"asked for a lease", []told{boot, life}},
		{"given to the connection", []told{boot, life, grant}},
		{"running", []told{boot, life, grant, accept}},
		{"running, a tool call open", []told{boot, life, grant, accept, {from: matrixConn, m: ToolCall{RequestID: "q", Payload: []byte(`{"id":1}`)}}}},
		{"cancelled while asked for life", []told{boot, cancel}},
		{"cancelled while asked for a lease", []told{boot, life, cancel}},
		{"cancelled while dispatched", []told{boot, life, grant, cancel}},
		{"cancelled while running", []told{boot, life, grant, accept, cancel}},
		{"finished, releasing", []told{boot, life, grant, accept, finish}},
		{"lost while running", []told{boot, life, grant, accept, {m: LostConn{}}}},
		{"cancel not acknowledged", []told{boot, life, grant, accept, cancel, {after: 11 * time.Second, m: fire("ack")}}},
		{"ended clean", []told{boot, life, grant, accept, finish, {from: matrixFence, m: Released{Durable: true}}}},
		{"ended not clean", []told{boot, life, grant, accept, cancel, {after: 11 * time.Second, m: fire("ack")}, {from: matrixFence, m: Fenced{FenceID: "f", Durable: true}}}},
	}
	messages := []told{
		life,
		{from: matrixConn, m: LifeSeen{OK: false}},
		grant,
		{from: matrixFence, m: LeaseRefused{Err: errorf(CodeFenced, "fenced")}},
		accept,
		{from: matrixConn, m: DispatchRefused{Err: errorf(CodeCancelling, "cancelling")}},
		{from: matrixConn, m: TakenOut{}},
		{from: matrixConn, m: Batch{Items: []Item{{Kind: ItemEvent, Data: []byte(`{}`), Bytes: 40, credit: 40}}}},
		finish,
		{from: matrixConn, m: ToolCall{RequestID: "q2", Payload: []byte(`{"id":2}`)}},
		{from: matrixJob, m: ToolResult{Call: 1, Payload: []byte(`{"id":1}`)}},
		{from: matrixJob, m: ToolResult{Call: 1, Err: errors.New("no")}},
		{from: matrixConn, m: ToolSent{Call: 1}},
		{from: matrixConn, m: HoldOver{}},
		{m: LostConn{}},
		{from: matrixFence, m: Released{Durable: true}},
		{from: matrixFence, m: Fenced{FenceID: "f", Durable: true}},
		{m: StopRun{}},
		{m: Fail{}},
		{m: Resolved{}},
		{m: Retire{}},
		{m: CancelAsk{Token: 2}},
		{m: OutcomeAsk{Token: 2}},
		{m: InfoAsk{Token: 2}},
		{m: Attach{Token: 2, Reader: "x", Caller: true}},
		{m: Detach{Reader: "caller"}},
		{m: ReadAsk{Token: 2, Reader: "caller", MaxBytes: 100}},
		{after: time.Hour, m: fire("run")},
		{after: time.Hour, m: fire("ack")},
		{after: time.Hour, m: fire("bound")},
		{after: time.Hour, m: fire("grace")},
		{m: step.Expired{Timer: step.Timer{Name: "run", Cause: "r1", Gen: 99}}},
	}
	matrix(t, "job_matrix.golden", build, state, ways, messages)
}
