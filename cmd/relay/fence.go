package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codingrelay/control"
)

func (a *app) fenceCommand() *cobra.Command {
	return group("fence", "See and clear fences: machines that an earlier run may still be alive on", a.fenceListCommand(), a.fenceShowCommand(), a.fenceClearCommand())
}

func (a *app) fenceListCommand() *cobra.Command {
	var quiet bool
	c := &cobra.Command{Use: "list", Short: "List the fenced daemons", Args: exactly()}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "ids only; sha256:… where the id is not known")
	c.RunE = a.with(func(ctx context.Context, c *control.Client, _ []string) error {
		fences, err := c.Fences(ctx)
		if err != nil {
			return err
		}
		if a.opts.json {
			return printJSON(a.stdout, fences)
		}
		if len(fences) == 0 {
			a.hint("nothing is fenced")
			return nil
		}
		now := time.Now()
		var rows [][]any
		for _, f := range fences {
			if quiet {
				if _, err := fmt.Fprintln(a.stdout, fenceName(f)); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, []any{fenceName(f), f.FenceID, f.Reason, len(f.Unresolved), ago(now, f.Since)})
		}
		if quiet {
			return nil
		}
		return table(a.stdout, []any{"DAEMON", "FENCE", "REASON", "RUNS", "AGE"}, rows)
	})
	return c
}

// fenceName is how a fence is named in commands.
func fenceName(f control.Fence) string {
	if f.DaemonID == "" {
		return "sha256:" + f.SHA256
	}
	return f.DaemonID
}

func (a *app) fenceShowCommand() *cobra.Command {
	c := &cobra.Command{Use: "show DAEMON", Short: "Show why a daemon is fenced, and how to clear it", Args: exactly("DAEMON")}
	c.RunE = a.with(func(ctx context.Context, c *control.Client, args []string) error {
		f, err := c.Fence(ctx, args[0])
		if err != nil {
			return err
		}
		if a.opts.json {
			return printJSON(a.stdout, f)
		}
		return a.showFence(f)
	})
	return c
}

func (a *app) showFence(f control.Fence) error {
	var b strings.Builder
	fmt.Fprintf(&b, "daemon:    %s\nfence:     %s\nreason:    %s\nsince:     %s (%s ago)\non disk:   %s\n",
		fenceName(f), f.FenceID, f.Reason, f.Since.Format(time.RFC3339), ago(time.Now(), f.Since), yesNo(f.Durable))
	for _, r := range f.Unresolved {
		fmt.Fprintf(&b, "run:       %s (%s, %s)\n", r.RunID, r.Reason, r.At.Format(time.RFC3339))
	}
	if len(f.Metadata) > 0 && string(f.Metadata) != "null" {
		fmt.Fprintf(&b, "machine:   %s\n", f.Metadata)
	}
	fmt.Fprintf(&b, "\nLook on that machine for processes that these runs may have left, and for what they may have\n"+
		"written. Then:\n\n  relay fence clear %s --fence-id %s --reason \"what you saw\"\n", shellWord(fenceName(f)), f.FenceID)
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// shellWord quotes a word for a POSIX shell where it must be.
func shellWord(s string) string {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:/@", r) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}

func (a *app) fenceClearCommand() *cobra.Command {
	var fenceID, reason string
	c := &cobra.Command{
		Use: "clear DAEMON --fence-id FENCE --reason TEXT", Short: "Lift a fence: you have looked, nothing is left", Args: exactly("DAEMON"),
		Long: "Lifts the fence that is named, on your word that nothing of its runs is left on that\nmachine. Refused when another fence is up by now, or other runs of that daemon are open.\nThe record is kept, and the clear is logged with its reason.",
	}
	c.Flags().StringVar(&fenceID, "fence-id", "", "the fence you looked at (relay fence show)")
	c.Flags().StringVar(&reason, "reason", "", "what you saw; it is kept")
	c.RunE = a.with(func(ctx context.Context, c *control.Client, args []string) error {
		if fenceID == "" || strings.TrimSpace(reason) == "" {
			return &failure{code: codeUsage, what: "a clear names the fence you looked at and says what you saw", fix: "relay fence show " + shellWord(args[0]) + " prints the command"}
		}
		r, err := c.ClearFence(ctx, args[0], fenceID, reason)
		if err != nil {
			return err
		}
		if a.opts.json {
			return printJSON(a.stdout, r)
		}
		_, err = fmt.Fprintf(a.stdout, "cleared %s; its record is in %s\n", r.FenceID, orNone(r.MovedTo))
		return err
	})
	return c
}

func orNone(s string) string {
	if s == "" {
		return "memory only"
	}
	return s
}
