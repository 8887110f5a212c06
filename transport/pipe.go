package transport

import (
	"bufio"
	"fmt"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"codingrelay/wire"
)

// pipeRemote is where the accepting end of a pipe sees its peer.
const pipeRemote = "pipe"

// Pipe joins two links in memory, the hub's end given to accept and the daemon's
// to open. They are the links of [Listen] and [Dial] in all: the same reader, pump
// and WebSocket library, over a [net.Pipe] instead of TCP. So a flush is over when
// the peer's reader has read it. It suits [testing/synctest].
func Pipe(limits Limits, accept Accept, open Open) error {
	hubEnd, daemonEnd := net.Pipe()
	p := &piping{limits: limits, hubEnd: hubEnd, daemonEnd: daemonEnd}
	ws, _, err := websocket.Dial(noDeadline, "ws://"+pipeRemote, p.options(&http.Client{Transport: p}))
	if err != nil {
		_ = hubEnd.Close()
		_ = daemonEnd.Close()
		return fmt.Errorf("transport: pipe: %w", err)
	}
	give(p.hub.l, p.hubWS, pipeRemote, accept, func() {})
	p.take(ws, open)
	return nil
}

// piping is the handshake of a pipe, without a byte of HTTP: the dialling side's
// request is the accepting side's. Its own handle is the dialling side's.
type piping struct {
	handle
	limits            Limits
	hubEnd, daemonEnd net.Conn
	hub               *upgrade
	hubWS             *websocket.Conn
}

// RoundTrip implements [http.RoundTripper].
func (p *piping) RoundTrip(req *http.Request) (*http.Response, error) {
	w := &pipeResponse{header: http.Header{}, conn: p.hubEnd}
	p.hub = &upgrade{ResponseWriter: w, limits: p.limits}
	ws, err := websocket.Accept(p.hub, req, p.hub.acceptOptions())
	if err != nil {
		return nil, err
	}
	p.hubWS = ws
	p.l = newLink(p.limits, true, &socket{rw: p.daemonEnd, raw: p.daemonEnd}, wire.OurMaxFrame)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: stream{p.l}, Request: req}, nil
}

// pipeResponse is the answer to the dialling side.
type pipeResponse struct {
	header http.Header
	status int
	conn   net.Conn
}

func (w *pipeResponse) Header() http.Header         { return w.header }
func (w *pipeResponse) WriteHeader(status int)      { w.status = status }
func (w *pipeResponse) Write(p []byte) (int, error) { return len(p), nil }

// Hijack implements [http.Hijacker].
func (w *pipeResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.conn, bufio.NewReadWriter(bufio.NewReader(w.conn), bufio.NewWriter(w.conn)), nil
}
