package actors

import (
	"errors"
	"fmt"
	"time"
)

// Config is the hub's configuration. The zero value of a field means its
// documented default; a negative one is an error, except where said. Every limit
// is design section 7's.
type Config struct {
	// ErrorPrefix stands before each error code. Default "agent_runtime".
	ErrorPrefix string
	// CancelTimeout is how long an acknowledgement is waited for, counted from
	// the first cancel. Default 10s.
	CancelTimeout time.Duration
	// RunTimeout is the default limit of a run, from when run.start was given to
	// the writer. Default 1h.
	RunTimeout time.Duration
	// HelloTimeout is how long a socket may take to say hello. Default 10s.
	HelloTimeout time.Duration
	// SilenceTimeout ends a connection from which nothing was read. Default 45s.
	// It must be at least three times PingEvery, or one lost ping would end it.
	SilenceTimeout time.Duration
	// PingEvery is the interval of pings. Default 15s.
	PingEvery time.Duration
	// ProbeAfter is how long a holder without runs must have been silent before a
	// newcomer makes the hub probe it. Default 15s.
	ProbeAfter time.Duration
	// ProbeTimeout is how long a probed holder may take. Default 5s.
	ProbeTimeout time.Duration
	// ProbePause is the shortest time between two probes of an id. Default 30s.
	ProbePause time.Duration
	// LifeAfter is the silence after which an idle connection is pinged before a
	// run is placed on it. Default 5s.
	LifeAfter time.Duration
	// LifeTimeout is how long that ping may take. Default 3s.
	LifeTimeout time.Duration
	// AcquireTimeout bounds the wait for a lease. Default 5s.
	AcquireTimeout time.Duration
	// DispatchTimeout bounds the wait for the writer to take run.start. Default 10s.
	DispatchTimeout time.Duration
	// StoreTimeout is when an unanswered save counts as failed. Default 5s.
	StoreTimeout time.Duration
	// StoreRetry is the pause between attempts to write what could not be
	// written. Default 2s.
	StoreRetry time.Duration
	// HoldMax is how long a slow reader may hold its run's socket back. Default
	// and ceiling 15s: a Python peer gives up 20s after its ping.
	HoldMax time.Duration
	// AttachGrace is how long the caller of an attached run may be away. Default 10s.
	AttachGrace time.Duration
	// StartGap is the least time between writing run.start and run.cancel when no
	// frame of the run has come, at most a quarter of CancelTimeout. Default 25ms.
	StartGap time.Duration
	// Retention is how long an ended run stays readable. Default 15m.
	Retention time.Duration
	// RetainedRuns and RetainedBytes bound ended runs. Defaults 1,000 and 256 MiB.
	RetainedRuns  int
	RetainedBytes int
	// MaxConnections bounds connected daemons. Default 1,024.
	MaxConnections int
	// MaxRuns and MaxRunsPerDaemon bound open runs. Defaults 1,024 and 64.
	MaxRuns          int
	MaxRunsPerDaemon int
	// LogBytes bounds one run's event log. Default 8 MiB.
	LogBytes int
	// OutboundBytes bounds a connection's outbound queue; 64 KiB of it are
	// reserved for control frames. Default 16 MiB.
	OutboundBytes int
	// FlushBytes is how much the writer is given at once. Default 256 KiB.
	FlushBytes int
	// ToolCalls and ToolBytes bound a run's tool calls in flight. Defaults 8 and
	// 4 MiB.
	ToolCalls int
	ToolBytes int
	// ToolTimeout bounds one tool call. Default 60s.
	ToolTimeout time.Duration
}

func or[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.ErrorPrefix == "" {
		c.ErrorPrefix = "agent_runtime"
	}
	c.CancelTimeout = or(c.CancelTimeout, 10*time.Second)
	c.RunTimeout = or(c.RunTimeout, time.Hour)
	c.HelloTimeout = or(c.HelloTimeout, 10*time.Second)
	c.SilenceTimeout = or(c.SilenceTimeout, 45*time.Second)
	c.PingEvery = or(c.PingEvery, 15*time.Second)
	c.ProbeAfter = or(c.ProbeAfter, 15*time.Second)
	c.ProbeTimeout = or(c.ProbeTimeout, 5*time.Second)
	c.ProbePause = or(c.ProbePause, 30*time.Second)
	c.LifeAfter = or(c.LifeAfter, 5*time.Second)
	c.LifeTimeout = or(c.LifeTimeout, 3*time.Second)
	c.AcquireTimeout = or(c.AcquireTimeout, 5*time.Second)
	c.DispatchTimeout = or(c.DispatchTimeout, 10*time.Second)
	c.StoreTimeout = or(c.StoreTimeout, 5*time.Second)
	c.StoreRetry = or(c.StoreRetry, 2*time.Second)
	c.HoldMax = or(c.HoldMax, 15*time.Second)
	c.AttachGrace = or(c.AttachGrace, 10*time.Second)
	c.StartGap = or(c.StartGap, 25*time.Millisecond)
	c.Retention = or(c.Retention, 15*time.Minute)
	c.RetainedRuns = or(c.RetainedRuns, 1000)
	c.RetainedBytes = or(c.RetainedBytes, 256<<20)
	c.MaxConnections = or(c.MaxConnections, 1024)
	c.MaxRuns = or(c.MaxRuns, 1024)
	c.MaxRunsPerDaemon = or(c.MaxRunsPerDaemon, 64)
	c.LogBytes = or(c.LogBytes, 8<<20)
	c.OutboundBytes = or(c.OutboundBytes, 16<<20)
	c.FlushBytes = or(c.FlushBytes, 256<<10)
	c.ToolCalls = or(c.ToolCalls, 8)
	c.ToolBytes = or(c.ToolBytes, 4<<20)
	c.ToolTimeout = or(c.ToolTimeout, 60*time.Second)
	return c
}

// Validate reports every bad field of c after defaults, joined.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("actors: config: "+format, args...)) }
	for _, f := range []struct {
		name string
		v    time.Duration
	}{
		{"CancelTimeout", c.CancelTimeout},
		{"RunTimeout", c.RunTimeout},
		{"HelloTimeout", c.HelloTimeout},
		{"SilenceTimeout", c.SilenceTimeout},
		{"PingEvery", c.PingEvery},
		{"ProbeAfter", c.ProbeAfter},
		{"ProbeTimeout", c.ProbeTimeout},
		{"ProbePause", c.ProbePause},
		{"LifeAfter", c.LifeAfter},
		{"LifeTimeout", c.LifeTimeout},
		{"AcquireTimeout", c.AcquireTimeout},
		{"DispatchTimeout", c.DispatchTimeout},
		{"StoreTimeout", c.StoreTimeout},
		{"StoreRetry", c.StoreRetry},
		{"HoldMax", c.HoldMax},
		{"AttachGrace", c.AttachGrace},
		{"StartGap", c.StartGap},
		{"Retention", c.Retention},
		{"ToolTimeout", c.ToolTimeout},
	} {
		if f.v < 0 {
			bad("%s is %v, must be positive", f.name, f.v)
		}
	}
	for _, f := range []struct {
		name string
		v    int
	}{
		{"RetainedRuns", c.RetainedRuns},
		{"RetainedBytes", c.RetainedBytes},
		{"MaxConnections", c.MaxConnections},
		{"MaxRuns", c.MaxRuns},
		{"MaxRunsPerDaemon", c.MaxRunsPerDaemon},
		{"LogBytes", c.LogBytes},
		{"OutboundBytes", c.OutboundBytes},
		{"FlushBytes", c.FlushBytes},
		{"ToolCalls", c.ToolCalls},
		{"ToolBytes", c.ToolBytes},
	} {
		if f.v < 0 {
			bad("%s is %d, must be positive", f.name, f.v)
		}
	}
	if c.HoldMax > 15*time.Second {
		bad("HoldMax is %v, must be at most 15s: a v1 peer gives up 20s after its ping", c.HoldMax)
	}
	if c.SilenceTimeout < 3*c.PingEvery {
		bad("SilenceTimeout is %v, must be at least three times PingEvery (%v): one lost ping must not end a connection", c.SilenceTimeout, c.PingEvery)
	}
	if c.OutboundBytes < 2*controlReserve {
		bad("OutboundBytes is %d, must be at least %d: part of it is reserved for control frames", c.OutboundBytes, 2*controlReserve)
	}
	return errors.Join(errs...)
}

// controlReserve is the part of the outbound queue that run.start may not use.
const controlReserve = 64 << 10

// startGap is the pause before run.cancel (protocol section 5).
func (c Config) startGap() time.Duration { return min(c.StartGap, c.CancelTimeout/4) }
