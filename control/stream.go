package control

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"codingrelay/actors"
)

// stream is one response that streams a run's log.
type stream struct {
	server *Server
	run    *actors.Run
	how    actors.Reading
	end    *watch
	queue  *queue
	pace   *pace
	w      http.ResponseWriter
	buf    []byte
	last   uint64 // the cursor that was written
	// attached is closed when the hub knows this reader, or never will.
	attached chan struct{}
}

// stream answers with a run's log from how.After on. It returns when the run has
// ended and all was written, or the reader is gone.
//
//	hub ──▶ pump ──▶ queue ──▶ write ──▶ socket
//
// The pump ends with the connection, and thereby tells the hub, also while the
// write is blocked; the pace then breaks the write off.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, run *actors.Run, how actors.Reading, status int) {
	kind := "reader"
	if how.Caller {
		kind = "caller"
	}
	open := s.metrics.streams.WithLabelValues(kind)
	open.Inc()
	defer open.Dec()

	ctx, stop := context.WithCancel(r.Context())
	st := &stream{
		server: s, run: run, how: how, end: s.outcomes.of(run), queue: newQueue(), w: w, last: how.After,
		attached: make(chan struct{}),
		pace:     &pace{rc: http.NewResponseController(w), ctx: r.Context(), over: make(chan struct{}), limit: s.opts.StallTimeout},
	}
	if how.Caller {
		st.pace.limit = 0 // it may stall for as long as its run lives
	}
	var group sync.WaitGroup
	defer func() {
		close(st.pace.over)
		stop()
		group.Wait()
	}()
	group.Go(func() { st.pump(ctx) })
	group.Go(func() { st.pace.watch(st.end.done, s.opts.EndedStall) })

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects would break every promise
	w.WriteHeader(status)
	s.metrics.streamEnds.WithLabelValues(st.write(ctx)).Inc()
}

// pump reads the hub and fills the queue.
func (st *stream) pump(ctx context.Context) {
	known := sync.OnceFunc(func() { close(st.attached) })
	defer known()
	how := st.how
	how.Attached = known
	for e, err := range st.run.Read(ctx, how) {
		if err != nil {
			st.queue.finish(err)
			return
		}
		if !st.queue.put(ctx, e) {
			return
		}
	}
	st.queue.finish(nil)
}

// write writes what the queue holds until nothing follows, and says why it ended.
func (st *stream) write(ctx context.Context) string {
	if st.how.Caller {
		<-st.attached // who is told that it is the caller must be it: the next one comes after it
		if err := st.started(ctx); err != nil {
			return whyLost(err)
		}
	}
	if err := st.flush(); err != nil {
		return whyLost(err)
	}
	comments := time.NewTicker(st.server.opts.KeepAlive)
	defer comments.Stop()
	var spare []actors.Event
	for {
		select {
		case <-ctx.Done():
			return "gone"
		case <-comments.C:
			st.buf = append(st.buf, sseComment...)
		case <-st.queue.ready:
			events, end := st.queue.take(spare)
			if err := st.events(events); err != nil {
				return whyLost(err)
			}
			spare = events
			if end != nil {
				return st.finish(end)
			}
		}
		if err := st.flush(); err != nil {
			return whyLost(err)
		}
	}
}

// started tells an attached reader which run this is.
func (st *stream) started(ctx context.Context) error {
	info, err := st.run.Info(ctx)
	if err != nil {
		return err
	}
	st.buf = appendFact(st.buf, 0, sseStarted, st.server.runOf(info))
	return nil
}

func (st *stream) events(events []actors.Event) error {
	for _, e := range events {
		st.buf = appendEvent(st.buf, e)
		if e.Truncated != nil {
			st.last = e.Truncated.To
		} else {
			st.last = e.Seq
		}
		if len(st.buf) >= queueBytes {
			if err := st.flush(); err != nil {
				return err
			}
		}
	}
	st.server.metrics.eventsSent.Add(float64(len(events)))
	return nil
}

// finish writes the last word: the outcome, or that another has taken over. When
// the hub forgot the run before this reader had read all, what is missing is told.
func (st *stream) finish(end *ending) string {
	why := "ended"
	switch {
	case errors.Is(end.err, actors.ErrDetached):
		st.buf = appendFact(st.buf, 0, sseReplaced, struct{}{})
		why = "replaced"
	case end.err != nil && actors.CodeOf(end.err) == "":
		return "gone"
	default:
		<-st.end.done // the log is over, or the hub has forgotten it: either way this is settled
		if st.end.err != nil {
			return "forgotten"
		}
		out := st.server.outcomeOf(st.end.out)
		if end.err != nil && st.last < out.Events {
			st.buf = appendFact(st.buf, out.Events, sseTruncated, Range{From: st.last + 1, To: out.Events})
		}
		st.buf = appendFact(st.buf, 0, sseEnd, out)
	}
	if err := st.flush(); err != nil {
		return whyLost(err)
	}
	return why
}

// writePiece is how much is written under one deadline: a reader that takes
// nothing for that long has not even taken this much.
const writePiece = 16 << 10

// flush writes the buffer and pushes it out to the socket.
func (st *stream) flush() error {
	for rest := st.buf; len(rest) > 0; {
		piece := rest[:min(len(rest), writePiece)]
		rest = rest[len(piece):]
		if err := st.pace.begin(); err != nil {
			return err
		}
		if _, err := st.w.Write(piece); err != nil {
			return err
		}
	}
	st.buf = st.buf[:0]
	if cap(st.buf) > 4*queueBytes {
		st.buf = nil // one huge event must not be paid for until the end
	}
	if err := st.pace.begin(); err != nil {
		return err
	}
	return st.pace.rc.Flush()
}

// whyLost names the end of a stream whose write failed.
func whyLost(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "slow"
	}
	return "gone"
}

// pace decides how long a write may take. It is shared by the goroutine that
// writes and the one that breaks a write off.
type pace struct {
	rc   *http.ResponseController
	ctx  context.Context // the connection's
	over chan struct{}   // closed when nothing more is written here

	mu    sync.Mutex
	limit time.Duration // 0 is none
}

// begin sets the deadline of the next write. It fails when the reader is gone.
func (p *pace) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ctx.Err(); err != nil {
		return err
	}
	return p.set()
}

func (p *pace) set() error {
	var by time.Time
	if p.limit > 0 {
		by = time.Now().Add(p.limit)
	}
	return p.rc.SetWriteDeadline(by)
}

// watch breaks a blocked write off when the connection is gone. When the run ends
// before, a stream without a limit gets one, also for the write under way.
func (p *pace) watch(ended <-chan struct{}, limit time.Duration) {
	for {
		select {
		case <-p.over:
			return // what the server adds at the end is written under the last deadline
		case <-p.ctx.Done():
			p.mu.Lock()
			_ = p.rc.SetWriteDeadline(time.Unix(1, 0)) // long past; a connection without deadlines fails in begin
			p.mu.Unlock()
			return
		case <-ended:
			ended = nil
			p.mu.Lock()
			if p.limit == 0 {
				p.limit = limit
				_ = p.set()
			}
			p.mu.Unlock()
		}
	}
}
