package transport

import (
	"io"
	"net"
	"sync/atomic"
)

// socket is what lies under the WebSocket library: the bytes to and from the
// peer, TLS included, counted.
type socket struct {
	rw io.ReadWriteCloser
	// raw ends the connection at once. Closing a TLS connection first says
	// farewell, which can wait for the peer.
	raw           io.Closer
	read, written atomic.Uint64
	// failure is what ended reading. It belongs to the reader.
	failure error
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.rw.Read(p)
	s.read.Add(uint64(n))
	if err != nil {
		s.failure = err
	}
	return n, err
}

// Write returns when the kernel has taken p.
func (s *socket) Write(p []byte) (int, error) {
	n, err := s.rw.Write(p)
	s.written.Add(uint64(n))
	return n, err
}

// rawOf finds the connection below TLS.
func rawOf(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return c
}

// stream is the connection as the library sees it. Reading is the socket's;
// writing goes to memory and never waits; closing lets the pump write what is
// left, within [closeWait], and then closes the socket.
type stream struct{ l *link }

func (s stream) Read(p []byte) (int, error) { return s.l.sock.Read(p) }

// Write appends to what waits for the kernel. Each control frame of the library
// comes in one call, so the pump may put frames of its own between two calls
// whenever it is not inside a message itself.
func (s stream) Write(p []byte) (int, error) {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return 0, net.ErrClosed
	}
	if !l.sealed {
		l.append(p)
		l.kick()
	}
	return len(p), nil
}

func (s stream) Close() error {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		l.over, l.hangup = true, true
		l.change.Broadcast()
		if !l.sealed { // then the time is running
			l.armClose(closeWait)
		}
		l.kick()
	}
	return nil
}

// streamConn is a stream where the library wants a [net.Conn].
type streamConn struct {
	net.Conn
	s stream
}

func (c streamConn) Read(p []byte) (int, error)  { return c.s.Read(p) }
func (c streamConn) Write(p []byte) (int, error) { return c.s.Write(p) }
func (c streamConn) Close() error                { return c.s.Close() }
