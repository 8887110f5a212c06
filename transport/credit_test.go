package transport_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"codingrelay/transport"
	"codingrelay/wire"
)

// told counts the frames that a recorder has, by type, once nothing moves.
func told(sink *recorder) (events, others int) {
	synctest.Wait()
	for range len(sink.frames) {
		if f := <-sink.frames; f.Type == wire.RunEvent {
			events++
		} else {
			others++
		}
	}
	return events, others
}

// Design section 7: run.event frames hold credit, the reader stops exactly when
// there is none, and goes on exactly when enough is given back. Other frames hold
// none, but wait behind. Bubble time makes "exactly" provable.
func TestCreditBlocksAndResumesExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, daemon := connectPipe(t, transport.Limits{InboundCredit: 1000})
		daemon.link.Write([][]byte{
			finished("a"), event("j", 400), event("j", 600), finished("b"), event("j", 300), finished("c"),
		})
		for _, step := range []struct {
			give           int
			events, others int
		}{
			{0, 2, 2},   // 1000 of 1000: the third event waits, and what follows it
			{299, 0, 0}, // 701 + 300 are too much by one
			{1, 1, 1},   // 700 + 300 fit
			{1000, 0, 0},
		} {
			hub.link.Credit(step.give)
			if events, others := told(hub.sink); events != step.events || others != step.others {
				t.Errorf("after Credit(%d): %d events and %d others, want %d and %d",
					step.give, events, others, step.events, step.others)
			}
		}
	})
}

// Design section 7: a frame larger than the credit passes alone when nothing else
// is counted, and counts whole.
func TestCreditLetsOneLargeFramePassAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, daemon := connectPipe(t, transport.Limits{InboundCredit: 1000})
		daemon.link.Write([][]byte{event("j", 100), event("j", 5000), event("j", 100)})
		for _, step := range []struct{ give, events int }{{0, 1}, {99, 0}, {1, 1}, {4099, 0}, {1, 1}} {
			hub.link.Credit(step.give)
			if events, _ := told(hub.sink); events != step.events {
				t.Errorf("after Credit(%d): %d events, want %d", step.give, events, step.events)
			}
		}
	})
}

// I14: an owner that gives back more than it has would have no bound; it panics.
// With Unlimited nothing is counted.
func TestCreditCannotBeInvented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, daemon := connectPipe(t, transport.Limits{})
		free, busy := connectPipe(t, transport.Limits{InboundCredit: transport.Unlimited})
		free.admitted()
		hub.admitted()
		for _, from := range []end{daemon, busy} {
			from.link.Write([][]byte{event("j", 3<<20), event("j", 3<<20), finished("j")})
		}
		if events, others := told(free.sink); events != 2 || others != 1 {
			t.Errorf("without a limit: %d events and %d others", events, others)
		}
		free.link.Credit(99 << 20)
		if events, _ := told(hub.sink); events != 1 {
			t.Errorf("with the default of 4 MiB: %d events of 3 MiB", events)
		}
		defer func() {
			if recover() == nil {
				t.Error("Credit above what is counted was taken")
			}
		}()
		hub.link.Credit(3<<20 + 1)
	})
}

// wire.Link: Close and Drop end the reader's wait for credit; what was told stays a
// prefix of what was sent.
func TestEndingReleasesAReaderWithoutCredit(t *testing.T) {
	for name, finish := range map[string]func(wire.Link){
		"close": func(l wire.Link) { l.Close(1001, "stopping") },
		"drop":  wire.Link.Drop,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub, daemon := connectPipe(t, transport.Limits{InboundCredit: 500})
				daemon.link.Write([][]byte{event("j", 500), event("j", 500), finished("j"), finished("k")})
				if events, _ := told(hub.sink); events != 1 {
					t.Fatalf("%d events", events)
				}
				finish(hub.link)
				if got := hub.sink.rest(t); len(got) != 0 {
					t.Errorf("told of %+v after a gap", got)
				}
				daemon.sink.end(t)
			})
		})
	}
}

// busy is a sink whose owner is slow to take its first frame.
type busy struct {
	*recorder
	first   sync.Once
	release chan struct{}
}

func (b *busy) Frame(f wire.Frame) {
	b.recorder.Frame(f)
	b.first.Do(func() { <-b.release })
}

// wire.Link.Drop: what the library has read ahead by then is not told.
func TestNothingIsToldAfterDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &busy{recorder: newRecorder(), release: make(chan struct{})}
		var hub wire.Link
		daemon := end{sink: newRecorder()}
		err := transport.Pipe(transport.Limits{}, func(_ string, l wire.Link, _ func()) wire.Sink {
			hub = l
			return sink
		}, func(l wire.Link) wire.Sink {
			daemon.link = l
			return daemon.sink
		})
		if err != nil {
			t.Fatal(err)
		}
		daemon.link.Write([][]byte{finished("a"), finished("b")})
		synctest.Wait()
		hub.Drop()
		close(sink.release)
		if got := jobsOf(sink.rest(t)); got != "[a]" {
			t.Errorf("told of %s, want [a]", got)
		}
		daemon.sink.end(t)
	})
}

// hungry is a sink that watches how much it holds.
type hungry struct {
	*recorder
	held, most atomic.Int64
}

func (h *hungry) Frame(f wire.Frame) {
	if f.Type == wire.RunEvent {
		h.most.Store(max(h.most.Load(), h.held.Add(int64(f.Bytes))))
	}
	h.recorder.Frame(f)
}

// I14: over a real socket the sink never holds more than the credit, and nothing
// is lost or reordered by it.
func TestCreditBoundsWhatIsHeld(t *testing.T) {
	t.Parallel()
	const budget, count, size = 10_000, 2000, 999
	sink := &hungry{recorder: newRecorder()}
	var link wire.Link
	accepted := make(chan struct{})
	var once sync.Once
	ls, err := transport.Listen(t.Context(), "127.0.0.1:0",
		transport.ListenConfig{Limits: transport.Limits{InboundCredit: budget}},
		func(_ string, l wire.Link, _ func()) wire.Sink {
			once.Do(func() { link = l; close(accepted) })
			return sink
		})
	if err != nil {
		t.Fatal(err)
	}
	defer ls.Close()
	d := dial(t, transport.DialConfig{URL: "ws://" + ls.Addr().String()})
	wait(t, closing(accepted), "accepted link")
	defer link.Drop()
	frames := make([][]byte, count)
	for i := range frames {
		frames[i] = event("j", size-i%7)
	}
	d.link.Write(frames)
	for i := range count {
		f := sink.frame(t)
		if f.Bytes != size-i%7 {
			t.Fatalf("frame %d has %d bytes, want %d", i, f.Bytes, size-i%7)
		}
		sink.held.Add(-int64(f.Bytes))
		link.Credit(f.Bytes)
	}
	if most := sink.most.Load(); most > budget {
		t.Errorf("%d bytes were held at once, of %d", most, budget)
	}
}

// closing makes a channel that is closed one that sends.
func closing(done <-chan struct{}) <-chan bool {
	c := make(chan bool, 1)
	go func() { <-done; c <- true }()
	return c
}
