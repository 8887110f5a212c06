//go:build linux || darwin

package transport_test

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"codingrelay/transport"
)

// thin is a raw peer with the segments of a real network. Those of loopback are
// 64 KiB: a window that has become small opens in one jump then, or only when the
// kernel's probe, which backs off for seconds, finds it open.
func thin(t *testing.T, addr string) *rawPeer {
	t.Helper()
	var failed error
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1400)
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

// slowStall is a WriteStall that a slow peer keeps.
const slowStall = 3 * time.Second

// slowly reads 16 MiB fast, so that the kernel makes the connection's buffers
// large, and then 320 KiB a second for some time or until the connection ends.
func slowly(p *rawPeer, most time.Duration) error {
	if _, err := io.CopyN(io.Discard, p.in, 16<<20); err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	got, start := int64(0), time.Now()
	for since := time.Duration(0); since < most; since = time.Since(start) {
		n, err := io.CopyN(io.Discard, p.in, int64(since.Milliseconds())*320-got)
		if err != nil {
			return err
		}
		got += n
		<-tick.C
	}
	return nil
}

// Design section 7: the deadline is on progress as the peer makes it, not as a
// full socket of megabytes shows it: a slow peer is not dropped.
func TestSlowPeerIsNotStalled(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{Limits: transport.Limits{WriteStall: slowStall}})
	peer := thin(t, h.addr())
	e := h.next(t)
	e.link.Write([][]byte{event("j", 64<<20)})
	if err := slowly(peer, 5*slowStall/2); err != nil {
		t.Fatal(err)
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
	e.link.Write([][]byte{event("j", 64<<20)}) // minutes, for this peer
	done := make(chan error, 1)
	go func() { done <- slowly(peer, patience) }()
	e.link.Close(1001, "stopping")
	// Progress restarts the stall's time, so that it cannot be what ends this.
	if got := e.sink.end(t); got.Code != 1006 || !strings.Contains(got.Reason, "did not answer the close") {
		t.Errorf("got %+v", got)
	}
	_ = peer.Close()
	if err := <-done; err == nil {
		t.Error("the peer stopped reading by itself: the test shows nothing")
	}
}
