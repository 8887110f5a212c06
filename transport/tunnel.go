package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// connect opens the connection to the hub: through the proxy if there is one, and
// with TLS if asked for.
func (d *dialer) connect(ctx context.Context, secure bool) (net.Conn, error) {
	var conn net.Conn
	var err error
	if d.proxy == nil {
		conn, err = dialTCP(ctx, d.addr)
	} else {
		conn, err = d.tunnel(ctx)
	}
	if err != nil || !secure {
		return conn, err
	}
	return d.wrapTLS(ctx, conn, d.addr)
}

// dialTCP opens a TCP connection.
func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var nd net.Dialer
	conn, err := nd.DialContext(ctx, "tcp", addr)
	if err != nil {
		step := StepTCP
		var dns *net.DNSError
		if errors.As(err, &dns) {
			step = StepDNS
		}
		return nil, &DialError{Step: step, Addr: addr, Err: plainError(err)}
	}
	tune(conn)
	return conn, nil
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

// tunnel opens a connection to the hub through the proxy. A WebSocket goes by
// CONNECT also without TLS (RFC 6455 section 4.1), which the HTTP client's own
// proxying does not do.
func (d *dialer) tunnel(ctx context.Context) (net.Conn, error) {
	port := d.proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[d.proxy.Scheme]
	}
	addr := net.JoinHostPort(d.proxy.Hostname(), port)
	conn, err := dialTCP(ctx, addr)
	if err == nil && d.proxy.Scheme == "https" {
		conn, err = d.wrapTLS(ctx, conn, addr)
	}
	var typed *DialError
	if errors.As(err, &typed) { // what fails on the way to the proxy is its step
		return nil, &DialError{Step: StepProxy, Addr: addr, Err: fmt.Errorf("%s: %w", typed.Step, typed.Err)}
	}
	if status, err := d.askConnect(ctx, conn); err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer in time: %w", ctx.Err())
		}
		return nil, &DialError{Step: StepProxy, Addr: addr, Status: status, Err: plainError(err)}
	}
	return conn, nil
}

// askConnect asks the proxy at the other end of conn for a tunnel to the hub.
func (d *dialer) askConnect(ctx context.Context, conn net.Conn) (status int, err error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: d.addr}, Host: d.addr, Header: http.Header{}}
	if u := d.proxy.User; u != nil {
		password, _ := u.Password()
		secret := base64.StdEncoding.EncodeToString([]byte(u.Username() + ":" + password))
		req.Header.Set("Proxy-Authorization", "Basic "+secret)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := req.Write(conn); err != nil {
		return 0, err
	}
	in := bufio.NewReader(io.LimitReader(conn, headerBytes))
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("it answered %d %s to CONNECT %s",
			resp.StatusCode, http.StatusText(resp.StatusCode), d.addr)
	}
	if in.Buffered() > 0 {
		return resp.StatusCode, errors.New("it sent bytes of its own after its answer to CONNECT")
	}
	return resp.StatusCode, nil
}
