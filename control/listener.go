package control

import (
	"net"
	"sync"
)

// sendBuffer bounds what the kernel takes for a reader that takes nothing, and
// so how late such a reader is noticed.
const sendBuffer = 256 << 10

// limited bounds a listener's connections.
func (s *Server) limited(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, server: s, free: make(chan struct{}, s.opts.MaxConnections)}
}

type limitedListener struct {
	net.Listener
	server *Server
	free   chan struct{}
}

// Accept closes what is above the limit: one that waited in line would look like
// a hub that hangs.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
		default:
			l.server.metrics.refused("too_many_connections")
			_ = c.Close()
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(sendBuffer) // only a bound on memory
		}
		l.server.metrics.connections.Inc()
		return &limitedConn{Conn: c, left: sync.OnceFunc(func() {
			<-l.free
			l.server.metrics.connections.Dec()
		})}, nil
	}
}

type limitedConn struct {
	net.Conn
	left func()
}

// Close frees the connection's place.
func (c *limitedConn) Close() error {
	defer c.left()
	return c.Conn.Close()
}
