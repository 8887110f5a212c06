package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codingrelay/step"
	"codingrelay/wire"
)

const cancelledText = `{"type":"run.failed","data":{"error":"daemon run cancelled","code":"agent_runtime.daemon_cancelled"}}`

func eventMsg(job, event string) string { return string(wire.AppendEvent(nil, job, []byte(event))) }

func finishedMsg(job string) string { return string(wire.AppendFinished(nil, job, nil)) }

// v1 is a hub that announces nothing.
var v1 = wire.Extensions{}

var confirmed = Settled{Receipt: wire.Receipt{Mechanism: "supervisor"}}

// Protocol 8: on disconnect the daemon ends and awaits all its runs before it
// dials again, and acknowledges none of them later.
func TestNewSocketInheritsNoRun(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(startFrame(t, "r1"), startFrame(t, "r2"))
	s.closed(1006, "cut")
	if got := didEver[StopRun](s); len(got) != 2 || got[0].Cause != StopLost || got[1].Cause != StopLost {
		t.Fatalf("a lost connection told its runs %v, want StopLost to both", got)
	}
	s.give(s.runs[0], confirmed)
	if _, at := s.due(); !at.IsZero() {
		t.Fatalf("a run is left and a timer is armed: %v", s.armed)
	}
	s.give(s.runs[1], confirmed).fire("retry")
	if got := did[OpDial](s); !slices.Equal(got, []OpDial{{Attempt: 2}}) {
		t.Fatalf("after the last run: %v, want the second dial", got)
	}
	s.tell(Dialed{Attempt: 2}).hears(readyFrame(t, v1)).flushed()
	s.give(s.runs[0], Outgoing{Frames: []OutFrame{{Bytes: []byte(eventMsg("r1", "{}"))}}}).give(s.runs[0], confirmed)
	if got := didEver[OpWrite](s); len(got) != 0 {
		t.Errorf("something of an old run was written on a new socket: %v", got)
	}
}

// Protocol 8: a run.start whose job_id is running, or among the last 1,024 ended,
// is ignored, never answered.
func TestStartOfAKnownRunIsNeverAnswered(t *testing.T) {
	cfg := matrixConfig()
	cfg.MaxRuns = 4
	s := serving(t, cfg, v1).hears(startFrame(t, "r0"))
	s.hears(startFrame(t, "r0"))
	if len(s.runs) != 1 || len(did[OpWrite](s)) != 0 {
		t.Fatalf("a second start of a running run: %s", show(s.last))
	}
	s.give(s.runs[0], confirmed).flushed().hears(startFrame(t, "r0"))
	if len(s.runs) != 1 || len(did[OpWrite](s)) != 0 {
		t.Fatalf("a start of an ended run: %s", show(s.last))
	}
	for i := 1; i <= rememberMax; i++ {
		if i == rememberMax {
			s.hears(startFrame(t, "r0")) // the oldest that is remembered
			if len(s.runs) != rememberMax {
				t.Fatal("an ended run was forgotten too early")
			}
		}
		s.hears(startFrame(t, fmt.Sprint("r", i))).give(s.runs[i], confirmed).flushed()
	}
	s.hears(startFrame(t, "r0"))
	if len(s.runs) != rememberMax+2 {
		t.Error("more ended runs are remembered than the bound")
	}
}

// Protocol 8: a run.cancel for an unknown id is remembered: a start that follows
// starts nothing and is answered cancelled and run.finished.
func TestCancelBeforeStartStartsNothing(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(cancelFrame(t, "r1")).hears(startFrame(t, "r1"))
	if len(s.runs) != 0 {
		t.Fatal("a run that was cancelled before its start was started")
	}
	if diff := cmp.Diff([]string{eventMsg("r1", cancelledText), finishedMsg("r1")}, written(s)); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
	s.flushed().hears(startFrame(t, "r1"))
	if len(s.runs) != 0 || len(did[OpWrite](s)) != 0 {
		t.Error("its second start was not ignored")
	}
	s.hears(cancelFrame(t, "r2")).closed(1006, "cut").fire("retry").tell(Dialed{Attempt: 2}).hears(readyFrame(t, v1))
	if s.hears(startFrame(t, "r2")); len(s.runs) != 1 {
		t.Error("a cancel of an earlier connection cancels a run of a later one")
	}
}

func TestCancelsOfUnknownRunsAreBounded(t *testing.T) {
	s := serving(t, matrixConfig(), v1)
	for i := range rememberMax + 1 {
		s.hears(cancelFrame(t, fmt.Sprint("r", i)))
	}
	if n := len(s.session().cancelled.order); n != rememberMax {
		t.Errorf("%d cancels are remembered, want %d", n, rememberMax)
	}
	if s.hears(startFrame(t, "r0")); len(s.runs) != 1 {
		t.Error("the oldest cancel was not forgotten")
	}
}

// Protocol 8: a run the daemon will not take is run.failed and run.finished.
func TestRunThatIsNotTakenIsFailedAndFinished(t *testing.T) {
	for name, c := range map[string]struct {
		before func(s *script)
		code   string
	}{
		"full":     {func(s *script) { s.hears(startFrame(t, "r1"), startFrame(t, "r2")) }, codeBusy},
		"draining": {func(s *script) { s.hears(startFrame(t, "r1")).tell(DrainAsk{Token: 1}) }, codeDraining},
		"stopping": {func(s *script) { s.hears(startFrame(t, "r1")).tell(StopAsk{Token: 1}) }, codeDraining},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, matrixConfig(), ours)
			c.before(s)
			started := len(s.runs)
			got := written(s.hears(startFrame(t, "r9")))
			if len(s.runs) != started {
				t.Fatal("the run was started")
			}
			if len(got) != 2 || !strings.Contains(got[0], `"code":"`+c.code+`"`) || !strings.Contains(got[0], `"retryable":true`) || got[1] != finishedMsg("r9") {
				t.Errorf("the answer is %q, want run.failed with %s, then run.finished", got, c.code)
			}
		})
	}
}

// Protocol 10: receipt keys only when the hub's ready listed receipt.
func TestReceiptIsSentOnlyToAHubThatAsksForIt(t *testing.T) {
	for _, e := range []wire.Extensions{v1, ours} {
		s := serving(t, matrixConfig(), e).hears(startFrame(t, "r1"))
		s.give(s.runs[0], Settled{Receipt: wire.Receipt{Mechanism: "supervisor", Killed: 3}})
		got := wire.ParseReceipt(frameOf(t, []byte(written(s)[0])))
		if (got != nil) != e.Receipt {
			t.Errorf("hub said receipt=%t and got %+v", e.Receipt, got)
		}
	}
}

// D31: a stop ends the runs, acknowledges them, and only then closes.
func TestStopAcknowledgesBeforeItCloses(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(startFrame(t, "r1")).tell(StopAsk{Token: 5})
	if got := did[StopRun](s); !slices.Equal(got, []StopRun{{StopStopping}}) || len(did[OpClose](s)) != 0 {
		t.Fatalf("stop began with %s", show(s.last))
	}
	s.give(s.runs[0], confirmed)
	if got := written(s); !slices.Equal(got, []string{finishedMsg("r1")}) || len(did[OpClose](s)) != 0 {
		t.Fatalf("after the run's end: %s", show(s.last))
	}
	s.flushed()
	if got := did[OpClose](s); len(got) != 1 || got[0].Code != 1001 {
		t.Fatalf("after the flush: %s, want close 1001", show(s.last))
	}
	s.closed(1001, "")
	if got := did[Stopped](s); len(got) != 1 || len(did[OpOver](s)) != 1 {
		t.Errorf("after the close: %s, want an answer and the end", show(s.last))
	}
}

// D31: unreachable, nothing is said on a later socket, and there is none.
func TestStopWithoutAConnectionDialsNoMore(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(startFrame(t, "r1")).closed(1006, "cut").tell(StopAsk{Token: 5})
	s.give(s.runs[0], confirmed)
	if len(did[OpOver](s)) != 1 || len(didEver[OpDial](s)) != 1 || len(didEver[OpWrite](s)) != 0 {
		t.Errorf("stop without a connection: %s", show(s.all))
	}
}

// D31: within a bound, also when the hub does not read.
func TestStopDoesNotWaitForAHubThatTakesNothing(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(startFrame(t, "r1"))
	s.give(s.runs[0], Outgoing{Frames: []OutFrame{{Bytes: []byte(eventMsg("r1", "{}"))}}})
	s.tell(StopAsk{Token: 5}).give(s.runs[0], confirmed)
	begun := s.now
	s.fire("overdue").fire("flush")
	if len(did[OpDrop](s)) != 1 || s.now.Sub(begun) > 5*time.Second {
		t.Errorf("after %v: %s, want the link dropped", s.now.Sub(begun), show(s.last))
	}
}

func TestDrainAnswersWhenTheHubHasTheLastEnd(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(startFrame(t, "r1")).tell(DrainAsk{Token: 5})
	s.give(s.runs[0], confirmed)
	if len(didEver[Drained](s)) != 0 {
		t.Fatal("drained before the hub has the end of the last run")
	}
	if s.flushed(); len(did[Drained](s)) != 1 || len(did[OpClose](s)) != 0 {
		t.Errorf("after the flush: %s, want the answer and no close", show(s.last))
	}
}

// A caller who left is not kept (I14).
func TestForgottenCallersAreNotKept(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(startFrame(t, "r1")).tell(DrainAsk{Token: 5}, StopAsk{Token: 6})
	s.tell(step.Forgotten{Token: 5}, step.Forgotten{Token: 6})
	if d, st := len(s.session().drainers), len(s.session().stoppers); d != 0 || st != 0 {
		t.Errorf("%d drainers and %d stoppers are kept, want none", d, st)
	}
}

// I15: nothing of an earlier attempt counts.
func TestMailOfAnEarlierAttemptIsIgnored(t *testing.T) {
	s := serving(t, matrixConfig(), v1)
	s.closed(1006, "cut").fire("retry").tell(Dialed{Attempt: 2})
	before := string(s.machine.AppendState(nil))
	s.tell(
		Dialed{Attempt: 1}, DialFailed{Attempt: 1}, Inbound{Attempt: 1, Flushed: true},
		Inbound{Attempt: 1, Frames: []wire.Frame{readyFrame(t, v1)}}, Inbound{Attempt: 1, Closed: &wire.End{Code: 1000}},
		Progress{Attempt: 1, Read: 99}, step.Expired{Timer: step.Timer{Name: "patience", Cause: "1", Gen: 1}},
	)
	if after := string(s.machine.AppendState(nil)); after != before {
		t.Errorf("state changed:\n%s\n%s", before, after)
	}
	s.hears(readyFrame(t, v1))
	before = string(s.machine.AppendState(nil))
	if s.tell(Progress{Attempt: 1, Read: 99}); string(s.machine.AppendState(nil)) != before || len(s.last) != 0 {
		t.Errorf("the progress of an earlier link counts: %s", show(s.last))
	}
}

// I14: what a lost connection had queued is let go at once, and nothing more is
// kept for it, however long its runs take to end.
func TestLostConnectionKeepsNoFrames(t *testing.T) {
	s := serving(t, matrixConfig(), v1).hears(startFrame(t, "r1"))
	s.give(s.runs[0], flood("r1", 100, 10_000)).closed(1006, "cut").give(s.runs[0], flood("r1", 100, 10_000))
	if n := len(s.session().outlets[0].frames); n != 0 {
		t.Errorf("%d frames are kept for nobody", n)
	}
}

// I14: a hub that floods runs and takes no answer costs a bounded memory.
func TestHubThatTakesNoAnswersIsDropped(t *testing.T) {
	s := serving(t, matrixConfig(), v1).tell(DrainAsk{Token: 1})
	for i := 0; len(didEver[OpDrop](s)) == 0; i++ {
		if i > 2*refusedMax {
			t.Fatalf("%d answers are queued", len(s.session().outlets))
		}
		s.hears(startFrame(t, fmt.Sprint("r", i)))
	}
}
