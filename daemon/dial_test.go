package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"codingrelay/step"
	"codingrelay/wire"
)

// troubles are what was told about missing connections, without repetitions.
func troubles(s *script) (told []string) {
	for _, o := range didEver[OpObserve](s) {
		if o.Fact.Kind == FactTrouble && !o.Fact.Again {
			told = append(told, o.Fact.Text)
		}
	}
	return told
}

// attempts lets a session run for a while, with each dial answered by answer, and
// returns when it dialled.
func attempts(s *script, during time.Duration, answer func(attempt uint64) []any) (at []time.Duration) {
	begun := s.now
	take := func() {
		for _, d := range did[OpDial](s) {
			at = append(at, s.now.Sub(begun))
			s.tell(answer(d.Attempt)...)
		}
	}
	s.tell(step.Boot{})
	take()
	for {
		_, due := s.due()
		if due.Sub(begun) > during {
			return at
		}
		s.fire("retry")
		take()
	}
}

func refusedWith(code int, reason string) func(uint64) []any {
	return func(n uint64) []any {
		return []any{Dialed{Attempt: n}, Inbound{Attempt: n, Closed: &wire.End{Code: code, Reason: reason}}}
	}
}

// D28: a refused token is tried a few times a minute, at growing and spread
// delays, with one clear line; and works again when the file is put right.
func TestD28RefusedTokenIsTriedSlowlyAndToldOnce(t *testing.T) {
	second := map[time.Duration]bool{}
	for seed := range uint64(50) {
		cfg := matrixConfig()
		cfg.Seed = seed
		s := newScript(t, NewSession(cfg))
		at := attempts(s, time.Minute, refusedWith(1008, "invalid daemon token: use the token that this hub was started with"))
		if len(at) > 8 || len(at) < 3 {
			t.Fatalf("seed %d: %d attempts in a minute at %v, want 3 to 8", seed, len(at), at)
		}
		second[at[1]] = true
		for i := 2; i < len(at); i++ {
			if at[i]-at[i-1] <= at[i-1]-at[i-2] {
				t.Errorf("seed %d: the delays do not grow: %v", seed, at)
			}
		}
		if told := troubles(s); len(told) != 1 || !strings.HasPrefix(told[0], "token: ") {
			t.Fatalf("seed %d: told %q, want one line about the token", seed, told)
		}
		s.fire("retry")
		s.tell(Dialed{Attempt: s.session().attempt}).hears(readyFrame(t, v1))
		if s.session().state != sessionServing {
			t.Errorf("seed %d: not served once the token is right: %s", seed, s.session().state)
		}
	}
	if len(second) < 40 {
		t.Errorf("50 daemons try again at only %d different times", len(second))
	}
}

// D28: after an outage twenty daemons do not come back in the same second; the
// jitter is not lost at the cap.
func TestD28DaemonsComeBackSpreadAfterAnOutage(t *testing.T) {
	const daemons = 20
	perSecond := map[time.Duration]int{}
	for seed := range uint64(daemons) {
		cfg := matrixConfig()
		cfg.Seed = seed
		s := newScript(t, NewSession(cfg))
		attempts(s, time.Minute, func(n uint64) []any {
			return []any{DialFailed{Attempt: n, Reason: "connection refused"}}
		})
		_, due := s.due()
		perSecond[due.Sub(t0).Truncate(time.Second)]++
		if told := troubles(s); len(told) != 1 {
			t.Errorf("one outage was told in %d lines", len(told))
		}
	}
	for second, n := range perSecond {
		if n > daemons/4 {
			t.Errorf("%d of %d daemons come back in second %v", n, daemons, second)
		}
	}
}

// Protocol 8: full-jitter backoff between 0 and a bound that doubles up to 30 s.
func TestBackoffIsDrawnBelowADoublingBound(t *testing.T) {
	largest := make([]time.Duration, 12)
	for seed := range uint64(400) {
		cfg := matrixConfig()
		cfg.Seed = seed
		s := newScript(t, NewSession(cfg)).tell(step.Boot{})
		for i := range largest {
			s.tell(DialFailed{Attempt: s.session().attempt, Reason: "no"})
			_, due := s.due()
			delay := due.Sub(s.now)
			bound := min(30*time.Second, 250*time.Millisecond<<i)
			if delay < 0 || delay > bound {
				t.Fatalf("attempt %d waits %v, above %v", i, delay, bound)
			}
			largest[i] = max(largest[i], delay)
			s.fire("retry")
		}
	}
	for i, d := range largest {
		if bound := min(30*time.Second, 250*time.Millisecond<<i); d < bound*9/10 {
			t.Errorf("attempt %d never waited longer than %v of %v: the jitter is not full", i, d, bound)
		}
	}
}

// Protocol 8: the backoff resets only after a stable connection.
func TestBackoffResetsOnlyAfterAStableConnection(t *testing.T) {
	for _, c := range []struct {
		served time.Duration
		reset  bool
	}{{29 * time.Second, false}, {30 * time.Second, true}} {
		s := newScript(t, NewSession(matrixConfig()))
		attempts(s, time.Minute, func(n uint64) []any { return []any{DialFailed{Attempt: n, Reason: "no"}} })
		failures := s.session().failures
		s.fire("retry").tell(Dialed{Attempt: s.session().attempt}).hears(readyFrame(t, v1))
		s.now = s.now.Add(c.served)
		s.closed(1006, "cut")
		if got := s.session().failures; (got == 1) != c.reset || !c.reset && got != failures+1 {
			t.Errorf("served for %v: %d failures counted after %d, reset=%t wanted", c.served, got, failures, c.reset)
		}
	}
}

// Protocol 8: refused as fenced or id in use, attempts are at most 30 s apart.
func TestBusyIDIsTriedWithinHalfAMinute(t *testing.T) {
	for _, reason := range []string{
		"daemon_id is fenced (fence 7f): a run of it is not confirmed gone; an operator can clear it",
		"daemon_id is already connected; stop the other daemon or use another id",
		"daemon_id is already connected or fenced",
		"the hub is full (max connections); try again later",
	} {
		s := newScript(t, NewSession(matrixConfig()))
		at := attempts(s, 10*time.Minute, refusedWith(1008, reason))
		for i := 1; i < len(at); i++ {
			if at[i]-at[i-1] > 30*time.Second {
				t.Errorf("%q: %v between attempts", reason, at[i]-at[i-1])
			}
		}
		if told := troubles(s); len(told) != 1 || !strings.HasPrefix(told[0], "busy: ") {
			t.Errorf("%q was told as %q", reason, told)
		}
	}
}

func TestRefusalsAreToldApart(t *testing.T) {
	for _, c := range []struct {
		code   int
		reason string
		want   Trouble
	}{
		{1008, "invalid daemon token: use the token that this hub was started with", TroubleToken},
		{1008, "Unauthorized", TroubleToken},
		{1008, "protocol not supported: upgrade the daemon to coding-relay-v1", TroubleProtocol},
		{1008, "daemon_id is empty: send a name of 1 to 128 characters", TroubleRefused},
		{1008, "this daemon_id is fenced until the hub restarts (internal error)", TroubleBusy},
		{1013, "no connection is taken now; try again later", TroubleBusy},
		{1012, "fence cleared by an operator", TroubleNetwork},
		{1001, "hub stopping", TroubleNetwork},
		{1006, "reading: EOF", TroubleNetwork},
	} {
		if got := refusal(wire.End{Code: c.code, Reason: c.reason}, true); got != c.want {
			t.Errorf("%d %q is %v, want %v", c.code, c.reason, got, c.want)
		}
	}
}

// Protocol 8: daemon.ready must say the same protocol.
func TestReadyOfAnotherProtocolIsRefusedSlowly(t *testing.T) {
	s := newScript(t, NewSession(matrixConfig())).tell(step.Boot{}, Dialed{Attempt: 1})
	s.hears(frameOf(t, []byte(`{"type":"daemon.ready","daemon_id":"box","protocol":"coding-relay-v2"}`)))
	if got := did[OpClose](s); len(got) != 1 || !strings.Contains(got[0].Reason, "upgrade") {
		t.Fatalf("a ready of another protocol: %s", show(s.last))
	}
	s.closed(1002, "")
	if _, due := s.due(); due.Sub(s.now) < 2*time.Second {
		t.Errorf("it is tried again after %v", due.Sub(s.now))
	}
	if told := troubles(s); len(told) != 1 || !strings.HasPrefix(told[0], "protocol: ") {
		t.Errorf("told %q", told)
	}
}

// Protocol 8: a hub that says nothing is given up after 10 s.
func TestReadyIsAwaitedForTenSeconds(t *testing.T) {
	s := newScript(t, NewSession(matrixConfig())).tell(step.Boot{}, Dialed{Attempt: 1})
	begun := s.now
	if s.fire("patience"); len(did[OpDrop](s)) != 1 || s.now.Sub(begun) != 10*time.Second {
		t.Errorf("after %v: %s", s.now.Sub(begun), show(s.last))
	}
}

// silent lets a served session look at a socket that brings nothing, and returns
// when it drops it and when it pinged.
func silent(s *script) (dropped time.Duration, pings []time.Duration) {
	begun := s.now
	for s.session().state == sessionServing {
		s.fire("beat").tell(Progress{Attempt: s.session().attempt})
		if len(did[OpPing](s)) > 0 {
			pings = append(pings, s.now.Sub(begun))
		}
	}
	return s.now.Sub(begun), pings
}

// D27 (b), (c): silence is noticed within 45 s; pings go out each 15 s meanwhile,
// so that no proxy drops an idle socket.
func TestD27SilenceEndsAConnectionWithin45s(t *testing.T) {
	s := serving(t, matrixConfig(), ours)
	dropped, pings := silent(s)
	if dropped < 40*time.Second || dropped > 45*time.Second {
		t.Errorf("silence was noticed after %v", dropped)
	}
	if !slices.Equal(pings, []time.Duration{15 * time.Second, 30 * time.Second}) {
		t.Errorf("pings after %v, want every 15 s", pings)
	}
	if len(did[OpDrop](s)) != 1 {
		t.Errorf("silence led to %s, want the link dropped", show(s.last))
	}
}

// Protocol 8: not below 40 s without our extensions.
func TestSilenceOfAV1HubIsBornFor40s(t *testing.T) {
	cfg := matrixConfig()
	cfg.Timing = Timing{PingEvery: time.Second, SilenceTimeout: 3 * time.Second}
	if dropped, _ := silent(serving(t, cfg, ours)); dropped > 4*time.Second {
		t.Errorf("a hub of ours: %v, want about 3 s", dropped)
	}
	if dropped, _ := silent(serving(t, cfg, v1)); dropped < 40*time.Second {
		t.Errorf("a v1 hub: %v, want at least 40 s", dropped)
	}
}

// Protocol 8: any byte is life.
func TestAnyByteKeepsAConnection(t *testing.T) {
	s := serving(t, matrixConfig(), ours)
	for read := uint64(1); read <= 100; read++ {
		s.fire("beat").tell(Progress{Attempt: 1, Read: read})
	}
	if s.session().state != sessionServing {
		t.Errorf("a socket on which bytes come was given up: %s", s.session().state)
	}
}

func TestHubsCancelTimeoutIsComparedWithTheGrace(t *testing.T) {
	tight := ours
	tight.CancelTimeout = 6 * time.Second
	for e, want := range map[wire.Extensions]int{ours: 0, tight: 1} {
		n := 0
		for _, o := range didEver[OpObserve](serving(t, matrixConfig(), e)) {
			if o.Fact.Kind == FactTight {
				n++
			}
		}
		if n != want {
			t.Errorf("cancel timeout %v and grace 5 s: %d warnings, want %d", e.CancelTimeout, n, want)
		}
	}
}
