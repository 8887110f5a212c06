//go:build linux || darwin

package transport_test

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"codingrelay/transport"
)

// thin is a raw peer with the segments of a real network and a small window. The
// segments of loopback are 64 KiB: a window of that size opens in one jump, or
// only when the kernel's probe, which backs off for seconds, finds it open.
func thin(t *testing.T, addr string) *rawPeer {
	t.Helper()
	var failed error
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1400)
			if failed == nil {
				failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 64<<10)
			}
		})
		if err != nil {
			return err
		}
		return failed
	}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return rawOn(t, c)
}

// slowStall is a WriteStall that a slow peer keeps, also on a busy machine.
const slowStall = 2 * time.Second

// slowly reads from a peer as from a thin line, about 100 KiB a second, until
// enough was read, the time is up, or the connection ends. What the pump gives to
// the kernel at once, 256 KiB, takes longer than slowStall.
func slowly(p *rawPeer, enough int, most time.Duration) (got int, err error) {
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); got < enough && err == nil && time.Since(start) < most; <-tick.C {
		var n int64
		n, err = io.CopyN(io.Discard, p.in, 16<<10)
		got += int(n)
	}
	return got, err
}

// Design section 7: the deadline is on progress, not on a flush, nor on what is
// given to the kernel at once: a peer that takes bytes slowly, for many times
// WriteStall, is not dropped.
func TestSlowPeerIsNotStalled(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{Limits: transport.Limits{WriteStall: slowStall}})
	peer := thin(t, h.addr())
	e := h.next(t)
	const size = 32 << 20
	e.link.Write([][]byte{event("j", size)})
	if got, err := slowly(peer, size, 3*slowStall); err != nil {
		t.Fatalf("after %d bytes: %v", got, err)
	}
	select {
	case got := <-e.sink.ends:
		t.Errorf("the link ended: %+v", got)
	case <-e.sink.flushes:
		t.Error("the kernel took all: the test shows nothing")
	default:
	}
}

// wire.Link.Close: the flush under way has WriteStall to get out, also when it
// makes progress all the time: a Close ends the connection in any case.
func TestCloseDoesNotWaitForASlowFlush(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{Limits: transport.Limits{WriteStall: slowStall}})
	peer := thin(t, h.addr())
	e := h.next(t)
	e.link.Write([][]byte{event("j", 32<<20)})
	e.link.Close(1001, "stopping")
	got, err := slowly(peer, 32<<20, 4*slowStall)
	if err == nil {
		t.Errorf("%d bytes were waited for, %v", got, err)
	}
	if got := e.sink.end(t); got.Code != 1006 {
		t.Errorf("got %+v", got)
	}
}
