package daemon

import (
	"errors"
	"fmt"
	"time"

	"codingrelay/wire"
)

// Timing are the durations of a session. Zero means the default.
type Timing struct {
	// DialTimeout bounds one attempt to open a socket. Default 20 s.
	DialTimeout time.Duration
	// ReadyTimeout bounds the wait for daemon.ready. Default 10 s.
	ReadyTimeout time.Duration
	// PingEvery is how often a WebSocket ping goes out, which also keeps proxies
	// from closing an idle socket. Default 15 s.
	PingEvery time.Duration
	// SilenceTimeout is how long nothing may be read before the socket is given
	// up. Default 45 s; at a hub without our extensions never below 40 s, since
	// its reader can be busy (protocol section 8).
	SilenceTimeout time.Duration
	// StableAfter is how long a connection must have served before the delays
	// between attempts begin anew. Default 30 s.
	StableAfter time.Duration
	// BackoffMin and BackoffMax bound the delay before a new attempt, which is
	// drawn from zero to a bound that doubles (full jitter). Defaults 0.25 s, 30 s.
	BackoffMin, BackoffMax time.Duration
	// SlowMin and SlowMax are the same for refusals that only a person can
	// repair (token, protocol, id, URL); half of the delay is fixed, so that
	// attempts stay few. Defaults 5 s, 60 s.
	SlowMin, SlowMax time.Duration
	// FlushTimeout bounds how long a daemon that stops waits for the hub to take
	// what is queued. Default 5 s.
	FlushTimeout time.Duration
	// EventGrace is how long the queued events of a run that was being ended may
	// hold back its own run.finished; then they are dropped, with a mark
	// (protocol section 5). Default 2 s.
	EventGrace time.Duration
}

// silenceMin is the shortest silence that proves anything at a v1 hub.
const silenceMin = 40 * time.Second

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&t.DialTimeout, 20 * time.Second},
		{&t.ReadyTimeout, 10 * time.Second},
		{&t.PingEvery, 15 * time.Second},
		{&t.SilenceTimeout, 45 * time.Second},
		{&t.StableAfter, 30 * time.Second},
		{&t.BackoffMin, 250 * time.Millisecond},
		{&t.BackoffMax, 30 * time.Second},
		{&t.SlowMin, 5 * time.Second},
		{&t.SlowMax, 60 * time.Second},
		{&t.FlushTimeout, 5 * time.Second},
		{&t.EventGrace, 2 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.or
		}
	}
	return t
}

// Validate reports every field that cannot be used.
func (t Timing) Validate() error {
	t = t.withDefaults()
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"DialTimeout", t.DialTimeout},
		{"ReadyTimeout", t.ReadyTimeout},
		{"PingEvery", t.PingEvery},
		{"SilenceTimeout", t.SilenceTimeout},
		{"StableAfter", t.StableAfter},
		{"BackoffMin", t.BackoffMin},
		{"SlowMin", t.SlowMin},
		{"FlushTimeout", t.FlushTimeout},
		{"EventGrace", t.EventGrace},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("daemon: Timing.%s is %v; it must not be negative", d.name, d.value))
		}
	}
	if t.SilenceTimeout < 2*t.PingEvery {
		errs = append(errs, fmt.Errorf("daemon: Timing.SilenceTimeout (%v) must be at least twice PingEvery (%v), or one lost ping ends a connection", t.SilenceTimeout, t.PingEvery))
	}
	if t.BackoffMax < t.BackoffMin || t.SlowMax < t.SlowMin {
		errs = append(errs, errors.New("daemon: Timing.BackoffMax and SlowMax must not be below BackoffMin and SlowMin"))
	}
	return errors.Join(errs...)
}

// silence is how long nothing may be read from a hub that said this.
func (t Timing) silence(hub wire.Extensions) time.Duration {
	if hub == (wire.Extensions{}) {
		return max(t.SilenceTimeout, silenceMin)
	}
	return t.SilenceTimeout
}

// jitter is a source of randomness that is part of a policy's state: the same
// seed gives the same delays (SplitMix64).
type jitter uint64

func (j *jitter) next() uint64 {
	*j += 0x9e3779b97f4a7c15
	z := uint64(*j)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below draws a duration from [0, limit].
func (j *jitter) below(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(j.next() % (uint64(limit) + 1))
}

// doubled is least times two to the n, at most most.
func doubled(least, most time.Duration, n int) time.Duration {
	for ; n > 0 && least < most; n-- {
		least *= 2
	}
	return min(least, most)
}
