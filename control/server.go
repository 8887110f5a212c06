package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Options is a server's configuration. The zero value of a field but Token means
// its documented default; a negative one is an error.
type Options struct {
	// Token is what callers must know. Required; see [LoadOrCreateToken].
	Token string
	// ErrorPrefix stands before each error code. It should be the hub's. Default
	// "agent_runtime".
	ErrorPrefix string
	// Hosts are more names that a request's Host header may have, beside
	// loopback's, the one that was listened on, and the address literal that the
	// connection came in on. Ports are not compared.
	Hosts []string
	// Origins are the web origins that may ask, such as https://relay.example.
	// Default none. Requests without an Origin are no web page's.
	Origins []string
	// Metrics is served at /metrics. Nil: one that nobody else counts in.
	Metrics *Metrics
	// MetricsOpen lets /metrics be read without the token.
	MetricsOpen bool
	// Logger is told of failures and wrong tokens; nil is nobody.
	Logger *slog.Logger
	// KeepAlive is the interval of comments in a stream. Default 15s.
	KeepAlive time.Duration
	// StallTimeout is how long a reader may take nothing. Default 30s.
	StallTimeout time.Duration
	// EndedStall is how long the attached stream of a run that has ended may take
	// nothing; before that end it may for ever. Default 15m.
	EndedStall time.Duration
	// HeaderTimeout bounds the reading of a request's header. Default 5s.
	HeaderTimeout time.Duration
	// IdleTimeout bounds the pause between requests on a connection. Default 60s.
	IdleTimeout time.Duration
	// MaxConnections bounds open connections; beyond it they are closed at once.
	// Default 1,024.
	MaxConnections int
}

func (o Options) withDefaults() (Options, error) {
	if err := usableToken(o.Token); err != nil {
		return o, fmt.Errorf("control: Options.Token: %w", err)
	}
	if o.ErrorPrefix == "" {
		o.ErrorPrefix = "agent_runtime"
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var errs []error
	for _, f := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"KeepAlive", &o.KeepAlive, 15 * time.Second},
		{"StallTimeout", &o.StallTimeout, 30 * time.Second},
		{"EndedStall", &o.EndedStall, 15 * time.Minute},
		{"HeaderTimeout", &o.HeaderTimeout, 5 * time.Second},
		{"IdleTimeout", &o.IdleTimeout, 60 * time.Second},
	} {
		if *f.v < 0 {
			errs = append(errs, fmt.Errorf("control: Options.%s is %v, must be positive", f.name, *f.v))
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	if o.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("control: Options.MaxConnections is %d, must be positive", o.MaxConnections))
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 1024
	}
	return o, errors.Join(errs...)
}

// Server serves the API over a hub. Its methods are safe for concurrent use.
type Server struct {
	hub      Hub
	opts     Options
	log      *slog.Logger
	metrics  *Metrics
	guard    *guard
	handler  http.Handler
	bodies   *semaphore.Weighted
	outcomes outcomes

	// life ends with Close: whatever still waits for the hub then gives up.
	life context.Context
	end  context.CancelFunc

	mu       sync.Mutex
	servers  []*http.Server
	bound    string // the host that was listened on
	closed   bool
	handlers sync.WaitGroup
	serving  sync.WaitGroup // listeners
	conns    sync.WaitGroup // connections that the listeners accepted
}

// New makes a server over a hub. It listens nowhere yet.
func New(hub Hub, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{hub: hub, opts: o, log: o.Logger, metrics: o.Metrics, bodies: semaphore.NewWeighted(bodiesInMemory)}
	s.life, s.end = context.WithCancel(context.Background())
	s.outcomes = outcomes{server: s, open: make(map[string]*watch)}
	if s.guard, err = newGuard(s, o); err != nil {
		return nil, err
	}
	if err := s.metrics.of(hub); err != nil {
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
}

// Handler is the API for a server of the host program's own. That server should
// set ReadHeaderTimeout and MaxHeaderBytes and no WriteTimeout, and its
// connections must know deadlines. [Server.Close] refuses new requests and waits
// for those under way.
func (s *Server) Handler() http.Handler { return s.handler }

// Listen opens addr, "host:port" with port 0 for any, serves there until
// [Server.Shutdown] or [Server.Close], and returns the address that was opened.
// ctx bounds the opening only.
func (s *Server) Listen(ctx context.Context, addr string) (net.Addr, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("control: listen on %q: %w; give host:port", addr, err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &BindError{Addr: addr, Err: err}
	}
	s.mu.Lock()
	s.bound = hostName(host)
	s.mu.Unlock()
	srv, err := s.begin()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go func() {
		defer s.serving.Done()
		if err := srv.Serve(s.limited(l)); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the API's listener ended", "error", err)
		}
	}()
	return l.Addr(), nil
}

// BindError says that the API's address cannot be had.
type BindError struct {
	Addr string // host:port, as asked for
	Err  error
}

// Error says what to do about it.
func (e *BindError) Error() string {
	return fmt.Sprintf("control: cannot listen on %s: %v; choose another API address, or stop the program that has it", e.Addr, e.Err)
}

// Unwrap returns the system's error.
func (e *BindError) Unwrap() error { return e.Err }

// Serve serves on a listener of the caller's, TLS for example, until it fails or
// the server is closed; then the error is [http.ErrServerClosed].
func (s *Server) Serve(l net.Listener) error {
	srv, err := s.begin()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer s.serving.Done()
	return srv.Serve(s.limited(l))
}

// begin makes the HTTP server of a listener, and counts it.
func (s *Server) begin() (*http.Server, error) {
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	srv := &http.Server{
		Handler:           s.handler,
		Protocols:         http1, // HTTP/2 has no use here, and flaws of its own
		ReadHeaderTimeout: s.opts.HeaderTimeout,
		IdleTimeout:       s.opts.IdleTimeout,
		MaxHeaderBytes:    headerBytes,
		BaseContext:       func(net.Listener) context.Context { return s.life },
		ConnState:         s.connState,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, http.ErrServerClosed
	}
	s.servers = append(s.servers, srv)
	s.serving.Add(1)
	return srv, nil
}

// connState counts connections as the HTTP server has them: one is over when its
// goroutine is, which may be half a second after its socket was closed.
func (s *Server) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.Done()
	default:
	}
}

// headerBytes bounds a request's header.
const headerBytes = 16 << 10

func (s *Server) boundHost() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound
}

// Shutdown stops listening and waits until every request is answered and every
// stream has come to its run's end: stop the hub first, or its runs are waited
// for. When ctx ends first, what is left is cut off as by [Server.Close], and the
// error is ctx's.
func (s *Server) Shutdown(ctx context.Context) error {
	var err error
	for _, srv := range s.close() {
		err = errors.Join(err, srv.Shutdown(ctx))
	}
	return errors.Join(err, s.Close())
}

// Close stops listening and cuts every connection. When it returns, no handler
// and no goroutine of the server is left.
func (s *Server) Close() error {
	servers := s.close()
	s.end()
	var err error
	for _, srv := range servers {
		err = errors.Join(err, srv.Close())
	}
	s.serving.Wait()
	s.conns.Wait()
	s.handlers.Wait()
	s.outcomes.wait()
	return err
}

// close lets no new request in.
func (s *Server) close() []*http.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.servers
}

// enter counts a request; false says that the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.handlers.Add(1)
	return true
}
