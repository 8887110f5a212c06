package actors

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"codingrelay/step"
	"codingrelay/wire"
)

// JSON-RPC error codes this side answers tool calls with (protocol section 4.7).
const (
	rpcUnavailable = -32000
	rpcInternal    = -32603
)

// ErrToolPanic is what an executor reports when a host's tool panicked; the
// agent is told -32603.
var ErrToolPanic = errors.New("the tool failed internally")

// toolDesk is a run's tool calls in flight. A call counts until its answer was
// given to the writer, so the budget bounds the answers too.
type toolDesk struct {
	open  bool
	last  uint64
	bytes int
	calls []toolInFlight
}

type toolInFlight struct {
	call     uint64
	request  string
	payload  []byte // kept for the ids an error answer must echo
	bytes    int
	answered bool
}

// toolCall starts a call, or refuses it at once: calls are never queued.
func (j *Job) toolCall(m ToolCall, fx *step.Effects) {
	t := &j.tools
	refuse := func(why string) {
		fx.Send(j.conn, ToolAnswer{RunID: j.id, RequestID: m.RequestID, Request: m.Payload, Payload: wire.JSONRPCErrors(m.Payload, rpcUnavailable, why)})
	}
	switch {
	case j.state != jobRunning && j.state != jobDispatched:
		refuse("the run is over or being ended; its tools are revoked")
	case !t.open:
		refuse("this run has no tools")
	case len(t.calls) >= j.cfg.ToolCalls:
		refuse(fmt.Sprintf("too many tool calls in flight (limit %d); wait for an answer", j.cfg.ToolCalls))
	case t.bytes+len(m.Payload) > j.cfg.ToolBytes:
		refuse(fmt.Sprintf("too many bytes of tool calls in flight (limit %d); wait for an answer", j.cfg.ToolBytes))
	default:
		t.last++
		t.bytes += len(m.Payload)
		t.calls = append(t.calls, toolInFlight{call: t.last, request: m.RequestID, payload: m.Payload, bytes: len(m.Payload)})
		fx.Do(OpCallTool{Call: t.last, Payload: m.Payload})
	}
}

// toolResult passes an answer on. One that comes after revocation was answered
// already and is dropped (I9).
func (j *Job) toolResult(m ToolResult, fx *step.Effects) {
	t := &j.tools
	i := slices.IndexFunc(t.calls, func(c toolInFlight) bool { return c.call == m.Call })
	if i < 0 || t.calls[i].answered {
		return
	}
	c := &t.calls[i]
	answer := m.Payload
	switch {
	case m.Err != nil && errors.Is(m.Err, ErrToolPanic):
		answer = wire.JSONRPCErrors(c.payload, rpcInternal, m.Err.Error())
	case m.Err != nil:
		answer = wire.JSONRPCErrors(c.payload, rpcUnavailable, m.Err.Error())
	case len(answer) > j.cfg.ToolBytes:
		answer = wire.JSONRPCErrors(c.payload, rpcUnavailable, fmt.Sprintf("the tool's answer of %d bytes is above the limit of %d", len(answer), j.cfg.ToolBytes))
	}
	j.answerTool(c, answer, fx)
}

func (j *Job) answerTool(c *toolInFlight, answer []byte, fx *step.Effects) {
	request := c.payload
	c.answered, c.payload = true, nil
	j.tools.bytes += len(answer)
	c.bytes += len(answer)
	fx.Send(j.conn, ToolAnswer{RunID: j.id, RequestID: c.request, Call: c.call, Request: request, Payload: answer})
}

// revokeTools ends the run's tools before anything else of its end is done: no
// call starts any more and open ones are cancelled (I9).
func (j *Job) revokeTools(fx *step.Effects) {
	t := &j.tools
	if !t.open {
		return
	}
	t.open = false
	fx.Do(OpRevokeTools{})
	for i := range t.calls {
		if c := &t.calls[i]; !c.answered {
			j.answerTool(c, wire.JSONRPCErrors(c.payload, rpcUnavailable, "the run is being ended; its tools are revoked"), fx)
		}
	}
}

// sent takes an answer that was given to the writer out of the budget.
func (t *toolDesk) sent(call uint64) {
	i := slices.IndexFunc(t.calls, func(c toolInFlight) bool { return c.call == call })
	if i >= 0 {
		t.bytes -= t.calls[i].bytes
		t.calls = slices.Delete(t.calls, i, i+1)
	}
}

func (t *toolDesk) appendState(b []byte) []byte {
	b = fmt.Appendf(b, " tools=%t/%d/%d", t.open, len(t.calls), t.bytes)
	for _, c := range t.calls {
		b = fmt.Appendf(b, " call=%d/%t", c.call, c.answered)
	}
	return b
}

// quoteJSON is s as a JSON string.
func quoteJSON(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return b
}
