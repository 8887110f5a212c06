package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codingrelay/control"
)

// payloadBytes bounds a payload file; the hub says what a daemon takes.
const payloadBytes = 8 << 20

// runFlags are the flags of `relay run`.
type runFlags struct {
	daemon, workspace, payload string
	timeout, wait              time.Duration
	detach                     bool
	idempotencyKey             string
	onDisconnect, onOverflow   string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run a command on a daemon; its output comes here, its exit code is ours",
		Long: "Runs a command on a daemon. Its stdout and stderr are printed here as they come, and its\n" +
			"exit code becomes ours. With --payload the daemon gets that JSON object instead, for\n" +
			"agents that are not plain commands.\n\n" +
			"Ctrl-C (or TERM) cancels and goes on printing until the run has ended: cancelled, clean,\n" +
			"or not confirmed. A second one says what is awaited; a third leaves at once.",
		Example: "  relay run -- make test\n" +
			"  relay run --daemon build-box --wait 1m --timeout 10m -- ./ci.sh\n" +
			"  echo '{\"prompt_text\":\"hi\"}' | relay run --daemon laptop --payload -",
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), f, args) },
	}
	l := c.Flags()
	l.StringVarP(&f.daemon, "daemon", "d", "", "the daemon to run on (default: the only one that is connected)")
	l.StringVar(&f.workspace, "workspace", "", "folder on the daemon's machine (default: the daemon's first workspace)")
	l.StringVar(&f.payload, "payload", "", "file with the payload, one JSON object; - is stdin")
	l.DurationVar(&f.timeout, "timeout", 0, "limit of the run, 0 is none (default: the hub's, one hour)")
	l.DurationVar(&f.wait, "wait", 0, "how long to wait for the daemon to come online")
	l.BoolVar(&f.detach, "detach", false, "print the run's id and leave; the run goes on")
	l.StringVar(&f.idempotencyKey, "idempotency-key", "", "the same key with the same request is the same run")
	l.StringVar(&f.onDisconnect, "on-disconnect", "", "when this command is gone for longer than the grace: cancel (default) or continue")
	l.StringVar(&f.onOverflow, "on-overflow", "", "when output is not read and the log is full: truncate (default) or cancel")
	c.PreRun = func(cmd *cobra.Command, _ []string) {
		if !cmd.Flags().Changed("timeout") {
			f.timeout = -1
		}
	}
	return c
}

// run is `relay run`.
func (a *app) run(ctx context.Context, f runFlags, command []string) error {
	payload, err := a.payloadOf(f, command)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	req := control.RunRequest{
		Payload: payload, WaitMS: f.wait.Milliseconds(), OnDisconnect: f.onDisconnect, OnOverflow: f.onOverflow, IdempotencyKey: f.idempotencyKey,
	}
	if f.timeout >= 0 {
		ms := f.timeout.Milliseconds()
		req.TimeoutMS = &ms
	}
	if req.DaemonID, err = a.target(ctx, c, f); err != nil {
		return err
	}
	if f.detach {
		return a.detached(ctx, c, req)
	}
	return a.attached(ctx, c, req)
}

// payloadOf is what the daemon gets: the command, or the file's object.
func (a *app) payloadOf(f runFlags, command []string) (json.RawMessage, error) {
	switch {
	case f.wait < 0 || f.timeout < 0 && f.timeout != -1:
		return nil, usagef("--wait and --timeout must not be negative")
	case f.payload != "" && len(command) > 0:
		return nil, usagef("give a command or --payload, not both")
	case f.payload != "":
		return a.readPayload(f.payload)
	case len(command) == 0:
		return nil, &failure{code: codeUsage, what: "there is nothing to run", fix: "relay run -- COMMAND, or --payload FILE"}
	}
	b, err := json.Marshal(struct {
		Command   []string `json:"command"`
		Workspace string   `json:"workspace,omitempty"`
	}{command, f.workspace})
	return b, err
}

func (a *app) readPayload(name string) (json.RawMessage, error) {
	in := a.stdin
	if name != "-" {
		file, err := os.Open(filepath.Clean(name))
		if err != nil {
			return nil, usagef("the payload cannot be read: %v", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	b, err := io.ReadAll(io.LimitReader(in, payloadBytes+1))
	switch {
	case err != nil:
		return nil, usagef("the payload cannot be read: %v", err)
	case len(b) > payloadBytes:
		return nil, &failure{code: "payload_too_large", what: fmt.Sprintf("the payload is above %d bytes", payloadBytes)}
	case !json.Valid(b) || !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")):
		return nil, usagef("the payload is not one JSON object")
	}
	return b, nil
}

// target is the daemon to run on. Without a name it is the only one there is.
func (a *app) target(ctx context.Context, c *control.Client, f runFlags) (string, error) {
	if f.daemon != "" {
		return f.daemon, nil
	}
	daemons, err := c.Daemons(ctx)
	if err != nil {
		return "", err
	}
	switch len(daemons) {
	case 1:
		return daemons[0].DaemonID, nil
	case 0:
		return "", &failure{code: "daemon_offline", what: "no daemon is connected", fix: "relay daemon, on the machine that shall do the work", retryable: true}
	}
	var names []string
	for _, d := range daemons {
		names = append(names, d.DaemonID)
	}
	return "", usagef("several daemons are connected (%s); choose one with --daemon", strings.Join(names, ", "))
}

func (a *app) detached(ctx context.Context, c *control.Client, req control.RunRequest) error {
	r, err := c.StartRun(ctx, req)
	if err != nil {
		return err
	}
	if a.opts.json {
		return printJSON(a.stdout, r)
	}
	_, err = fmt.Fprintln(a.stdout, r.RunID)
	return err
}
