//go:build linux || darwin

package transport

import (
	"net"

	"golang.org/x/sys/unix"
)

// unsentBytes is how much a socket takes ahead of what it could send.
const unsentBytes = 128 << 10

// tune lets the kernel take new bytes in small steps, as the peer takes the old
// ones. Without it a full socket takes none until a third of its buffer, which can
// be megabytes, is free: a slow peer would look like one that stands still.
func tune(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	// Failing costs only exactness, so it is not an error.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
	})
}
