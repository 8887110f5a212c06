package transport_test

import (
	"fmt"
	"testing"

	"codingrelay/transport"
	"codingrelay/wire"
)

// counting is a sink that only counts, for benchmarks.
type counting struct {
	link    wire.Link
	left    int
	done    chan struct{}
	flushed chan struct{}
	ended   chan struct{}
	ready   chan struct{}
}

func newCounting(n int) *counting {
	return &counting{
		left: n, done: make(chan struct{}), flushed: make(chan struct{}, 1),
		ended: make(chan struct{}), ready: make(chan struct{}),
	}
}

func (c *counting) Frame(f wire.Frame) {
	c.link.Credit(f.Bytes)
	if c.left--; c.left == 0 {
		close(c.done)
	}
}
func (c *counting) Pong()           {}
func (c *counting) Flushed()        { c.flushed <- struct{}{} }
func (c *counting) Closed(wire.End) { close(c.ended) }

// benchSizes are the frames of the forwarding targets (ecosystem section 4).
var benchSizes = map[string]int{"200B": 200, "16KiB": 16 << 10, "256KiB": 256 << 10}

// flushOf makes flushes of 256 KiB or one frame, as a connection's owner does.
func flushOf(size int) [][]byte {
	frames := make([][]byte, max(1, 256<<10/size))
	for i := range frames {
		frames[i] = event("j", size)
	}
	return frames
}

// BenchmarkReceive is the hub's reader with its decoder: a raw peer sends.
func BenchmarkReceive(b *testing.B) {
	for name, size := range benchSizes {
		b.Run(name, func(b *testing.B) {
			sink := newCounting(b.N)
			ls, err := transport.Listen(b.Context(), "127.0.0.1:0", transport.ListenConfig{}, sink.accept)
			if err != nil {
				b.Fatal(err)
			}
			defer ls.Close()
			conn := raw(b, ls.Addr().String())
			var batch []byte
			per := max(1, 256<<10/size)
			one := frame(fin|opText, event("j", size))
			for range per {
				batch = append(batch, one...)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for left := b.N; left > 0; left -= per {
				if _, err := conn.Write(batch[:min(left, per)*len(one)]); err != nil {
					b.Fatal(err)
				}
			}
			<-sink.done
			b.StopTimer()
			sink.link.Drop()
			<-sink.ended
		})
	}
}

// BenchmarkSend is the pump of either side, to a peer of ours.
func BenchmarkSend(b *testing.B) {
	for _, side := range []string{"hub", "daemon"} {
		for name, size := range benchSizes {
			b.Run(fmt.Sprintf("%s/%s", side, name), func(b *testing.B) {
				hub, daemon := newCounting(b.N), newCounting(b.N)
				ls, err := transport.Listen(b.Context(), "127.0.0.1:0", transport.ListenConfig{}, hub.accept)
				if err != nil {
					b.Fatal(err)
				}
				defer ls.Close()
				err = transport.Dial(b.Context(), transport.DialConfig{URL: "ws://" + ls.Addr().String()},
					func(l wire.Link) wire.Sink { daemon.link = l; return daemon })
				if err != nil {
					b.Fatal(err)
				}
				<-hub.ready
				from, to := hub, daemon
				if side == "daemon" {
					from, to = daemon, hub
				}
				frames := flushOf(size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				for left := b.N; left > 0; left -= len(frames) {
					from.link.Write(frames[:min(left, len(frames))])
					<-from.flushed
				}
				<-to.done
				b.StopTimer()
				daemon.link.Drop()
				<-hub.ended
				<-daemon.ended
			})
		}
	}
}

func (c *counting) accept(_ string, link wire.Link, admitted func()) wire.Sink {
	c.link = link
	admitted()
	close(c.ready)
	return c
}
