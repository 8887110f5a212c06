package bench

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"codingrelay/actors"
	"codingrelay/control"
	"codingrelay/persist"
	"codingrelay/transport"
	"codingrelay/wire"
)

// hubSubject is the hub with everything around it that ships.
type hubSubject struct {
	hub   *actors.Hub
	api   *control.Server
	store persist.Store
	first report

	meter meter
	runs  []*actors.Run
	done  sync.WaitGroup
	seen  []reading
}

// reading is what one reader saw.
type reading struct {
	events int64
	lag    *histogram
	err    error
}

const benchToken = "bench-api-token-0123456789abcdef"

// bounds are above what any measurement needs, so that none is what is measured.
var benchConfig = actors.Config{MaxConnections: 20000, MaxRuns: 20000, MaxRunsPerDaemon: 20000}

func newHubSubject(ctx context.Context, stateDir string) (*hubSubject, error) {
	s := &hubSubject{store: persist.NewMemory()}
	if stateDir != "" {
		files, err := persist.Open(stateDir, persist.Options{})
		if err != nil {
			return nil, err
		}
		s.store = files
	}
	listener := actors.ListenerFunc(func(ctx context.Context, addr string, accept actors.Accept) (actors.Listening, error) {
		return transport.Listen(ctx, addr, transport.ListenConfig{
			MaxUnauthenticated: 20000, MaxUnauthenticatedPerAddress: 20000,
		}, func(remote string, link wire.Link, admitted func()) wire.Sink { return accept(remote, link, admitted) })
	})
	var err error
	if s.hub, err = actors.Start(nil, benchConfig, actors.Ports{Store: s.store, Listener: listener}); err != nil {
		return nil, err
	}
	addr, err := s.hub.Listen(ctx, actors.ListenConfig{Host: "127.0.0.1"})
	if err != nil {
		return nil, err
	}
	if s.api, err = control.New(s.hub, control.Options{Token: benchToken, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	api, err := s.api.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.first = report{Addr: addr, API: "http://" + api.String(), Token: benchToken}
	return s, nil
}

func (s *hubSubject) hello() report { return s.first }

// daemonName is the id of the nth daemon that the generator plays.
func daemonName(n int) string { return "d" + strconv.Itoa(n) }

// begin starts a run on each daemon, all at once, and its reader.
func (s *hubSubject) begin(ctx context.Context, o order) report {
	s.runs = make([]*actors.Run, o.Daemons)
	s.seen = make([]reading, o.Daemons)
	took := make([]time.Duration, o.Daemons)
	errs := make([]error, o.Daemons)
	s.meter = startMeter()
	var starting sync.WaitGroup
	for i := range o.Daemons {
		starting.Go(func() {
			began := time.Now()
			s.runs[i], errs[i] = s.hub.Run(ctx, actors.RunRequest{
				DaemonID: daemonName(o.First + i), Payload: []byte(`{}`), Attached: !o.SSE, Timeout: actors.NoTimeout, Wait: 30 * time.Second,
			})
			took[i] = time.Since(began)
		})
	}
	starting.Wait()
	r := report{Took: took}
	for i, err := range errs {
		if err != nil {
			return report{Error: fmt.Sprintf("run on %s: %v", daemonName(o.First+i), err)}
		}
		r.Runs = append(r.Runs, s.runs[i].ID())
		if o.SSE {
			continue // the generator reads them
		}
		s.done.Go(func() { s.seen[i] = s.read(ctx, s.runs[i], o.Latency) })
	}
	return r
}

func (s *hubSubject) read(ctx context.Context, run *actors.Run, latency bool) (r reading) {
	if latency {
		r.lag = &histogram{}
	}
	for ev, err := range run.Read(ctx, actors.Reading{Hold: true, Caller: true}) {
		switch {
		case err != nil:
			r.err = err
			return r
		case ev.Truncated != nil:
			r.err = fmt.Errorf("events %d to %d were truncated", ev.Truncated.From, ev.Truncated.To)
			return r
		}
		r.events++
		if latency {
			r.lag.add(age(ev.Data))
		}
	}
	return r
}

// age is how old an event's stamp is.
func age(event []byte) time.Duration {
	i := bytes.Index(event, []byte(stampKey))
	if i < 0 {
		return 0
	}
	i += len(stampKey)
	n, err := strconv.ParseInt(string(event[i:i+stampDigits]), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(time.Now().UnixNano() - n)
}

// end waits for every run and says what was used since begin.
func (s *hubSubject) end(ctx context.Context) report {
	s.done.Wait()
	var r report
	lag := &histogram{}
	for i, run := range s.runs {
		out, err := run.Wait(ctx)
		if err != nil {
			return report{Error: err.Error()}
		}
		if !out.Clean {
			return report{Error: fmt.Sprintf("run ended %s, not clean: %s", out.Result, out.Reason)}
		}
		if err := s.seen[i].err; err != nil {
			return report{Error: err.Error()}
		}
		r.Events += int64(out.Events)
		lag.merge(s.seen[i].lag)
	}
	s.meter.read(&r)
	r.Latency = lag.quantiles()
	return r
}

// cancel cancels every run of the last begin, all at once.
func (s *hubSubject) cancel(ctx context.Context, _ order) report {
	took := make([]time.Duration, len(s.runs))
	errs := make([]error, len(s.runs))
	var wg sync.WaitGroup
	for i, run := range s.runs {
		wg.Go(func() {
			began := time.Now()
			out, err := run.Cancel(ctx)
			took[i], errs[i] = time.Since(began), err
			if err == nil && !out.Clean {
				errs[i] = fmt.Errorf("cancel was not confirmed: %s", out.Reason)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return report{Error: err.Error()}
		}
	}
	return report{Took: took}
}

func (s *hubSubject) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	_ = s.hub.Stop(ctx)
	_ = s.api.Close()
	_ = s.store.Close()
}
