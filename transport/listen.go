package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"codingrelay/wire"
)

const (
	// DefaultHeaderTimeout is how long a socket may take to say what it wants.
	DefaultHeaderTimeout = 5 * time.Second
	// headerBytes bounds a handshake's header.
	headerBytes = 16 << 10
	// libraryBufferBytes holds a whole control frame (131 bytes), which stream
	// relies on; larger writes pass it by.
	libraryBufferBytes = 512
)

// Accept takes a fresh socket: where it came from ("host:port"), its link, and a
// function to call when its peer has been admitted. It returns where the frames
// go; nil refuses the socket (1013). It is called from many goroutines and must
// return soon: [Listener.Close] waits for it.
//
// Until admitted is called the socket counts as unauthenticated, and a message
// above [wire.HelloMaxFrame] closes it (protocol section 3.1). Call it before the
// peer is told, from any goroutine; more calls do nothing.
type Accept func(remote string, link wire.Link, admitted func()) wire.Sink

// ListenConfig is what a listener needs beside its address. The zero value means
// the defaults, no TLS, and no Origin allowed.
type ListenConfig struct {
	// TLS serves wss. It must hold a certificate.
	TLS *tls.Config
	// Origins are the values of the Origin header that are let in, compared
	// without regard to case, such as "https://relay.example". Daemons send none;
	// browsers always do (protocol section 1).
	Origins []string
	// MaxUnauthenticated and MaxUnauthenticatedPerAddress bound the sockets that
	// were not admitted, in all and per IPv4 address or IPv6 /64. Beyond them: 503.
	// Behind a reverse proxy all sockets have the proxy's address. Defaults
	// [DefaultMaxUnauthenticated], [DefaultMaxUnauthenticatedPerAddress].
	MaxUnauthenticated, MaxUnauthenticatedPerAddress int
	// HeaderTimeout bounds the TLS handshake and the reading of the request's
	// header; a socket that dribbles is closed. Default [DefaultHeaderTimeout].
	HeaderTimeout time.Duration
	// Limits bound each link.
	Limits Limits
	// Logger is told what the HTTP server complains of, at debug level; nil
	// is nobody.
	Logger *slog.Logger
}

func (c ListenConfig) withDefaults() ListenConfig {
	if c.MaxUnauthenticated <= 0 {
		c.MaxUnauthenticated = DefaultMaxUnauthenticated
	}
	if c.MaxUnauthenticatedPerAddress <= 0 {
		c.MaxUnauthenticatedPerAddress = DefaultMaxUnauthenticatedPerAddress
	}
	if c.HeaderTimeout <= 0 {
		c.HeaderTimeout = DefaultHeaderTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// BindError says that a listening address cannot be had.
type BindError struct {
	Addr string // host:port, as asked for
	Err  error
}

func (e *BindError) Error() string {
	return fmt.Sprintf("cannot listen on %s: %v; give this hub a unique daemon-port, or stop the program that has it",
		e.Addr, e.Err)
}

// Unwrap returns the system's error.
func (e *BindError) Unwrap() error { return e.Err }

// Listener accepts daemons.
type Listener struct {
	cfg    ListenConfig
	accept Accept
	lobby  *lobby
	server *http.Server
	served chan struct{}

	mu       sync.Mutex
	closed   bool
	handlers sync.WaitGroup
}

// Listen opens addr, "host:port" with port 0 for any, and calls accept for every
// WebSocket that is opened on it, whatever the URL's path. ctx bounds the opening
// only. Every error is a [*BindError].
func Listen(ctx context.Context, addr string, cfg ListenConfig, accept Accept) (*Listener, error) {
	var lc net.ListenConfig
	inner, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &BindError{Addr: addr, Err: plainError(err)}
	}
	cfg = cfg.withDefaults()
	ls := &Listener{
		cfg:    cfg,
		accept: accept,
		lobby: &lobby{
			Listener: inner, max: cfg.MaxUnauthenticated, maxPerAddr: cfg.MaxUnauthenticatedPerAddress,
			byAddr: make(map[netip.Prefix]int),
		},
		served: make(chan struct{}),
	}
	ls.server = ls.newServer()
	go ls.serve()
	return ls, nil
}

func (ls *Listener) newServer() *http.Server {
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	s := &http.Server{
		Handler:           http.HandlerFunc(ls.handle),
		Protocols:         http1, // HTTP/2 has no use here, and flaws of its own
		TLSConfig:         ls.cfg.TLS,
		ReadHeaderTimeout: ls.cfg.HeaderTimeout,
		WriteTimeout:      2 * ls.cfg.HeaderTimeout, // ends with the upgrade
		MaxHeaderBytes:    headerBytes,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ErrorLog: slog.NewLogLogger(ls.cfg.Logger.Handler(), slog.LevelDebug),
	}
	s.SetKeepAlivesEnabled(false) // a socket is an upgrade, or one refusal
	return s
}

func (ls *Listener) serve() {
	defer close(ls.served)
	var err error
	if ls.cfg.TLS != nil {
		err = ls.server.ServeTLS(ls.lobby, "", "")
	} else {
		err = ls.server.Serve(ls.lobby)
	}
	ls.cfg.Logger.Debug("listener ended", "why", err)
}

// Addr is the address that was opened, with its real port.
func (ls *Listener) Addr() net.Addr { return ls.lobby.Addr() }

// Close stops accepting and ends unfinished handshakes. When it returns, accept is
// not running and is not called again. Links live on until their owners close
// them. It is safe to call more than once.
func (ls *Listener) Close() error {
	ls.mu.Lock()
	ls.closed = true
	ls.mu.Unlock()
	err := ls.server.Close()
	<-ls.served
	ls.handlers.Wait()
	return err
}

// begin counts a handshake; false says that the listener is closed.
func (ls *Listener) begin() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		return false
	}
	ls.handlers.Add(1)
	return true
}

type connKey struct{}

// handle answers one request: a refusal, or an upgrade.
func (ls *Listener) handle(w http.ResponseWriter, r *http.Request) {
	if !ls.begin() {
		http.Error(w, "this hub is stopping", http.StatusServiceUnavailable)
		return
	}
	defer ls.handlers.Done()
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	g, err := guestOf(conn)
	switch {
	case err != nil:
		http.Error(w, "no socket of this hub", http.StatusInternalServerError)
	case g.refused:
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many connections wait to be admitted; try again later", http.StatusServiceUnavailable)
	case !originAllowed(r.Header, ls.cfg.Origins):
		http.Error(w, "this Origin is not allowed here", http.StatusForbidden)
	default:
		ls.upgrade(w, r, g)
	}
}

// upgrade makes a link of the request and gives it to its owner.
func (ls *Listener) upgrade(w http.ResponseWriter, r *http.Request, g *guest) {
	up := &upgrade{ResponseWriter: w, limits: ls.cfg.Limits}
	ws, err := websocket.Accept(up, r, up.acceptOptions())
	if err != nil {
		return // the library has answered
	}
	given := false
	defer func() {
		if !given { // accept panicked
			up.l.cut(causeDropped)
			_ = ws.CloseNow()
		}
	}()
	give(up.l, ws, r.RemoteAddr, ls.accept, g.leave)
	given = true
}

// give hands a link of the accepting side to its owner.
func give(l *link, ws *websocket.Conn, remote string, accept Accept, leave func()) {
	sink := accept(remote, l, func() {
		leave()
		l.admit()
	})
	if sink == nil {
		sink = nobody{}
		l.Close(int(websocket.StatusTryAgainLater), "no connection is taken now; try again later")
	}
	l.start(ws, sink)
}

// nobody is the sink of a link that was not taken.
type nobody struct{}

func (nobody) Frame(wire.Frame) {}
func (nobody) Pong()            {}
func (nobody) Flushed()         {}
func (nobody) Closed(wire.End)  {}

// originAllowed reports whether no Origin was sent, or only allowed ones. The
// library's own check would let in any page that calls itself by the hub's
// address, which DNS rebinding gives to everybody.
func originAllowed(h http.Header, allowed []string) bool {
	for _, origin := range h.Values("Origin") {
		if !slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, origin) }) {
			return false
		}
	}
	return true
}

// upgrade is the way to make the library write through a link: it gives the
// library the link's stream instead of the hijacked connection.
type upgrade struct {
	http.ResponseWriter
	handle
	limits Limits
}

// Hijack implements [http.Hijacker].
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	u.l = newLink(u.limits, false, &socket{rw: conn, raw: rawOf(conn)}, wire.HelloMaxFrame)
	s := stream{u.l}
	return streamConn{Conn: conn, s: s},
		bufio.NewReadWriter(rw.Reader, bufio.NewWriterSize(s, libraryBufferBytes)), nil
}

func (u *upgrade) acceptOptions() *websocket.AcceptOptions {
	return &websocket.AcceptOptions{
		InsecureSkipVerify: true, // originAllowed is stricter
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     u.onPing,
		OnPongReceived:     u.onPong,
	}
}
