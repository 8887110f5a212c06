package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"codingrelay/wire"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// rawHub is a hub that knows nothing of this program: sockets and JSON texts.
type rawHub struct {
	t      testing.TB
	url    string
	addr   string
	socket chan *rawConn
	stop   func() // closes the listener

	mu sync.Mutex
	// judge says what a hello is answered with: a frame (empty: nothing), or a
	// close.
	judge func(hello map[string]any) (ready string, code int, reason string)
}

const v1Ready = `{"type":"daemon.ready","daemon_id":"box","protocol":"coding-relay-v1"}`

const oursReady = `{"type":"daemon.ready","daemon_id":"box","protocol":"coding-relay-v1","extensions":["max-frame=8388608","cancel-timeout=10000","receipt"]}`

func newRawHub(t testing.TB) *rawHub {
	t.Helper()
	h := &rawHub{t: t, socket: make(chan *rawConn, 64)}
	h.admit(v1Ready)
	h.listen("127.0.0.1:0")
	return h
}

// listen opens the hub's socket, and again after it was closed.
func (h *rawHub) listen(addr string) {
	h.t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		h.t.Fatal(err)
	}
	h.addr = ln.Addr().String()
	h.url = "ws://" + h.addr + "/any/path"
	srv := &http.Server{Handler: http.HandlerFunc(h.serve)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(ln)
	}()
	h.stop = sync.OnceFunc(func() {
		_ = srv.Close()
		<-served
	})
	h.t.Cleanup(h.stop)
}

// admit makes the hub answer every hello with this text.
func (h *rawHub) admit(ready string) {
	h.judgeBy(func(map[string]any) (string, int, string) { return ready, 0, "" })
}

// refuse makes the hub close after every hello.
func (h *rawHub) refuse(code int, reason string) {
	h.judgeBy(func(map[string]any) (string, int, string) { return "", code, reason })
}

func (h *rawHub) judgeBy(f func(map[string]any) (string, int, string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.judge = f
}

// requireToken makes the hub let in only who has it.
func (h *rawHub) requireToken(token string) {
	h.judgeBy(func(hello map[string]any) (string, int, string) {
		if hello["token"] != token {
			return "", 1008, "invalid daemon token: use the token that this hub was started with"
		}
		return v1Ready, 0, ""
	})
}

func (h *rawHub) serve(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	ws.SetReadLimit(-1)
	c := &rawConn{t: h.t, ws: ws, decoder: wire.NewDecoder()}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, msg, err := ws.Read(ctx)
	if err != nil || json.Unmarshal(msg, &c.hello) != nil {
		_ = ws.CloseNow()
		return
	}
	h.mu.Lock()
	ready, code, reason := h.judge(c.hello)
	h.mu.Unlock()
	if code != 0 {
		_ = ws.Close(websocket.StatusCode(code), reason)
		h.socket <- c
		return
	}
	if ready != "" && ws.Write(ctx, websocket.MessageText, []byte(ready)) != nil {
		_ = ws.CloseNow()
		return
	}
	h.socket <- c
}

// next waits for the next daemon that said hello.
func (h *rawHub) next() *rawConn {
	h.t.Helper()
	select {
	case c := <-h.socket:
		h.t.Cleanup(func() { _ = c.ws.CloseNow() })
		return c
	case <-time.After(patience):
		h.t.Fatal("no daemon came")
		return nil
	}
}

// nobody checks that no daemon comes for a while.
func (h *rawHub) nobody(during time.Duration) {
	h.t.Helper()
	select {
	case <-h.socket:
		h.t.Fatal("a daemon came that must not")
	case <-time.After(during):
	}
}

// rawConn is one admitted socket.
type rawConn struct {
	t       testing.TB
	ws      *websocket.Conn
	hello   map[string]any
	decoder *wire.Decoder
}

func (c *rawConn) write(msg []byte) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, msg); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// start sends a run.start with this payload.
func (c *rawConn) start(job string, payload map[string]any) {
	c.t.Helper()
	b, err := json.Marshal(payload)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(wire.AppendStart(nil, job, b))
}

// argv is a payload that runs a command.
func argv(words ...string) map[string]any { return map[string]any{"command": words} }

// python is a payload that runs a script of testdata/cases.
func python(t testing.TB, script string, args ...string) map[string]any {
	t.Helper()
	return argv(append([]string{interpreter, stub(t, script)}, args...)...)
}

func stub(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "cases", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *rawConn) cancel(job string) { c.write(wire.AppendCancel(nil, job)) }

// read waits for the next frame.
func (c *rawConn) read() (wire.Frame, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, msg, err := c.ws.Read(ctx)
	if err != nil {
		return wire.Frame{}, err
	}
	f := c.decoder.Decode(msg)
	if f.Type == wire.Ignored {
		c.t.Errorf("the daemon sent what is no frame: %s: %.300s", f.Why, msg)
	}
	return f, nil
}

// closedWith reads to the end of the socket and returns its close code.
func (c *rawConn) closedWith() (code int, frames []wire.Frame) {
	c.t.Helper()
	for {
		f, err := c.read()
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				c.t.Fatal("the daemon did not close")
			}
			return int(websocket.CloseStatus(err)), frames
		}
		frames = append(frames, f)
	}
}

// result is what a hub saw of one run.
type result struct {
	events   []wire.Frame
	finished wire.Frame
	// terminal is the run.completed or run.failed, and its data.
	terminal map[string]any
	kind     string
	at       map[string]time.Time // of the terminal event and of run.finished
}

// until reads frames of a job up to one that stop accepts. Frames of other jobs
// are an error.
func (c *rawConn) until(job string, r *result, stop func(f wire.Frame) bool) {
	c.t.Helper()
	for {
		f, err := c.read()
		if err != nil {
			c.t.Fatalf("waiting for a frame of %s: %v", job, err)
		}
		if f.JobID != job {
			c.t.Fatalf("a frame of %q while %q is awaited", f.JobID, job)
		}
		r.take(f)
		if stop(f) {
			return
		}
	}
}

func (r *result) take(f wire.Frame) {
	if r.at == nil {
		r.at = map[string]time.Time{}
	}
	switch f.Type {
	case wire.RunEvent:
		r.events = append(r.events, f)
		if !bytes.HasPrefix(f.Body, []byte(`{"type":"run.`)) {
			return
		}
		var e struct {
			Type string         `json:"type"`
			Data map[string]any `json:"data"`
		}
		if json.Unmarshal(f.Body, &e) == nil {
			r.kind, r.terminal = e.Type, e.Data
			r.at[e.Type] = time.Now()
		}
	case wire.RunFinished:
		r.finished = f
		r.at["run.finished"] = time.Now()
	}
}

// finish reads to the end of a job.
func (c *rawConn) finish(job string) *result {
	c.t.Helper()
	r := &result{}
	c.until(job, r, func(f wire.Frame) bool { return f.Type == wire.RunFinished })
	return r
}

// run starts a job and reads to its end.
func (c *rawConn) run(job string, payload map[string]any) *result {
	c.t.Helper()
	c.start(job, payload)
	return c.finish(job)
}

// line reads up to the first output event that holds this text.
func (c *rawConn) line(job, text string) *result {
	c.t.Helper()
	r := &result{}
	c.until(job, r, func(f wire.Frame) bool {
		if f.Type == wire.RunFinished {
			c.t.Fatalf("the run ended without %q: %v", text, r.terminal)
		}
		return strings.Contains(string(f.Body), text)
	})
	return r
}

// text puts together what a stream said.
func (r *result) text(t testing.TB, stream string) string {
	t.Helper()
	var b strings.Builder
	for _, f := range r.events {
		if o := outputOf(t, f.Body); o.Type == "output" && o.Data.Stream == stream {
			b.WriteString(o.Data.Text)
		}
	}
	return b.String()
}

func (r *result) code() string {
	code, _ := r.terminal["code"].(string)
	return code
}
