package acp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const endTurn = `{"stopReason":"end_turn"}`

// Cases D11: lines around the sizes at which readers with a fixed buffer give up.
func TestLinesAroundBufferSizesArriveWhole(t *testing.T) {
	frame := len(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""}}}}`)
	for _, size := range []int{65_535, 65_536, 65_537, 1 << 20, 1<<20 + 1} {
		text := strings.Repeat("x", size-frame)
		events, err := runPeer(t, request(t, ""), Options{}, func(p *peer) {
			prompt := p.toPrompt(`{}`)
			p.say(text)
			p.say("after")
			p.answer(prompt, endTurn)
		})
		got, _ := content(t, strings.Join(events, "\n"))
		if err != nil || got != text+"after" {
			t.Errorf("a line of %d bytes: %d bytes arrived, %v", size, len(got), err)
		}
	}
}

// Protocol section 9 and JSON-RPC 2.0 section 5: an unknown request is refused with
// its id, byte for byte; what wants no answer gets none.
func TestRefusalEchoesIDByteForByte(t *testing.T) {
	ids := []string{`1`, `"1"`, `0`, `1.0`, `1e3`, `-7`, `9007199254740993`, `"\u0061"`, `"é"`, `""`}
	var got []string
	_, err := runPeer(t, request(t, ""), Options{}, func(p *peer) {
		prompt := p.toPrompt(`{}`)
		for _, id := range ids {
			p.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"fs/read_text_file","params":{}}`)
			m := p.next()
			if m == nil || m.Error == nil || m.Error.Code != errMethodNotFound {
				t.Errorf("id %s: answered %+v", id, m)
				break
			}
			got = append(got, string(m.ID))
		}
		p.send(`{"jsonrpc":"2.0","id":null,"method":"x/y"}`, `{"jsonrpc":"2.0","method":"x/y"}`, `{"jsonrpc":"2.0","id":77,"result":{}}`)
		p.say("done")
		p.answer(prompt, endTurn)
		if m := p.next(); m != nil {
			t.Errorf("what wants no answer got %+v", m)
		}
	})
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(ids, got); diff != "" {
		t.Error(diff)
	}
}

// Protocol section 9: a stored session is taken up by what the agent can do; the past
// that it tells meanwhile is no news; a session that it has lost is replaced.
func TestSessionIsTakenUpByCapability(t *testing.T) {
	const history = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"old","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"past"}}}}`
	for name, c := range map[string]struct {
		more, capabilities string
		lost               bool
		methods, state     string
		code               string
	}{
		"resume":         {"", `{"loadSession":true,"sessionCapabilities":{"resume":{}}}`, false, "session/resume", "", ""},
		"load":           {"", `{"loadSession":true,"sessionCapabilities":{"resume":null}}`, false, "session/load", "", ""},
		"neither":        {"", `{}`, false, "session/new", "new", ""},
		"lost":           {"", `{"loadSession":true,"sessionCapabilities":{"resume":{}}}`, true, "session/resume session/load session/new", "new", ""},
		"unwanted":       {`,"reuse_session":false`, `{"loadSession":true}`, false, "session/new", "new", ""},
		"lost_no_new":    {`,"create_session_if_missing":false`, `{"loadSession":true}`, true, "session/load", "", CodeProtocol},
		"neither_no_new": {`,"create_session_if_missing":false`, `{}`, false, "", "", CodeSessionMissing},
	} {
		t.Run(name, func(t *testing.T) {
			var methods []string
			events, err := runPeer(t, request(t, `,"stored_session_id":"old"`+c.more), Options{}, func(p *peer) {
				p.answer(p.until("initialize"), `{"protocolVersion":1,"agentCapabilities":`+c.capabilities+`}`)
				for m := p.next(); m != nil; m = p.next() {
					if m.Method == "session/prompt" {
						p.send(strings.Replace(history, "past", "present", 1), strings.NewReplacer("past", "present", `"old"`, `"new"`).Replace(history))
						p.answer(m, endTurn)
						return
					}
					methods = append(methods, m.Method)
					p.send(history)
					switch {
					case m.Method == "session/new":
						p.answer(m, `{"sessionId":"new"}`)
					case c.lost:
						p.refuse(m, -32002, "no such session")
					default:
						p.answer(m, `null`)
					}
				}
			})
			if got := strings.Join(methods, " "); got != c.methods {
				t.Errorf("asked %q, want %q", got, c.methods)
			}
			if got := oneOf(events, "state.updated"); (got != "") != (c.state != "") || !strings.Contains(got, c.state) {
				t.Errorf("the session was told as %s", got)
			}
			if c.code != "" {
				if codeOf(err) != c.code {
					t.Errorf("ended with %v", err)
				}
				return
			}
			if got, _ := content(t, strings.Join(events, "\n")); err != nil || got != "present" {
				t.Errorf("said %q, ended with %v", got, err)
			}
		})
	}
}

// Protocol section 9: the caller's tools are offered to an agent that takes servers
// by HTTP, beside those of the payload, which pass as they came.
func TestToolsAreOffered(t *testing.T) {
	const own = `{"name":"x","command":"/bin/x","args":[],"env":[],"_meta":{"n":1.50}}`
	const ours = `{"type":"http","name":"langbot_agent","url":"http://127.0.0.1:9/s/mcp","headers":[]}`
	for name, c := range map[string]struct{ more, capabilities, want string }{
		"offered":     {"", `{"mcpCapabilities":{"http":true}}`, `[` + own + `,` + ours + `]`},
		"not_by_http": {"", `{}`, `[` + own + `]`},
		"unwanted":    {`,"langbot_assets_enabled":false`, `{"mcpCapabilities":{"http":true}}`, `[` + own + `]`},
	} {
		t.Run(name, func(t *testing.T) {
			var params string
			_, err := runPeer(t, request(t, `,"mcp_servers":[`+own+`]`+c.more), Options{MCPURL: "http://127.0.0.1:9/s/mcp"}, func(p *peer) {
				p.answer(p.until("initialize"), `{"protocolVersion":1,"agentCapabilities":`+c.capabilities+`}`)
				m := p.until("session/new")
				params = string(m.Params)
				p.answer(m, `{"sessionId":"s"}`)
				prompt := p.until("session/prompt")
				p.say("done")
				p.answer(prompt, endTurn)
			})
			if want := `{"cwd":"/work","mcpServers":` + c.want + `}`; err != nil || params != want {
				t.Errorf("asked for a session with\n%s, want\n%s (%v)", params, want, err)
			}
		})
	}
}

// The ways in which an agent fails before and in its turn have codes of their own.
func TestFailuresHaveCodes(t *testing.T) {
	initialized := func(p *peer) { p.answer(p.until("initialize"), `{"protocolVersion":1}`) }
	for code, script := range map[string]func(p *peer){
		CodeInitialize:      func(p *peer) { p.until("never") },
		CodeProtocolVersion: func(p *peer) { p.answer(p.until("initialize"), `{"protocolVersion":2}`) },
		CodeAuthRequired:    func(p *peer) { initialized(p); p.refuse(p.until("session/new"), -32000, "Authentication required") },
		CodeProtocol:        func(p *peer) { p.refuse(p.toPrompt(`{}`), -32603, "boom") },
		CodeTimeout:         func(p *peer) { initialized(p); p.until("never") },
		CodeExited:          func(p *peer) { initialized(p); p.die(Exit{Code: 3}) },
		CodeEmptyResponse:   func(p *peer) { p.answer(p.toPrompt(`{}`), endTurn) },
		CodeRefused:         func(p *peer) { p.answer(p.toPrompt(`{}`), `{"stopReason":"refusal"}`) },
		CodeAgentCancelled:  func(p *peer) { p.answer(p.toPrompt(`{}`), `{"stopReason":"cancelled"}`) },
		CodeResponse:        func(p *peer) { initialized(p); p.answer(p.until("session/new"), `{}`) },
	} {
		_, err := runPeer(t, request(t, `,"initialize_timeout":0.3,"timeout":0.3`), Options{}, script)
		if codeOf(err) != code {
			t.Errorf("%s: ended with %v", code, err)
		}
	}
}

// A turn that was cut short by a limit is complete, and says which limit.
func TestStopReasonIsTold(t *testing.T) {
	var completed string
	_, err := runPeer(t, request(t, ""), Options{Complete: func(data []byte) error { completed = string(data); return nil }}, func(p *peer) {
		prompt := p.toPrompt(`{}`)
		p.say("half of it")
		p.answer(prompt, `{"stopReason":"max_tokens"}`)
	})
	if want := `{"finish_reason":"stop","stop_reason":"max_tokens"}`; err != nil || completed != want {
		t.Errorf("completed with %s, %v; want %s", completed, err, want)
	}
}

// An agent that ignores session/cancel holds the run up for the grace and no longer.
func TestDeafAgentIsLeftAfterGrace(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var heard bool
	agent, end := newPeer(t, func(p *peer) {
		p.toPrompt(`{}`)
		cancel(errors.New("enough"))
		heard = p.until("session/cancel") != nil
		p.until("never")
	})
	begun := time.Now()
	err := Run(ctx, agent, request(t, ""), (&recorder{}).emit, Options{CancelGrace: 300 * time.Millisecond})
	if took := time.Since(begun); err == nil || took < 250*time.Millisecond || took > 5*time.Second {
		t.Errorf("ended after %v with %v", took, err)
	}
	if end(); !heard {
		t.Error("the agent was not asked to end its turn")
	}
}

// Cases D14: a question's context ends with the cancel, not only with the run, so that
// whoever was asked can take the question away.
func TestCancelEndsQuestionBeforeRun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	withdrawn := make(chan struct{})
	agent, _ := newPeer(t, func(p *peer) {
		prompt := p.toPrompt(`{}`)
		p.send(askQuestion)
		<-withdrawn
		p.answer(prompt, `{"stopReason":"cancelled"}`)
	})
	begun := time.Now()
	err := Run(ctx, agent, request(t, `,"permission_decision":"ask"`), (&recorder{}).emit, Options{
		CancelGrace: patience,
		Ask: func(ctx context.Context, _ []byte) (string, error) {
			defer close(withdrawn)
			cancel(errors.New("enough"))
			<-ctx.Done()
			return "", ctx.Err()
		},
	})
	if took := time.Since(begun); err == nil || took > patience/2 {
		t.Errorf("ended after %v with %v", took, err)
	}
}

// A caller that takes nothing holds neither a cancel nor the memory: the agent is held
// back instead, and what waits is bounded.
func TestStalledCallerDoesNotHoldCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stalled := make(chan struct{})
	stall := func(ctx context.Context, _ []byte) error {
		select {
		case <-stalled:
		default:
			close(stalled)
		}
		<-ctx.Done()
		return ctx.Err()
	}
	agent, _ := newPeer(t, func(p *peer) {
		p.toPrompt(`{}`)
		<-stalled
		_ = p.out.SetWriteDeadline(time.Now().Add(time.Second))
		line := []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("x", 32<<10) + `"}}}}` + "\n")
		for i := range 1000 {
			if _, err := p.out.Write(line); err != nil {
				if n := i * len(line); n > 8<<20 {
					t.Errorf("%d bytes were taken before the agent was held back", n)
				}
				cancel(errors.New("enough"))
				return
			}
		}
		t.Error("the agent was never held back")
	})
	err := Run(ctx, agent, request(t, ""), stall, Options{CancelGrace: 300 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("ended with %v", err)
	}
}

// An agent that asks and asks but never reads is held back, and its turn ends in time.
func TestAgentThatNeverReadsIsBounded(t *testing.T) {
	agent, _ := newPeer(t, func(p *peer) {
		p.toPrompt(`{}`)
		_ = p.out.SetWriteDeadline(time.Now().Add(10 * time.Second))
		line := []byte(`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 64<<10) + `","method":"x"}` + "\n")
		for range 1000 {
			if _, err := p.out.Write(line); err != nil {
				return
			}
		}
		t.Error("the agent was never held back")
	})
	err := Run(t.Context(), agent, request(t, `,"timeout":1`), (&recorder{}).emit, Options{CancelGrace: 100 * time.Millisecond})
	if codeOf(err) != CodeTimeout {
		t.Errorf("ended with %v", err)
	}
}

// An event that cannot be given away ends the run, and the agent is told to stop.
func TestLostCallerEndsTurn(t *testing.T) {
	gone := errors.New("nobody there")
	told := make(chan bool, 1)
	agent, _ := newPeer(t, func(p *peer) {
		prompt := p.toPrompt(`{}`)
		p.say("hello?")
		told <- p.until("session/cancel") != nil
		p.answer(prompt, `{"stopReason":"cancelled"}`)
	})
	err := Run(t.Context(), agent, request(t, ""), func(context.Context, []byte) error { return gone }, Options{})
	if !errors.Is(err, gone) || !<-told {
		t.Errorf("ended with %v", err)
	}
}

// Events that wait when the turn has ended are delivered before Run returns.
func TestSlowCallerGetsAllEvents(t *testing.T) {
	var got int
	slow := func(_ context.Context, e []byte) error {
		<-time.After(2 * time.Millisecond)
		got++
		return nil
	}
	agent, _ := newPeer(t, func(p *peer) {
		prompt := p.toPrompt(`{}`)
		for i := range 100 {
			p.say(fmt.Sprint(i))
		}
		p.answer(prompt, endTurn)
	})
	if err := Run(t.Context(), agent, request(t, ""), slow, Options{ExitGrace: time.Millisecond}); err != nil || got != 102 {
		t.Errorf("%d events of 102 were delivered, %v", got, err)
	}
}

// Cases D04, D16: a helper that keeps the dead agent's output open does not keep the
// run; neither does an agent that lives on without its streams.
func TestHalfGoneAgentIsGone(t *testing.T) {
	for want, script := range map[string]func(p *peer){
		"ended with exit 3 before its turn": func(p *peer) { p.exits <- Exit{Code: 3}; p.until("never") },
		"closed its standard streams":       func(p *peer) { p.close() },
	} {
		begun := time.Now()
		_, err := runPeer(t, request(t, ""), Options{}, func(p *peer) {
			p.toPrompt(`{}`)
			script(p)
		})
		if took := time.Since(begun); codeOf(err) != CodeExited || !strings.Contains(err.Error(), want) || took > 2*time.Second {
			t.Errorf("ended after %v with %v", took, err)
		}
	}
}

// The last words of an agent that ends right after them count.
func TestAnswerBeforeDeathCounts(t *testing.T) {
	_, err := runPeer(t, request(t, ""), Options{}, func(p *peer) {
		prompt := p.toPrompt(`{}`)
		p.exits <- Exit{Code: 1}
		p.say("done")
		p.answer(prompt, endTurn)
		p.close()
	})
	if err != nil {
		t.Error(err)
	}
}

// Protocol section 9 asks for a session folder; ACP for an absolute one.
func TestRelativeFolderIsRefused(t *testing.T) {
	err := Run(t.Context(), Agent{}, Request{SessionDir: "here"}, nil, Options{})
	if codeOf(err) != CodePayload {
		t.Errorf("ended with %v", err)
	}
}
