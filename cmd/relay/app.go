package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// app is one invocation of the binary: its streams, its environment, and the
// flags that every command has.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	lookupEnv      func(string) (string, bool)
	opts           options
	// started is set when a command's own code began: errors from before that are
	// wrong usage.
	started bool
}

// options are the global flags.
type options struct {
	api          string
	apiTokenFile string
	stateDir     string
	json         bool
	logFormat    string
	color        string
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, lookupEnv func(string) (string, bool)) *app {
	return &app{stdin: stdin, stdout: stdout, stderr: stderr, lookupEnv: lookupEnv}
}

// main runs one command line and returns the process's exit code.
func (a *app) main(args []string) int {
	// A process that owes a cancel or a barrier to somebody must outlive its
	// readers.
	catchPipe()
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return exitOK
	}
	var f *failure
	if !a.started && !errors.As(err, &f) {
		// What cobra itself complains of; it may be several lines (suggestions).
		a.opts.json = a.opts.json || wantsJSON(args)
		err = usagef("%s", strings.TrimSpace(err.Error()))
	}
	return a.report(err)
}

// wantsJSON looks for --json where flags could not be parsed.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "relay",
		Short: "Run coding-agent jobs on machines that only dial out",
		Long: "relay hands coding-agent jobs to machines that only dial out. A cancel is only\n" +
			"confirmed when the processes are really gone; if that cannot be confirmed, the\n" +
			"machine is fenced until it is proven clean.",
		Example: "  relay demo                      see all of it in ten seconds\n" +
			"  relay serve                     start the hub\n" +
			"  relay daemon                    let this machine run jobs\n" +
			"  relay run -- make test          run one; its exit code is ours",
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: a.prepare,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.opts.api, "api", "", "address of the hub's API, as http://host:port (default: from relay.json in the state folder)")
	f.StringVar(&a.opts.apiTokenFile, "api-token-file", "", "file with the API token (default: named by relay.json)")
	f.StringVar(&a.opts.stateDir, "state-dir", "", "state folder (default: relay in $XDG_STATE_HOME or ~/.local/state)")
	f.BoolVar(&a.opts.json, "json", false, "machine-readable output: one JSON object, or one a line")
	f.StringVar(&a.opts.logFormat, "log-format", "auto", "log lines on stderr: text, json, or auto (text on a terminal)")
	f.StringVar(&a.opts.color, "color", "auto", "colour: auto, always or never; NO_COLOR and CLICOLOR_FORCE are heeded")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &failure{code: codeUsage, what: err.Error(), fix: c.CommandPath() + " --help"}
	})
	root.AddCommand(
		a.serveCommand(), a.daemonCommand(), a.runCommand(), a.psCommand(), a.logsCommand(), a.cancelCommand(),
		a.daemonsCommand(), a.fenceCommand(), a.tokenCommand(), a.demoCommand(), a.demoRoleCommand(),
		a.versionCommand(), a.healthzCommand(),
	)
	root.AddCommand(
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes and error codes mean", Long: exitHelp()},
		&cobra.Command{Use: "environment", Short: "The environment variables", Long: envHelp(root)},
	)
	return root
}

// prepare runs before every command: environment, and what is wrong with the
// global flags.
func (a *app) prepare(cmd *cobra.Command, _ []string) error {
	if err := a.applyEnv(cmd); err != nil {
		return err
	}
	switch a.opts.logFormat {
	case "auto", "text", "json":
	default:
		return usagef("--log-format is auto, text or json, not %q", a.opts.logFormat)
	}
	switch a.opts.color {
	case "auto", "always", "never":
	default:
		return usagef("--color is auto, always or never, not %q", a.opts.color)
	}
	a.started = true
	return nil
}

// group is a command that only holds others.
func group(use, short string, sub ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &failure{
					code: codeUsage, what: fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath()),
					fix: cmd.CommandPath() + " --help",
				}
			}
			return cmd.Help()
		},
	}
	c.AddCommand(sub...)
	return c
}

// exactly refuses another number of arguments, and says which are expected.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		want := "no arguments"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		return &failure{
			code: codeUsage, what: fmt.Sprintf("%s takes %s, got %d arguments", cmd.CommandPath(), want, len(args)),
			fix: cmd.CommandPath() + " --help",
		}
	}
}

// isFile reports whether w is an open file, and which.
func isFile(w any) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok
}
