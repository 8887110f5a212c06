package daemon

import (
	"fmt"
	"slices"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

const (
	// flushBytes is what the writer gets at once, or one larger frame.
	flushBytes = 256 << 10
	// quantumBytes is one run's share before it is the next one's turn: no run's
	// queued events delay another's run.finished (protocol section 8).
	quantumBytes = flushBytes / DefaultMaxRuns
)

// outlet is one run's queue to the hub.
type outlet struct {
	job string
	// run is its actor; the zero Ref when it was refused and has none.
	run    step.Ref
	frames []OutFrame
	// settled: the run is over; nothing more comes. cancelled: the hub wants its
	// end.
	settled, cancelled bool
	overdue            step.Alarm
	credit             int // to be given back after this flush
}

func (o *outlet) push(f OutFrame) { o.frames = append(o.frames, f) }

// hurry bounds how long the run's own events may hold back its end.
func (o *outlet) hurry(after time.Duration, fx *step.Effects) {
	if !o.overdue.Armed() {
		o.overdue.Set(fx, "overdue", o.job, after)
	}
}

// dropEvents leaves only what must arrive, and a mark for the rest.
func (o *outlet) dropEvents(limit int) {
	var final []OutFrame
	dropped := 0
	for _, f := range o.frames {
		if f.Final {
			final = append(final, f)
		} else {
			dropped += len(f.Bytes)
		}
	}
	if dropped == 0 {
		return
	}
	mark := wire.AppendEvent(nil, o.job, wire.DroppedEvent(dropped, limit))
	o.frames = append([]OutFrame{{Bytes: mark, Final: true}}, final...)
}

// outgoing queues a run's frames. The run's own budget bounds them.
func (s *Session) outgoing(run step.Ref, m Outgoing, fx *step.Effects) {
	o := s.of(run)
	if o == nil || s.state != sessionServing {
		return // there is no connection any more on which they mean anything
	}
	o.frames = append(o.frames, m.Frames...)
	s.pump(fx)
}

// pump gives the writer the next flush, if it has none.
func (s *Session) pump(fx *step.Effects) {
	if s.state != sessionServing || s.flushing {
		return
	}
	frames := s.gather()
	if len(frames) == 0 {
		return
	}
	s.flushing = true
	fx.Do(OpWrite{Frames: frames})
	kept := s.outlets[:0]
	for _, o := range s.outlets {
		if o.credit > 0 && !o.settled {
			fx.Send(o.run, Taken{Bytes: o.credit})
		}
		o.credit = 0
		if o.settled && len(o.frames) == 0 {
			o.overdue.Stop(fx)
			continue
		}
		kept = append(kept, o)
	}
	clear(s.outlets[len(kept):])
	s.outlets = kept
}

// gather takes a flush out of the queues: first what ends a run and is short, then
// in turns. A run whose next frame does not fit is the first of the next flush.
func (s *Session) gather() [][]byte {
	var frames [][]byte
	slices.SortStableFunc(s.outlets, func(a, b *outlet) int { return a.rank() - b.rank() })
	size, idle := 0, 0
	for idle < len(s.outlets) {
		o := s.outlets[0]
		n, full := o.take(&frames, size)
		size += n
		if full {
			break
		}
		idle++
		if n > 0 {
			idle = 0
		}
		s.outlets = append(s.outlets[1:], o)
	}
	return frames
}

// rank is 0 for a run that a short share ends, 1 for all others.
func (o *outlet) rank() int {
	if !o.settled {
		return 1
	}
	size := 0
	for _, f := range o.frames {
		if size += len(f.Bytes); size > quantumBytes {
			return 1
		}
	}
	return 0
}

// take adds one share to a flush of the given size and returns how much it added
// and whether the flush is full.
func (o *outlet) take(frames *[][]byte, size int) (taken int, full bool) {
	for len(o.frames) > 0 {
		f := o.frames[0]
		if taken > 0 && taken+len(f.Bytes) > quantumBytes {
			break
		}
		if size+taken > 0 && size+taken+len(f.Bytes) > flushBytes {
			return taken, true
		}
		*frames = append(*frames, f.Bytes)
		taken += len(f.Bytes)
		o.credit += f.Credit
		o.frames[0] = OutFrame{}
		o.frames = o.frames[1:]
	}
	return taken, false
}

// forget lets go of a run that is over.
func (s *Session) forget(o *outlet, fx *step.Effects) {
	o.overdue.Stop(fx)
	for i, other := range s.outlets {
		if other == o {
			s.outlets = append(s.outlets[:i], s.outlets[i+1:]...)
			return
		}
	}
}

func (o *outlet) appendState(b []byte) []byte {
	b = fmt.Appendf(b, " run=%s/%q settled=%t cancelled=%t overdue=%t", o.run.ID, o.job, o.settled, o.cancelled, o.overdue.Armed())
	for _, f := range o.frames {
		b = fmt.Appendf(b, " q=%d/%d/%t", len(f.Bytes), f.Credit, f.Final)
	}
	return b
}
