package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codingrelay/containment"
	"codingrelay/daemon"
)

// daemonFlags are the flags of `relay daemon`.
type daemonFlags struct {
	url, id, tokenFile string
	workspaces         []string
	envAllow           []string
	grace, giveUp      time.Duration
	drainTimeout       time.Duration
	containment        string
	maxRuns            int
	acceptUnclean      []string
}

func (a *app) daemonCommand() *cobra.Command {
	var f daemonFlags
	c := &cobra.Command{
		Use:   "daemon",
		Short: "Let this machine run jobs: dial a hub and do what it asks",
		Long: "Dials the hub and runs the commands that callers send, in the workspace. A run is only\n" +
			"acknowledged when every process it started is gone.\n\n" +
			"TERM or Ctrl-C once: no new runs, exit when the running ones have ended. Twice: end the\n" +
			"runs (TERM, grace, KILL), then exit. Three times: exit at once; the supervisors of the\n" +
			"runs end what is left.\n\n" +
			"When a clean-up cannot be confirmed the daemon halts (exit code 78), and every later\n" +
			"start too, until --accept-unclean RUN says that somebody has looked.",
		Example: "  relay daemon                                   dial the hub of this machine\n" +
			"  relay daemon --url wss://relay.example --token-file hub.token --workspace ~/src",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.daemon(cmd.Context(), f) },
	}
	l := c.Flags()
	l.StringVar(&f.url, "url", "", "the hub, as ws://host:port or wss://… (default: from relay.json in the state folder)")
	l.StringVar(&f.id, "daemon-id", "", "name under which callers find this daemon (default: the host's name)")
	l.StringVar(&f.tokenFile, "token-file", "", "file with the hub's token, read before every dial (default: named by relay.json)")
	l.StringSliceVar(&f.workspaces, "workspace", nil, "folder that runs may use, the first is their default (default: the current folder)")
	l.StringSliceVar(&f.envAllow, "env-allow", nil, "another variable that runs get from this daemon's environment; NAME or PREFIX*")
	l.DurationVar(&f.grace, "grace", containment.DefaultGrace, "time between TERM and KILL; above 7s a usual hub fences before it is over")
	l.DurationVar(&f.giveUp, "give-up", containment.DefaultGiveUp, "time after TERM when a clean-up counts as unconfirmed")
	l.DurationVar(&f.drainTimeout, "drain-timeout", 10*time.Minute, "how long the first TERM waits for running runs before it ends them")
	l.StringVar(&f.containment, "containment", "strict", "strict: only what proves that a run is gone; weak: also what can only look (macOS)")
	l.IntVar(&f.maxRuns, "max-runs", daemon.DefaultMaxRuns, "runs at one time; more are refused")
	setEnvName(c, "max-runs", "RELAY_DAEMON_MAX_RUNS")
	l.StringSliceVar(&f.acceptUnclean, "accept-unclean", nil, "lift the halt for this run: you have looked, nothing of it is left")
	return c
}

// daemon is `relay daemon`.
func (a *app) daemon(ctx context.Context, f daemonFlags) error {
	cfg, err := a.daemonConfig(f)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, endSignals...)
	defer signal.Stop(signals)
	d, err := daemon.New(cfg)
	if err != nil {
		return err
	}
	for _, run := range f.acceptUnclean {
		if err := d.AcceptUnclean(run); err != nil {
			return errors.Join(&failure{code: codeUsage, what: "--accept-unclean " + run, cause: err.Error(), exit: exitNotFound, fix: "relay daemon, without it, names the runs"}, d.Close())
		}
	}
	if err := a.sayDaemon(d, cfg); err != nil {
		return errors.Join(err, d.Close())
	}
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return a.awaitDaemon(d, f.drainTimeout, done, signals)
}

func (a *app) sayDaemon(d *daemon.Daemon, cfg daemon.Config) error {
	if d.Halted() != nil {
		return nil // Run says it
	}
	if a.opts.json {
		return printJSON(a.stdout, map[string]string{"event": "started", "daemon_id": cfg.DaemonID, "url": cfg.URL})
	}
	a.say("daemon %q dials %s; runs may use %s", cfg.DaemonID, cfg.URL, strings.Join(cfg.Workspaces, ", "))
	return nil
}

// awaitDaemon is the life of a daemon after its start: one signal drains, the
// next ends the runs, the third ends the process.
func (a *app) awaitDaemon(d *daemon.Daemon, drainTimeout time.Duration, done <-chan error, signals <-chan os.Signal) error {
	drained := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	for pressed := 0; ; {
		select {
		case err := <-done:
			return err
		case err := <-drained:
			if err != nil && pressed == 1 {
				a.say("the runs did not end in %v; they are ended now", drainTimeout)
			}
			go func() { _ = d.Stop(context.Background()) }()
		case s := <-signals:
			pressed++
			switch pressed {
			case 1:
				a.say("%v: draining; no new runs, exit when the running ones have ended (again: end them; a third time: exit at once)", s)
				go func() { drained <- d.Drain(ctx) }()
			case 2:
				a.say("%v: ending the runs and waiting until they are gone (again: exit at once)", s)
				go func() { _ = d.Stop(context.Background()) }()
			default:
				a.say("exit at once; the supervisors end what is left of the runs")
				return exitError(exitFailed)
			}
		}
	}
}

// daemonConfig turns flags, environment and relay.json into a configuration.
func (a *app) daemonConfig(f daemonFlags) (daemon.Config, error) {
	cfg := daemon.Config{
		EnvAllow: f.envAllow, MaxRuns: f.maxRuns, Logger: a.logger(),
		Containment: containment.Config{Grace: f.grace, GiveUp: f.giveUp},
	}
	cfg.Version, _ = buildVersion()
	if err := contain(&cfg.Containment, f.containment, runtime.GOOS); err != nil {
		return cfg, err
	}
	var err error
	if cfg.StateDir, err = a.stateFolder(); err != nil {
		return cfg, err
	}
	if cfg.DaemonID = f.id; cfg.DaemonID == "" {
		if cfg.DaemonID, err = os.Hostname(); err != nil {
			return cfg, &failure{code: codeUsage, what: "this machine has no name", cause: err.Error(), fix: "relay daemon --daemon-id NAME"}
		}
	}
	if cfg.Workspaces, err = workspaces(f.workspaces); err != nil {
		return cfg, err
	}
	if err := a.daemonHub(&cfg, f); err != nil {
		return cfg, err
	}
	if f.grace <= 0 || f.giveUp <= 0 || f.drainTimeout <= 0 || f.maxRuns <= 0 {
		return cfg, usagef("--grace, --give-up, --drain-timeout and --max-runs must be positive")
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usagef("%v", err)
	}
	return cfg, nil
}

// contain judges what containment this system offers and its owner allows.
func contain(cfg *containment.Config, mode, goos string) error {
	switch mode {
	case "strict":
	case "weak":
		cfg.Mode = containment.Weak
	default:
		return usagef("--containment is strict or weak, not %q", mode)
	}
	switch {
	case goos == "windows":
		return &failure{
			code: codeContainment, what: "runs are not supported on Windows yet",
			cause: "nothing here can prove that all processes of a run are gone",
			fix:   "run the daemon on Linux (WSL 2 is one); hub and callers work on Windows",
		}
	case goos == "darwin" && mode == "strict":
		return &failure{
			code: codeContainment, what: "macOS cannot prove that all processes of a run are gone",
			cause: "it can only look for them, which is called weak; receipts and outcomes then say so",
			fix:   "relay daemon --containment weak",
		}
	}
	return nil
}

// daemonHub finds the hub and its token: what is named, else what relay.json
// says. The token of relay.json goes to the hub of relay.json only.
func (a *app) daemonHub(cfg *daemon.Config, f daemonFlags) error {
	cfg.URL = f.url
	known, err := info{}, error(nil)
	if f.url == "" {
		if known, err = a.knownHub(); err != nil {
			return err
		}
		cfg.URL = known.Endpoint
	} else if i, err := a.knownHub(); err == nil && i.Endpoint == f.url {
		known = i
	}
	if f.tokenFile != "" {
		if cfg.TokenFile, err = filepath.Abs(f.tokenFile); err != nil {
			return err
		}
		_, err = readToken(cfg.TokenFile) // say now what every dial would say
		return err
	}
	token, ok, err := a.tokenFromEnv(envToken)
	if err != nil {
		return err
	}
	if ok {
		cfg.Token = func() (string, error) { return token, nil }
		return nil
	}
	cfg.TokenFile = known.TokenFile
	return nil
}

// workspaces are the folders that runs may use, as full paths.
func workspaces(dirs []string) ([]string, error) {
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	out := make([]string, len(dirs))
	for i, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if st, err := os.Stat(abs); err != nil || !st.IsDir() {
			cause := "it is no folder"
			if err != nil {
				cause = err.Error()
			}
			return nil, &failure{code: codeUsage, what: fmt.Sprintf("the workspace %s cannot be used", abs), cause: cause, fix: "relay daemon --workspace DIR"}
		}
		out[i] = abs
	}
	return out, nil
}
