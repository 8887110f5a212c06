package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// flood is one run's queue of n frames of about size bytes.
func flood(job string, n, size int) Outgoing {
	var out Outgoing
	text := strings.Repeat("x", size)
	for i := range n {
		event := fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, i, text)
		out.Frames = append(out.Frames, OutFrame{Bytes: wire.AppendEvent(nil, job, event), Credit: 1})
	}
	return out
}

func sizeOf(frames []string) (n int) {
	for _, f := range frames {
		n += len(f)
	}
	return n
}

// Protocol 8: no run's queued events delay another's run.finished: it is in the
// next flush, whatever the others have queued.
func TestFinishedOvertakesTheFloodsOfOtherRuns(t *testing.T) {
	cfg := matrixConfig()
	cfg.MaxRuns = DefaultMaxRuns
	s := serving(t, cfg, v1)
	for i := range DefaultMaxRuns {
		s.hears(startFrame(t, fmt.Sprint("r", i)))
	}
	for i := range DefaultMaxRuns - 1 {
		s.give(s.runs[i], flood(fmt.Sprint("r", i), 12, 1_000+10_000*i))
	}
	last := fmt.Sprint("r", DefaultMaxRuns-1)
	s.give(s.runs[DefaultMaxRuns-1], confirmed)
	if len(did[OpWrite](s)) != 0 {
		t.Fatal("a second flush was given while one is under way")
	}
	if got := written(s.flushed()); !slices.Contains(got, finishedMsg(last)) {
		t.Errorf("run.finished of %s is not in the next flush of %d frames", last, len(got))
	}
}

// Design 4: a flush is 256 KiB, or one larger frame; and a large frame is not
// starved by small ones.
func TestFlushesAreBoundedAndLargeFramesGetTheirTurn(t *testing.T) {
	s := serving(t, matrixConfig(), ours).hears(startFrame(t, "r1"), startFrame(t, "r2"))
	s.give(s.runs[0], flood("r1", 400, 5_000))
	s.give(s.runs[1], flood("r2", 2, 3<<20))
	large, flushes := 0, 0
	for flushes = 1; len(s.session().outlets[0].frames)+len(s.session().outlets[1].frames) > 0; flushes++ {
		got := written(s.flushed())
		if size := sizeOf(got); size > flushBytes && len(got) != 1 {
			t.Fatalf("a flush of %d frames has %d bytes", len(got), size)
		}
		if sizeOf(got) > 3<<20 {
			large++
			if flushes > 6 {
				t.Errorf("large frame %d waited for %d flushes", large, flushes)
			}
		}
	}
	if large != 2 {
		t.Errorf("%d large frames were sent, want 2", large)
	}
}

// A run gets its credit back when its frames are given to the writer, once.
func TestCreditComesBackWithTheFlush(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(startFrame(t, "r1"), startFrame(t, "r2"))
	sent := map[step.Ref]int{}
	count := func() {
		for _, x := range s.last {
			if m, ok := x.Message.(Taken); ok {
				sent[x.To] += m.Bytes
			}
		}
	}
	s.give(s.runs[0], flood("r1", 300, 5_000))
	count()
	s.give(s.runs[1], flood("r2", 10, 10))
	count()
	if sent[s.runs[1]] != 0 {
		t.Fatal("credit came back for frames that wait")
	}
	for range 20 {
		s.flushed()
		count()
	}
	if sent[s.runs[0]] != 300 || sent[s.runs[1]] != 10 {
		t.Errorf("credit that came back: %v, want 300 and 10", sent)
	}
}

// Protocol 5: events of a run that is being ended hold nothing back: after a
// while they give way to its run.finished, with a mark.
func TestEventsOfACancelledRunGiveWayToItsEnd(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(startFrame(t, "r1"))
	s.give(s.runs[0], flood("r1", 300, 5_000)).hears(cancelFrame(t, "r1"))
	failed := OutFrame{Bytes: []byte(eventMsg("r1", cancelledText)), Final: true}
	s.give(s.runs[0], Outgoing{Frames: []OutFrame{failed}}).give(s.runs[0], confirmed)
	begun := s.now
	s.fire("overdue")
	if waited := s.now.Sub(begun); waited != 2*time.Second {
		t.Errorf("the events had %v, want 2 s", waited)
	}
	got := written(s.flushed())
	if len(got) != 3 || !strings.Contains(got[0], `"type":"event.dropped"`) || got[1] != string(failed.Bytes) || got[2] != finishedMsg("r1") {
		t.Errorf("after the grace %d frames were sent, want the mark, the end and run.finished: %.300q", len(got), got)
	}
}

// A run that ended by itself loses nothing, however slow the hub is.
func TestEventsOfAFinishedRunAreNotDropped(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(startFrame(t, "r1"))
	s.give(s.runs[0], flood("r1", 300, 5_000)).give(s.runs[0], confirmed)
	for timer := range s.armed {
		if timer.Name == "overdue" {
			t.Fatal("the end of a run that nobody cancelled is hurried")
		}
	}
	n := 0
	for _, op := range didEver[OpWrite](s) {
		n += len(op.Frames)
	}
	for len(s.session().outlets) > 0 {
		n += len(written(s.flushed()))
	}
	if n != 301 {
		t.Errorf("%d frames were sent, want 300 events and the end", n)
	}
	// A cancel that comes while its end is queued changes nothing but the hurry.
	s.flushed().hears(cancelFrame(t, "r1"))
	if len(s.session().cancelled.order) != 0 {
		t.Error("the cancel of a run that has ended is remembered for a start")
	}
}

// runScript is a run that was started.
func runScript(t *testing.T, limit int) *script {
	r := newTestRun()
	r.cfg.limit = limit
	return newScript(t, r).tell(step.Boot{})
}

func outgoing(s *script) (frames []OutFrame) {
	for _, o := range did[Outgoing](s) {
		frames = append(frames, o.Frames...)
	}
	return frames
}

// Protocol 1: what is sent is never above what the hub takes: an output event is
// cut, any other is replaced; the credit of the pieces is that of the event.
func TestEventsAreMadeToFitTheHub(t *testing.T) {
	long := strings.Repeat("≤", 1<<20)
	output := outputEvent("stdout", []byte(long), false)
	other := fmt.Appendf(nil, `{"type":"message.delta","data":{"content":"%s"}}`, long)
	s := runScript(t, wire.DefaultMaxFrame).tell(Emitted{Events: [][]byte{output, other}})
	credit := 0
	var texts strings.Builder
	frames := outgoing(s)
	for i, f := range frames {
		if len(f.Bytes) > wire.DefaultMaxFrame {
			t.Errorf("a frame of %d bytes", len(f.Bytes))
		}
		credit += f.Credit
		if i < len(frames)-1 {
			texts.WriteString(outputText(t, frameOf(t, f.Bytes).Body))
		}
	}
	if texts.String() != long {
		t.Errorf("the pieces' texts are not the event's: %d bytes of %d", texts.Len(), len(long))
	}
	if last := string(frames[len(frames)-1].Bytes); !strings.Contains(last, `"type":"event.dropped"`) || !strings.Contains(last, `"limit":1048576`) {
		t.Errorf("in place of the other event: %.200s", last)
	}
	if want := eventCost(output) + eventCost(other); credit != want {
		t.Errorf("credit of the frames is %d, want %d", credit, want)
	}
	if s := runScript(t, wire.OurMaxFrame).tell(Emitted{Events: [][]byte{output, other}}); len(outgoing(s)) != 2 {
		t.Error("a hub that takes large frames did not get the events whole")
	}
}

// Protocol 8: cancelled: exactly this event, once, whatever the runner returned,
// then the run is settled.
func TestCancelledRunSaysExactlyThat(t *testing.T) {
	for name, returned := range map[string]Returned{
		"success": {},
		"failure": {Failed: true, Failure: Failure{Text: "context canceled"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := runScript(t, wire.DefaultMaxFrame).tell(StopRun{StopCancelled})
			s.tell(Emitted{Events: [][]byte{[]byte(`{"type":"last words"}`)}, Returned: &returned})
			s.tell(Emitted{Gone: &Gone{Confirmed: true}})
			var got []string
			for _, o := range didEver[Outgoing](s) {
				for _, f := range o.Frames {
					got = append(got, string(f.Bytes))
				}
			}
			if want := []string{eventMsg("r1", `{"type":"last words"}`), eventMsg("r1", cancelledText)}; !slices.Equal(got, want) {
				t.Errorf("sent %q, want %q", got, want)
			}
			if len(didEver[Settled](s)) != 1 {
				t.Error("the run is not settled")
			}
		})
	}
}

// Protocol 8: repeated cancels cannot interrupt clean-up.
func TestRepeatedCancelsChangeNothing(t *testing.T) {
	s := runScript(t, wire.DefaultMaxFrame).tell(StopRun{StopCancelled})
	_, due := s.due()
	for range 5 {
		s.now = s.now.Add(time.Second)
		if s.tell(StopRun{StopCancelled}, StopRun{StopStopping}); len(s.last) != 0 {
			t.Fatalf("a repeated cancel did %s", show(s.last))
		}
	}
	if _, again := s.due(); !again.Equal(due) {
		t.Errorf("a repeated cancel moved the bound from %v to %v", due, again)
	}
}
