package daemon

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"codingrelay/containment"
	"codingrelay/step"
	"codingrelay/wire"
)

// world is where a daemon's policies meet their ports: it makes each actor's
// [step.Port], knows the secrets that must not leak, and says what a panic costs.
type world struct {
	cfg  Config
	halt *haltFile
	host *step.Host
	ref  step.Ref // the session's

	mu      sync.Mutex
	runs    map[step.Ref]*runPort
	secrets []string
	over    *OpOver
	crash   string
	// unproven are runs whose verdict nobody was left to hear.
	unproven []HaltedRun

	work sync.WaitGroup // goroutines that end by themselves
}

func newWorld(cfg Config, halt *haltFile, name string) *world {
	return &world{cfg: cfg, halt: halt, ref: SessionRef(name), runs: make(map[step.Ref]*runPort)}
}

// portFor makes the port of an actor that a policy spawns: a run.
func (w *world) portFor(ref step.Ref) step.Port {
	if ref.Kind != KindRun {
		panic("daemon: no port for " + ref.String())
	}
	p := newRunPort(w, ref)
	w.mu.Lock()
	w.runs[ref] = p
	w.mu.Unlock()
	return p
}

func (w *world) left(ref step.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.runs, ref)
}

// secretsMax is how many tokens are remembered: the one in use, and those it
// replaced, which the environment may still hold.
const secretsMax = 8

// keep remembers a token, so that no child and no log line gets it.
func (w *world) keep(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if token == "" || slices.Contains(w.secrets, token) {
		return
	}
	w.secrets = append(w.secrets, token)
	if len(w.secrets) > secretsMax {
		w.secrets = w.secrets[1:]
	}
}

func (w *world) secretList() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.secrets)
}

// redact takes tokens out of a text that came from elsewhere: a peer may say
// anything back.
func (w *world) redact(text string) string {
	for _, s := range w.secretList() {
		if len(s) >= containedSecret || text == s {
			text = strings.ReplaceAll(text, s, "[token]")
		}
	}
	return text
}

// levels are how loud a fact is.
var levels = map[FactKind]slog.Level{
	FactTrouble:      slog.LevelWarn,
	FactRunIgnored:   slog.LevelWarn,
	FactUnconfirmed:  slog.LevelError,
	FactHaltFailed:   slog.LevelError,
	FactTight:        slog.LevelWarn,
	FactFrameIgnored: slog.LevelDebug,
}

func (w *world) observe(f Fact) {
	level := levels[f.Kind]
	if f.Again {
		level = slog.LevelDebug
	}
	args := []any{"daemon_id", w.cfg.DaemonID}
	if f.Run != "" {
		args = append(args, "run", headOf(f.Run, 128))
	}
	if f.Text != "" {
		args = append(args, "why", w.redact(f.Text))
	}
	if f.Kind == FactTrouble {
		args = append(args, "next_attempt_in", f.Delay.Round(time.Millisecond))
	}
	w.cfg.Logger.Log(noContext, level, strings.ReplaceAll(string(f.Kind), "_", " "), args...)
}

// failed is told of an actor's panic, after the actor was ended. Trees are ended,
// nothing is acknowledged any more, and the daemon ends with an error (design
// section 6).
func (w *world) failed(f step.Failure) {
	reason := "internal error in " + f.Ref.String()
	w.mu.Lock()
	if w.crash == "" {
		w.crash = reason
	}
	w.mu.Unlock()
	if f.Ref == w.ref {
		// Its port's Close has dropped the socket. What is left ends by itself once
		// it is told.
		for _, p := range w.runPorts() {
			w.host.Send(w.ref, p.ref, StopRun{Cause: StopLost})
		}
		return
	}
	w.host.Send(w.ref, w.ref, Crash{Reason: reason})
}

func (w *world) runPorts() []*runPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	ports := make([]*runPort, 0, len(w.runs))
	for _, p := range w.runs {
		ports = append(ports, p)
	}
	return ports
}

// orphaned takes the verdict about a run whose actor has failed: the session
// waits for it as if the actor had said it.
func (w *world) orphaned(p *runPort, g Gone) {
	if g.Confirmed {
		w.host.Send(p.ref, w.ref, Settled{Receipt: g.Receipt})
		return
	}
	w.host.Send(p.ref, w.ref, Unconfirmed{Reason: g.Reason, Receipt: g.Receipt})
}

// saw keeps every verdict that is no proof, in case the session cannot.
func (w *world) saw(job string, g Gone) {
	if g.Confirmed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unproven = append(w.unproven, HaltedRun{RunID: job, At: time.Now().UTC(), Reason: g.Reason, Receipt: g.Receipt})
}

// receiptOf makes the wire's receipt of the trees of one run. The first one's
// leader stands for the run.
func receiptOf(trees []containment.Receipt, survivors int) wire.Receipt {
	r := wire.Receipt{Mechanism: mechanismNone}
	for i, t := range trees {
		if i == 0 {
			r.Mechanism = string(t.Mechanism)
			if t.Exit != nil && t.Exit.Signal != 0 {
				r.Signal = signalName(t.Exit.Signal)
			} else if t.Exit != nil {
				code := t.Exit.Code
				r.ExitCode = &code
			}
		}
		r.Killed += t.Killed
		r.Weak = r.Weak || t.Weak
		r.DurationMS = max(r.DurationMS, t.Duration.Milliseconds())
	}
	r.Survivors = survivors
	return r
}
