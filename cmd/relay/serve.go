package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"codingrelay/actors"
)

// The default addresses: loopback, and ports that are always the same, so that
// nothing has to be said on one machine.
const (
	defaultListen = "127.0.0.1:7433"
	defaultAPI    = "127.0.0.1:7434"
)

// serveFlags are the flags of `relay serve`.
type serveFlags struct {
	listen, api        string
	tokenFile          string
	noToken, force     bool
	memory, shared     bool
	apiHosts, origins  []string
	hub                actors.Config
	maxUnauthenticated int
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Start the hub: daemons dial in, callers use its HTTP API",
		Long: "Starts the hub. Daemons dial its endpoint; callers use its HTTP API, and so do the\n" +
			"other commands, which find both in relay.json in the state folder.\n\n" +
			"TERM or Ctrl-C ends every run, waits until their processes are confirmed gone or\n" +
			"their daemons are fenced, and exits. A second one exits at once with 1; what was not\n" +
			"confirmed then is fenced at the next start.",
		Example: "  relay serve\n" +
			"  relay serve --listen 127.0.0.1:0 --api 127.0.0.1:0 --state-dir ./second --json\n" +
			"  relay serve --shared --token-file hub.token --listen 0.0.0.0:7433",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f) },
	}
	l := c.Flags()
	l.StringVar(&f.listen, "listen", defaultListen, "host:port that daemons dial; port 0 picks one")
	l.StringVar(&f.api, "api", defaultAPI, "host:port of the HTTP API; port 0 picks one")
	setEnvName(c, "api", "RELAY_API_LISTEN")
	l.StringVar(&f.tokenFile, "token-file", "", "file with the token that daemons must know (default: made in the state folder)")
	l.BoolVar(&f.noToken, "no-token", false, "let daemons in without a token; on loopback only")
	l.BoolVar(&f.force, "force", false, "allow --no-token on other addresses than loopback")
	l.BoolVar(&f.memory, "memory", false, "keep fences in memory only: a restart forgets them, and outcomes say durable:false")
	l.BoolVar(&f.shared, "shared", false, "shared profile: require a strong token and a durable store")
	l.StringSliceVar(&f.apiHosts, "api-host", nil, "another name by which the API may be asked for (Host header)")
	l.StringSliceVar(&f.origins, "api-origin", nil, "a web origin that may use the API")
	l.StringVar(&f.hub.ErrorPrefix, "error-prefix", "", "what stands before each error code (default agent_runtime)")
	l.IntVar(&f.maxUnauthenticated, "max-unauthenticated", 0, "sockets that have not said who they are (default 1024)")
	for _, d := range serveDurations(&f.hub) {
		l.DurationVar(d.value, d.name, 0, fmt.Sprintf("%s (default %s)", d.usage, d.def))
	}
	for _, n := range serveNumbers(&f.hub) {
		l.IntVar(n.value, n.name, 0, fmt.Sprintf("%s (default %s)", n.usage, n.def))
	}
	return c
}

// limitFlag is one of the hub's limits as a flag. Its default is the hub's own,
// [actors.Config].
type limitFlag[T any] struct {
	value            *T
	name, usage, def string
}

func serveDurations(c *actors.Config) []limitFlag[time.Duration] {
	return []limitFlag[time.Duration]{
		{&c.CancelTimeout, "cancel-timeout", "how long a cancel is waited for before the daemon is fenced", "10s"},
		{&c.RunTimeout, "run-timeout", "limit of a run that names none", "1h"},
		{&c.HelloTimeout, "hello-timeout", "how long a socket may take to say hello", "10s"},
		{&c.SilenceTimeout, "silence-timeout", "silence that ends a connection", "45s"},
		{&c.PingEvery, "ping-every", "interval of pings", "15s"},
		{&c.HoldMax, "hold-max", "how long a slow reader may hold a run back, at most 15s", "15s"},
		{&c.AttachGrace, "attach-grace", "how long the caller of an attached run may be away", "10s"},
		{&c.Retention, "retention", "how long an ended run stays readable", "15m"},
		{&c.ToolTimeout, "tool-timeout", "limit of one tool call", "60s"},
	}
}

func serveNumbers(c *actors.Config) []limitFlag[int] {
	return []limitFlag[int]{
		{&c.MaxConnections, "max-connections", "connected daemons", "1024"},
		{&c.MaxRuns, "max-runs", "open runs in all", "1024"},
		{&c.MaxRunsPerDaemon, "max-runs-per-daemon", "open runs of one daemon", "64"},
		{&c.RetainedRuns, "retained-runs", "ended runs that stay readable", "1000"},
		{&c.RetainedBytes, "retained-bytes", "bytes of ended runs that stay readable", "256 MiB"},
		{&c.LogBytes, "log-bytes", "bytes of one run's event log", "8 MiB"},
		{&c.OutboundBytes, "outbound-bytes", "bytes of one connection's outbound queue", "16 MiB"},
		{&c.ToolCalls, "tool-calls", "tool calls of one run in flight", "8"},
		{&c.ToolBytes, "tool-bytes", "bytes of one run's tool calls in flight", "4 MiB"},
	}
}

// serve is `relay serve`.
func (a *app) serve(ctx context.Context, f serveFlags) error {
	cfg, cleanUp, err := a.installConfig(f)
	if err != nil {
		return err
	}
	defer cleanUp()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, endSignals...)
	defer signal.Stop(signals)
	in, err := openInstallation(ctx, cfg)
	if err != nil {
		return err
	}
	if err := a.sayReady(in, f); err != nil {
		in.close()
		return err
	}
	select {
	case <-in.hub.Done():
		err := in.hub.Err()
		in.close()
		return &failure{code: string(actors.CodeInternal), what: "the hub failed; its runs' daemons are fenced", cause: fmt.Sprint(err)}
	case s := <-signals:
		return a.stopServing(in, s, signals)
	}
}

// stopServing is the end on request: with the barrier, or at once when asked
// again.
func (a *app) stopServing(in *installation, s os.Signal, signals <-chan os.Signal) error {
	a.say("%v: stopping; runs are ended and their clean-up is awaited (again: exit at once)", s)
	done := make(chan error, 1)
	go func() {
		done <- in.stop(context.Background())
		in.close()
		close(done)
	}()
	var stopped error
	for {
		select {
		case err, open := <-done:
			if !open {
				return stopped
			}
			stopped = err
		case <-signals:
			if in.cfg.dir != "" {
				_ = removeInfo(in.cfg.dir, in.info)
			}
			a.say("exit without waiting; what was not confirmed is fenced at the next start")
			return exitError(exitFailed)
		}
	}
}

// sayReady tells where the doors are: on stdout for programs, on stderr for
// people.
func (a *app) sayReady(in *installation, f serveFlags) error {
	if f.memory {
		a.warn("--memory: fences are forgotten when this process ends; outcomes say durable:false")
	}
	if a.opts.json {
		return printJSON(a.stdout, struct {
			Event    string `json:"event"`
			Endpoint string `json:"endpoint"`
			API      string `json:"api"`
		}{in.info.Event, in.info.Endpoint, in.info.API})
	}
	a.say("daemons dial %s, the API is %s", in.info.Endpoint, in.info.API)
	extra := ""
	if dir, err := a.defaultStateFolder(); err != nil || dir != in.cfg.dir {
		extra = " --state-dir " + in.cfg.dir
	}
	a.say("next, in other terminals: relay daemon%s, then relay run%s -- echo hello", extra, extra)
	return nil
}

// installConfig turns flags, environment and files into a configuration.
func (a *app) installConfig(f serveFlags) (installConfig, func(), error) {
	none := func() {}
	if err := f.hub.Validate(); err != nil {
		return installConfig{}, none, usagef("%v", err)
	}
	if f.maxUnauthenticated < 0 {
		return installConfig{}, none, usagef("--max-unauthenticated must not be negative")
	}
	if v, _ := a.lookupEnv(envProfile); v == "shared" {
		f.shared = true
	}
	if f.memory && f.shared {
		return installConfig{}, none, &failure{
			code: codeUsage, what: "--memory is refused in the shared profile",
			cause: "a restart would forget which daemons are fenced", fix: "leave --memory out",
		}
	}
	dir, cleanUp, err := a.serveFolder(f.memory)
	if err != nil {
		return installConfig{}, none, err
	}
	cfg := installConfig{
		listen: f.listen, api: f.api, dir: dir, apiHosts: f.apiHosts, apiOrigins: f.origins, shared: f.shared, force: f.force,
		hub: f.hub, maxUnauth: f.maxUnauthenticated, apiTokenFile: a.opts.apiTokenFile, logger: a.logger(),
	}
	if !f.memory {
		cfg.storeDir = hubFolder(dir)
	}
	if cfg.apiTokenFile == "" {
		cfg.apiTokenFile = filepath.Join(dir, apiTokenName)
	}
	// relay.json is read by programs in other folders.
	if cfg.apiTokenFile, err = filepath.Abs(cfg.apiTokenFile); err != nil {
		return installConfig{}, none, err
	}
	if cfg.token, cfg.tokenFile, err = a.serveToken(f, dir); err != nil {
		cleanUp()
		return installConfig{}, none, err
	}
	return cfg, cleanUp, nil
}

// serveToken finds the token that daemons must know, and the file it is in.
func (a *app) serveToken(f serveFlags, dir string) (token, file string, err error) {
	if f.noToken {
		return "", "", nil
	}
	if f.tokenFile != "" {
		if file, err = filepath.Abs(f.tokenFile); err != nil {
			return "", "", err
		}
		token, err = readToken(file)
		return token, file, err
	}
	if token, ok, err := a.tokenFromEnv(envToken); ok || err != nil {
		return token, "", err
	}
	file = filepath.Join(dir, daemonTokenName)
	token, err = ensureToken(file)
	return token, file, err
}

// serveFolder is where relay.json and the tokens go. A memory hub takes the
// user's state folder unless a live hub is there, whose note it must not replace;
// then it has a folder of its own for as long as it runs.
func (a *app) serveFolder(memory bool) (dir string, cleanUp func(), err error) {
	none := func() {}
	if dir, err = a.stateFolder(); err != nil {
		return "", none, err
	}
	if memory && a.liveHub(dir) {
		other := dir
		if dir, err = os.MkdirTemp("", "relay-memory-"); err != nil {
			return "", none, err
		}
		a.warn("a hub is live in %s; this one is found with --state-dir %s", other, dir)
		return dir, func() { _ = os.RemoveAll(dir) }, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", none, &failure{code: codeStateFolder, what: "the state folder cannot be made", cause: err.Error()}
	}
	return dir, none, nil
}

// liveHub tells whether the hub that the folder's relay.json names answers.
func (a *app) liveHub(dir string) bool {
	i, err := readInfo(dir)
	if err != nil {
		return false
	}
	c := http.Client{Timeout: 2 * time.Second}
	resp, err := c.Get(i.API + "/healthz")
	var closed error
	if err == nil {
		closed = resp.Body.Close()
	}
	return errors.Join(err, closed) == nil && resp.StatusCode == http.StatusOK
}
