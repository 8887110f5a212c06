package transport_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codingrelay/transport"
)

// D26: a peer that takes nothing is dropped after WriteStall, and says why; another
// link of the same hub is answered all the while.
func TestStalledPeerIsDroppedAlone(t *testing.T) {
	t.Parallel()
	const stall = 500 * time.Millisecond
	h := listen(t, transport.ListenConfig{Limits: transport.Limits{WriteStall: stall}})
	raw(t, h.addr()) // reads nothing
	stuck := h.next(t)
	d := dial(t, transport.DialConfig{URL: h.url()})
	h.next(t)
	frames := make([][]byte, 500)
	for i := range frames {
		frames[i] = event("j", 64<<10)
	}
	start := time.Now()
	stuck.link.Write(frames)
	slowest := time.Duration(0)
	for {
		asked := time.Now()
		d.link.Ping()
		wait(t, d.sink.pongs, "Pong")
		slowest = max(slowest, time.Since(asked))
		select {
		case got := <-stuck.sink.ends:
			if want := "the peer took no byte for 500ms"; got.Code != 1006 || got.Reason != want {
				t.Errorf("got %+v, want %q", got, want)
			}
			if took := time.Since(start); took < stall {
				t.Errorf("dropped after %v, before WriteStall", took)
			}
			if slowest > time.Second {
				t.Errorf("the other link's slowest answer took %v", slowest)
			}
			if len(stuck.sink.flushes) != 0 {
				t.Error("Flushed was told")
			}
			return
		default:
		}
	}
}

// Design section 7: the deadline is on progress, not on a flush, nor on what goes
// to the kernel at once: a peer that takes 32 KiB within WriteStall is kept; one
// that stops is dropped after exactly WriteStall. In bubble time.
func TestStallIsMeasuredOnProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall, size, count = 5 * time.Second, 1 << 10, 256
		hub, daemon := connectPipe(t, transport.Limits{InboundCredit: size, WriteStall: stall})
		frames := make([][]byte, count)
		for i := range frames {
			frames[i] = event("j", size)
		}
		start := time.Now()
		daemon.link.Write(frames) // 256 KiB: a second for each 10 KiB
		for range count {
			hub.sink.frame(t)
			time.Sleep(100 * time.Millisecond)
			hub.link.Credit(size)
		}
		wait(t, daemon.sink.flushes, "Flushed")
		if took := time.Since(start); took < 4*stall {
			t.Fatalf("the flush took %v, which shows nothing", took)
		}
		daemon.link.Write(frames)
		synctest.Wait()
		start = time.Now()
		if got := daemon.sink.end(t); got.Reason != "the peer took no byte for 5s" || time.Since(start) != stall {
			t.Errorf("after %v: %+v", time.Since(start), got)
		}
		hub.link.Drop()
		hub.sink.end(t)
	})
}

// I14, RFC 6455 section 5.5.3: a peer that sends pings and reads nothing does not
// make us keep an answer to each; its frames are read all the same, although the
// writer is stuck; and when it reads again the connection works.
func TestPingFloodIsBounded(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{Limits: transport.Limits{WriteStall: patience}})
	peer := raw(t, h.addr())
	e := h.next(t)
	large := event("j", 16<<20)
	e.link.Write([][]byte{large})
	const pings = 20_000
	flood := bytes.Repeat(frame(fin|opPing, []byte(strings.Repeat("p", 125))), pings)
	peer.send(flood, text(doneA))
	if got := e.sink.frame(t); got.JobID != "a" {
		t.Errorf("got %v of %q", got.Type, got.JobID)
	}
	answers, payloads := 0, 0
	for payloads < len(large) {
		b0, payload := peer.read()
		if b0 == fin|opPong {
			answers++
		} else {
			payloads += len(payload)
		}
	}
	wait(t, e.sink.flushes, "Flushed")
	if answers == 0 || answers > pings/10 {
		t.Errorf("%d of %d pings were answered", answers, pings)
	}
	peer.send(frame(fin|opPing, []byte("last")))
	for {
		b0, payload := peer.read()
		if b0 == fin|opPong && string(payload) == "last" {
			return
		}
	}
}

// Protocol section 5: what a peer sent before it went is told, although writing to
// it has failed in the meantime.
func TestFailedWriteDoesNotLoseWhatWasSent(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{Limits: transport.Limits{InboundCredit: 1 << 10}})
	peer := raw(t, h.addr())
	e := h.next(t)
	// Less than a socket's window, so that all of it is with the hub's kernel;
	// more than the library reads ahead.
	for range 20 {
		peer.send(frame(fin|opText, event("j", 1<<10)))
	}
	peer.send(text(doneA))
	e.sink.frame(t) // the next one waits for credit
	e.link.Write([][]byte{event("m", 8<<20)})
	peer.read()
	_ = peer.Close() // with unread bytes in it: a reset
	transport.AwaitMute(e.link)
	for range 20 {
		e.link.Credit(1 << 10)
		e.sink.frame(t)
	}
	if got := e.sink.end(t); got.Code != 1006 || !strings.HasPrefix(got.Reason, "writing: ") {
		t.Errorf("got %+v, want 1006 and what failed", got)
	}
}
