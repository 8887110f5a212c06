package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// peer is a daemon in test's hands: a raw coding-relay-v1 client on a real socket
// that does exactly what it is told.
type peer struct {
	t    *testing.T
	conn *websocket.Conn
	id   string
}

// frame is a frame as the peer sees it.
type frame struct {
	Type      string          `json:"type"`
	JobID     string          `json:"job_id"`
	RequestID string          `json:"request_id"`
	Payload   json.RawMessage `json:"payload"`
	Protocol  string          `json:"protocol"`
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// dial opens a socket without saying hello.
func dial(t *testing.T, addr string) *peer {
	t.Helper()
	conn, _, err := websocket.Dial(testContext(t), "ws://"+addr+"/", nil)
	if err != nil {
		t.Fatalf("dial %s: %v", addr, err)
	}
	conn.SetReadLimit(16 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &peer{t: t, conn: conn}
}

// connect dials, says hello, and expects daemon.ready.
func connect(t *testing.T, addr, id, token string) *peer {
	t.Helper()
	p := dial(t, addr)
	p.hello(id, token)
	if f := p.next(); f.Type != "daemon.ready" || f.Protocol != "coding-relay-v1" {
		t.Fatalf("first frame to daemon %q is %+v, want daemon.ready", id, f)
	}
	return p
}

func (p *peer) hello(id, token string) {
	p.t.Helper()
	p.id = id
	p.send(`{"type":"daemon.hello","daemon_id":%q,"token":%q,"protocol":"coding-relay-v1","metadata":{"pid":1}}`, id, token)
}

func (p *peer) send(format string, args ...any) {
	p.t.Helper()
	if err := p.conn.Write(testContext(p.t), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

func (p *peer) event(run string, n int) {
	p.t.Helper()
	p.send(`{"type":"run.event","job_id":%q,"event":{"n":%d}}`, run, n)
}

func (p *peer) finish(run string) {
	p.t.Helper()
	p.send(`{"type":"run.finished","job_id":%q}`, run)
}

// next reads the next frame.
func (p *peer) next() frame {
	p.t.Helper()
	_, data, err := p.conn.Read(testContext(p.t))
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	var f frame
	if err := json.Unmarshal(data, &f); err != nil {
		p.t.Fatalf("frame %s: %v", data, err)
	}
	return f
}

// expect reads the next frame and wants its type.
func (p *peer) expect(kind string) frame {
	p.t.Helper()
	f := p.next()
	if f.Type != kind {
		p.t.Fatalf("frame is %q, want %q", f.Type, kind)
	}
	return f
}

// closed reads until the socket is closed and returns how.
func (p *peer) closed() websocket.CloseError {
	p.t.Helper()
	for {
		if _, _, err := p.conn.Read(testContext(p.t)); err != nil {
			var ce websocket.CloseError
			if !errors.As(err, &ce) {
				p.t.Fatalf("socket ended with %v, want a close frame", err)
			}
			return ce
		}
	}
}

// barrier proves that everything sent before it was handled: pings are answered
// in the order of the frames.
func (p *peer) barrier() {
	p.t.Helper()
	p.send(`{"type":"daemon.ping"}`)
	p.expect("daemon.pong")
}

// closedAnyhow reads until the socket ends, however it ends.
func (p *peer) closedAnyhow() {
	p.t.Helper()
	for {
		_, _, err := p.conn.Read(testContext(p.t))
		if errors.Is(err, context.DeadlineExceeded) {
			p.t.Fatal("the socket was not closed")
		}
		if err != nil {
			return
		}
	}
}
