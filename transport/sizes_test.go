package transport_test

import (
	"bytes"
	"testing"

	"codingrelay/transport"
	"codingrelay/wire"
)

// Protocol section 1: a message above 8 MiB is read to its end and hurts nothing
// but itself; its size and the job its first 4 KiB name are told.
func TestOversizeMessageHurtsOnlyItself(t *testing.T) {
	everyWay(t, transport.Limits{}, func(t *testing.T, hub, daemon end) {
		const size = 9 << 20
		daemon.write(t, event("big", size), finished("after"))
		got := hub.sink.frame(t)
		if got.Type != wire.Oversize || got.JobID != "big" || got.Bytes != size || got.Body != nil {
			t.Errorf("got %v of %q, %d bytes, want oversize of big, %d bytes", got.Type, got.JobID, got.Bytes, size)
		}
		if got := hub.sink.frame(t); got.Type != wire.RunFinished || got.JobID != "after" {
			t.Errorf("then came %v of %q", got.Type, got.JobID)
		}
	})
}

// Protocol section 1: 8 MiB is taken, one byte more is not.
func TestOurMaxFrameIsExact(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	peer := raw(t, h.addr())
	e := h.next(t)
	e.admitted()
	for _, tt := range []struct {
		size int
		want wire.Type
	}{{wire.OurMaxFrame, wire.RunEvent}, {wire.OurMaxFrame + 1, wire.Oversize}} {
		peer.send(frame(fin|opText, event("j", tt.size)))
		if got := e.sink.frame(t); got.Type != tt.want || got.Bytes != tt.size {
			t.Errorf("%d bytes came as %v with %d", tt.size, got.Type, got.Bytes)
		}
		if tt.want == wire.RunEvent {
			e.link.Credit(tt.size)
		}
	}
}

// Protocol section 1: above 64 MiB the socket is closed with 1009; with exactly
// 64 MiB it still lives.
func TestHardMaxFrameClosesTheSocket(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	peer := raw(t, h.addr())
	e := h.next(t)
	e.admitted()
	// The mask is zero, so the payload passes as it is.
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	peer.send(append(header(opText, true, wire.HardMaxFrame), 0, 0, 0, 0))
	for range wire.HardMaxFrame / len(chunk) {
		peer.send(chunk)
	}
	for range 2 { // the answer to the first could come before a close frame
		peer.send(frame(fin|opPing, []byte("alive?")))
		if b0, _ := peer.read(); b0 != fin|opPong {
			t.Errorf("after 64 MiB the ping was answered with %#x", b0)
		}
	}
	peer.send(frame(opContinuation, []byte(" ")))
	if code, reason := peer.verdict(); code != 1009 {
		t.Errorf("closed with %d %q, want 1009", code, reason)
	}
	_ = peer.Close()
	if got := e.sink.rest(t); len(got) != 0 {
		t.Errorf("told of %d frames", len(got))
	}
}

// Protocol section 3.1: until a peer is admitted a message has at most 64 KiB;
// a larger one is judged (1008), not ignored, and nothing is told of it.
func TestHelloAbove64KiBIsRefused(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	for name, pad := range map[string]int{"fits": 0, "too_large": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := raw(t, h.addr())
			e := h.next(t)
			peer.send(frame(fin|opText, event("hello", wire.HelloMaxFrame+pad)))
			if pad == 0 {
				if got := e.sink.frame(t); got.Bytes != wire.HelloMaxFrame {
					t.Errorf("got %d bytes", got.Bytes)
				}
				e.admitted()
				peer.send(frame(fin|opText, event("later", wire.HelloMaxFrame+1)))
				if got := e.sink.frame(t); got.JobID != "later" {
					t.Errorf("after admission came %v of %q", got.Type, got.JobID)
				}
				return
			}
			peer.send(bye)
			code, reason := peer.verdict()
			if code != 1008 || reason != "say daemon.hello first, in at most 65536 bytes" {
				t.Errorf("closed with %d %q, want 1008", code, reason)
			}
			if got := e.sink.rest(t); len(got) != 0 {
				t.Errorf("told of %+v", got)
			}
		})
	}
}

// RFC 6455 section 7.1.1 and the refusal above: a peer that is in the middle of a
// large message when it is refused still gets the close frame, not a reset.
func TestRefusalReachesAPeerThatIsStillSending(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	peer := raw(t, h.addr())
	h.next(t)
	peer.send(frame(fin|opText, event("hello", 4<<20)))
	if code, _ := peer.verdict(); code != 1008 {
		t.Errorf("closed with %d, want 1008", code)
	}
}
