package daemon_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/containment"
	"codingrelay/daemon"
	"codingrelay/persist"
	"codingrelay/transport"
	"codingrelay/wire"
)

// sockets is a hub's listener on real sockets.
type sockets struct{}

func (sockets) Listen(ctx context.Context, addr string, accept actors.Accept) (actors.Listening, error) {
	return transport.Listen(ctx, addr, transport.ListenConfig{}, transport.Accept(accept))
}

// together is a hub and a daemon of ours over loopback.
func together(t *testing.T, change func(*daemon.Config)) (context.Context, *actors.Hub, *daemon.Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	hub, err := actors.Start(nil, actors.Config{}, actors.Ports{Store: persist.NewMemory(), Listener: sockets{}})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := hub.Listen(ctx, actors.ListenConfig{Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := daemon.Config{
		DaemonID: "laptop", URL: "ws://" + addr, StateDir: t.TempDir(), Workspaces: []string{t.TempDir()},
		Containment: containment.Config{Grace: 500 * time.Millisecond, DrainGrace: 200 * time.Millisecond},
		Timing:      daemon.Timing{BackoffMin: time.Millisecond, BackoffMax: 10 * time.Millisecond},
	}
	if change != nil {
		change(&cfg)
	}
	d, err := daemon.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		if err := d.Stop(ctx); err != nil {
			t.Errorf("stop the daemon: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
		if err := hub.Stop(ctx); err != nil {
			t.Errorf("stop the hub: %v", err)
		}
	})
	if _, err := hub.WaitForDaemon(ctx, "laptop"); err != nil {
		t.Fatal(err)
	}
	return ctx, hub, d
}

// The main job, over real sockets and a real process: events live, a cancel that
// is clean, and a receipt.
func TestHubAndDaemonAgreeOnACancel(t *testing.T) {
	ctx, hub, _ := together(t, nil)
	run, err := hub.Run(ctx, actors.RunRequest{
		DaemonID: "laptop", Payload: []byte(`{"command":"sh -c 'trap \"\" TERM; echo up; while :; do sleep 1; done'"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range run.Events(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(ev.Data), `"text":"up\n"`) {
			break
		}
	}
	out, err := run.Cancel(ctx)
	if err != nil || out.Result != actors.Cancelled || !out.Clean || out.Receipt == nil || out.Receipt.Killed == 0 {
		t.Errorf("outcome %+v, %v", out, err)
	}
}

// D23: between ours, events far above 1 MiB arrive whole.
func TestD23LargeEventsArriveWholeBetweenOurs(t *testing.T) {
	sizes := []int{33 << 10, 1 << 20, 3 << 20}
	ctx, hub, _ := together(t, func(cfg *daemon.Config) {
		cfg.Runner = daemon.RunnerFunc(func(ctx context.Context, job *daemon.Job) error {
			for _, n := range sizes {
				if err := job.Emit(ctx, []byte(`{"t":"`+strings.Repeat("x", n)+`"}`)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	run, err := hub.Run(ctx, actors.RunRequest{DaemonID: "laptop", Payload: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for ev, err := range run.Events(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Count(string(ev.Data), "x"))
	}
	if len(got) != len(sizes)+1 || got[0] != sizes[0] || got[1] != sizes[1] || got[2] != sizes[2] {
		t.Errorf("events with %v x arrived, want %v and the end", got, sizes)
	}
}

// A daemon that stops leaves no fence behind.
func TestStoppedDaemonLeavesNoFence(t *testing.T) {
	ctx, hub, d := together(t, nil)
	run, err := hub.Run(ctx, actors.RunRequest{DaemonID: "laptop", Payload: []byte(`{"command":"sh -c 'echo up; sleep 60'"}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range run.Events(ctx, 0) { // a run.start on its way would be lost
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if err := d.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if out, err := run.Wait(ctx); err != nil || !out.Clean || out.Result != actors.Finished {
		t.Errorf("outcome %+v, %v", out, err)
	}
	if fences, err := hub.Fences(ctx); err != nil || len(fences) != 0 {
		t.Errorf("fences %+v, %v", fences, err)
	}
}

// The same over the twin in memory, where a flush is over when the peer has read
// it.
func TestDaemonWorksOverAPipe(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hub, door := startMemoryHub(ctx)
	dials := 0
	d, err := daemon.New(daemon.Config{
		DaemonID: "laptop", StateDir: t.TempDir(), Workspaces: []string{t.TempDir()},
		Dial: func(ctx context.Context, open func(wire.Link) wire.Sink) error {
			dials++
			return door.dial(ctx, open)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	if _, err := hub.WaitForDaemon(ctx, "laptop"); err != nil {
		t.Fatal(err)
	}
	run, err := hub.Run(ctx, actors.RunRequest{DaemonID: "laptop", Payload: []byte(`{"command":["seq","5000"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range run.Events(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if out, err := run.Wait(ctx); err != nil || !out.Clean || n != 5001 {
		t.Errorf("%d events and %+v, %v", n, out, err)
	}
	if err := d.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil || dials != 1 {
		t.Errorf("it ended with %v after %d dials", err, dials)
	}
	if err := hub.Stop(ctx); err != nil {
		t.Error(err)
	}
}
