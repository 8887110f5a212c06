package actors_test

import (
	"context"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/persist"
	"codingrelay/transport"
	"codingrelay/wire"
)

// sockets is the real listener.
func sockets() actors.Listener {
	return actors.ListenerFunc(func(ctx context.Context, addr string, accept actors.Accept) (actors.Listening, error) {
		return transport.Listen(ctx, addr, transport.ListenConfig{}, func(remote string, link wire.Link, admitted func()) wire.Sink {
			return accept(remote, link, admitted)
		})
	})
}

// house is a hub on real sockets.
type house struct {
	*actors.Hub
	t    *testing.T
	addr string
}

const token = "correct-horse-battery-staple-0123456789"

// testTimeout is longer than any test waits.
const testTimeout = 30 * time.Second

// open starts a hub with a store and listens on a free port.
func open(t *testing.T, store actors.Store, cfg actors.Config) *house {
	t.Helper()
	h := start(t, store, cfg)
	addr, err := h.Listen(testContext(t), actors.ListenConfig{Host: "127.0.0.1", Token: token})
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	h.addr = addr
	return h
}

// start starts a hub that does not listen yet.
func start(t *testing.T, store actors.Store, cfg actors.Config) *house {
	t.Helper()
	if cfg.CancelTimeout == 0 {
		cfg.CancelTimeout = 300 * time.Millisecond
	}
	hub, err := actors.Start(nil, cfg, actors.Ports{Store: store, Listener: sockets()})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := hub.Stop(testContext(t)); err != nil && hub.Err() == nil {
			t.Errorf("stop: %v", err)
		}
	})
	return &house{Hub: hub, t: t}
}

// folder opens the file store of a folder.
func folder(t *testing.T, dir string) *persist.Files {
	t.Helper()
	s, err := persist.Open(dir, persist.Options{})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// run starts a run and takes its run.start from the peer.
func (h *house) run(p *peer, req actors.RunRequest) *actors.Run {
	h.t.Helper()
	if req.Payload == nil {
		req.Payload = []byte(`{"x":1}`)
	}
	req.DaemonID = p.id
	r, err := h.Run(context.WithoutCancel(testContext(h.t)), req)
	if err != nil {
		h.t.Fatalf("run: %v", err)
	}
	if f := p.expect("run.start"); f.JobID != r.ID() {
		h.t.Fatalf("run.start names %q, want %q", f.JobID, r.ID())
	}
	return r
}

func (h *house) outcome(r *actors.Run) actors.Outcome {
	h.t.Helper()
	out, err := r.Wait(testContext(h.t))
	if err != nil {
		h.t.Fatalf("wait: %v", err)
	}
	return out
}

// wants checks the parts of an outcome that matter in most tests.
func wants(t *testing.T, out actors.Outcome, result actors.Result, clean bool) {
	t.Helper()
	if out.Result != result || out.Clean != clean {
		t.Fatalf("outcome is %s clean=%t (%s %s), want %s clean=%t", out.Result, out.Clean, out.Reason, out.Message, result, clean)
	}
}

// refused wants an error of a code.
func refused(t *testing.T, err error, code actors.Code) *actors.Error {
	t.Helper()
	if actors.CodeOf(err) != code {
		t.Fatalf("error is %v, want code %s", err, code)
	}
	e, _ := err.(*actors.Error)
	return e
}

// until polls a condition that no event announces, with a deadline.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := testContext(t)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// untilGone waits until the hub has seen every socket close.
func (h *house) untilGone() {
	h.t.Helper()
	until(h.t, "no daemon is connected", func() bool {
		d, err := h.Daemons(testContext(h.t))
		return err == nil && len(d) == 0
	})
}
