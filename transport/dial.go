package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"codingrelay/wire"
)

// DefaultDialTimeout bounds a [Dial], from name to upgrade.
const DefaultDialTimeout = 15 * time.Second

// Open takes a fresh link of the dialling side and returns where its frames go;
// nil closes it (1001).
type Open func(link wire.Link) wire.Sink

// DialConfig says how to reach a hub. Only URL is required.
type DialConfig struct {
	// URL is ws://host[:port][/path] or wss://…, without user or password.
	URL string
	// TLS is used for wss and for an https proxy; nil means the system's roots.
	TLS *tls.Config
	// Proxy finds the proxy for a request; nil means HTTP_PROXY (for ws),
	// HTTPS_PROXY (for wss) and NO_PROXY of the environment, as
	// [http.ProxyFromEnvironment] reads them: never for loopback.
	Proxy func(*http.Request) (*url.URL, error)
	// Timeout bounds the handshake. Default [DefaultDialTimeout].
	Timeout time.Duration
	// Limits bound the link.
	Limits Limits
}

// Step is a part of dialling that can fail.
type Step string

// The steps, in order.
const (
	StepURL     Step = "url"     // the URL is not usable
	StepDNS     Step = "dns"     // the name has no address
	StepTCP     Step = "tcp"     // the address takes no connection
	StepProxy   Step = "proxy"   // the proxy cannot be reached, or refuses
	StepTLS     Step = "tls"     // the certificate or the handshake
	StepUpgrade Step = "upgrade" // the server answers, but not as a hub
)

// DialError says which step of a [Dial] failed. Its text holds host and port,
// never the rest of the URL.
type DialError struct {
	Step Step
	// Addr is the host:port the step was about; empty for [StepURL].
	Addr string
	// Status is the HTTP status of an upgrade or proxy that was refused, or 0.
	Status int
	Err    error
}

func (e *DialError) Error() string {
	if e.Addr == "" {
		return fmt.Sprintf("dial: %s: %v", e.Step, e.Err)
	}
	return fmt.Sprintf("dial %s: %s: %v", e.Addr, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// Dial opens a WebSocket to a hub and gives its link to open, whose sink gets the
// frames. No Origin is sent, and no redirect is followed: what the
// peer says next is a token. ctx bounds the handshake only. Every error is a
// [*DialError]; then open was not called.
func Dial(ctx context.Context, cfg DialConfig, open Open) error {
	target, err := parseTarget(cfg.URL)
	if err != nil {
		return &DialError{Step: StepURL, Err: err}
	}
	timeout := cfg.Timeout
	if timeout <= 0 {
		timeout = DefaultDialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := &dialer{cfg: cfg, addr: target.Host}
	if d.proxy, err = cfg.proxyFor(target); err != nil {
		return &DialError{Step: StepProxy, Err: err}
	}
	conn, err := d.connect(ctx, target.Scheme == "https")
	if err != nil {
		return err
	}
	ws, err := d.upgrade(ctx, conn, target)
	if err != nil {
		_ = conn.Close()
		return err
	}
	d.take(ws, open)
	return nil
}

// proxyFor finds the proxy to go through, or nil.
func (c DialConfig) proxyFor(target *url.URL) (*url.URL, error) {
	find := c.Proxy
	if find == nil {
		find = http.ProxyFromEnvironment
	}
	proxy, err := find(&http.Request{URL: target})
	switch {
	case err != nil:
		return nil, errors.New("the proxy's URL is not usable; it looks like http://host:port")
	case proxy != nil && proxy.Scheme != "http" && proxy.Scheme != "https":
		return nil, fmt.Errorf("a proxy of scheme %q is not supported; give an http one", proxy.Scheme)
	}
	return proxy, nil
}

// parseTarget gives the http URL of a ws URL, with its port.
func parseTarget(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("not a URL; it looks like ws://host:port")
	}
	port := "80"
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme, port = "https", "443"
	default:
		return nil, fmt.Errorf("the scheme must be ws or wss, not %q", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, errors.New("it names no host; it looks like ws://host:port")
	}
	if u.User != nil {
		return nil, errors.New("it must hold no user or password; the token has a file of its own")
	}
	if u.Port() != "" {
		port = u.Port()
	}
	u.Host, u.Fragment = net.JoinHostPort(u.Hostname(), port), ""
	return u, nil
}

// dialer is one attempt.
type dialer struct {
	handle
	cfg   DialConfig
	addr  string // host:port of the hub
	proxy *url.URL
}

// upgrade makes a WebSocket of a connection, and d.l.
func (d *dialer) upgrade(ctx context.Context, conn net.Conn, target *url.URL) (*websocket.Conn, error) {
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	given := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	tr := &http.Transport{
		Protocols:              http1,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: headerBytes,
		DialContext:            given,
		DialTLSContext:         given,
	}
	client := &http.Client{
		Transport:     &streaming{d: d, next: tr, raw: rawOf(conn)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ws, resp, err := websocket.Dial(ctx, target.String(), d.options(client))
	if err == nil {
		return ws, nil
	}
	e := &DialError{Step: StepUpgrade, Addr: d.addr, Err: plainError(err)}
	switch {
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		e.Status, e.Err = resp.StatusCode, refusal(resp)
	case ctx.Err() != nil:
		e.Err = fmt.Errorf("no answer in time: %w", ctx.Err())
	}
	return nil, e
}

func (h *handle) options(client *http.Client) *websocket.DialOptions {
	return &websocket.DialOptions{
		HTTPClient:      client,
		CompressionMode: websocket.CompressionDisabled,
		OnPingReceived:  h.onPing,
		OnPongReceived:  h.onPong,
	}
}

// take gives a link of the dialling side to its owner.
func (h *handle) take(ws *websocket.Conn, open Open) {
	sink := open(h.l)
	if sink == nil {
		sink = nobody{}
		h.l.Close(int(websocket.StatusGoingAway), "this daemon is going away")
	}
	h.l.start(ws, sink)
}

// streaming puts the link's stream between the HTTP client and the library.
type streaming struct {
	d    *dialer
	next http.RoundTripper
	raw  net.Conn
}

func (s *streaming) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	rw, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return resp, nil // the library says so
	}
	s.d.l = newLink(s.d.cfg.Limits, true, &socket{rw: rw, raw: s.raw}, wire.OurMaxFrame)
	resp.Body = stream{s.d.l}
	return resp, nil
}

// refusal says what a server answered instead of 101, with the first line of its
// text. That of a redirect is left out: it is an address.
func refusal(resp *http.Response) error {
	answer := fmt.Sprintf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if resp.StatusCode/100 == 3 {
		return fmt.Errorf("%s; redirects are not followed, so give the address it leads to", answer)
	}
	text, _ := io.ReadAll(resp.Body) // at most 1 KiB: the library cuts it
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line == "" {
		return errors.New(answer)
	}
	return fmt.Errorf("%s: %q", answer, wire.CutReason(line))
}

// plainError takes the URL, which may hold a secret, and the address, which is
// told apart, from an error of net or net/http.
func plainError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return err
}
