package transport_test

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"codingrelay/transport"
	"codingrelay/wire"
)

// message is one whole message of a peer, as a series of frames.
type series [][]byte

// whole is doneA with a little more, in n fragments of one frame each.
func fragments(wrap func(b0 byte, p []byte) []byte, borders ...int) series {
	msg := []byte(`{"type":"run.finished","job_id":"a"}`)
	var s series
	start, op := 0, byte(opText)
	for _, border := range borders {
		s = append(s, wrap(op, msg[start:border]))
		start, op = border, opContinuation
	}
	return append(s, wrap(fin|op, msg[start:]))
}

func unmasked(b0 byte, p []byte) []byte { return append(header(b0, false, len(p)), p...) }

// Done-when 4 of the relay's first issue: a message that TCP cuts, at any byte and
// at any border of its fragments, changes nothing: the sink is told of the message
// before it, of the end, and of nothing else.
func TestCutMessageChangesNothing(t *testing.T) {
	n := len(doneA)
	t.Run("hub", func(t *testing.T) {
		t.Parallel()
		h := listen(t, transport.ListenConfig{})
		run := func(sent []byte) []wire.Frame {
			peer := raw(t, h.addr())
			e := h.next(t)
			peer.send(sent)
			_ = peer.Close()
			return e.sink.rest(t)
		}
		cutEverywhere(t, run, text(doneB), fragments(frame))
		cutEverywhere(t, run, text(doneB), fragments(frame, 9, 20))
		for border := 0; border <= n; border++ {
			cutAtBorders(t, run, text(doneB), fragments(frame, border))
			cutAtBorders(t, run, text(doneB), fragments(frame, border/2, border))
		}
	})
	t.Run("daemon", func(t *testing.T) {
		t.Parallel()
		run := func(sent []byte) []wire.Frame {
			return serveOnce(t, func(c net.Conn) { _, _ = c.Write(sent) })
		}
		before := unmasked(fin|opText, []byte(doneB))
		cutEverywhere(t, run, before, fragments(unmasked))
		cutEverywhere(t, run, before, fragments(unmasked, 9, 20))
	})
}

// cutEverywhere sends ever more of a series, and at last all of it.
func cutEverywhere(t *testing.T, run func([]byte) []wire.Frame, before []byte, s series) {
	t.Helper()
	all := bytes.Join(s, nil)
	for i := range len(all) {
		if got := jobsOf(run(append(bytes.Clone(before), all[:i]...))); got != "[b]" {
			t.Errorf("cut at byte %d of %d: told of %s, want [b]", i, len(all), got)
		}
	}
	if got := jobsOf(run(append(bytes.Clone(before), all...))); got != "[b a]" {
		t.Errorf("not cut: told of %s, want [b a]", got)
	}
}

// cutAtBorders sends ever more frames of a series, but not all, and at last all.
func cutAtBorders(t *testing.T, run func([]byte) []wire.Frame, before []byte, s series) {
	t.Helper()
	for i := range s {
		if got := jobsOf(run(append(bytes.Clone(before), bytes.Join(s[:i], nil)...))); got != "[b]" {
			t.Errorf("cut after fragment %d of %d: told of %s, want [b]", i, len(s), got)
		}
	}
	if got := jobsOf(run(append(bytes.Clone(before), bytes.Join(s, nil)...))); got != "[b a]" {
		t.Errorf("not cut: told of %s, want [b a]", got)
	}
}

func jobsOf(frames []wire.Frame) string {
	jobs := []string{}
	for _, f := range frames {
		jobs = append(jobs, f.JobID)
	}
	return fmt.Sprint(jobs)
}

// Protocol section 1: an oversize message that TCP cuts between two fragments is
// no oversize message of anybody's run.
func TestCutOversizeChangesNothing(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	peer := raw(t, h.addr())
	e := h.next(t)
	e.admitted()
	peer.send(frame(opText, event("j", 9<<20)))
	_ = peer.Close()
	if got := e.sink.rest(t); len(got) != 0 {
		t.Errorf("told of %+v", got)
	}
}
