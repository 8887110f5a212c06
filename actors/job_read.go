package actors

import (
	"fmt"
	"slices"
	"time"

	"codingrelay/step"
)

// readers is what a job knows of those who read its log.
type readers struct {
	// holders may hold the run's socket back, in the order they attached.
	holders []holder
	// parked are reads that wait for something to read.
	parked []parkedRead
	// caller is the reader whose loss starts the grace; "" when there is none.
	caller string
	// pending waits for room while a holder is slow; holding is set while the
	// connection was asked to hold, exhausted once it said that it must not, until
	// a holder takes something.
	pending   []Item
	holding   bool
	exhausted bool
}

type holder struct {
	name  string
	after uint64
}

type parkedRead struct {
	token    step.Token
	reader   string
	after    uint64
	maxBytes int
}

func (r *readers) init(caller string) {
	if caller != "" {
		r.caller = caller
		r.holders = append(r.holders, holder{name: caller})
	}
}

// keep is up to where the log may be dropped without a holder's losing anything.
func (r *readers) keep() uint64 {
	keep := uint64(everything)
	for _, h := range r.holders {
		keep = min(keep, h.after)
	}
	return keep
}

// batch is the run's share of a turn.
func (j *Job) batch(now time.Time, m Batch, fx *step.Effects) {
	if j.state == jobEnded || !j.accepted {
		return // nothing after the end (I8)
	}
	for _, it := range m.Items {
		if it.Kind == ItemDropped {
			j.out.Dropped++
		}
		j.take(it)
	}
	j.giveBack(fx)
	j.enforce(now, fx)
	j.serveReaders(fx)
}

// take adds an item to the log, or to what waits for room.
func (j *Job) take(it Item) {
	if len(j.reading.pending) == 0 && j.log.makeRoom(it, j.reading.keep()) {
		j.add(it)
		return
	}
	j.reading.pending = append(j.reading.pending, it)
}

func (j *Job) add(it Item) {
	j.log.add(it)
	j.freed += it.credit
}

// giveBack tells the connection once what the log has taken of it.
func (j *Job) giveBack(fx *step.Effects) {
	if j.freed > 0 && j.state == jobRunning {
		fx.Send(j.conn, Credit{RunID: j.id, Bytes: j.freed})
	}
	j.freed = 0
}

// enforce decides what happens to items that found no room (design section 7).
func (j *Job) enforce(now time.Time, fx *step.Effects) {
	r := &j.reading
	if len(r.pending) == 0 {
		return
	}
	if j.state == jobRunning && !r.exhausted {
		if !r.holding {
			r.holding = true
			fx.Send(j.conn, HoldBegin{RunID: j.id})
		}
		return
	}
	j.truncate(fx)
	if j.state == jobRunning && j.spec.OnOverflow == OverflowCancel {
		j.end(now, Cancelled, ReasonSlowReader, fx)
	}
}

// truncate lets the oldest events go, whoever has not read them.
func (j *Job) truncate(fx *step.Effects) {
	pending := j.reading.pending
	j.reading.pending = nil
	for _, it := range pending {
		j.log.makeRoom(it, everything)
		j.add(it)
	}
	j.giveBack(fx)
}

// flushPending takes what waits for room into the log of a run that ends: it is
// bounded by the inbound credit and may be all that a slow caller still wants.
func (j *Job) flushPending(fx *step.Effects) {
	r := &j.reading
	for _, it := range r.pending {
		j.log.add(it)
	}
	r.pending = nil
	j.holdDone(fx)
}

func (j *Job) holdDone(fx *step.Effects) {
	if j.reading.holding {
		j.reading.holding = false
		fx.Send(j.conn, HoldDone{RunID: j.id})
	}
}

// holdOver: the connection must not be held (any longer).
func (j *Job) holdOver(now time.Time, fx *step.Effects) {
	if j.state != jobRunning || !j.reading.holding {
		return
	}
	j.reading.holding = false
	j.reading.exhausted = true
	j.enforce(now, fx)
	j.serveReaders(fx)
}

func (j *Job) attach(now time.Time, m Attach, fx *step.Effects) {
	r := &j.reading
	r.holders = slices.DeleteFunc(r.holders, func(h holder) bool { return h.name == m.Reader })
	r.holders = append(r.holders, holder{name: m.Reader, after: m.After})
	if m.Caller {
		if r.caller != "" && r.caller != m.Reader {
			j.dropReader(r.caller, fx) // a takeover: the old stream is done
		}
		r.caller = m.Reader
		j.grace.Stop(fx)
	}
	r.exhausted = false
	fx.Reply(m.Token, true)
}

func (j *Job) detach(now time.Time, reader string, fx *step.Effects) {
	wasCaller := j.reading.caller == reader
	j.dropReader(reader, fx)
	if wasCaller {
		j.reading.caller = ""
		if j.state != jobEnding && j.state != jobEnded {
			j.grace.Set(fx, "grace", j.id, j.cfg.AttachGrace)
		}
	}
	j.moveOn(now, fx)
}

func (j *Job) dropReader(reader string, fx *step.Effects) {
	r := &j.reading
	r.holders = slices.DeleteFunc(r.holders, func(h holder) bool { return h.name == reader })
	r.parked = slices.DeleteFunc(r.parked, func(p parkedRead) bool {
		if p.reader != reader {
			return false
		}
		fx.Reply(p.token, Page{Detached: true})
		return true
	})
}

// read serves a reader from its cursor, now or when there is something.
func (j *Job) read(now time.Time, m ReadAsk, fx *step.Effects) {
	r := &j.reading
	for i := range r.holders {
		if r.holders[i].name == m.Reader && m.After > r.holders[i].after {
			r.holders[i].after = m.After
			r.exhausted = false
		}
	}
	// One open read a reader: a second one replaces the first.
	r.parked = slices.DeleteFunc(r.parked, func(p parkedRead) bool {
		if p.reader != m.Reader {
			return false
		}
		fx.Reply(p.token, Page{Detached: true})
		return true
	})
	r.parked = append(r.parked, parkedRead{token: m.Token, reader: m.Reader, after: m.After, maxBytes: m.MaxBytes})
	j.moveOn(now, fx)
}

// moveOn uses the room that a reader has made.
func (j *Job) moveOn(now time.Time, fx *step.Effects) {
	r := &j.reading
	keep := r.keep()
	for len(r.pending) > 0 && j.log.makeRoom(r.pending[0], keep) {
		j.add(r.pending[0])
		r.pending = r.pending[1:]
	}
	j.giveBack(fx)
	if len(r.pending) == 0 {
		r.pending = nil
		j.holdDone(fx)
	}
	j.enforce(now, fx)
	j.serveReaders(fx)
}

// serveReaders answers every parked read that has something to read.
func (j *Job) serveReaders(fx *step.Effects) {
	r := &j.reading
	r.parked = slices.DeleteFunc(r.parked, func(p parkedRead) bool {
		items, first, gap := j.log.read(p.after, p.maxBytes)
		page := Page{Items: items, First: first, Truncated: gap}
		if j.state == jobEnded && first+uint64(len(items)) >= j.log.next {
			out := j.out
			page.Outcome = &out
		}
		if len(items) == 0 && gap == nil && page.Outcome == nil {
			return false
		}
		fx.Reply(p.token, page)
		return true
	})
}

// forget drops the read of a caller that is gone.
func (r *readers) forget(t step.Token) {
	r.parked = slices.DeleteFunc(r.parked, func(p parkedRead) bool { return p.token == t })
}

func (r *readers) appendState(b []byte) []byte {
	b = fmt.Appendf(b, " caller=%q holding=%t exhausted=%t pending=%d", r.caller, r.holding, r.exhausted, len(r.pending))
	for _, h := range r.holders {
		b = fmt.Appendf(b, " holder=%s@%d", h.name, h.after)
	}
	for _, p := range r.parked {
		b = fmt.Appendf(b, " read=%s@%d", p.reader, p.after)
	}
	return b
}
