package control

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"codingrelay/actors"
	"codingrelay/wire"
)

// guard stands before every route: it decides who may ask at all.
type guard struct {
	server  *Server
	hosts   []string // lower case, without port
	origins []string
	cross   *http.CrossOriginProtection
	logins  *logins
}

func newGuard(s *Server, opts Options) (*guard, error) {
	g := &guard{server: s, cross: http.NewCrossOriginProtection(), logins: newLogins()}
	for _, h := range opts.Hosts {
		name := hostName(h)
		if name == "" {
			return nil, fmt.Errorf("control: Options.Hosts: %q is no host name; give names such as relay.example, without a scheme", h)
		}
		g.hosts = append(g.hosts, name)
	}
	for _, o := range opts.Origins {
		if u, err := url.Parse(o); err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return nil, fmt.Errorf("control: Options.Origins: %q is no origin; give scheme and host, such as https://relay.example", o)
		}
		if err := g.cross.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("control: Options.Origins: %w", err)
		}
		g.origins = append(g.origins, o)
	}
	return g, nil
}

// hostName is the name in a Host header: without port, brackets and final dot,
// in lower case; "" when there is none.
func hostName(host string) string {
	if strings.ContainsAny(host, "/@ \t") {
		return ""
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// check returns why a request is refused, or nil. A public route needs no token.
func (g *guard) check(r *http.Request, public bool) *APIError {
	s := g.server
	if !g.hostAllowed(r) {
		s.metrics.refused("host")
		return s.refusal(CodeForbidden, "this Host is not served here; use the address the hub listens on, or allow the name")
	}
	if !g.originAllowed(r.Header) || g.cross.Check(r) != nil {
		s.metrics.refused("origin")
		return s.refusal(CodeForbidden, "requests from this web origin are not allowed; allow the origin, or ask from no web page")
	}
	if public {
		return nil
	}
	return g.login(r)
}

// hostAllowed keeps a web page out that has its own name point here (DNS
// rebinding). Such a page has a name, so an address literal is fine when it is
// the one that this connection came in on.
func (g *guard) hostAllowed(r *http.Request) bool {
	name := hostName(r.Host)
	if name == "" {
		return false
	}
	if name == "localhost" || name == g.server.boundHost() || slices.Contains(g.hosts, name) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	addr = addr.Unmap()
	if addr.IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap().WithZone("") == addr.WithZone("")
}

func (g *guard) originAllowed(h http.Header) bool {
	for _, origin := range h.Values("Origin") {
		if !slices.ContainsFunc(g.origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
			return false
		}
	}
	return true
}

// login judges the bearer token. Unknown, wrong and malformed ones get the same
// answer; only the wrong ones are counted.
func (g *guard) login(r *http.Request) *APIError {
	s := g.server
	given, ok := bearer(r.Header)
	if !ok {
		s.metrics.refused("no_token")
		return s.refusal(actors.CodeUnauthorized, "this needs the API token: send Authorization: Bearer with the content of the hub's token file")
	}
	if wire.TokenEqual(given, s.opts.Token) {
		return nil
	}
	if wait := g.logins.failed(time.Now(), r.RemoteAddr); wait > 0 {
		s.metrics.refused("too_many_logins")
		e := s.refusal(actors.CodeUnauthorized, "too many wrong tokens from this address; wait, then send the one in the hub's token file")
		e.Status, e.RetryAfter = http.StatusTooManyRequests, wait
		return e
	}
	s.metrics.refused("wrong_token")
	s.log.Warn("wrong API token", "remote", r.RemoteAddr)
	return s.refusal(actors.CodeUnauthorized, "this is not the API token: send the content of the hub's token file")
}

// bearer finds the token in the one Authorization header (RFC 6750 section 2.1).
// The scheme's name has no case (RFC 9110 section 11.1).
func bearer(h http.Header) (string, bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}
