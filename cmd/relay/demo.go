package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codingrelay/actors"
	"codingrelay/containment"
)

// demoTimeout bounds the whole demo; it takes about ten seconds.
const demoTimeout = 60 * time.Second

// The demo's own times: shorter than the defaults, so that nobody has to wait.
const (
	demoCancelTimeout = 5 * time.Second
	demoGrace         = 500 * time.Millisecond
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See all of it in ten seconds: run, cancel, fence, recovery",
		Long: "Starts a hub and a daemon on this machine, streams a run, cancels one that resists, and\n" +
			"shows how a machine is fenced and cleared. Real processes, real sockets; cleans up\n" +
			"after itself. Ends with 1 when anything it claims does not hold.",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), demoTimeout)
			defer cancel()
			ctx, stop := signal.NotifyContext(ctx, endSignals...)
			defer stop()
			context.AfterFunc(ctx, stop) // a second one does not wait for the cleaning up
			err := a.demo(ctx)
			if err != nil && errors.Is(ctx.Err(), context.Canceled) {
				return context.Canceled // what it was interrupted in does not matter
			}
			return err
		},
	}
}

// demonstration is one demo: a hub in this process, a daemon in another.
type demonstration struct {
	app   *app
	dir   string
	token string
	in    *installation
	child *demoDaemon
	held  bool // every part did
}

// demo runs every part in order; the first that does not hold ends it.
func (a *app) demo(ctx context.Context) (err error) {
	if err := contain(&containment.Config{}, "strict", demoSystem()); err != nil {
		return err
	}
	d := &demonstration{app: a}
	defer func() { err = d.cleanUp(err) }()
	if err := d.setUp(ctx); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{d.streams, d.resists, d.fences} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	d.held = true
	return nil
}

func (d *demonstration) title(format string, args ...any) {
	fmt.Fprintf(d.app.stdout, "\n%s\n", d.app.paintOut(bold, fmt.Sprintf(format, args...)))
}

func (d *demonstration) line(format string, args ...any) {
	fmt.Fprintf(d.app.stdout, "  "+format+"\n", args...)
}

// holds prints a claim that was checked.
func (d *demonstration) holds(format string, args ...any) {
	d.line("%s %s", d.app.paintOut(green, "✓"), fmt.Sprintf(format, args...))
}

// broken is a claim that does not hold.
func broken(format string, args ...any) error {
	return &failure{code: codeDemo, what: "the demo's claim does not hold: " + fmt.Sprintf(format, args...), exit: exitFailed}
}

func (d *demonstration) setUp(ctx context.Context) error {
	var err error
	if d.dir, err = os.MkdirTemp("", "relay-demo-"); err != nil {
		return err
	}
	d.token = newSecret()
	d.title("1. A hub, and a daemon in another process that dials it")
	d.in, err = openInstallation(ctx, installConfig{
		listen: "127.0.0.1:0", api: "127.0.0.1:0", storeDir: hubFolder(d.dir), token: d.token,
		apiTokenFile: filepath.Join(d.dir, "api-token"),
		hub:          actors.Config{CancelTimeout: demoCancelTimeout}, logger: discardLogger(),
	})
	if err != nil {
		return err
	}
	if d.child, err = startDemoDaemon(d.dir, d.in.info.Endpoint, d.token); err != nil {
		return err
	}
	info, err := d.in.hub.WaitForDaemon(ctx, demoDaemonID)
	if err != nil {
		return fmt.Errorf("the daemon did not come: %w\n%s", err, d.child.log())
	}
	d.holds("hub on %s, daemon %q (pid %d) connected from %s", d.in.info.Endpoint, info.DaemonID, d.child.pid(), info.Remote)
	return nil
}

// start starts a command on the daemon.
func (d *demonstration) start(ctx context.Context, command ...string) (*actors.Run, error) {
	payload, err := json.Marshal(map[string]any{"command": command})
	if err != nil {
		return nil, err
	}
	return d.in.hub.Run(ctx, actors.RunRequest{DaemonID: demoDaemonID, Payload: payload})
}

// outputText is the text of an output event, "" for any other.
func outputText(event []byte) string {
	var e struct {
		Type string `json:"type"`
		Data struct {
			Text string `json:"text"`
		} `json:"data"`
	}
	if json.Unmarshal(event, &e) != nil || e.Type != "output" {
		return ""
	}
	return strings.TrimRight(e.Data.Text, "\n")
}

// streams: a run's output comes live, in order, and its end is clean.
func (d *demonstration) streams(ctx context.Context) error {
	d.title("2. A run streams its output, live")
	began := time.Now()
	run, err := d.start(ctx, "sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.3; done")
	if err != nil {
		return err
	}
	var first, last time.Duration
	lines := 0
	for ev, err := range run.Events(ctx, 0) {
		if err != nil {
			return err
		}
		if text := outputText(ev.Data); text != "" {
			lines++
			last = time.Since(began)
			if lines == 1 {
				first = last
			}
			d.line("%6s  event %d  %s", short(last), ev.Seq, text)
		}
	}
	out, err := run.Wait(ctx)
	if err != nil {
		return err
	}
	if lines != 3 || last-first < 300*time.Millisecond || out.Result != actors.Finished || !out.Clean {
		return broken("%d lines over %v, %s, clean=%t", lines, last-first, out.Result, out.Clean)
	}
	d.holds("finished, clean: the daemon confirmed that nothing of it is left")
	return nil
}

// resists: a tree that ignores TERM and has escaped its session is gone when the
// cancel is confirmed.
func (d *demonstration) resists(ctx context.Context) error {
	d.title("3. A run that resists: it ignores TERM, and its grandchildren have left its session")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	run, err := d.start(ctx, self, demoRole, "tree")
	if err != nil {
		return err
	}
	var pids []int
	for ev, err := range run.Events(ctx, 0) {
		if err != nil {
			return err
		}
		var pid int
		var what string
		if n, _ := fmt.Sscanf(outputText(ev.Data), "pid %d %s", &pid, &what); n == 2 {
			pids = append(pids, pid)
			d.line("pid %d is alive: %s", pid, what)
		}
		if len(pids) == 3 {
			break
		}
	}
	if alive := living(pids); len(pids) != 3 || len(alive) != 3 {
		return broken("%d processes reported, %d alive before the cancel", len(pids), len(alive))
	}
	began := time.Now()
	out, err := run.Cancel(ctx)
	if err != nil {
		return err
	}
	if alive := living(pids); out.Result != actors.Cancelled || !out.Clean || len(alive) != 0 {
		return broken("%s, clean=%t %s; still alive: %v", out.Result, out.Clean, out.Reason, alive)
	}
	d.holds("cancelled, clean, after %s: all three are gone, and only then was it said", short(time.Since(began)))
	if out.Receipt != nil {
		d.line("receipt: by %s, %d killed, %d left", out.Receipt.Mechanism, out.Receipt.Killed, out.Receipt.Survivors)
	}
	return nil
}

// fences: a daemon that never acknowledges is fenced and refused, and its late
// acknowledgement lifts the fence.
func (d *demonstration) fences(ctx context.Context) error {
	d.title("4. A daemon that never confirms is fenced")
	peer, err := dialDemoPeer(ctx, d.in.info.Endpoint, d.token)
	if err != nil {
		return err
	}
	defer peer.close()
	run, err := d.in.hub.Run(ctx, actors.RunRequest{DaemonID: demoPeerID, Payload: []byte(`{}`)})
	if err != nil {
		return err
	}
	d.line("cancelling a run there; it has %v to confirm, and will not", demoCancelTimeout)
	out, err := run.Cancel(ctx)
	if err != nil {
		return err
	}
	if out.Clean || !out.Durable || out.FenceID == "" {
		return broken("an unconfirmed cancel ended clean=%t durable=%t fence=%q", out.Clean, out.Durable, out.FenceID)
	}
	d.holds("not confirmed: daemon %q is fenced (%s), on disk before it was said", demoPeerID, out.FenceID)
	_, err = d.in.hub.Run(ctx, actors.RunRequest{DaemonID: demoPeerID, Payload: []byte(`{}`)})
	if actors.CodeOf(err) != actors.CodeFenced {
		return broken("a run on a fenced daemon gave %v", err)
	}
	d.holds("the next run is refused: %s", actors.CodeFenced)
	d.title("5. Its late word lifts the fence")
	if err := peer.finish(run.ID()); err != nil {
		return err
	}
	if err := d.untilClear(ctx); err != nil {
		return err
	}
	next, err := d.in.hub.Run(ctx, actors.RunRequest{DaemonID: demoPeerID, Payload: []byte(`{}`)})
	if err != nil {
		return broken("a run after the fence was lifted: %v", err)
	}
	if err := peer.finish(next.ID()); err != nil {
		return err
	}
	if out, err = next.Wait(ctx); err != nil || !out.Clean {
		return broken("the run after the fence ended %s, clean=%t, %v", out.Result, out.Clean, err)
	}
	d.holds("lifted; a new run there finished, clean")
	return nil
}

// untilClear waits until no fence is left.
func (d *demonstration) untilClear(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		fences, err := d.in.hub.Fences(ctx)
		if err != nil {
			return err
		}
		if len(fences) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return broken("the fence was not lifted")
		}
	}
}

// cleanUp leaves nothing behind, whatever was reached, and says so.
func (d *demonstration) cleanUp(err error) error {
	if d.in != nil {
		// First, so that what still runs is ended and confirmed.
		if stopErr := d.in.hub.Stop(context.Background()); err == nil {
			err = stopErr
		}
	}
	if d.child != nil {
		if stopErr := d.child.stop(); err == nil && stopErr != nil {
			err = fmt.Errorf("the daemon did not end well: %w\n%s", stopErr, d.child.log())
		}
	}
	if d.in != nil {
		d.in.close()
	}
	if d.dir != "" {
		if rmErr := os.RemoveAll(d.dir); err == nil {
			err = rmErr
		}
	}
	if err == nil && d.held {
		d.title("Everything held, and everything is cleaned up. Next: relay serve, relay daemon, relay run -- CMD")
	}
	return err
}

// paintOut colours text for stdout.
func (a *app) paintOut(colour, text string) string {
	if !a.coloured(a.stdout) {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
