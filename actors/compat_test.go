package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"codingrelay/actors"
	"codingrelay/persist"
)

// D32, protocol 5: a v1 daemon that reads run.start and run.cancel in one go never
// answers. Cancelled at once, and in the moment the run becomes running, every
// outcome is clean and nothing is fenced.
func TestEarlyCancelsNeverReachAV1DaemonTogether(t *testing.T) {
	// The peer sees the gap by its own clock, on a machine that may be busy: so the
	// gap is longer here than the usual one, which the connection's matrix shows.
	h := open(t, persist.NewMemory(), actors.Config{CancelTimeout: 5 * time.Second, StartGap: 200 * time.Millisecond})
	count := 10
	if os.Getenv("RELAY_SOAK") != "" {
		count = 100
	}
	p := connect(t, h.addr, "v1", token)
	var started atomic.Int64
	var lost atomic.Int64
	go p.playV1(&started, &lost)
	for i := range count {
		r, err := h.Run(testContext(t), request("v1"))
		if err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		out, err := r.Cancel(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		wants(t, out, actors.Cancelled, true)
	}
	if started.Load() != int64(count) || lost.Load() != 0 {
		t.Errorf("%d runs were started, %d cancels came together with their start", started.Load(), lost.Load())
	}
	for range count { // at once: the caller leaves while the run is being placed
		ctx, cancel := context.WithCancel(testContext(t))
		go cancel()
		_, _ = h.Run(ctx, request("v1"))
		cancel()
	}
	until(t, "every run has ended", func() bool {
		s, err := h.Status(testContext(t))
		return err == nil && s.OpenRuns == 0
	})
	runs, err := h.Runs(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		wants(t, *r.Outcome, actors.Cancelled, true)
	}
	if lost.Load() != 0 {
		t.Errorf("%d cancels came together with their start", lost.Load())
	}
	if f, err := h.Fences(testContext(t)); err != nil || len(f) != 0 {
		t.Errorf("fences are %v, %v, want none", f, err)
	}
}

// D23, protocol 1: 33 KiB and 1 MiB go both ways; an event above our limit hurts
// only itself and its run is told.
func TestLargeEventsAndTheOversizeMark(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{Payload: append(append([]byte(`{"x":"`), bytes.Repeat([]byte("a"), 1000<<10)...), `"}`...)})
	for _, size := range []int{33 << 10, 1 << 20, 3 << 20, 9 << 20, 100} {
		p.send(`{"type":"run.event","job_id":%q,"event":{"pad":"%s"}}`, r.ID(), bytes.Repeat([]byte("b"), size))
	}
	p.finish(r.ID())
	var kinds []actors.ItemKind
	for ev, err := range r.Events(testContext(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, ev.Kind)
	}
	want := []actors.ItemKind{actors.ItemEvent, actors.ItemEvent, actors.ItemEvent, actors.ItemDropped, actors.ItemEvent}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("entries are %v, want %v", kinds, want)
	}
	out := h.outcome(r)
	wants(t, out, actors.Finished, true)
	if out.Dropped != 1 {
		t.Errorf("dropped is %d, want 1", out.Dropped)
	}
}

// Protocol 1: what is no frame is ignored, and the connection is unharmed.
func TestMalformedFramesAreIgnored(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	for _, bad := range []string{
		``, `x`, `[]`, `null`, `"text"`, `{"type":"run.finished"`, `{"type":"run.finished","type":"daemon.ping"}`,
		`{"TYPE":"run.finished","job_id":"` + r.ID() + `"}`, `{"type":"run.cleanup","job_id":"` + r.ID() + `"}`,
		`{"type":"run.event","job_id":"` + r.ID() + `","event":"no object"}`, `{"type":"run.finished","job_id":7}`,
		`{"type":"run.event","job_id":"` + r.ID() + `","event":{"deep":` + strings.Repeat("[", 200000),
	} {
		p.send("%s", bad)
	}
	p.send(`{"type":"run.event","job_id":%q,"event":{"n":NaN}}`, r.ID())
	p.finish(r.ID())
	var data []string
	for ev, err := range r.Events(testContext(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == actors.ItemEvent {
			data = append(data, string(ev.Data))
		}
	}
	if len(data) != 1 || data[0] != `{"n":null}` {
		t.Errorf("events are %v, want the repaired one", data)
	}
	wants(t, h.outcome(r), actors.Finished, true)
}

// D26: a daemon that reads nothing delays nobody else.
func TestStalledDaemonDelaysNobody(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	connect(t, h.addr, "stalled", token) // it is never read from
	b := connect(t, h.addr, "b", token)
	payload := append(append([]byte(`{"x":"`), bytes.Repeat([]byte("a"), 64<<10)...), `"}`...)
	for range 40 {
		go func() {
			_, _ = h.Run(testContext(t), actors.RunRequest{DaemonID: "stalled", Payload: payload})
		}()
		b.barrier()
	}
	r := h.run(b, actors.RunRequest{})
	b.finish(r.ID())
	wants(t, h.outcome(r), actors.Finished, true)
}

// playV1 is such a daemon: what arrives within a millisecond is one read, and is
// never answered.
func (p *peer) playV1(started, lost *atomic.Int64) {
	at := map[string]time.Time{}
	for {
		_, data, err := p.conn.Read(testContext(p.t))
		if err != nil {
			return
		}
		var f frame
		_ = json.Unmarshal(data, &f)
		switch f.Type {
		case "run.start":
			at[f.JobID] = time.Now()
			started.Add(1)
		case "run.cancel":
			if time.Since(at[f.JobID]) < time.Millisecond {
				lost.Add(1)
				continue
			}
			_ = p.conn.Write(testContext(p.t), websocket.MessageText, fmt.Appendf(nil, `{"type":"run.finished","job_id":%q}`, f.JobID))
		}
	}
}
