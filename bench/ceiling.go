package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"
)

// ceiling is the bare loop: the same library reads the same frames into pooled
// buffers and hands them to a goroutine over a bounded channel; nothing is
// parsed. For callers over HTTP that goroutine also writes each frame to a
// response.
type ceiling struct {
	server   *http.Server
	listener net.Listener
	buffers  sync.Pool

	mu    sync.Mutex
	conns map[string]*bareConn

	meter  meter
	batch  []*bareConn
	events atomic.Int64
}

// bareConn is one socket of the ceiling.
type bareConn struct {
	ws     *websocket.Conn
	frames chan *bytes.Buffer
	run    string
	sse    chan io.Writer
	ended  chan struct{}
	served chan struct{}
}

// finishedMark is how a bare loop knows a run's last frame without parsing.
var finishedMark = []byte(`{"type":"run.finished"`)

func newCeiling() (*ceiling, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bench: ceiling: %w", err)
	}
	c := &ceiling{listener: l, conns: make(map[string]*bareConn)}
	c.buffers.New = func() any { return new(bytes.Buffer) }
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/runs/{id}/events", c.stream)
	mux.HandleFunc("/", c.accept)
	c.server = &http.Server{Handler: mux}
	go func() { _ = c.server.Serve(l) }()
	return c, nil
}

func (c *ceiling) hello() report {
	return report{Addr: c.listener.Addr().String(), API: "http://" + c.listener.Addr().String()}
}

func (c *ceiling) accept(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(-1)
	_, hello, err := ws.Read(context.Background())
	if err != nil {
		return
	}
	id := string(between(hello, `"daemon_id":"`, `"`))
	b := &bareConn{ws: ws}
	c.mu.Lock()
	c.conns[id] = b
	c.mu.Unlock()
	_ = ws.Write(context.Background(), websocket.MessageText, []byte(`{"type":"daemon.ready","daemon_id":"`+id+`","protocol":"coding-relay-v1"}`))
	c.loop(b)
}

func between(b []byte, from, to string) []byte {
	_, rest, _ := bytes.Cut(b, []byte(from))
	got, _, _ := bytes.Cut(rest, []byte(to))
	return got
}

// loop is the ceiling's hot path.
func (c *ceiling) loop(b *bareConn) {
	for {
		_, r, err := b.ws.Reader(context.Background())
		if err != nil {
			return
		}
		buf := c.buffers.Get().(*bytes.Buffer)
		buf.Reset()
		if _, err := buf.ReadFrom(r); err != nil {
			return
		}
		b.frames <- buf
	}
}

func (c *ceiling) begin(_ context.Context, o order) report {
	var r report
	c.batch = nil
	c.events.Store(0)
	c.meter = startMeter()
	for i := range o.Daemons {
		c.mu.Lock()
		b := c.conns[daemonName(o.First+i)]
		c.mu.Unlock()
		if b == nil {
			return report{Error: "ceiling: no daemon " + daemonName(o.First+i)}
		}
		b.run = fmt.Sprintf("00000000-0000-7000-8000-%012d", i)
		b.frames = make(chan *bytes.Buffer, 64)
		b.sse = make(chan io.Writer, 1)
		b.ended, b.served = make(chan struct{}), make(chan struct{})
		c.batch = append(c.batch, b)
		r.Runs = append(r.Runs, b.run)
		go c.consume(b, o.SSE)
		if err := b.ws.Write(context.Background(), websocket.MessageText, []byte(`{"type":"run.start","job_id":"`+b.run+`","payload":{}}`)); err != nil {
			return report{Error: err.Error()}
		}
	}
	return r
}

// consume takes the frames of one run until its last.
func (c *ceiling) consume(b *bareConn, sse bool) {
	defer close(b.ended)
	var out io.Writer
	if sse {
		out = <-b.sse
		defer close(b.served)
	}
	var n int64
	for buf := range b.frames {
		if bytes.HasPrefix(buf.Bytes(), finishedMark) {
			c.events.Add(n)
			return
		}
		n++
		if out != nil {
			if _, err := out.Write(buf.Bytes()); err != nil {
				return
			}
			if len(b.frames) == 0 {
				_ = http.NewResponseController(out.(http.ResponseWriter)).Flush()
			}
		}
		c.buffers.Put(buf)
	}
}

// stream is a caller's response.
func (c *ceiling) stream(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	for _, b := range c.batch {
		if b.run == id {
			w.Header().Set("Content-Type", "text/event-stream")
			b.sse <- w
			<-b.served
			return
		}
	}
	http.NotFound(w, r)
}

func (c *ceiling) end(context.Context) report {
	for _, b := range c.batch {
		<-b.ended
	}
	r := report{Events: c.events.Load()}
	c.meter.read(&r)
	return r
}

func (c *ceiling) cancel(context.Context, order) report {
	return report{Error: errors.ErrUnsupported.Error()}
}

func (c *ceiling) close() { _ = c.server.Close() }
