package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codingrelay/containment"
	"codingrelay/control"
	"codingrelay/daemon"
)

// client finds the hub: the address that is named, else what relay.json says.
func (a *app) client() (*control.Client, error) {
	address := a.opts.api
	known, err := a.knownHub()
	if address == "" {
		if err != nil {
			return nil, err
		}
		address = known.API
	}
	token, err := a.clientToken(address, known)
	if err != nil {
		return nil, err
	}
	return control.NewClient(address, token), nil
}

// clientToken finds the API token. The one that relay.json names goes to the hub
// of relay.json only, never to another address.
func (a *app) clientToken(address string, known info) (string, error) {
	if a.opts.apiTokenFile != "" {
		return readToken(a.opts.apiTokenFile)
	}
	if token, ok, err := a.tokenFromEnv(envAPIToken); ok || err != nil {
		return token, err
	}
	if known.API != "" && strings.TrimSuffix(address, "/") == known.API {
		return readToken(known.APITokenFile)
	}
	return "", &failure{
		code: "unauthorized", what: "there is no API token for " + address,
		fix: "give the hub's own file: --api-token-file FILE",
	}
}

// explainMore is explain for errors of the API and of the daemon.
func explainMore(err error) *failure {
	var (
		api         *control.APIError
		unreachable *control.UnreachableError
		halted      *daemon.HaltedError
	)
	switch {
	case errors.As(err, &api):
		return &failure{code: api.Code, what: api.Message, retryable: api.Retryable}
	case errors.As(err, &unreachable):
		return &failure{
			code: codeHubUnreachable, what: "the hub does not answer at " + unreachable.Address,
			cause: fmt.Sprint(unreachable.Err), retryable: true,
		}
	case errors.As(err, &halted):
		f := &failure{code: codeHalted, what: fmt.Sprintf("daemon %q has halted: it is not confirmed that everything is gone that a run started", halted.DaemonID)}
		f.cause, f.fix = haltWords(halted)
		return f
	case errors.Is(err, control.ErrStream), errors.Is(err, control.ErrReplaced):
		return &failure{code: codeStreamLost, what: "the run's event stream ended without its outcome", cause: err.Error()}
	case errors.Is(err, containment.ErrUnsupported), errors.Is(err, containment.ErrNoSupervisor):
		return &failure{code: codeContainment, what: "this machine cannot run jobs", cause: err.Error()}
	default:
		return &failure{code: "internal", what: err.Error()}
	}
}

// haltWords names the runs that a halt is about, and the command that lifts it.
func haltWords(h *daemon.HaltedError) (cause, fix string) {
	var lines, accept []string
	for _, r := range h.Runs {
		lines = append(lines, fmt.Sprintf("run %s: %s", r.RunID, r.Reason))
		accept = append(accept, "--accept-unclean "+r.RunID)
	}
	return strings.Join(lines, "\n"),
		"look for processes of these runs on this machine and end them; then: relay daemon " + strings.Join(accept, " ")
}

// completionTimeout bounds what a shell waits for.
const completionTimeout = time.Second

// completeRuns offers the ids of runs to a shell's completion.
func (a *app) completeRuns(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 || a.applyEnv(cmd) != nil {
		return nil, none
	}
	c, err := a.client()
	if err != nil {
		return nil, none
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	runs, err := c.Runs(ctx)
	if err != nil {
		return nil, none
	}
	var out []string
	for _, r := range runs {
		out = append(out, r.RunID+"\t"+r.DaemonID+" "+r.State)
	}
	return out, none
}
