package daemon

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"codingrelay/wire"
)

// path is a TCP relay between a daemon and its hub whose way can be cut in ways
// that a cable knows.
type path struct {
	ln     net.Listener
	target string
	work   sync.WaitGroup

	mu     sync.Mutex
	silent bool
	idle   time.Duration // drops a connection without traffic for this long
	conns  []net.Conn
}

func newPath(t *testing.T, target string) *path {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &path{ln: ln, target: target}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.work.Wait()
	})
	return p
}

func (p *path) url() string { return "ws://" + p.ln.Addr().String() }

func (p *path) accept() {
	for {
		in, err := p.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		p.work.Go(func() { p.carry(in, out) })
		p.work.Go(func() { p.carry(out, in) })
	}
}

// carry passes bytes on, unless the path is silent: then they are lost, and
// neither side hears of it.
func (p *path) carry(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		p.mu.Lock()
		idle := p.idle
		p.mu.Unlock()
		if idle > 0 {
			_ = from.SetReadDeadline(time.Now().Add(idle))
		}
		n, err := from.Read(buf)
		if err != nil {
			_ = from.Close()
			_ = to.Close()
			return
		}
		p.mu.Lock()
		silent := p.silent
		p.mu.Unlock()
		if !silent {
			_, _ = to.Write(buf[:n])
		}
	}
}

func (p *path) set(change func(*path)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// D27 (b): a path that goes silent without FIN is noticed, the runs are ended,
// and the daemon comes back.
func TestD27SilentPathIsNoticed(t *testing.T) {
	t.Parallel()
	hub := newRawHub(t)
	hub.admit(oursReady)
	way := newPath(t, hub.addr)
	cfg := testConfig(t, hub)
	cfg.URL = way.url()
	cfg.Timing.PingEvery, cfg.Timing.SilenceTimeout = 250*time.Millisecond, 1500*time.Millisecond
	d := startDaemon(t, cfg)
	c := hub.next()
	tag := freshTag()
	c.start("r1", python(t, "cli_agent_stub.py", "--hang-after-result", "--tag", tag))
	c.line("r1", "session_id")
	stillAlive(t, tag)
	way.set(func(p *path) { p.silent = true })
	waitFor(t, "the end of the silent connection", func() bool {
		st, err := d.Status(context.Background())
		return err == nil && st.State != "serving"
	})
	way.set(func(p *path) { p.silent = false })
	next := hub.next()
	noSurvivors(t, tag)
	if r := next.run("r2", argv("true")); r.kind != "run.completed" {
		t.Errorf("after the silence: %v", r.terminal)
	}
}

// D27 (c): pings keep a path open that drops what is idle.
func TestD27PingsKeepAnIdlePathOpen(t *testing.T) {
	t.Parallel()
	hub := newRawHub(t)
	hub.admit(oursReady)
	way := newPath(t, hub.addr)
	way.set(func(p *path) { p.idle = 1200 * time.Millisecond })
	cfg := testConfig(t, hub)
	cfg.URL = way.url()
	cfg.Timing.PingEvery, cfg.Timing.SilenceTimeout = 150*time.Millisecond, 5*time.Second
	d := startDaemon(t, cfg)
	c := hub.next()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	// Reading answers the pings; nothing else comes.
	if _, _, err := c.ws.Read(ctx); ctx.Err() == nil {
		t.Fatalf("an idle connection ended: %v", err)
	}
	if n := strings.Count(d.log.String(), "hub connected"); n != 1 {
		t.Errorf("it was connected %d times in 3 s", n)
	}
}

// D28: in real time: a refused token is told once, tried slowly, and works when
// the file is put right.
func TestD28TokenFileIsReadAgain(t *testing.T) {
	t.Parallel()
	hub := newRawHub(t)
	hub.requireToken("right-token-0123456789")
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong-token-0123456789\n")
	cfg := testConfig(t, hub)
	cfg.TokenFile = file
	d := startDaemon(t, cfg)
	for range 3 {
		hub.next()
	}
	if n := strings.Count(d.log.String(), "level=WARN"); n != 1 || !strings.Contains(d.log.String(), "token: invalid daemon token") {
		t.Errorf("the refusal was told %d times", n)
	}
	write("right-token-0123456789\n")
	for hub.next().hello["token"] != "right-token-0123456789" {
	}
	waitFor(t, "service", func() bool {
		st, err := d.Status(context.Background())
		return err == nil && st.State == "serving" && st.Trouble == ""
	})
	if log := d.log.String(); strings.Contains(log, "right-token") || strings.Contains(log, "wrong-token") {
		t.Error("a token is in the log")
	}
}

// A hub that says the token back does not get it into the log or the status.
func TestTokenThatAHubSaysBackIsNotTold(t *testing.T) {
	const token = "echoed-token-0123456789"
	hub := newRawHub(t)
	hub.refuse(1008, "invalid daemon token: "+token)
	cfg := testConfig(t, hub)
	cfg.Token = func() (string, error) { return token, nil }
	d := startDaemon(t, cfg)
	hub.next()
	hub.next()
	st, err := d.Status(context.Background())
	if err != nil || strings.Contains(st.Trouble, token) || strings.Contains(d.log.String(), token) || !strings.Contains(d.log.String(), "[token]") {
		t.Errorf("status %+v, %v", st, err)
	}
}

// D30: what may stand around a token in its file; an empty or open file is told
// and never sent.
func TestD30TokenFiles(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string // told trouble; empty: connects
	}{
		"newline": {"tok-0123456789\n", 0o600, ""},
		"crlf":    {"tok-0123456789\r\n", 0o600, ""},
		"spaces":  {"  tok-0123456789 ", 0o600, ""},
		"bom":     {"\ufefftok-0123456789", 0o600, ""},
		"empty":   {"", 0o600, "holds no secret"},
		"blank":   {"\n", 0o600, "holds no secret"},
		"open":    {"tok-0123456789", 0o644, "open to other users"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := newRawHub(t)
			hub.requireToken("tok-0123456789")
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, c.mode); err != nil {
				t.Fatal(err)
			}
			cfg := testConfig(t, hub)
			cfg.TokenFile = file
			d := startDaemon(t, cfg)
			if c.want == "" {
				if got := hub.next().hello["token"]; got != "tok-0123456789" {
					t.Errorf("the hello says %q", got)
				}
				return
			}
			waitFor(t, "the trouble", func() bool { return strings.Contains(d.log.String(), c.want) })
			hub.nobody(50 * time.Millisecond)
		})
	}
}

// D31, reachable: the tree is gone, then its end reaches the hub, then the socket
// closes with 1001, then the daemon has ended.
func TestD31StopReportsBeforeItGoes(t *testing.T) {
	_, c, d := connected(t, nil)
	tag := freshTag()
	c.start("r1", python(t, "cli_agent_stub.py", "--hang-after-result", "--tag", tag))
	c.line("r1", "session_id")
	begun := time.Now()
	d.cancel()
	code, frames := c.closedWith()
	noSurvivors(t, tag)
	if code != 1001 || len(frames) < 2 {
		t.Fatalf("closed with %d after %d frames", code, len(frames))
	}
	failed, finished := frames[len(frames)-2], frames[len(frames)-1]
	if !strings.Contains(string(failed.Body), codeStopping) || finished.Type != wire.RunFinished {
		t.Errorf("the last frames are %s %s and %s", failed.Type, failed.Body, finished.Type)
	}
	if err := d.wait(); err != nil || time.Since(begun) > 10*time.Second {
		t.Errorf("it ended with %v after %v", err, time.Since(begun))
	}
}

// D31, unreachable: the tree is gone, nothing is said later, the daemon ends.
func TestD31StopWithoutAHub(t *testing.T) {
	hub := newRawHub(t)
	d := startDaemon(t, testConfig(t, hub))
	c := hub.next()
	tag := freshTag()
	c.start("r1", python(t, "cli_agent_stub.py", "--hang-after-result", "--tag", tag))
	c.line("r1", "session_id")
	hub.stop()
	_ = c.ws.CloseNow()
	d.cancel()
	if err := d.wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	noSurvivors(t, tag)
	hub.listen(hub.addr)
	hub.nobody(100 * time.Millisecond)
}

// Drain refuses new runs, waits for the old ones, and keeps the connection.
func TestDrainWaitsForRunsAndKeepsTheConnection(t *testing.T) {
	_, c, d := connected(t, nil)
	signal := filepath.Join(d.cfg.Workspaces[0], "go")
	c.start("r1", argv("sh", "-c", `echo up; while [ ! -e go ]; do sleep 0.02; done`))
	c.line("r1", "up")
	drained := make(chan error, 1)
	go func() { drained <- d.Drain(context.Background()) }()
	waitFor(t, "the closed door", func() bool {
		st, err := d.Status(context.Background())
		return err == nil && st.Draining
	})
	if r := c.run("r2", argv("true")); r.code() != codeDraining || r.terminal["retryable"] != true {
		t.Errorf("a run while draining: %v", r.terminal)
	}
	select {
	case err := <-drained:
		t.Fatalf("drained with %v while a run is open", err)
	default:
	}
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := c.finish("r1"); r.kind != "run.completed" {
		t.Errorf("the drained run: %v", r.terminal)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	if st, err := d.Status(context.Background()); err != nil || st.State != "serving" {
		t.Errorf("after the drain: %+v, %v", st, err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- d.Stop(context.Background()) }()
	if code, _ := c.closedWith(); code != 1001 {
		t.Errorf("closed with %d", code)
	}
	if err := <-stopped; err != nil || d.wait() != nil {
		t.Errorf("stop: %v", err)
	}
}
