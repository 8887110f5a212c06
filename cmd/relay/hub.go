package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"

	"codingrelay/actors"
	"codingrelay/control"
	"codingrelay/persist"
	"codingrelay/transport"
)

// installConfig is what one hub with its API is made from.
type installConfig struct {
	// listen and api are host:port; port 0 picks one.
	listen, api string
	// dir is the folder for relay.json and the tokens, "" for none.
	dir string
	// storeDir is the folder of the store, "" for a memory store.
	storeDir string
	// token is the daemons' secret and tokenFile where it came from, "" if no file.
	token, tokenFile string
	apiTokenFile     string
	apiHosts         []string
	apiOrigins       []string
	shared, force    bool
	hub              actors.Config
	maxUnauth        int
	logger           *slog.Logger
}

// installation is a running hub with its store and its API.
type installation struct {
	cfg   installConfig
	hub   *actors.Hub
	api   *control.Server
	store persist.Store
	log   *factLog
	info  info
	// apiToken is the API's secret; it goes nowhere but into clients of this process.
	apiToken string
}

// openInstallation starts everything, in the order that makes a failure cost
// nothing: the store with its lock first, then the door for callers, then the
// door for daemons, then the note that tells where the doors are.
func openInstallation(ctx context.Context, cfg installConfig) (_ *installation, err error) {
	in := &installation{cfg: cfg}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if in.store, err = openStore(cfg); err != nil {
		return nil, err
	}
	if in.apiToken, err = apiToken(cfg.apiTokenFile); err != nil {
		return nil, err
	}
	in.log = newFactLog(cfg.logger)
	metrics := control.NewMetrics()
	in.hub, err = actors.Start(nil, cfg.hub, actors.Ports{
		Store: in.store, Listener: listener{transport.ListenConfig{MaxUnauthenticated: cfg.maxUnauth, Logger: cfg.logger}},
		Observer: observers{metrics, in.log}, Logger: cfg.logger,
	})
	if err != nil {
		return nil, err
	}
	in.api, err = control.New(in.hub, control.Options{
		Token: in.apiToken, ErrorPrefix: cfg.hub.ErrorPrefix, Hosts: cfg.apiHosts, Origins: cfg.apiOrigins,
		Metrics: metrics, Logger: cfg.logger,
	})
	if err != nil {
		return nil, err
	}
	apiAddr, err := in.api.Listen(ctx, cfg.api)
	if err != nil {
		return nil, apiBindFailure(cfg.api, err)
	}
	addr, err := in.listen(ctx)
	if err != nil {
		return nil, err
	}
	in.info = info{
		Event: "ready", Endpoint: "ws://" + dialable(addr), API: "http://" + dialable(apiAddr.String()),
		APITokenFile: cfg.apiTokenFile, TokenFile: cfg.tokenFile,
		Durable: in.store.Durable(), PID: os.Getpid(), Instance: uuid.NewString(),
	}
	if cfg.dir != "" {
		err = writeInfo(cfg.dir, in.info)
	}
	return in, err
}

func openStore(cfg installConfig) (persist.Store, error) {
	if cfg.storeDir == "" {
		return persist.NewMemory(), nil
	}
	files, err := persist.Open(cfg.storeDir, persist.Options{Program: "relay serve", Logger: cfg.logger})
	if err != nil {
		return nil, err // not a store that is nil inside
	}
	return files, nil
}

// apiToken reads or makes the API's token.
func apiToken(path string) (string, error) {
	token, err := control.LoadOrCreateToken(path)
	if err != nil {
		return "", &failure{
			code: codeTokenFile, what: fmt.Sprintf("the API token file %s cannot be used", path), cause: err.Error(),
			fix: "remove it, and relay serve makes a new one",
		}
	}
	return token, nil
}

// listen opens the door for daemons.
func (in *installation) listen(ctx context.Context) (string, error) {
	host, portText, err := net.SplitHostPort(in.cfg.listen)
	if err != nil {
		return "", usagef("--listen %q is no host:port", in.cfg.listen)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return "", usagef("--listen %q: the port is a number up to 65535", in.cfg.listen)
	}
	return in.hub.Listen(ctx, actors.ListenConfig{
		Host: host, Port: port, Token: in.cfg.token, Shared: in.cfg.shared, Force: in.cfg.force,
	})
}

func apiBindFailure(addr string, err error) error {
	var bind *control.BindError
	if !errors.As(err, &bind) {
		return usagef("--api %q: %v", addr, err)
	}
	return &failure{
		code: string(actors.CodeBindFailed), what: fmt.Sprintf("cannot listen on %s for the API", addr), cause: bind.Err.Error(),
		fix: "relay serve --api 127.0.0.1:0 picks a free port; a second installation needs a --state-dir of its own, too",
	}
}

// dialable is an address that a program on this machine can dial.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// stop ends every run with the barrier, closes the sockets, and then the API:
// callers still learn their outcomes. ctx limits the waiting only.
func (in *installation) stop(ctx context.Context) error {
	if err := in.hub.Stop(ctx); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, streamsEnd)
	defer cancel()
	if err := in.api.Shutdown(bounded); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// streamsEnd is how long a stopped hub waits for slow readers to take the ends of
// their runs.
const streamsEnd = 5 * time.Second

// close gives everything back, whatever was reached. A hub that was not stopped
// is stopped now.
func (in *installation) close() {
	if in.hub != nil {
		_ = in.hub.Stop(context.Background())
	}
	if in.api != nil {
		_ = in.api.Close()
	}
	if in.store != nil {
		_ = in.store.Close()
	}
	if in.cfg.dir != "" && in.info.Instance != "" {
		_ = removeInfo(in.cfg.dir, in.info)
	}
	if in.log != nil {
		in.log.close()
	}
}

// listener is the hub's way to open a socket.
type listener struct{ cfg transport.ListenConfig }

// Listen implements [actors.Listener].
func (l listener) Listen(ctx context.Context, addr string, accept actors.Accept) (actors.Listening, error) {
	ls, err := transport.Listen(ctx, addr, l.cfg, transport.Accept(accept))
	if err != nil {
		return nil, err
	}
	return ls, nil
}

// observers tells each fact to several.
type observers []actors.Observer

// Observe implements [actors.Observer].
func (o observers) Observe(f actors.Fact) {
	for _, one := range o {
		one.Observe(f)
	}
}

// hubFolder is the store's folder below a state folder.
func hubFolder(dir string) string { return filepath.Join(dir, hubDirName) }
