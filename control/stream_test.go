package control_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/control"
)

// Issue of the API, streams: id is the sequence, the data is the daemon's own
// tokens on one line, hub facts have names of their own, the outcome is last.
func TestStreamIsExactlyAsDescribed(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	r, run := h.attached(p, "")
	p.event(run, "{\"n\" : 1.50e+3,\r\n\t\"big\":12345678901234567890.10,\n\n \"s\":\"a\\nb \u2028 <\"}")
	p.event(run, `{}`)
	p.send(`{"type":"run.event","job_id":%q,"event":"no object"}`, run)
	p.event(run, `{"id: 9":"\n\nevent: end"}`)
	p.finish(run)
	const start, end = `{"type":"run.event","job_id":"","event":"no object"}`, ""
	dropped := fmt.Sprintf(`{"bytes":%d}`, len(start)+len(run)+len(end))
	for _, m := range []message{
		{"1", "event", "{\"n\" : 1.50e+3,  \t\"big\":12345678901234567890.10,   \"s\":\"a\\nb \u2028 <\"}"},
		{"2", "event", "{}"},
		{"3", "dropped", dropped},
		{"4", "event", `{"id: 9":"\n\nevent: end"}`},
	} {
		r.wants(m)
	}
	r.wantsEnd("finished")
	again := h.stream("GET", "/v1/runs/"+run+"/events?after=2", "")
	again.wants(message{"3", "dropped", dropped})
	if err := description.validText("Dropped", dropped); err != nil {
		t.Error(err)
	}
}

// The cursor is after, or Last-Event-ID, which wins; one beyond the end waits for
// what comes next; anything else is refused.
func TestCursorSaysWhereToReadOn(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	run := h.start(p)
	for n := range 5 {
		p.event(run.RunID, fmt.Sprintf(`{"n":%d}`, n+1))
	}
	path := "/v1/runs/" + run.RunID + "/events"
	until(t, "the events have come", func() bool {
		r, err := h.client.Run(testContext(t), run.RunID)
		return err == nil && r.Events == 5
	})
	streams := map[*raw]uint64{
		h.stream("GET", path, ""): 0, h.stream("GET", path+"?after=3", ""): 3, h.stream("GET", path+"?after=3&attach=0", ""): 3,
		h.stream("GET", path+"?after=1", "", "Last-Event-ID: 4"): 4, h.stream("GET", path+"?after=999", ""): 5,
		h.stream("GET", path, "", "Last-Event-ID: 5"): 5,
	}
	p.event(run.RunID, `{"n":6}`)
	p.finish(run.RunID)
	for r, after := range streams {
		if came, gone, last := r.rest(after); came != 6-after || gone != 0 || last.name != "end" {
			t.Errorf("after %d came %d events, %d gone, then %+v", after, came, gone, last)
		}
	}
	h.stream("GET", path+"?after=999", "").wantsEnd("finished")
	for _, query := range []string{"after=-1", "after=x", "after=1.5", "after=99999999999999999999", "after=9007199254740993", "attach=yes", "attach=2", "afer=1", "after=1&after=2", "attach=1&follow=1", "%zz"} {
		h.wants(h.ask("GET", path+"?"+query, ""), 400, "invalid_request")
	}
	h.wants(h.ask("GET", path, "", header("Last-Event-ID", "x")), 400, "invalid_request")
}

// Accept decides who is a caller: only a stream that is asked for by name.
func TestOnlyAnExplicitAcceptAttaches(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	for accept, attached := range map[string]bool{
		"text/event-stream": true, "text/event-stream;q=0.5, application/json": true, "application/json, text/event-stream": true, "TEXT/Event-Stream; charset=utf-8": true,
		"": false, "*/*": false, "text/*": false, "application/json": false, "text/event-stream;q=0": false, "text/event-stream2": false,
	} {
		done := make(chan answer, 1)
		go func() {
			done <- h.ask("POST", "/v1/runs", `{"daemon_id":"d","payload":{}}`, header("Accept", accept))
		}()
		p.finish(p.expect("run.start").JobID)
		a := <-done
		if got := strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream"); got != attached || a.status != http.StatusCreated {
			t.Errorf("Accept %q answered %d %v, want attached: %t", accept, a.status, a.header, attached)
		}
		if attached && (!strings.HasPrefix(a.body, "event: started\ndata: {") || a.header.Get("Location") == "") {
			t.Errorf("Accept %q: stream begins with %.40q", accept, a.body)
		}
	}
}

// A comment comes at each interval while nothing happens.
func TestCommentsKeepAQuietStreamAlive(t *testing.T) {
	h := open(t, setup{api: control.Options{KeepAlive: 10 * time.Millisecond}})
	p := h.connect("d")
	r, run := h.attached(p, "")
	for range 6 { // comment, empty line
		line, err := r.body.ReadString('\n')
		if err != nil || line != "\n" && !strings.HasPrefix(line, ":") {
			t.Fatalf("a quiet stream gives %q, %v", line, err)
		}
	}
	p.finish(run)
	r.wantsEnd("finished")
}

// I8: 200,000 events come once and in order through one attached stream, also
// when its reader pauses until the hub has to hold the daemon's socket back.
func TestEveryEventComesOnceAndInOrder(t *testing.T) {
	const events = 200_000
	h := open(t, setup{hub: actors.Config{LogBytes: 1 << 20}})
	p := h.connect("d")
	r, run := h.attached(p, "")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		p.flood(run, events, 0, nil)
		p.finish(run)
	}()
	h.facts.await(t, actors.FactHold) // the pause: nothing was read until here
	came, gone, last := r.rest(0)
	<-sent
	if came != events || gone != 0 || last.name != "end" {
		t.Errorf("%d events came and %d are gone, then %+v; want %d, 0 and the end", came, gone, last, events)
	}
}

// A stopping hub tells every stream how its run ended, also the one whose reader
// has not read everything: what it can no longer have is told.
func TestStoppingHubTellsEveryStream(t *testing.T) {
	h := open(t, setup{hub: actors.Config{LogBytes: 4 << 20}})
	p := h.connect("d")
	slow, run := h.attached(p, "")
	const events = 20_000
	p.flood(run, events, 0, nil)
	until(t, "the events have come", func() bool {
		r, err := h.client.Run(testContext(t), run)
		return err == nil && r.Events == events
	})
	prompt := h.stream("GET", fmt.Sprintf("/v1/runs/%s/events?after=%d", run, events), "")
	stopped := make(chan error, 1)
	go func() { stopped <- h.hub.Stop(testContext(t)) }()
	p.expect("run.cancel")
	p.finish(run)
	prompt.wantsEnd("cancelled")
	p.expectClose()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	came, gone, last := slow.rest(0)
	if came+gone != events || gone == 0 || last.name != "end" || !strings.Contains(last.data, `"reason":"hub_stopping"`) {
		t.Errorf("%d events came, %d are gone, then %+v; want %d in all", came, gone, last, events)
	}
}
