package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"codingrelay/actors"
	"codingrelay/control"
)

// peer is a daemon in the test's hands: a raw coding-relay-v1 client on a real
// socket that does exactly what it is told.
type peer struct {
	t    *testing.T
	conn *websocket.Conn
	tcp  net.Conn // what it runs on
	id   string
	// frames are what the hub sends; it is closed with the socket. Reading them all
	// the time also answers the hub's pings.
	frames chan frame
}

type frame struct {
	Type    string          `json:"type"`
	JobID   string          `json:"job_id"`
	Payload json.RawMessage `json:"payload"`
}

// connect dials, says hello, and expects daemon.ready.
func (h *house) connect(id string) *peer {
	h.t.Helper()
	p := &peer{t: h.t, id: id, frames: make(chan frame, 1024)}
	dialer := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		p.tcp, err = new(net.Dialer).DialContext(ctx, network, addr)
		return p.tcp, err
	}}
	var err error
	p.conn, _, err = websocket.Dial(testContext(h.t), "ws://"+h.addr+"/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: dialer}})
	if err != nil {
		h.t.Fatalf("dial: %v", err)
	}
	p.conn.SetReadLimit(16 << 20)
	go p.read()
	stuck := time.AfterFunc(2*testTimeout, p.leave)
	h.t.Cleanup(func() {
		stuck.Stop()
		p.leave()
		p.expectClose()
	})
	p.send(`{"type":"daemon.hello","daemon_id":%q,"token":%q,"protocol":"coding-relay-v1","metadata":{"pid":1},"extensions":["receipt"]}`, id, daemonToken)
	p.expect("daemon.ready")
	return p
}

// leave ends the socket without a word.
func (p *peer) leave() { _ = p.conn.CloseNow() }

func (p *peer) send(format string, args ...any) {
	p.t.Helper()
	if err := p.conn.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

func (p *peer) event(run, event string) {
	p.t.Helper()
	p.send(`{"type":"run.event","job_id":%q,"event":%s}`, run, event)
}

func (p *peer) finish(run string) {
	p.t.Helper()
	p.send(`{"type":"run.finished","job_id":%q,"mechanism":"test","exit_code":0,"killed":2,"survivors":0,"duration_ms":7}`, run)
}

func (p *peer) read() {
	defer close(p.frames)
	for {
		_, data, err := p.conn.Read(context.Background())
		if err != nil {
			return
		}
		var f frame
		if err := json.Unmarshal(data, &f); err != nil {
			p.t.Errorf("frame %s: %v", data, err)
			return
		}
		p.frames <- f
	}
}

// expect takes the next frame and wants its type.
func (p *peer) expect(kind string) frame {
	p.t.Helper()
	select {
	case f := <-p.frames:
		if f.Type != kind {
			p.t.Fatalf("frame is %q, want %q", f.Type, kind)
		}
		return f
	case <-time.After(testTimeout):
		p.t.Fatalf("no frame, want %q", kind)
		return frame{}
	}
}

// expectClose waits until the socket is closed.
func (p *peer) expectClose() {
	for range p.frames {
	}
}

// eventText is the n-th event of a run, with pad bytes of nothing.
func eventText(n, pad int) string {
	if pad == 0 {
		return fmt.Sprintf(`{"n":%d}`, n)
	}
	return fmt.Sprintf(`{"n":%d,"pad":"%*s"}`, n, pad, "")
}

// flood sends events until stop is closed or n are sent, and returns how many. It
// writes many frames at once, past the library, which only answers pings meanwhile.
func (p *peer) flood(run string, n, pad int, stop <-chan struct{}) int {
	var out []byte
	for i := range n {
		out = appendFrame(out, fmt.Sprintf(`{"type":"run.event","job_id":%q,"event":%s}`, run, eventText(i+1, pad)))
		if len(out) < 32<<10 && i+1 < n {
			continue
		}
		if _, err := p.tcp.Write(out); err != nil {
			p.t.Errorf("flood: %v", err)
			return i
		}
		out = out[:0]
		select {
		case <-stop:
			return i + 1
		default:
		}
	}
	return n
}

// appendFrame appends a client's text frame (RFC 6455 section 5.2) whose mask, of
// zeros, changes nothing.
func appendFrame(dst []byte, text string) []byte {
	dst = append(dst, 0x81)
	if n := len(text); n < 126 {
		dst = append(dst, 0x80|byte(n))
	} else {
		dst = append(dst, 0x80|126, byte(n>>8), byte(n))
	}
	return append(append(dst, 0, 0, 0, 0), text...)
}

// facts remembers what the hub told its observer.
type facts struct {
	next    actors.Observer
	mu      sync.Mutex
	seen    []actors.Fact
	changed chan struct{}
}

// Observe implements [actors.Observer].
func (f *facts) Observe(fact actors.Fact) {
	f.next.Observe(fact)
	f.mu.Lock()
	f.seen = append(f.seen, fact)
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// await waits for a fact of a kind.
func (f *facts) await(t *testing.T, kind actors.FactKind) actors.Fact {
	t.Helper()
	for late := time.After(testTimeout); ; {
		f.mu.Lock()
		for _, fact := range f.seen {
			if fact.Kind == kind {
				f.mu.Unlock()
				return fact
			}
		}
		f.mu.Unlock()
		select {
		case <-f.changed:
		case <-late:
			t.Fatalf("no fact %s", kind)
		}
	}
}

func (f *facts) has(kind actors.FactKind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fact := range f.seen {
		if fact.Kind == kind {
			return true
		}
	}
	return false
}

// refusedWith wants an error of the API, and returns it.
func refusedWith(t *testing.T, err error, status int, code actors.Code) *control.APIError {
	t.Helper()
	var e *control.APIError
	if !errors.As(err, &e) || e.Status != status || e.Short() != code {
		t.Fatalf("error is %v, want %d %s", err, status, code)
	}
	return e
}
