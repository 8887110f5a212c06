package main

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"codingrelay/actors"
)

// factLog writes what a hub does as log lines. It is told on actors' turns, so it
// never blocks: what its queue does not take is counted and said later.
type factLog struct {
	log     *slog.Logger
	queue   chan actors.Fact
	dropped atomic.Uint64
	ending  chan struct{}
	done    chan struct{}
	once    sync.Once
	// strangers limits the lines that anybody who can connect may cause.
	strangers *rate.Limiter
	hushed    int
}

// factQueue is how many facts may wait for a slow stderr.
const factQueue = 1024

func newFactLog(log *slog.Logger) *factLog {
	l := &factLog{
		log: log, queue: make(chan actors.Fact, factQueue),
		ending: make(chan struct{}), done: make(chan struct{}),
		strangers: rate.NewLimiter(rate.Every(time.Second), 10),
	}
	go l.run()
	return l
}

// Observe implements [actors.Observer].
func (l *factLog) Observe(f actors.Fact) {
	select {
	case l.queue <- f:
	default:
		l.dropped.Add(1)
	}
}

// close writes what is queued and ends; what comes after it is not heard.
func (l *factLog) close() {
	l.once.Do(func() { close(l.ending) })
	<-l.done
}

func (l *factLog) run() {
	defer close(l.done)
	for {
		select {
		case f := <-l.queue:
			l.write(f)
		case <-l.ending:
			for {
				select {
				case f := <-l.queue:
					l.write(f)
				default:
					return
				}
			}
		}
	}
}

var factLevels = map[actors.FactKind]slog.Level{
	actors.FactRefusedHello: slog.LevelWarn,
	actors.FactFenced:       slog.LevelWarn,
	actors.FactStoreFailed:  slog.LevelError,
	actors.FactFailure:      slog.LevelError,
	actors.FactFrameIgnored: slog.LevelDebug,
	actors.FactHold:         slog.LevelDebug,
}

func (l *factLog) write(f actors.Fact) {
	if n := l.dropped.Swap(0); n > 0 {
		l.log.Warn("log lines were left out, because stderr was slow", "lines", n)
	}
	level := factLevels[f.Kind]
	if f.Kind == actors.FactRefusedHello && !l.strangers.Allow() {
		l.hushed++
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("daemon", f.DaemonID)
	add("run", f.Run)
	add("fence", f.FenceID)
	add("why", f.Text)
	add("operator", f.Operator)
	if o := f.Outcome; o != nil {
		attrs = append(attrs, slog.String("result", string(o.Result)), slog.Bool("clean", o.Clean), slog.Bool("durable", o.Durable))
	}
	if f.Kind == actors.FactRefusedHello && l.hushed > 0 {
		attrs = append(attrs, slog.Int("more", l.hushed))
		l.hushed = 0
	}
	l.log.LogAttrs(context.Background(), level, string(f.Kind), attrs...)
}
