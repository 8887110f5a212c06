package daemon

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/anthdm/hollywood/actor"
	"github.com/go-json-experiment/json"

	"codingrelay/containment"
	"codingrelay/persist"
	"codingrelay/transport"
	"codingrelay/wire"
)

// WriteStall is how long a hub may take no byte before the connection counts as
// dead. It must be well above what a hub may hold a socket back for a slow reader
// (15 s, design section 7), or such a reader would cost the connection.
const WriteStall = 45 * time.Second

// Dialer opens one WebSocket to a hub and gives its link to open, which returns
// where the frames go; nil ends the link. It returns an error when it did not call
// open. ctx bounds the opening only.
type Dialer func(ctx context.Context, open func(link wire.Link) wire.Sink) error

// Config says what a daemon is. DaemonID, StateDir, and URL or Dial are required.
type Config struct {
	// DaemonID is the name under which callers find this daemon: 1 to 128
	// characters. Two daemons with one id cannot be connected at the same time.
	DaemonID string
	// URL is the hub's, ws://host:port or wss://…; it is dialled with
	// [transport.Dial] and no other options. Dial, when it is not nil, is used
	// instead.
	URL  string
	Dial Dialer
	// TokenFile holds the hub's token, alone and readable for its owner only. It is
	// read anew before every attempt, so a token is changed by changing the file.
	// Token, when it is not nil, is asked instead. Neither: no token is sent.
	TokenFile string
	Token     func() (string, error)
	// StateDir is the state folder of this user's relay. The daemon uses the folder
	// daemon/<sha256 of its id> in it, and holds its lock.
	StateDir string

	// Runner does the runs. Nil means commands ([Exec], docs/exec.md) in
	// Workspaces.
	Runner     Runner
	Workspaces []string
	// EnvAllow are more names of the daemon's environment that runs get, beside the
	// usual ones; a name that ends in * stands for all that begin like it. No list
	// can let a RELAY_ variable or the token through.
	EnvAllow []string
	// Environ is the environment to take from. Nil means os.Environ.
	Environ func() []string
	// Containment says how process trees are run and ended. A Grace above 7 s does
	// not fit the 10 s a hub waits, and is warned about.
	Containment containment.Config

	// MaxRuns bounds the runs at one time; more are refused. Default 16.
	MaxRuns int
	// RunQueueBytes is how much of one run's events may wait for the hub before
	// [Job.Emit] waits, in bytes. Default 1 MiB.
	RunQueueBytes int
	Timing        Timing

	// Version is told to the hub.
	Version string
	// Engine is the host program's own, or nil for a new one.
	Engine *actor.Engine
	// Logger is told what happens; nil is nobody. No secret is logged.
	Logger *slog.Logger
}

// DefaultRunQueueBytes is the default of Config.RunQueueBytes.
const DefaultRunQueueBytes = 1 << 20

// Validate reports every field that cannot be used.
func (c Config) Validate() error {
	var errs []error
	if _, err := wire.ValidDaemonID(c.DaemonID); err != nil {
		errs = append(errs, fmt.Errorf("daemon: Config.DaemonID: %w", err))
	}
	if c.URL == "" && c.Dial == nil {
		errs = append(errs, errors.New("daemon: Config.URL is required: ws://host:port of the hub"))
	}
	if c.StateDir == "" {
		errs = append(errs, errors.New("daemon: Config.StateDir is required: without it a halt would not survive a restart"))
	}
	if c.MaxRuns < 0 || c.RunQueueBytes < 0 {
		errs = append(errs, errors.New("daemon: Config.MaxRuns and RunQueueBytes must not be negative"))
	}
	return errors.Join(append(errs, c.Timing.Validate(), c.Containment.Validate())...)
}

func (c Config) withDefaults() (Config, error) {
	c.DaemonID, _ = wire.ValidDaemonID(c.DaemonID) // trimmed; Validate has judged it
	if c.Dial == nil {
		url := c.URL
		c.Dial = func(ctx context.Context, open func(wire.Link) wire.Sink) error {
			return transport.Dial(ctx, transport.DialConfig{URL: url, Limits: transport.Limits{WriteStall: WriteStall}}, open)
		}
	}
	if c.Environ == nil {
		c.Environ = os.Environ
	}
	if c.MaxRuns == 0 {
		c.MaxRuns = DefaultMaxRuns
	}
	if c.RunQueueBytes == 0 {
		c.RunQueueBytes = DefaultRunQueueBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Runner == nil {
		exec, err := NewExec(c.Workspaces)
		if err != nil {
			return c, err
		}
		c.Runner = exec
	}
	return c, nil
}

func (c Config) token() (string, error) {
	switch {
	case c.Token != nil:
		return c.Token()
	case c.TokenFile != "":
		return persist.ReadSecret(c.TokenFile)
	default:
		return "", nil
	}
}

func (c Config) grace() time.Duration {
	if c.Containment.Grace == 0 {
		return containment.DefaultGrace
	}
	return c.Containment.Grace
}

func (c Config) giveUp() time.Duration {
	if c.Containment.GiveUp == 0 {
		return containment.DefaultGiveUp
	}
	return c.Containment.GiveUp
}

// graceMax is the longest grace that leaves room within a hub's usual 10 s.
const graceMax = 7 * time.Second

func (c Config) session(name string, level containment.Level) (SessionConfig, error) {
	metadata, err := c.metadata(level)
	if err != nil {
		return SessionConfig{}, err
	}
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails (crypto/rand)
	return SessionConfig{
		Name: name, DaemonID: c.DaemonID, Metadata: metadata,
		MaxRuns: c.MaxRuns, Seed: binary.LittleEndian.Uint64(seed[:]),
		Grace: c.grace(), GiveUp: c.giveUp(), Timing: c.Timing,
	}, nil
}

// metadata is what the hub shows of this daemon. None of it carries authority.
func (c Config) metadata(level containment.Level) ([]byte, error) {
	host, _ := os.Hostname()
	cwd, _ := os.Getwd()
	m := struct {
		PID         int    `json:"pid"`
		CWD         string `json:"cwd"`
		Platform    string `json:"platform"`
		Version     string `json:"version,omitempty"`
		Containment string `json:"containment"`
		Hostname    string `json:"hostname,omitempty"`
	}{os.Getpid(), cwd, runtime.GOOS + "/" + runtime.GOARCH, c.Version, string(level), host}
	b, err := json.Marshal(m)
	if err != nil {
		// A folder's name need not be UTF-8.
		m.CWD = ""
		b, err = json.Marshal(m)
	}
	return b, err
}
