package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
)

const (
	// DefaultMaxUnauthenticated and DefaultMaxUnauthenticatedPerAddress bound the
	// sockets whose peer has not said who it is (design section 7).
	DefaultMaxUnauthenticated           = 1024
	DefaultMaxUnauthenticatedPerAddress = 64
)

// lobby is a [net.Listener] that counts the sockets whose peer has not been
// admitted, from the moment they are accepted. Beyond a limit a socket is marked,
// to be answered with 503; beyond twice the limit it is closed without a word, so
// that the answers themselves are bounded.
type lobby struct {
	net.Listener
	max, maxPerAddr int

	mu     sync.Mutex
	total  int
	byAddr map[netip.Prefix]int
}

// guest is a socket that counts in the lobby until it leaves.
type guest struct {
	net.Conn
	lobby *lobby
	addr  netip.Prefix
	once  sync.Once
	// refused: there was no room.
	refused bool
}

// Accept returns the next socket that is worth an answer.
func (lb *lobby) Accept() (net.Conn, error) {
	for {
		c, err := lb.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := lb.enter(c); g != nil {
			tune(c)
			return g, nil
		}
		_ = c.Close()
	}
}

// enter counts a socket, or returns nil if it is not even worth a refusal.
func (lb *lobby) enter(c net.Conn) *guest {
	g := &guest{Conn: c, lobby: lb, addr: addressOf(c)}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	total, here := lb.total+1, lb.byAddr[g.addr]+1
	if total > 2*lb.max || here > 2*lb.maxPerAddr {
		return nil
	}
	g.refused = total > lb.max || here > lb.maxPerAddr
	lb.total, lb.byAddr[g.addr] = total, here
	return g
}

// leave ends the counting: the peer was admitted, or the socket is closed.
func (g *guest) leave() {
	g.once.Do(func() {
		lb := g.lobby
		lb.mu.Lock()
		defer lb.mu.Unlock()
		lb.total--
		if lb.byAddr[g.addr]--; lb.byAddr[g.addr] == 0 {
			delete(lb.byAddr, g.addr)
		}
	})
}

func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}

// addressOf is what sockets of one origin share: the IPv4 address, or the /64
// that one IPv6 host has for itself.
func addressOf(c net.Conn) netip.Prefix {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

var errNoGuest = errors.New("transport: the connection is not from this listener")

// guestOf finds the guest below TLS.
func guestOf(c net.Conn) (*guest, error) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	g, ok := c.(*guest)
	if !ok {
		return nil, errNoGuest
	}
	return g, nil
}
