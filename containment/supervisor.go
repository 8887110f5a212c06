//go:build linux || darwin

package containment

import (
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hasPipes says whether the two pipes of a supervisor were inherited.
func hasPipes() bool {
	for _, fd := range []int{fdControl, fdReport} {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			return false
		}
	}
	return true
}

// supervisor is the process between the daemon and a tree. One goroutine does
// all the work; another one only listens to the control pipe.
type supervisor struct {
	self   int
	report *json.Encoder
	orders *json.Decoder
	stop   chan struct{}  // closed when the daemon says stop, or is gone
	asked  chan os.Signal // TERM, INT, HUP: somebody else says stop
	kids   chan os.Signal // CHLD

	life    life
	facts   facts
	leader  int
	held    bool  // the leader's number is still its own: running, or not reaped
	exit    *Exit // how the leader ended
	killed  map[Identity]bool
	known   map[Identity]bool // where kin is used
	looks   int               // looks in a row that found nobody
	looked  time.Time         // when the process table was read last
	backoff time.Duration     // between rounds of KILL
}

// superviseMain is the whole life of a supervisor process; it returns its exit code.
func superviseMain() int {
	// One small loop: the memory of a supervisor is paid once per run.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	nameProcess(roleName)
	s := &supervisor{
		self:   os.Getpid(),
		report: json.NewEncoder(os.NewFile(fdReport, "report")),
		orders: json.NewDecoder(os.NewFile(fdControl, "control")),
		stop:   make(chan struct{}),
		asked:  make(chan os.Signal, 1),
		kids:   make(chan os.Signal, 1),
		killed: make(map[Identity]bool),
		known:  make(map[Identity]bool),
	}
	// Handled, not ignored: what is ignored would be ignored by the run too.
	// PIPE is here because the daemon may be gone when something is reported.
	signal.Notify(s.asked, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	signal.Notify(s.kids, unix.SIGCHLD)
	if !s.start() {
		return 1
	}
	go s.listen()
	debug.FreeOSMemory()
	s.run()
	return 0
}

// say reports to the daemon. That the daemon is gone is no reason to stop: the
// control pipe has said so, and the tree is ended anyway.
func (s *supervisor) say(w word) { _ = s.report.Encode(w) }

// start takes the specification and starts the leader; false when it did not.
func (s *supervisor) start() bool {
	if err := errors.Join(sealFiles(), becomeReaper()); err != nil {
		s.say(word{Kind: saidFailed, Stage: stageContain, Errno: errnoOf(err)})
		return false
	}
	self, err := findProcess(s.self)
	if err != nil {
		s.say(word{Kind: saidFailed, Stage: stageContain, Errno: errnoOf(err)})
		return false
	}
	s.say(word{Kind: saidReady, Version: wireVersion, Who: self.Identity})
	var first order
	if err := s.orders.Decode(&first); err != nil || first.Spec == nil {
		s.say(word{Kind: saidEmpty}) // the daemon went away; nothing was started
		return false
	}
	spec := first.Spec
	s.life = life{grace: spec.Grace, drainGrace: spec.DrainGrace, giveUp: spec.GiveUp}
	at, err := s.spawn(spec)
	if err != nil {
		s.say(word{Kind: saidFailed, Stage: at, Errno: errnoOf(err)})
		return false
	}
	// The leader is there to be found, running or not: it is not reaped before.
	leader, _ := findProcess(s.leader)
	s.say(word{Kind: saidStarted, Who: Identity{PID: s.leader, Start: leader.Start}})
	return true
}

// spawn starts the leader in its own process group, in this process's session,
// which has no terminal. It says at which stage it failed.
func (s *supervisor) spawn(spec *specOrder) (stage, error) {
	// Entered here and not by the child: so a folder that cannot be entered is
	// told from a command that cannot be run. No folder is kept busy afterwards.
	if err := os.Chdir(string(spec.Dir)); err != nil {
		return stageDir, err
	}
	defer func() { _ = os.Chdir("/") }()
	pid, err := syscall.ForkExec(string(spec.Path), toStrings(spec.Argv), &syscall.ProcAttr{
		Env:   toStrings(spec.Env),
		Files: []uintptr{fdStdin, fdStdout, fdStderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return stageExec, err
	}
	s.leader, s.held = pid, true
	// Held open here, they would keep the readers from their end.
	for _, fd := range []int{fdStdin, fdStdout, fdStderr} {
		_ = unix.Close(fd)
	}
	return "", nil
}

func errnoOf(err error) int {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return int(errno)
	}
	return int(unix.EIO)
}

// listen waits for a stop. The end of the pipe, and anything that cannot be
// understood, mean stop too.
func (s *supervisor) listen() {
	defer close(s.stop)
	for {
		var o order
		if err := s.orders.Decode(&o); err != nil || o.Stop {
			return
		}
	}
}

// run is the loop: look, decide, act, wait.
func (s *supervisor) run() {
	for {
		s.facts.empty = s.look()
		switch s.life.advance(time.Now(), s.facts) {
		case actTerm:
			s.term()
		case actKill:
			s.kill()
		case actGiveUp:
			s.say(word{Kind: saidStuck, Killed: len(s.killed), Survivors: s.survivors(), Took: s.took()})
			s.kill()
		case actDone:
			s.say(word{Kind: saidEmpty, Killed: len(s.killed), Took: s.took()})
			return
		case actNone:
		}
		s.wait()
	}
}

func (s *supervisor) took() time.Duration { return time.Since(s.life.begun) }
