package transport_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"codingrelay/transport"
	"codingrelay/wire"
)

// I12: no test of this package leaves a goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come. It is long because the
// machine may be busy; no test waits for it to pass.
const patience = time.Minute

// recorder is a sink that keeps what it is told, in order.
type recorder struct {
	frames  chan wire.Frame
	pongs   chan struct{}
	flushes chan struct{}
	ends    chan wire.End
}

func newRecorder() *recorder {
	return &recorder{
		frames:  make(chan wire.Frame, 1<<14),
		pongs:   make(chan struct{}, 1<<10),
		flushes: make(chan struct{}, 1<<10),
		ends:    make(chan wire.End, 2),
	}
}

func (r *recorder) Frame(f wire.Frame)  { r.frames <- f }
func (r *recorder) Pong()               { r.pongs <- struct{}{} }
func (r *recorder) Flushed()            { r.flushes <- struct{}{} }
func (r *recorder) Closed(end wire.End) { r.ends <- end; close(r.frames) } // twice: panic

func wait[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v, ok := <-from:
		if !ok {
			t.Fatalf("no %s: the link is closed", what)
		}
		return v
	case <-time.After(patience):
		t.Fatalf("no %s after %v", what, patience)
	}
	panic("not reached")
}

func (r *recorder) frame(t *testing.T) wire.Frame {
	t.Helper()
	return wait(t, r.frames, "frame")
}

func (r *recorder) end(t *testing.T) wire.End {
	t.Helper()
	return wait(t, r.ends, "Closed")
}

// rest returns the frames that came before Closed and were not taken yet.
func (r *recorder) rest(t *testing.T) []wire.Frame {
	t.Helper()
	r.end(t)
	var all []wire.Frame
	for f := range r.frames {
		all = append(all, f)
	}
	return all
}

// end is one end of a connection under test.
type end struct {
	link     wire.Link
	sink     *recorder
	admitted func()
	remote   string
}

// write sends frames as one flush and waits until the kernel has them.
func (e end) write(t *testing.T, frames ...[]byte) {
	t.Helper()
	e.link.Write(frames)
	wait(t, e.sink.flushes, "Flushed")
}

// hub is a listener and the ends it accepted.
type hub struct {
	*transport.Listener
	ends chan end
}

func (h *hub) addr() string { return h.Addr().String() }
func (h *hub) url() string  { return "ws://" + h.addr() + "/" }

// next is the next accepted end.
func (h *hub) next(t *testing.T) end {
	t.Helper()
	e := wait(t, h.ends, "accepted link")
	t.Cleanup(e.link.Drop)
	return e
}

// listen opens a hub on loopback. Its ends record and are not admitted.
func listen(t *testing.T, cfg transport.ListenConfig) *hub {
	t.Helper()
	h := &hub{ends: make(chan end, 1<<12)}
	accept := func(remote string, link wire.Link, admitted func()) wire.Sink {
		e := end{link: link, sink: newRecorder(), admitted: admitted, remote: remote}
		h.ends <- e
		return e.sink
	}
	ls, err := transport.Listen(t.Context(), "127.0.0.1:0", cfg, accept)
	if err != nil {
		t.Fatal(err)
	}
	h.Listener = ls
	t.Cleanup(func() {
		if err := ls.Close(); err != nil {
			t.Error(err)
		}
		for len(h.ends) > 0 {
			(<-h.ends).link.Drop()
		}
	})
	return h
}

// dial opens a daemon's end.
func dial(t *testing.T, cfg transport.DialConfig) end {
	t.Helper()
	e := end{sink: newRecorder()}
	err := transport.Dial(t.Context(), cfg, func(link wire.Link) wire.Sink {
		e.link = link
		return e.sink
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.link.Drop)
	return e
}

// ways are the three ways to be connected: each test of a link holds on all.
var ways = map[string]func(*testing.T, transport.Limits) (hub, daemon end){
	"tcp":  connectTCP,
	"tls":  connectTLS,
	"pipe": connectPipe,
}

func everyWay(t *testing.T, limits transport.Limits, test func(t *testing.T, hub, daemon end)) {
	t.Helper()
	for name, connect := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, d := connect(t, limits)
			h.admitted()
			test(t, h, d)
		})
	}
}

func connectTCP(t *testing.T, limits transport.Limits) (hub, daemon end) {
	t.Helper()
	h := listen(t, transport.ListenConfig{Limits: limits})
	d := dial(t, transport.DialConfig{URL: h.url(), Limits: limits})
	return h.next(t), d
}

func connectTLS(t *testing.T, limits transport.Limits) (hub, daemon end) {
	t.Helper()
	server, client := certificate(t)
	h := listen(t, transport.ListenConfig{Limits: limits, TLS: server})
	d := dial(t, transport.DialConfig{URL: "wss://" + h.addr(), Limits: limits, TLS: client})
	return h.next(t), d
}

func connectPipe(t *testing.T, limits transport.Limits) (hub, daemon end) {
	t.Helper()
	h, d := end{sink: newRecorder()}, end{sink: newRecorder()}
	err := transport.Pipe(limits, func(remote string, link wire.Link, admitted func()) wire.Sink {
		h.remote, h.link, h.admitted = remote, link, admitted
		return h.sink
	}, func(link wire.Link) wire.Sink {
		d.link = link
		return d.sink
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.link.Drop)
	t.Cleanup(d.link.Drop)
	return h, d
}

// event is a run.event message of exactly size bytes.
func event(job string, size int) []byte {
	head, tail := fmt.Sprintf(`{"type":"run.event","job_id":%q,"event":{"t":"`, job), `"}}`
	return []byte(head + strings.Repeat("x", size-len(head)-len(tail)) + tail)
}

func finished(job string) []byte {
	return fmt.Appendf(nil, `{"type":"run.finished","job_id":%q}`, job)
}

// Opcodes of RFC 6455 section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
	fin            = 0x80
	rsv1           = 0x40
	rsv2           = 0x20
	rsv3           = 0x10
)

// rawPeer is a WebSocket client that breaks every rule it is told to.
type rawPeer struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

// raw opens a rawPeer, after a correct handshake with extra header lines.
func raw(t testing.TB, addr string, header ...string) *rawPeer {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return rawOn(t, c, header...)
}

// rawOn makes a rawPeer of a connection.
func rawOn(t testing.TB, c net.Conn, header ...string) *rawPeer {
	t.Helper()
	p, resp := rawHello(t, c, header...)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("handshake: got %s", resp.Status)
	}
	return p
}

// rawTry opens a rawPeer whose handshake may be refused.
func rawTry(t testing.TB, addr string, header ...string) (*rawPeer, *http.Response) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return rawHello(t, c, header...)
}

func rawHello(t testing.TB, c net.Conn, header ...string) (*rawPeer, *http.Response) {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	p := &rawPeer{t: t, Conn: c, in: bufio.NewReader(c)}
	p.send([]byte("GET /any/path?x=1 HTTP/1.1\r\nHost: " + c.RemoteAddr().String() +
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + strings.Join(append(header, "\r\n"), "\r\n")))
	resp, err := http.ReadResponse(p.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, resp
}

func (p *rawPeer) send(parts ...[]byte) {
	p.t.Helper()
	for _, b := range parts {
		if _, err := p.Write(b); err != nil {
			p.t.Fatal(err)
		}
	}
}

// frame makes a masked frame. A large one has a mask of zero, to be made fast.
func frame(b0 byte, payload []byte) []byte {
	if len(payload) > 1<<20 {
		return append(append(header(b0, true, len(payload)), 0, 0, 0, 0), payload...)
	}
	key := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	out := append(header(b0, true, len(payload)), key[:]...)
	for i, b := range payload {
		out = append(out, b^key[i%4])
	}
	return out
}

// header makes a frame's header without the mask's key.
func header(b0 byte, masked bool, size int) []byte {
	var m byte
	if masked {
		m = 0x80
	}
	switch {
	case size < 126:
		return []byte{b0, m | byte(size)}
	case size <= 0xffff:
		return binary.BigEndian.AppendUint16([]byte{b0, m | 126}, uint16(size))
	default:
		return binary.BigEndian.AppendUint64([]byte{b0, m | 127}, uint64(size))
	}
}

// readFrame takes one frame as it comes: first byte, mask bit, payload unmasked.
func readFrame(in io.Reader) (b0 byte, masked bool, payload []byte, err error) {
	var h [8]byte
	if _, err = io.ReadFull(in, h[:2]); err != nil {
		return 0, false, nil, err
	}
	b0, masked = h[0], h[1]&0x80 != 0
	size := uint64(h[1] & 0x7f)
	switch size {
	case 126:
		_, err = io.ReadFull(in, h[:2])
		size = uint64(binary.BigEndian.Uint16(h[:]))
	case 127:
		_, err = io.ReadFull(in, h[:])
		size = binary.BigEndian.Uint64(h[:])
	}
	var key [4]byte
	if err == nil && masked {
		_, err = io.ReadFull(in, key[:])
	}
	if err != nil {
		return 0, false, nil, err
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(in, payload)
	for i := range payload {
		payload[i] ^= key[i%4]
	}
	return b0, masked, payload, err
}

func (p *rawPeer) read() (b0 byte, payload []byte) {
	p.t.Helper()
	b0, masked, payload, err := readFrame(p.in)
	if err != nil {
		p.t.Fatal(err)
	}
	if masked {
		p.t.Fatal("a hub's frame is masked (RFC 6455 section 5.1)")
	}
	return b0, payload
}

// verdict reads to the end and returns the close frame's code and reason, or 0
// if the connection ended without one.
func (p *rawPeer) verdict() (code int, reason string) {
	p.t.Helper()
	for {
		b0, _, payload, err := readFrame(p.in)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			p.t.Fatal("the hub neither answers nor hangs up")
		case err != nil:
			return 0, ""
		case b0 == fin|opClose && len(payload) >= 2:
			return int(binary.BigEndian.Uint16(payload)), string(payload[2:])
		}
	}
}
