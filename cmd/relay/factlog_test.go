package main

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"codingrelay/actors"
)

// stuckWriter takes nothing until it is let go.
type stuckWriter struct {
	entered chan struct{}
	let     chan struct{}
	once    sync.Once
	mu      sync.Mutex
	text    bytes.Buffer
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.entered) })
	<-w.let
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// Design section 6: observers never block; what is lost is said.
func TestFactLogDoesNotWaitForASlowStderr(t *testing.T) {
	w := &stuckWriter{entered: make(chan struct{}), let: make(chan struct{})}
	l := newFactLog(slog.New(slog.NewTextHandler(w, nil)))
	l.Observe(actors.Fact{Kind: actors.FactConnected, DaemonID: "first"})
	<-w.entered
	told := make(chan struct{})
	go func() {
		defer close(told)
		for range factQueue + 100 {
			l.Observe(actors.Fact{Kind: actors.FactGone, DaemonID: "box"})
		}
	}()
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Fatal("a fact waits for stderr")
	}
	close(w.let)
	l.close()
	if text := w.text.String(); !strings.Contains(text, "lines=100") || !strings.Contains(text, "daemon=first") {
		t.Errorf("the log does not say that 100 lines are missing: %.300s", text)
	}
	l.Observe(actors.Fact{Kind: actors.FactGone}) // after the end: not heard, no harm
}

// Whoever can connect cannot fill the log: few lines, and how many more there were.
func TestStrangersCauseFewLogLines(t *testing.T) {
	var text bytes.Buffer
	l := newFactLog(slog.New(slog.NewTextHandler(&text, nil)))
	for range 1000 {
		l.write(actors.Fact{Kind: actors.FactRefusedHello, Text: "the token is wrong"})
	}
	if n := strings.Count(text.String(), "\n"); n < 5 || n > 20 {
		t.Errorf("1000 refused hellos made %d lines, want about 10", n)
	}
	l.strangers.SetBurst(1000)
	l.strangers.SetLimit(1e6)
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(text.String(), "more=") && time.Now().Before(deadline) {
		l.write(actors.Fact{Kind: actors.FactRefusedHello, Text: "the token is wrong"})
	}
	if !strings.Contains(text.String(), "more=9") {
		t.Errorf("the log does not say how many lines were left out: %.300s", text.String())
	}
	l.close()
}
