package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Events iterates over a run's log after sequence number after, live, until the
// run has ended; the last entry is of [KindEnd]. A lost connection is taken up
// again where it ended, as [Client.ReconnectFor] bounds it. With attach the
// iteration is the run's caller: it takes over from an earlier one, its slowness
// holds the run back, and losing it for the hub's grace applies the run's
// on_disconnect.
//
// The iteration ends with an error when ctx ends, the hub refuses or stays away,
// the stream breaks its rules ([ErrStream]) or was taken over ([ErrReplaced]).
func (c *Client) Events(ctx context.Context, runID string, after uint64, attach bool) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		f := &follower{client: c, runID: runID, after: after, attach: attach}
		f.all(ctx, yield)
	}
}

// Stream is an attached run as its caller sees it. One goroutine uses it.
type Stream struct {
	// Run is the run as it was when it started.
	Run    Run
	ctx    context.Context
	follow *follower
}

// StartAttached starts a run whose caller is the returned stream. When ctx ends,
// or after [Stream.Close], the hub's grace begins, and then the run's
// on_disconnect applies.
func (c *Client) StartAttached(ctx context.Context, req RunRequest) (*Stream, error) {
	f := &follower{client: c, attach: true}
	if err := f.open(ctx, "POST", "/v1/runs", req, 0); err != nil {
		return nil, err
	}
	m, err := f.in.next()
	if err != nil || m.name != sseStarted {
		f.close()
		if err == nil {
			err = fmt.Errorf("%w: it begins with %q", ErrStream, m.name)
		}
		if !errors.Is(err, ErrStream) {
			err = c.lost(ctx, err)
		}
		return nil, err
	}
	s := &Stream{ctx: ctx, follow: f}
	if err := json.Unmarshal(m.data, &s.Run); err != nil || s.Run.RunID == "" {
		f.close()
		return nil, fmt.Errorf("%w: it does not say which run this is", ErrStream)
	}
	f.runID = s.Run.RunID
	return s, nil
}

// Events iterates like [Client.Events] with attach, from where the stream is: a
// second iteration goes on after the last entry of the first.
func (s *Stream) Events() iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) { s.follow.all(s.ctx, yield) }
}

// Close ends the stream's connection.
func (s *Stream) Close() { s.follow.close() }

// follower reads a run's stream over as many connections as it takes.
type follower struct {
	client *Client
	runID  string
	after  uint64
	attach bool

	in    *sseReader
	stop  func()    // ends the connection; nil when there is none
	since time.Time // when it was opened; zero when there never was one
}

func (f *follower) close() {
	if f.stop != nil {
		f.stop()
		f.stop, f.in = nil, nil
	}
}

// all hands on what comes, and comes back when the connection is lost.
func (f *follower) all(ctx context.Context, yield func(StreamEvent, error) bool) {
	defer f.close()
	var lost time.Time // since when nothing has come
	for tries := 0; ; tries++ {
		err := f.connect(ctx)
		if err == nil {
			var got, over bool
			got, over, err = f.each(ctx, yield)
			if over {
				return
			}
			if got || lost.IsZero() || time.Since(f.since) > f.client.ReconnectFor {
				lost, tries = time.Now(), 0
			}
		}
		f.close()
		if err = f.again(ctx, err, lost, tries); err != nil {
			yield(StreamEvent{}, err)
			return
		}
	}
}

// connect opens the stream where it ended, if it is not open.
func (f *follower) connect(ctx context.Context) error {
	if f.in != nil {
		return nil
	}
	path := "/v1/runs/" + segment(f.runID) + "/events"
	if f.attach {
		path += "?attach=1"
	}
	// A stream is answered at once; only a run that is started may wait.
	return f.open(ctx, "GET", path, nil, f.client.silence)
}

// errSilent is why a connection is given up from which nothing comes.
var errSilent = errors.New("nothing came from it for too long")

// open sends the request whose answer is the stream. within bounds the wait for
// the answer; 0 is no bound.
func (f *follower) open(parent context.Context, method, path string, body any, within time.Duration) error {
	ctx, cancel := context.WithCancelCause(parent)
	header := http.Header{"Accept": {"text/event-stream"}}
	if f.after > 0 {
		header.Set("Last-Event-ID", strconv.FormatUint(f.after, 10))
	}
	if within > 0 {
		clock := time.AfterFunc(within, func() { cancel(errSilent) })
		defer clock.Stop()
	}
	resp, err := f.client.send(ctx, method, path, body, header)
	if err != nil {
		if errors.Is(silent(ctx, err), errSilent) {
			err = f.client.lost(parent, errSilent)
		}
		cancel(nil)
		return err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		defer cancel(nil)
		defer resp.Body.Close() // only read
		text, err := f.client.read(parent, resp)
		if err != nil {
			return err
		}
		return refused(resp, text)
	}
	f.since = time.Now()
	f.in = newSSEReader(&watched{ReadCloser: resp.Body, ctx: ctx, silence: f.client.silence, cut: cancel})
	f.stop = func() {
		cancel(nil)
		_ = resp.Body.Close() // nothing was written through it
	}
	return nil
}

// silent names the cause of a read or a request that was given up for silence.
func silent(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// each hands on what one connection gives. got says whether it gave anything,
// over that nothing more is wanted; err why it ended otherwise.
func (f *follower) each(ctx context.Context, yield func(StreamEvent, error) bool) (got, over bool, err error) {
	for {
		m, err := f.in.next()
		if err != nil {
			if !errors.Is(err, ErrStream) {
				err = f.client.lost(ctx, err)
			}
			return got, false, err
		}
		if m.name == sseReplaced {
			return got, false, ErrReplaced
		}
		e, ok, err := m.event()
		if err == nil && ok {
			ok, err = f.inOrder(e)
		}
		if err != nil {
			return got, false, err
		}
		if !ok {
			continue
		}
		got = true
		if !yield(e, nil) || e.Kind == KindEnd {
			return got, true, nil
		}
	}
}

// inOrder keeps the sequence without gaps and repetitions (invariant I8).
func (f *follower) inOrder(e StreamEvent) (bool, error) {
	next := f.after + 1
	switch {
	case e.Kind == KindEnd:
		return true, nil
	case e.Seq < next:
		return false, nil // known from the connection before
	case e.Kind == KindTruncated && e.Range.From == next && e.Range.To == e.Seq, e.Kind != KindTruncated && e.Seq == next:
		f.after = e.Seq
		return true, nil
	default:
		return false, fmt.Errorf("%w: entry %d comes after %d", ErrStream, e.Seq, f.after)
	}
}

// again waits before the next try, and returns nil; or the error that ends the
// iteration.
func (f *follower) again(ctx context.Context, err error, lost time.Time, tries int) error {
	var refusal *APIError
	var unreachable *UnreachableError
	pause := min(50*time.Millisecond<<min(tries, 5), time.Second)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case lost.IsZero():
		return err // there was never a stream to come back to
	case errors.As(err, &refusal):
		if !refusal.Retryable {
			return err
		}
		pause = max(pause, refusal.RetryAfter)
	case errors.As(err, &unreachable):
	default:
		return err
	}
	left := f.client.ReconnectFor - time.Since(lost)
	if left <= 0 {
		if errors.Is(err, io.EOF) {
			err = &UnreachableError{Address: f.client.address(), Err: errors.New("the stream keeps ending without an outcome")}
		}
		return err
	}
	if tries == 0 {
		return nil // most losses are over before anybody has noticed them
	}
	pause = pause/2 + rand.N(pause/2+1) // a herd comes back spread out
	clock := time.NewTimer(min(pause, left))
	defer clock.Stop()
	select {
	case <-clock.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
