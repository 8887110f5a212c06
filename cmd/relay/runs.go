package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codingrelay/control"
)

// with runs a command that asks the hub.
func (a *app) with(f func(ctx context.Context, c *control.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.Close()
		return f(cmd.Context(), c, args)
	}
}

func (a *app) psCommand() *cobra.Command {
	var quiet, all bool
	c := &cobra.Command{
		Use: "ps", Short: "List runs", Args: exactly(),
		Example: "  relay ps            open runs\n  relay ps --all      and those that have ended\n  relay ps -q         ids only",
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "ids only")
	c.Flags().BoolVarP(&all, "all", "a", false, "also runs that have ended")
	c.RunE = a.with(func(ctx context.Context, c *control.Client, _ []string) error {
		runs, err := c.Runs(ctx)
		if err != nil {
			return err
		}
		shown := []control.Run{}
		for _, r := range runs {
			if all || r.Outcome == nil {
				shown = append(shown, r)
			}
		}
		return a.listRuns(shown, quiet)
	})
	return c
}

func (a *app) listRuns(runs []control.Run, quiet bool) error {
	if a.opts.json {
		return printJSON(a.stdout, runs)
	}
	if len(runs) == 0 {
		a.hint("no runs; relay ps --all lists those that have ended")
		return nil
	}
	now := time.Now()
	var rows [][]any
	for _, r := range runs {
		if quiet {
			if _, err := fmt.Fprintln(a.stdout, r.RunID); err != nil {
				return err
			}
			continue
		}
		state, clean := r.State, "-"
		if r.Outcome != nil {
			state, clean = r.Outcome.Result, yesNo(r.Outcome.Clean)
		}
		rows = append(rows, []any{r.RunID, r.DaemonID, state, clean, ago(now, r.CreatedAt)})
	}
	if quiet {
		return nil
	}
	return table(a.stdout, []any{"RUN", "DAEMON", "STATE", "CLEAN", "AGE"}, rows)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (a *app) logsCommand() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use: "logs RUN", Short: "Print a run's output", Args: exactly("RUN"), ValidArgsFunction: a.completeRuns,
		Long:    "Prints what a run has said. With -f goes on until it ends; Ctrl-C only detaches, the run\ngoes on.",
		Example: "  relay logs RUN\n  relay logs -f RUN",
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run ends")
	c.RunE = a.with(func(ctx context.Context, c *control.Client, args []string) error {
		return a.logs(ctx, c, args[0], follow)
	})
	return c
}

func (a *app) logs(ctx context.Context, c *control.Client, run string, follow bool) error {
	info, err := c.Run(ctx, run)
	if err != nil {
		return err
	}
	if !follow && info.Outcome == nil && info.Events == 0 {
		return nil // nothing was said yet
	}
	ctx, stop := signal.NotifyContext(ctx, endSignals...)
	defer stop()
	last := uint64(everything)
	if !follow && info.Outcome == nil {
		last = info.Events
	}
	p := newPrinter(a)
	entries, done := make(chan entry, entriesAhead), make(chan error, 1)
	go feed(ctx, c.Events(ctx, run, 0, false), entries, last)
	go func() { done <- p.print(entries) }()
	select {
	case err = <-done:
	case <-p.closed:
		stop()
		<-done // the printer is the only one that knows why
		return p.unheard()
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil:
		a.say("detached; run %s goes on", run)
		return exitError(exitInterrupted)
	case err == nil && a.opts.json:
		p.ended(nil)
	case errors.Is(err, errNoOutcome) && last != everything:
		return nil // all there was when it was asked for
	}
	return err
}

func (a *app) cancelCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "cancel RUN", Short: "End a run, and say whether everything of it is gone", Args: exactly("RUN"), ValidArgsFunction: a.completeRuns,
		Long: "Ends a run and waits for the barrier: exit code 0 when every process of it is confirmed\ngone, 5 when that could not be confirmed and the daemon is fenced.",
	}
	c.RunE = a.with(func(ctx context.Context, c *control.Client, args []string) error {
		r, err := c.Cancel(ctx, args[0])
		if err != nil {
			return err
		}
		if a.opts.json {
			if err := printJSON(a.stdout, r); err != nil {
				return err
			}
		}
		if !r.Clean {
			return &failure{code: codeNotConfirmed, what: fmt.Sprintf("%s, not confirmed: the daemon is fenced (%s)", r.Result, r.FenceID), cause: r.Reason}
		}
		if a.opts.json {
			return nil
		}
		words := []string{r.Result, "clean", "after " + short(time.Duration(r.TookMS)*time.Millisecond)}
		if r.Receipt != nil {
			words = append(words, fmt.Sprintf("%d killed", r.Receipt.Killed))
		}
		_, err = fmt.Fprintln(a.stdout, strings.Join(words, ", "))
		return err
	})
	return c
}

func (a *app) daemonsCommand() *cobra.Command {
	var quiet bool
	c := &cobra.Command{Use: "daemons", Short: "List the connected daemons", Args: exactly()}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "ids only")
	c.RunE = a.with(func(ctx context.Context, c *control.Client, _ []string) error {
		daemons, err := c.Daemons(ctx)
		if err != nil {
			return err
		}
		if a.opts.json {
			return printJSON(a.stdout, daemons)
		}
		if len(daemons) == 0 {
			a.hint("no daemon is connected; start relay daemon on the machine that shall do the work")
			return nil
		}
		now := time.Now()
		var rows [][]any
		for _, d := range daemons {
			if quiet {
				if _, err := fmt.Fprintln(a.stdout, d.DaemonID); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, []any{d.DaemonID, daemonState(d), len(d.OpenRuns), d.Remote, ago(now, d.ConnectedAt)})
		}
		if quiet {
			return nil
		}
		return table(a.stdout, []any{"DAEMON", "STATE", "RUNS", "FROM", "SINCE"}, rows)
	})
	return c
}

func daemonState(d control.Daemon) string {
	switch {
	case d.Fenced:
		return "fenced"
	case d.Cancelling:
		return "cancelling"
	case len(d.OpenRuns) > 0:
		return "busy"
	default:
		return "idle"
	}
}

func (a *app) healthzCommand() *cobra.Command {
	c := &cobra.Command{Use: "healthz", Short: "Exit 0 when the hub takes work", Hidden: true, Args: exactly()}
	c.RunE = a.with(func(ctx context.Context, c *control.Client, _ []string) error {
		r, err := c.Ready(ctx)
		if err != nil {
			return err
		}
		if a.opts.json {
			if err := printJSON(a.stdout, r); err != nil {
				return err
			}
		}
		if !r.Ready {
			return exitError(exitUnreachable)
		}
		return nil
	})
	return c
}
