package actors

import (
	"fmt"
	"testing"

	"github.com/anthdm/hollywood/actor"

	"codingrelay/step"
	"codingrelay/wire"
)

// stillLink is a link on which nothing happens.
type stillLink struct{ wire.Link }

func (stillLink) Progress() (read, written uint64) { return 0, 0 }

func newTestPort(t *testing.T) *connPort {
	t.Helper()
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(Config{}, Ports{})
	w.host = step.NewHost(step.Config{Engine: engine, Name: "turns"})
	p := &connPort{world: w, ref: step.Ref{Kind: KindConn, ID: "c"}, link: stillLink{}}
	p.room.L = &p.mu
	return p
}

// Design section 6, batches: a turn takes at most 256 KiB, or one larger frame,
// and every frame comes once, in order, whatever the sizes; its memory is used
// again and holds nothing of an earlier turn.
func TestTurnsAreBoundedAndInOrder(t *testing.T) {
	p := newTestPort(t)
	sent, got := 0, 0
	for round := range 50 {
		for i := range 40 {
			size := []int{10, 100 << 10, 10, 300 << 10, 2000}[(round+i)%5]
			if p.bytes+size >= queueBytes {
				break // it would wait for this test
			}
			p.Frame(wire.Frame{Type: wire.RunEvent, Bytes: size, JobID: fmt.Sprint(sent)})
			sent++
		}
		for more := true; more; {
			var message any
			message, more = p.Drain()
			in := message.(Inbound)
			bytes := 0
			for _, f := range in.Frames {
				bytes += f.Bytes
				if f.JobID != fmt.Sprint(got) {
					t.Fatalf("frame %s came, want %d", f.JobID, got)
				}
				got++
			}
			if n := len(in.Frames); n == 0 || n > turnFrames || n > 1 && bytes > turnBytes {
				t.Fatalf("a turn of %d frames, %d bytes", n, bytes)
			}
			lent := p.lent.frames
			p.Settle()
			for _, f := range lent {
				if f.JobID != "" {
					t.Fatalf("a settled turn still holds frame %s", f.JobID)
				}
			}
		}
		if p.bytes != 0 || p.head != nil || p.tail != nil {
			t.Fatalf("an empty queue counts %d bytes", p.bytes)
		}
	}
	if got != sent || sent < 500 {
		t.Errorf("%d of %d frames came", got, sent)
	}
}

// Design section 6, batches: small frames, too, come in turns of a bounded number.
func TestTurnsHaveABoundedNumberOfFrames(t *testing.T) {
	p := newTestPort(t)
	for range 2*turnFrames + 1 {
		p.Frame(wire.Frame{Type: wire.DaemonPing, Bytes: 1})
	}
	for _, want := range []int{turnFrames, turnFrames, 1} {
		message, more := p.Drain()
		if in := message.(Inbound); len(in.Frames) != want || more != (want > 1) {
			t.Fatalf("a turn of %d frames, more %t; want %d", len(in.Frames), more, want)
		}
		p.Settle()
	}
}

// Design section 7, inbound credit: what a log has taken goes back to the
// connection, all of it and once a batch.
func TestJobGivesCreditBackOnceABatch(t *testing.T) {
	cfg := Config{}.withDefaults()
	spec := RunSpec{DaemonID: "box", Payload: []byte(`{}`), OnOverflow: OverflowTruncate, OnCallerEnd: CallerEndCancel}
	f := fed{machine: newJob("r1", spec, "c1", matrixConn, matrixFence, cfg, t0), timers: map[string]step.Timer{}}
	for _, m := range []any{step.Boot{}, LifeSeen{OK: true}, Granted{Durable: true}, Accepted{}} {
		f.feed(told{from: matrixConn, m: m})
	}
	for _, n := range []int{1, 300} {
		items := make([]Item, n)
		for i := range items {
			items[i] = Item{Kind: ItemEvent, Data: []byte(`{}`), Bytes: 40 + i, credit: 40 + i}
		}
		f.feed(told{from: matrixConn, m: Batch{Items: items}})
		var given []int
		for _, x := range f.fx.List() {
			if c, ok := x.Message.(Credit); ok && x.To == matrixConn {
				given = append(given, c.Bytes)
			}
		}
		if want := 40*n + n*(n-1)/2; len(given) != 1 || given[0] != want {
			t.Errorf("%d events: credit of %v was given back, want %d once", n, given, want)
		}
	}
}
