package transport_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"codingrelay/transport"
	"codingrelay/wire"
)

// wire.Link: the frames of each flush arrive once and in order, both ways, as one
// message each; nothing is told after Closed.
func TestFlushesArriveInOrder(t *testing.T) {
	everyWay(t, transport.Limits{}, func(t *testing.T, hub, daemon end) {
		for _, pair := range [][2]end{{hub, daemon}, {daemon, hub}} {
			from, to := pair[0], pair[1]
			for flush := range 20 {
				var frames [][]byte
				for i := range 50 {
					frames = append(frames, finished(fmt.Sprintf("j%d.%d", flush, i)))
				}
				from.write(t, frames...)
			}
			for flush := range 20 {
				for i := range 50 {
					want := fmt.Sprintf("j%d.%d", flush, i)
					if got := to.sink.frame(t); got.JobID != want || got.Type != wire.RunFinished {
						t.Fatalf("got %v of %q, want run.finished of %q", got.Type, got.JobID, want)
					}
				}
			}
		}
	})
}

// D23: 33 KiB, 1 MiB and 3 MiB pass each way between two of ours, unharmed.
func TestLargeMessagesPass(t *testing.T) {
	everyWay(t, transport.Limits{}, func(t *testing.T, hub, daemon end) {
		for _, pair := range [][2]end{{hub, daemon}, {daemon, hub}} {
			from, to := pair[0], pair[1]
			for _, size := range []int{33 << 10, 256<<10 + 1, 1 << 20, 3 << 20} {
				sent := event("big", size)
				from.write(t, sent, finished("small"))
				got := to.sink.frame(t)
				if got.Bytes != size || got.JobID != "big" || !bytes.Contains(sent, got.Body) {
					t.Fatalf("%d bytes came as %v of %q with %d", size, got.Type, got.JobID, got.Bytes)
				}
				to.link.Credit(got.Bytes)
				if got := to.sink.frame(t); got.JobID != "small" {
					t.Fatalf("after %d bytes came %v of %q", size, got.Type, got.JobID)
				}
			}
		}
	})
}

// wire.Link.Ping: its answer is told, also when nothing else is said; and
// Progress counts it.
func TestPingIsAnswered(t *testing.T) {
	everyWay(t, transport.Limits{}, func(t *testing.T, hub, daemon end) {
		for _, e := range []end{hub, daemon} {
			readBefore, writtenBefore := e.link.Progress()
			for range 3 {
				e.link.Ping()
				wait(t, e.sink.pongs, "Pong")
			}
			e.write(t, finished("x")) // an answer can come before its ping is counted
			read, written := e.link.Progress()
			if read < readBefore+3*7 || written < writtenBefore+3*7 {
				t.Errorf("Progress went from %d, %d to %d, %d over three pings",
					readBefore, writtenBefore, read, written)
			}
		}
	})
}

// wire.Link.Close: code and reason reach the peer after the flush under way, both
// sides are told the code, and nothing is written any more.
func TestCloseTellsCodeAndReason(t *testing.T) {
	everyWay(t, transport.Limits{}, func(t *testing.T, hub, daemon end) {
		daemon.link.Write([][]byte{finished("a"), event("b", 100<<10), finished("c")})
		daemon.link.Close(1012, "restarting")
		daemon.link.Close(1000, "second")
		daemon.link.Write([][]byte{finished("late")})
		for _, want := range []string{"a", "b", "c"} {
			if got := hub.sink.frame(t); got.JobID != want {
				t.Errorf("got %q, want %q", got.JobID, want)
			}
		}
		want := wire.End{Code: 1012, Reason: "restarting"}
		if got := hub.sink.end(t); got != want {
			t.Errorf("the peer was told %+v, want %+v", got, want)
		}
		if got := daemon.sink.end(t); got.Code != 1012 {
			t.Errorf("this side was told %+v, want the peer's echo of 1012", got)
		}
		for f := range hub.sink.frames {
			t.Errorf("a frame after the close: %+v", f)
		}
	})
}

// D24: a reason of 200 times é goes out with its code, cut on a character to at
// most 123 bytes. RFC 6455 section 7.4.1: 1005, 1006 and unassigned codes are
// never sent.
func TestCloseFrameIsAlwaysValid(t *testing.T) {
	long := strings.Repeat("é", 200)
	for _, tt := range []struct {
		code int
		want int
	}{{1008, 1008}, {4001, 4001}, {1005, 1011}, {1006, 1011}, {1015, 1011}, {0, 1011}, {2999, 1011}, {5000, 1011}} {
		t.Run(fmt.Sprint(tt.code), func(t *testing.T) {
			t.Parallel()
			h := listen(t, transport.ListenConfig{})
			peer := raw(t, h.addr())
			h.next(t).link.Close(tt.code, long)
			code, reason := peer.verdict()
			if want := strings.Repeat("é", 61); code != tt.want || reason != want {
				t.Errorf("got %d with %d bytes %q, want %d with %d bytes", code, len(reason), reason, tt.want, len(want))
			}
		})
	}
}

// Protocol 4.6: run.finished followed at once by a close is a normal end, and so
// is one followed by a bare TCP end; the close is answered at once.
func TestFramesBeforeTheEndCount(t *testing.T) {
	for name, goodbye := range map[string][]byte{
		"close_frame": frame(fin|opClose, append([]byte{0x03, 0xe8}, "done"...)),
		"tcp_end":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := listen(t, transport.ListenConfig{})
			peer := raw(t, h.addr())
			e := h.next(t)
			var sent []byte
			for i := range 500 {
				sent = append(sent, frame(fin|opText, finished(fmt.Sprint(i)))...)
			}
			peer.send(append(sent, goodbye...))
			want := wire.End{Code: 1000, Reason: "done"}
			if goodbye == nil {
				_ = peer.Close()
				want = wire.End{Code: 1006, Reason: "the peer ended the connection without a close frame"}
			} else if code, _ := peer.verdict(); code != 1000 {
				t.Errorf("the close was answered with %d", code)
			}
			if got := e.sink.end(t); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if n := len(e.sink.frames); n != 500 {
				t.Errorf("%d of 500 frames were told", n)
			}
		})
	}
}

// wire.Link.Close: a peer that does not answer has a second, then it is over.
func TestCloseDoesNotWaitForASilentPeer(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	raw(t, h.addr())
	e := h.next(t)
	start := time.Now()
	e.link.Close(1001, "stopping")
	got := e.sink.end(t)
	if took := time.Since(start); took < 900*time.Millisecond || took > 5*time.Second {
		t.Errorf("took %v, want a second", took)
	}
	if got.Code != 1006 || !strings.Contains(got.Reason, "did not answer the close") {
		t.Errorf("got %+v", got)
	}
}

// wire.Link.Close: a peer that takes nothing holds a Close up no longer than
// WriteStall and a second.
func TestCloseDoesNotWaitForAStuckFlush(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{Limits: transport.Limits{WriteStall: 300 * time.Millisecond}})
	raw(t, h.addr())
	e := h.next(t)
	e.link.Write([][]byte{event("j", 32<<20)})
	e.link.Close(1001, "stopping")
	if got := e.sink.end(t); got.Code != 1006 {
		t.Errorf("got %+v", got)
	}
	if len(e.sink.flushes) != 0 {
		t.Error("Flushed was told of a flush that the kernel did not take")
	}
}

// wire.Link.Drop: the peer sees the end without a close frame, and this side is
// told why.
func TestDropSaysNothing(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	peer := raw(t, h.addr())
	e := h.next(t)
	e.link.Drop()
	if code, _ := peer.verdict(); code != 0 {
		t.Errorf("a close frame with %d was sent", code)
	}
	if got, want := e.sink.end(t), (wire.End{Code: 1006, Reason: "dropped by this side"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	e.link.Write([][]byte{finished("late")}) // must do nothing, not panic
	e.link.Ping()
	e.link.Close(1000, "")
	e.link.Drop()
}

// wire.Link.Write: one flush is under way at a time; a second one is a bug of
// the owner that would lose or reorder frames.
func TestSecondFlushPanics(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	raw(t, h.addr())
	e := h.next(t)
	e.link.Write([][]byte{event("j", 32<<20)}) // the peer reads nothing
	defer func() {
		if recover() == nil {
			t.Error("the second Write was taken")
		}
	}()
	e.link.Write([][]byte{finished("j")})
}
