package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// The colours, as SGR numbers.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	dim    = "2"
	bold   = "1"
)

// onTerminal tells whether a stream goes to a terminal.
func onTerminal(stream any) bool {
	f, ok := isFile(stream)
	return ok && term.IsTerminal(int(f.Fd()))
}

// coloured tells whether a stream gets colours: the flag, then the conventions
// NO_COLOR and CLICOLOR_FORCE, then whether it is a terminal.
func (a *app) coloured(stream any) bool {
	switch a.opts.color {
	case "always":
		return true
	case "never":
		return false
	}
	if v, _ := a.lookupEnv("NO_COLOR"); v != "" {
		return false
	}
	if v, _ := a.lookupEnv("CLICOLOR_FORCE"); v != "" && v != "0" {
		return true
	}
	return onTerminal(stream)
}

// paint colours text for stderr.
func (a *app) paint(colour, text string) string {
	if !a.coloured(a.stderr) {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// say prints a line for people on stderr; with --json nothing.
func (a *app) say(format string, args ...any) {
	if !a.opts.json {
		fmt.Fprintf(a.stderr, "relay: "+format+"\n", args...)
	}
}

// warn prints a warning on stderr, whatever the output format.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.stderr, "%s "+format+"\n", append([]any{a.paint(yellow, "warning:")}, args...)...)
}

// hint is what to do next; it is for a person at a terminal only.
func (a *app) hint(format string, args ...any) {
	if onTerminal(a.stderr) {
		a.say(format, args...)
	}
}

// logger writes to stderr: text on a terminal, JSON lines elsewhere, or as the
// flag says.
func (a *app) logger() *slog.Logger {
	text := a.opts.logFormat == "text" || a.opts.logFormat == "auto" && onTerminal(a.stderr)
	if !text {
		return slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	return slog.New(tint.NewTextHandler(a.stderr, &tint.Options{
		Level: slog.LevelInfo, TimeFormat: time.TimeOnly, NoColor: !a.coloured(a.stderr),
	}))
}

// printJSON prints one value as one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows under a head, aligned, the same on a terminal and in a pipe.
func table(w io.Writer, head []any, rows [][]any) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]any{head}, rows...) {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, cell)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// ago is how long ago a time was, short.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	return short(now.Sub(then))
}

// short is a duration in its two largest units.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", max(d, 0).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}
