package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/coder/websocket"

	"codingrelay/wire"
)

// The names in the demo.
const (
	demoDaemonID = "laptop"
	demoPeerID   = "stubborn-box"
	demoRole     = "demo-role"
)

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// demoLog keeps what the daemon says, for the case that something goes wrong.
type demoLog struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (l *demoLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// demoDaemon is `relay daemon` as a child process.
type demoDaemon struct {
	cmd  *exec.Cmd
	said *demoLog
	done chan error
}

// startDemoDaemon starts this binary again, as a user would in another terminal.
func startDemoDaemon(dir, url, token string) (*demoDaemon, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	tokenFile, work := filepath.Join(dir, "daemon-token"), filepath.Join(dir, "work")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		return nil, err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	d := &demoDaemon{said: &demoLog{}, done: make(chan error, 1)}
	d.cmd = exec.Command(self, "daemon", "--url", url, "--daemon-id", demoDaemonID, "--token-file", tokenFile,
		"--state-dir", dir, "--workspace", work, "--grace", demoGrace.String())
	d.cmd.Stderr, d.cmd.Stdout = d.said, d.said
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	go func() { d.done <- d.cmd.Wait() }()
	return d, nil
}

func (d *demoDaemon) pid() int { return d.cmd.Process.Pid }

func (d *demoDaemon) log() string {
	d.said.mu.Lock()
	defer d.said.mu.Unlock()
	return string(d.said.text)
}

// stop asks the daemon to end and waits for it.
func (d *demoDaemon) stop() error {
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-d.done:
		return err
	case <-time.After(15 * time.Second):
		_ = d.cmd.Process.Kill()
		return errors.New("it did not end within 15s and was killed")
	}
}

// demoPeer is a daemon that speaks the protocol and confirms nothing by itself.
type demoPeer struct{ conn *websocket.Conn }

func dialDemoPeer(ctx context.Context, url, token string) (*demoPeer, error) {
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	p := &demoPeer{conn: conn}
	hello := wire.AppendHello(nil, wire.Hello{DaemonID: demoPeerID, Token: token, Protocol: wire.Protocol})
	if err := conn.Write(ctx, websocket.MessageText, hello); err != nil {
		return nil, errors.Join(err, conn.CloseNow())
	}
	_, ready, err := conn.Read(ctx)
	var f struct {
		Type string `json:"type"`
	}
	if err != nil || json.Unmarshal(ready, &f) != nil || f.Type != "daemon.ready" {
		return nil, errors.Join(fmt.Errorf("the hub answered %s", ready), err, conn.CloseNow())
	}
	go func() { // it reads, and minds nothing
		for {
			if _, _, err := conn.Read(context.Background()); err != nil {
				return
			}
		}
	}()
	return p, nil
}

func (p *demoPeer) finish(run string) error {
	return p.conn.Write(context.Background(), websocket.MessageText, wire.AppendFinished(nil, run, nil))
}

func (p *demoPeer) close() { _ = p.conn.CloseNow() }
