package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// peer is an agent in the test itself, over real pipes.
type peer struct {
	t     *testing.T
	in    *bufio.Reader
	out   *os.File
	close func()     // closes both of its streams
	die   func(Exit) // its process ends; the streams too
	exits chan Exit  // gives Wait its answer
}

type peerMessage struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// newPeer makes an agent that does what script says, on a goroutine of its own. end
// ends it and waits for that; the test's end does so too.
func newPeer(t *testing.T, script func(p *peer)) (agent Agent, end func()) {
	t.Helper()
	inR, inW, err1 := os.Pipe()
	outR, outW, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	p := &peer{t: t, in: bufio.NewReader(inR), out: outW, exits: make(chan Exit, 1)}
	p.close = func() { inR.Close(); outW.Close() }
	p.die = func(e Exit) { p.exits <- e; p.close() }
	done := make(chan struct{})
	go func() {
		defer close(done)
		script(p)
	}()
	end = func() {
		p.close() // whatever the script waits for
		<-done
	}
	t.Cleanup(func() { end(); outR.Close() })
	return Agent{Stdin: inW, Stdout: outR, Wait: func(ctx context.Context) (Exit, bool) {
		select {
		case e := <-p.exits:
			return e, true
		case <-ctx.Done():
			return Exit{}, false
		}
	}}, end
}

// send writes lines.
func (p *peer) send(lines ...string) {
	for _, l := range lines {
		if _, err := io.WriteString(p.out, l+"\n"); err != nil {
			return // the client has gone
		}
	}
}

// next reads the next message of the client, nil at the end.
func (p *peer) next() *peerMessage {
	text, err := p.in.ReadBytes('\n')
	if err != nil {
		return nil
	}
	m := &peerMessage{}
	if err := json.Unmarshal(text, m); err != nil {
		p.t.Errorf("the client sent %.200q: %v", text, err)
	}
	return m
}

// until reads up to a message with this method, nil at the end.
func (p *peer) until(method string) *peerMessage {
	for {
		if m := p.next(); m == nil || m.Method == method {
			return m
		}
	}
}

// answer answers a request of the client.
func (p *peer) answer(m *peerMessage, result string) {
	if m != nil {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
	}
}

func (p *peer) refuse(m *peerMessage, code int, text string) {
	if m != nil {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text))
	}
}

// toPrompt goes through the handshake with these capabilities and gives the prompt.
func (p *peer) toPrompt(capabilities string) *peerMessage {
	p.answer(p.until("initialize"), `{"protocolVersion":1,"agentCapabilities":`+capabilities+`}`)
	p.answer(p.until("session/new"), `{"sessionId":"s"}`)
	return p.until("session/prompt")
}

func (p *peer) update(update string) {
	p.send(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + update + `}}`)
}

func (p *peer) say(text string) {
	b, _ := json.Marshal(text)
	p.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + string(b) + `}}`)
}

// runPeer runs a client against a script and gives the events and the end.
func runPeer(t *testing.T, req Request, opt Options, script func(p *peer)) ([]string, error) {
	t.Helper()
	opt.ExitGrace = time.Millisecond // scripts end when they end
	rec := &recorder{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	agent, end := newPeer(t, script)
	err := Run(ctx, agent, req, rec.emit, opt)
	end()
	return rec.all(), err
}

// codeOf is the code of a failure, or the error's text.
func codeOf(err error) string {
	if f, ok := err.(*Failure); ok {
		return f.Code
	}
	return fmt.Sprint(err)
}

func oneOf(events []string, kind string) string {
	for _, e := range events {
		if strings.HasPrefix(e, `{"type":"`+kind+`"`) {
			return e
		}
	}
	return ""
}
