package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"codingrelay/containment"
)

// logBook is a logger that keeps what was said.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// testDaemon is a daemon that runs.
type testDaemon struct {
	*Daemon
	t      testing.TB
	log    *logBook
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// testConfig is a daemon of the raw hub with short times.
func testConfig(t testing.TB, hub *rawHub) Config {
	t.Helper()
	return Config{
		DaemonID: "box", URL: hub.url, StateDir: t.TempDir(), Workspaces: []string{t.TempDir()},
		Containment: containment.Config{Grace: 500 * time.Millisecond, DrainGrace: 300 * time.Millisecond, GiveUp: 10 * time.Second},
		Timing:      Timing{BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond, SlowMin: 20 * time.Millisecond, SlowMax: 100 * time.Millisecond},
	}
}

// startDaemon runs a daemon until the test's end, when it must stop without an
// error unless the test has looked at it.
func startDaemon(t testing.TB, cfg Config) *testDaemon {
	t.Helper()
	book := &logBook{}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	td := &testDaemon{Daemon: d, t: t, log: book, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(td.done)
		td.err = d.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		td.wait()
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", book)
		}
	})
	return td
}

// wait returns how the daemon ended.
func (d *testDaemon) wait() error {
	d.t.Helper()
	select {
	case <-d.done:
		return d.err
	case <-time.After(3 * patience):
		d.t.Error("the daemon does not end")
		return nil
	}
}

// connected starts a daemon and returns it with its socket.
func connected(t testing.TB, change func(*Config)) (*rawHub, *rawConn, *testDaemon) {
	t.Helper()
	hub := newRawHub(t)
	cfg := testConfig(t, hub)
	if change != nil {
		change(&cfg)
	}
	d := startDaemon(t, cfg)
	return hub, hub.next(), d
}
