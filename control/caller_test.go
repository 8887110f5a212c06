package control_test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/control"
)

// padding makes events large enough for a few thousand of them to fill every
// buffer between a daemon and a reader that takes nothing.
const padding = 1 << 10

// short makes everything that a lost or slow caller leads to quick.
func short() setup {
	return setup{
		hub: actors.Config{AttachGrace: 150 * time.Millisecond, HoldMax: 900 * time.Millisecond, LogBytes: 256 << 10},
		api: control.Options{StallTimeout: 300 * time.Millisecond},
	}
}

// Losing the response that is the caller begins the grace; then the run is
// cancelled with the barrier.
func TestLostCallerEndsItsRun(t *testing.T) {
	h := open(t, short())
	p := h.connect("d")
	r, run := h.attached(p, "")
	p.event(run, `{"n":1}`)
	r.wants(message{"1", "event", `{"n":1}`})
	left := time.Now()
	_ = r.conn.Close()
	p.expect("run.cancel")
	if d := time.Since(left); d < 150*time.Millisecond {
		t.Errorf("cancelled after %v, before the grace was over", d)
	}
	p.finish(run)
	wantsOutcome(t, h.ended(run), actors.Cancelled, true, "caller_gone")
}

// on_disconnect continue: the run goes on without its caller.
func TestRunMayOutliveItsCaller(t *testing.T) {
	h := open(t, short())
	p := h.connect("d")
	r, run := h.attached(p, `,"on_disconnect":"continue"`)
	_ = r.conn.Close()
	h.graceIsOver()
	p.event(run, `{"n":1}`)
	p.finish(run)
	wantsOutcome(t, h.ended(run), actors.Finished, true, "")
}

// Within the grace, attach=1 with Last-Event-ID takes over where the connection
// ended, and the grace ends nothing.
func TestTakeOverWithinTheGrace(t *testing.T) {
	h := open(t, setup{hub: actors.Config{AttachGrace: time.Second}})
	p := h.connect("d")
	r, run := h.attached(p, "")
	for n := 1; n <= 3; n++ {
		p.event(run, fmt.Sprintf(`{"n":%d}`, n))
		r.wants(message{fmt.Sprint(n), "event", fmt.Sprintf(`{"n":%d}`, n)})
	}
	_ = r.conn.Close()
	p.event(run, `{"n":4}`)
	next := h.stream("GET", "/v1/runs/"+run+"/events?attach=1", "", "Last-Event-ID: 3")
	if m := next.next(); m.name != "started" {
		t.Fatalf("the stream begins with %+v", m)
	}
	next.wants(message{"4", "event", `{"n":4}`})
	h.graceIsOver()
	p.event(run, `{"n":5}`)
	next.wants(message{"5", "event", `{"n":5}`})
	p.finish(run)
	next.wantsEnd("finished")
}

// A caller that is replaced is told so, and its end begins no grace; the one that
// replaced it is the caller, also of a run that was started detached.
func TestReplacedCallerIsTold(t *testing.T) {
	h := open(t, short())
	p := h.connect("d")
	run := h.start(p).RunID
	path := "/v1/runs/" + run + "/events?attach=1"
	first := h.stream("GET", path, "")
	first.next()
	second := h.stream("GET", path, "")
	second.next()
	first.wants(message{"", "replaced", "{}"})
	if m, err := first.read(); err != io.EOF {
		t.Errorf("after it was replaced comes %+v, %v", m, err)
	}
	h.graceIsOver()
	p.event(run, `{"n":1}`)
	second.wants(message{"1", "event", `{"n":1}`})
	_ = second.conn.Close()
	p.expect("run.cancel")
	p.finish(run)
	wantsOutcome(t, h.ended(run), actors.Cancelled, true, "caller_gone")
}

// A reader that is no caller may leave whenever it likes.
func TestLostReaderEndsNothing(t *testing.T) {
	h := open(t, short())
	p := h.connect("d")
	r, run := h.attached(p, "")
	reader := h.stream("GET", "/v1/runs/"+run+"/events", "")
	p.event(run, `{"n":1}`)
	reader.wants(message{"1", "event", `{"n":1}`})
	_ = reader.conn.Close()
	h.graceIsOver()
	p.finish(run)
	r.wants(message{"1", "event", `{"n":1}`})
	r.wantsEnd("finished")
}

// on_overflow cancel: a caller that stops for good, its connection open and the
// handler blocked in its write, has its run cancelled clean. When it reads again,
// it is told everything that is left, and the outcome.
func TestStalledCallerHasItsRunCancelled(t *testing.T) {
	h := open(t, short())
	h.small = true
	p := h.connect("d")
	r, run := h.attached(p, `,"on_overflow":"cancel"`)
	stop, flooded := make(chan struct{}), make(chan int)
	go func() { flooded <- p.flood(run, 1<<20, padding, stop) }()
	p.expect("run.cancel")
	close(stop)
	<-flooded
	p.finish(run)
	out := h.endOf(run)
	wantsOutcome(t, out, actors.Cancelled, true, "slow_reader")
	r.pad = padding
	came, gone, last := r.rest(0)
	if came+gone != out.Events || last.name != "end" {
		t.Errorf("%d events came and %d are gone of %d, then %+v", came, gone, out.Events, last)
	}
	if fences, err := h.client.Fences(testContext(t)); err != nil || len(fences) != 0 {
		t.Errorf("fences are %v, %v", fences, err)
	}
}

// on_overflow truncate: the run of a caller that stops goes on and ends by itself.
// The stream stays, for longer than any other reader may take nothing, and is
// told what was truncated.
func TestStalledCallerStaysAndIsToldWhatIsGone(t *testing.T) {
	const events = 8_000
	h := open(t, short())
	h.small = true
	p := h.connect("d")
	r, run := h.attached(p, "")
	p.flood(run, events, padding, nil) // this takes HoldMax at least, three times the stall timeout
	p.finish(run)
	wantsOutcome(t, h.endOf(run), actors.Finished, true, "")
	if !h.facts.has(actors.FactHold) {
		t.Error("the caller never held its run back")
	}
	r.pad = padding
	came, gone, last := r.rest(0)
	if came+gone != events || gone == 0 || last.name != "end" {
		t.Errorf("%d events came and %d are gone of %d, then %+v", came, gone, events, last)
	}
	if n := h.metric(`relay_api_streams_ended_total{why="slow"}`); n != 0 {
		t.Errorf("%d streams were let go", n)
	}
}

// The end of a connection is seen, and begins the grace, while the handler is
// blocked in a write that the caller does not take: also of one that only says
// that it will send no more, to which the kernel goes on delivering.
func TestEndOfAStalledConnectionBeginsTheGrace(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn) error{"closed": (*net.TCPConn).Close, "half_closed": (*net.TCPConn).CloseWrite} {
		t.Run(name, func(t *testing.T) {
			h := open(t, short())
			h.small = true
			p := h.connect("d")
			r, run := h.attached(p, "")
			p.flood(run, 4_000, padding, nil)
			if err := end(r.conn.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			p.expect("run.cancel")
			p.finish(run)
			wantsOutcome(t, h.endOf(run), actors.Cancelled, true, "caller_gone")
			until(t, "the handler is gone", func() bool { return h.metric(`relay_api_streams{kind="caller"}`) == 0 })
		})
	}
}

// A reader that is no caller and takes nothing is let go; the run and its caller
// do not notice.
func TestStalledReaderIsLetGo(t *testing.T) {
	h := open(t, setup{api: control.Options{StallTimeout: 300 * time.Millisecond}})
	p := h.connect("d")
	caller, run := h.attached(p, "")
	h.small = true
	stalled := h.stream("GET", "/v1/runs/"+run+"/events", "")
	const events = 8_000
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		p.flood(run, events, padding, nil)
	}()
	until(t, "it is let go", func() bool { return h.metric(`relay_api_streams_ended_total{why="slow"}`) == 1 })
	<-sent
	p.finish(run)
	caller.pad = padding
	if came, gone, last := caller.rest(0); came != events || gone != 0 || last.name != "end" {
		t.Errorf("the caller got %d events, %d gone, then %+v", came, gone, last)
	}
	stalled.grow()
	for {
		m, err := stalled.read()
		if m.name == "end" {
			t.Fatal("a reader that was let go was told the end")
		}
		if err != nil {
			break
		}
	}
}

// Once its run has ended, a stalled caller's stream has nothing to hold open: it
// is let go in the end, also when its write was under way before.
func TestStalledCallerOfAnEndedRunIsLetGo(t *testing.T) {
	with := short()
	with.api.EndedStall = 100 * time.Millisecond
	h := open(t, with)
	h.small = true
	p := h.connect("d")
	_, run := h.attached(p, "")
	p.flood(run, 4_000, padding, nil)
	p.finish(run)
	until(t, "it is let go", func() bool { return h.metric(`relay_api_streams_ended_total{why="slow"}`) == 1 })
}

// Close cuts every stream, the blocked ones too, and leaves nothing behind (the
// package's goroutines are counted at its end).
func TestCloseCutsEveryStream(t *testing.T) {
	h := open(t, short())
	h.small = true
	p := h.connect("d")
	_, run := h.attached(p, `,"on_disconnect":"continue"`)
	p.flood(run, 4_000, padding, nil)
	quiet := h.stream("GET", "/v1/runs/"+h.start(p).RunID+"/events", "")
	began := time.Now()
	if err := h.api.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("Close took %v", d)
	}
	if m, err := quiet.read(); err == nil {
		t.Errorf("a closed server's stream gives %+v", m)
	}
	p.leave()
}

// Shutdown lets a stream come to its end.
func TestShutdownWaitsForTheEndOfStreams(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	r, run := h.attached(p, "")
	done := make(chan error, 1)
	go func() { done <- h.api.Shutdown(testContext(t)) }()
	p.event(run, `{"n":1}`)
	r.wants(message{"1", "event", `{"n":1}`})
	select {
	case err := <-done:
		t.Fatalf("Shutdown returned %v before the stream's end", err)
	default:
	}
	p.finish(run)
	r.wantsEnd("finished")
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// endOf waits for a run's outcome without reading its log.
func (h *house) endOf(run string) control.Outcome {
	h.t.Helper()
	var out control.Outcome
	until(h.t, "run "+run+" ends", func() bool {
		r, err := h.client.Run(testContext(h.t), run)
		if err != nil {
			h.t.Fatal(err)
		}
		if r.Outcome != nil {
			out = *r.Outcome
		}
		return r.Outcome != nil
	})
	return out
}
