package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// tunnels reports whether a proxy is spoken to here. A WebSocket goes through an
// HTTP proxy by CONNECT also without TLS (RFC 6455 section 4.1), which the HTTP
// client does not do.
func tunnels(proxy *url.URL) bool { return proxy.Scheme == "http" || proxy.Scheme == "https" }

// dialPlain connects to the hub, or through the proxy to it.
func (d *dialer) dialPlain(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.proxy == nil || !tunnels(d.proxy) {
		return d.dialTCP(ctx, network, addr)
	}
	conn, err := d.dialProxy(ctx, network)
	if err != nil {
		return nil, err
	}
	if err := d.connect(ctx, conn, addr); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// dialTLS connects as dialPlain does and makes it a TLS connection.
func (d *dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dialPlain(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return d.wrapTLS(ctx, conn, addr)
}

// wrapTLS does a TLS handshake with addr over conn.
func (d *dialer) wrapTLS(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	cfg := d.cfg.TLS.Clone()
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	if cfg.ServerName == "" {
		cfg.ServerName = host
	}
	cfg.NextProtos = []string{"http/1.1"}
	t := tls.Client(conn, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &DialError{Step: StepTLS, Addr: addr, Err: plainError(err)}
	}
	return t, nil
}

// dialTCP opens d.raw.
func (d *dialer) dialTCP(ctx context.Context, network, addr string) (net.Conn, error) {
	var nd net.Dialer
	conn, err := nd.DialContext(ctx, network, addr)
	if err != nil {
		step := StepTCP
		var dns *net.DNSError
		if errors.As(err, &dns) {
			step = StepDNS
		}
		return nil, &DialError{Step: step, Addr: addr, Err: plainError(err)}
	}
	tune(conn)
	d.raw = conn
	return conn, nil
}

// dialProxy connects to the proxy itself. What fails there is the proxy's step.
func (d *dialer) dialProxy(ctx context.Context, network string) (net.Conn, error) {
	port := d.proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[d.proxy.Scheme]
	}
	addr := net.JoinHostPort(d.proxy.Hostname(), port)
	conn, err := d.dialTCP(ctx, network, addr)
	if err == nil && d.proxy.Scheme == "https" {
		conn, err = d.wrapTLS(ctx, conn, addr)
	}
	var typed *DialError
	if errors.As(err, &typed) {
		return nil, &DialError{Step: StepProxy, Addr: addr, Err: fmt.Errorf("%s: %w", typed.Step, typed.Err)}
	}
	return conn, err
}

// connect asks the proxy for a tunnel to addr.
func (d *dialer) connect(ctx context.Context, conn net.Conn, addr string) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if u := d.proxy.User; u != nil {
		password, _ := u.Password()
		secret := base64.StdEncoding.EncodeToString([]byte(u.Username() + ":" + password))
		req.Header.Set("Proxy-Authorization", "Basic "+secret)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	failed := func(status int, err error) error {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &DialError{Step: StepProxy, Addr: d.proxy.Host, Status: status, Err: err}
	}
	if err := req.Write(conn); err != nil {
		return failed(0, plainError(err))
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return failed(0, plainError(err))
	}
	if resp.StatusCode != http.StatusOK {
		return failed(resp.StatusCode, fmt.Errorf("it answered %d %s to CONNECT %s",
			resp.StatusCode, http.StatusText(resp.StatusCode), addr))
	}
	if in.Buffered() > 0 {
		return failed(0, errors.New("it sent bytes of its own after CONNECT"))
	}
	return nil
}
