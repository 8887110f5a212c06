package actors_test

import (
	"context"
	"strings"
	"testing"

	"codingrelay/actors"
	"codingrelay/persist"
)

func call(p *peer, r *actors.Run, id int) {
	p.t.Helper()
	p.send(`{"type":"mcp.request","request_id":"r%d","job_id":%q,"payload":{"jsonrpc":"2.0","id":%d,"method":"x"}}`, id, r.ID(), id)
}

// Protocol 4.7: pings, other frames and run.finished overtake a slow tool, and a
// cancel beside it is acknowledged.
func TestSlowToolDelaysNothing(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	release, entered := make(chan struct{}), make(chan struct{})
	defer close(release)
	slow := h.run(p, actors.RunRequest{Tools: actors.ToolsFunc(func(context.Context, []byte) ([]byte, error) {
		close(entered)
		<-release // minds neither its context nor anybody
		return nil, nil
	})})
	quick := h.run(p, actors.RunRequest{})
	call(p, slow, 1)
	<-entered
	p.barrier()
	p.event(quick.ID(), 1)
	p.finish(quick.ID())
	wants(t, h.outcome(quick), actors.Finished, true)
	done := make(chan actors.Outcome, 1)
	go func() {
		out, _ := slow.Cancel(testContext(t))
		done <- out
	}()
	if f := p.expect("mcp.response"); !strings.Contains(string(f.Payload), "-32000") {
		t.Errorf("the open call was answered with %s, want -32000", f.Payload)
	}
	p.expect("run.cancel")
	p.finish(slow.ID())
	wants(t, <-done, actors.Cancelled, true)
}

// Protocol 4.7: too many calls are refused at once, a failing tool is -32000, a
// panicking one -32603, and the hub lives on.
func TestToolFailuresAreAnswered(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{ToolCalls: 2, ToolBytes: 4096})
	p := connect(t, h.addr, "box", token)
	release := make(chan struct{})
	r := h.run(p, actors.RunRequest{Tools: actors.ToolsFunc(func(_ context.Context, payload []byte) ([]byte, error) {
		switch {
		case strings.Contains(string(payload), `"id":1,`), strings.Contains(string(payload), `"id":2,`):
			<-release
		case strings.Contains(string(payload), `"id":4,`):
			panic("a bug of the host")
		case strings.Contains(string(payload), `"id":5,`):
			return nil, context.DeadlineExceeded
		case strings.Contains(string(payload), `"id":6,`):
			return []byte(`{"jsonrpc":"2.0","id":6,"result":"` + strings.Repeat("x", 5000) + `"}`), nil
		}
		return []byte(`{"jsonrpc":"2.0","id":0,"result":"fine"}`), nil
	})})
	want := func(text string) {
		t.Helper()
		if f := p.expect("mcp.response"); !strings.Contains(string(f.Payload), text) {
			t.Errorf("answered with %s, want %s", f.Payload, text)
		}
	}
	call(p, r, 1)
	call(p, r, 2)
	call(p, r, 3)
	want("too many tool calls")
	close(release)
	want("fine")
	want("fine")
	call(p, r, 4)
	want("-32603")
	call(p, r, 5)
	want("-32000")
	call(p, r, 6)
	want("above the limit")
	call(p, r, 7)
	want("fine")
	p.finish(r.ID())
	wants(t, h.outcome(r), actors.Finished, true)
}

// Protocol 1: an answer above what a peer takes becomes a JSON-RPC error with the
// request's id; the connection is unharmed.
func TestAnswerAboveThePeersLimitBecomesAnError(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "v1", token)
	r := h.run(p, actors.RunRequest{Tools: actors.ToolsFunc(func(context.Context, []byte) ([]byte, error) {
		return []byte(`{"jsonrpc":"2.0","id":3,"result":"` + strings.Repeat("x", 2<<20) + `"}`), nil
	})})
	call(p, r, 3)
	f := p.expect("mcp.response")
	if s := string(f.Payload); !strings.Contains(s, "-32000") || !strings.Contains(s, `"id":3`) || !strings.Contains(s, "1048576") {
		t.Errorf("answered with %.200s", s)
	}
	p.finish(r.ID())
	wants(t, h.outcome(r), actors.Finished, true)
}

// Protocol 4.7: absent tools, and tools of an ended run, are -32000.
func TestAbsentToolsAreAnswered(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	for _, when := range []string{"no tools", "ended"} {
		call(p, r, 1)
		if f := p.expect("mcp.response"); !strings.Contains(string(f.Payload), "-32000") {
			t.Errorf("%s: answered with %s, want -32000", when, f.Payload)
		}
		p.finish(r.ID())
	}
}
