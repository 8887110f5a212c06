package actors

import (
	"testing"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// inboundOf decodes what a peer sends.
func inboundOf(frames ...string) told {
	d := wire.NewDecoder()
	var in Inbound
	for _, f := range frames {
		in.Frames = append(in.Frames, d.Decode([]byte(f)))
	}
	return told{from: matrixConn, m: in}
}

const helloFrame = `{"type":"daemon.hello","daemon_id":"box","token":"t","protocol":"coding-relay-v1"}`

// I3, I6, I8: what a connection does with each message in each state.
func TestConnMatrix(t *testing.T) {
	cfg := Config{}.withDefaults()
	build := func() step.Machine { return newConn("c1", "127.0.0.1:1", "t", cfg) }
	state := func(m step.Machine) string {
		c := m.(*Conn)
		s := c.state.String()
		for _, r := range c.runs {
			switch {
			case r.unresolved:
				s += "/unresolved"
			case r.owed():
				s += "/owed"
			case r.accepted:
				s += "/accepted"
			case r.queued:
				s += "/queued"
			}
		}
		if c.live.holding() {
			s += "/holding"
		}
		return s
	}
	flushed := told{from: matrixConn, m: Inbound{Flushed: true}}
	serving := []told{{m: step.Boot{}}, inboundOf(helloFrame), {m: Admitted{}}, flushed}
	dispatch := told{from: matrixJob, m: Dispatch{RunID: "r1", Fence: matrixFence, Payload: []byte(`{}`)}}
	with := func(more ...told) []told { return append(serving[:len(serving):len(serving)], more...) }
	cancel := told{after: time.Second, from: matrixJob, m: CancelRun{RunID: "r1"}}
	ways := []scenario{
		{"no hello yet", []told{{m: step.Boot{}}}},
		{"hello sent to the hub", []told{{m: step.Boot{}}, inboundOf(helloFrame)}},
		{"serving", serving},
		{"a flush is under way, run.start queued behind it", with(told{m: Inbound{Frames: []wire.Frame{{Type: wire.DaemonPing}}}}, dispatch)},
		{"run.start accepted", with(dispatch)},
		{"run.start written", with(dispatch, flushed)},
		{"run.cancel asked before run.start was written", with(dispatch, told{from: matrixJob, m: CancelRun{RunID: "r1"}})},
		{"run.cancel written", with(dispatch, flushed, cancel, flushed)},
		{"ended unresolved", with(dispatch, flushed, cancel, flushed, told{from: matrixJob, m: RunOver{RunID: "r1", Unresolved: true}})},
		{"holding", with(dispatch, flushed, told{from: matrixJob, m: HoldBegin{RunID: "r1"}})},
		{"closing", with(dispatch, told{m: CloseConn{Code: 1012, Reason: "cleared"}})},
	}
	messages := []told{
		inboundOf(helloFrame), inboundOf(`{"type":"daemon.ping"}`),
		inboundOf(`{"type":"run.event","job_id":"r1","event":{}}`), inboundOf(`{"type":"run.event","job_id":"foreign","event":{}}`),
		inboundOf(`{"type":"run.finished","job_id":"r1"}`), inboundOf(`{"type":"run.finished","job_id":"foreign"}`),
		inboundOf(`{"type":"mcp.request","request_id":"q","job_id":"r1","payload":{"id":1}}`),
		inboundOf(`{"type":"mcp.request","request_id":"q","job_id":"foreign","payload":{"id":1}}`),
		inboundOf(`{"type":"run.event","job_id":"r1","event":[]}`), inboundOf(`{"type":"nonsense"}`),
		flushed,
		{from: matrixConn, m: Inbound{Pong: true}},
		{from: matrixConn, m: Inbound{Closed: &wire.End{Code: 1006}}},
		{m: Admitted{}},
		{m: Rejected{Reason: "no"}},
		{m: Probe{}},
		{m: CloseConn{Code: 1001}},
		{m: NoHolds{}},
		{after: time.Minute, from: matrixJob, m: Life{RunID: "r9"}},
		{from: matrixJob, m: Dispatch{RunID: "r2", Fence: matrixFence, Payload: []byte(`{}`)}},
		{from: matrixJob, m: CancelRun{RunID: "r1"}},
		{after: time.Minute, from: matrixJob, m: CancelRun{RunID: "r1"}},
		{from: matrixJob, m: TakeOut{RunID: "r1"}},
		{from: matrixJob, m: RunOver{RunID: "r1"}},
		{from: matrixJob, m: Credit{RunID: "r1", Bytes: 10}},
		{from: matrixJob, m: HoldBegin{RunID: "r1"}},
		{from: matrixJob, m: HoldDone{RunID: "r1"}},
		{from: matrixJob, m: ToolAnswer{RunID: "r1", RequestID: "q", Call: 1, Payload: []byte(`{}`)}},
		{after: time.Minute, m: fire("hello")},
		{after: time.Minute, m: fire("gate")},
		{after: time.Minute, m: fire("beat")},
		{after: time.Minute, m: fire("hold")},
		{after: time.Minute, m: fire("close")},
		{after: time.Minute, m: Progress{Cause: causeBeat}},
		{after: time.Minute, m: Progress{Cause: causeBeat, Read: 1 << 20}},
	}
	matrix(t, "conn_matrix.golden", build, state, ways, messages)
}
