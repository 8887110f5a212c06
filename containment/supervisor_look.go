//go:build linux || darwin

package containment

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lookGap is the least time between two looks at the process table when it is
	// children that end which call for them: a table costs milliseconds.
	lookGap = 10 * time.Millisecond
	// lookAgain is when to look without being called: the second of two looks
	// where one proves nothing, and all looks there while the leader runs.
	lookAgain = 100 * time.Millisecond
	// killGap and killGapMax bound the pause between rounds of KILL that find
	// nobody new; it doubles.
	killGap    = time.Millisecond
	killGapMax = 100 * time.Millisecond
	// stuckGap is the pause once the tree was given up, when nobody waits.
	stuckGap = time.Second
)

// look reaps what has ended and says whether the tree is proven empty. It tells
// the daemon of the leader's end.
func (s *supervisor) look() bool {
	if s.exit == nil {
		s.reapUntilLeader()
	}
	if s.exit == nil {
		if !proves {
			_, _ = s.members() // to know them when they become orphans
		}
		return false
	}
	members, err := s.members()
	if err != nil || len(members) > 0 {
		s.looks = 0
		return false
	}
	// Nobody was seen but the leader, who is dead: its number is not needed any
	// more. Should the table have hidden somebody, the kernel says so next.
	if s.held {
		reap(s.leader)
		s.held = false
	}
	if !childless() {
		s.looks = 0
		return false
	}
	s.looks++
	return proves || s.looks > 1
}

// reapUntilLeader takes away adopted orphans that have ended, during the run too.
func (s *supervisor) reapUntilLeader() {
	for {
		pid, exit, ok := nextEnded(s.leader)
		if !ok {
			return
		}
		if pid == s.leader {
			s.exit, s.held = &exit, proves
			s.facts.exited = true
			s.say(word{Kind: saidExited, Exit: &exit})
			return
		}
	}
}

// members are the processes of the tree that run, or could. It reaps the orphans
// that do not.
func (s *supervisor) members() ([]process, error) {
	s.looked = time.Now()
	table, err := processTable()
	if err != nil {
		return nil, err
	}
	all := s.tree(table)
	members := all[:0]
	for _, p := range all {
		switch {
		case !p.ended:
			members = append(members, p)
		case p.ppid == s.self && p.PID != s.leader:
			reap(p.PID)
		}
	}
	return members, nil
}

// survivors are the pids to look at by hand: whoever runs, and whoever has ended but
// cannot be reaped (a debugger holds it), which also keeps the tree from its proof.
func (s *supervisor) survivors() []int {
	table, err := processTable()
	if err != nil {
		return nil
	}
	var pids []int
	for _, p := range s.tree(table) {
		pids = append(pids, p.PID)
	}
	return pids
}

func (s *supervisor) tree(table []process) []process {
	if proves {
		return descendants(table, s.self)
	}
	return kin(table, s.self, s.known)
}

// term asks the leader's group to end, and wakes those of it that are stopped, so
// that they can.
func (s *supervisor) term() {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		if s.held {
			_ = unix.Kill(-s.leader, sig)
			continue
		}
		members, _ := s.members()
		for _, p := range members {
			if p.pgid == s.leader {
				_ = signalProcess(p.Identity, sig)
			}
		}
	}
}

// kill is one round of KILL. Everybody found is stopped first, parents before
// children and until a look finds nobody new: what is stopped forks no more, and does
// not answer the death of a child with another one.
func (s *supervisor) kill() {
	const rounds = 8 // then KILL whom we have; the next round goes on
	fresh := false
	stopped := make(map[Identity]bool)
	var order []Identity
	for range rounds {
		members, err := s.members()
		if err != nil {
			break
		}
		before := len(order)
		for _, p := range members {
			if stopped[p.Identity] {
				continue
			}
			stopped[p.Identity] = true
			order = append(order, p.Identity)
			if !s.killed[p.Identity] {
				s.killed[p.Identity] = true
				fresh = true
			}
			_ = signalProcess(p.Identity, unix.SIGSTOP)
		}
		if s.held {
			// The kernel does this at one stroke for a whole group: no member can
			// fork out of it.
			_ = unix.Kill(-s.leader, unix.SIGKILL)
		}
		if len(order) == before {
			break
		}
	}
	for _, who := range order {
		_ = signalProcess(who, unix.SIGKILL)
	}
	if fresh {
		s.backoff = 0
	}
	s.backoff = min(max(killGap, 2*s.backoff), killGapMax)
}

// wait returns when there may be something to do.
func (s *supervisor) wait() {
	timer := time.NewTimer(s.pause())
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			s.stop = nil // it stays closed
			s.facts.stop = true
			return
		case <-s.asked:
			s.facts.stop = true
			return
		case <-s.kids:
			// While the leader runs, reaping needs no table.
			gap := lookGap - time.Since(s.looked)
			if s.exit == nil || s.life.phase >= killing || gap <= 0 {
				return
			}
			timer.Reset(min(gap, s.pause()))
		case <-timer.C:
			return
		}
	}
}

// pause is how long to wait when nothing happens.
func (s *supervisor) pause() time.Duration {
	const long = time.Hour
	d, ok := s.life.left(time.Now())
	if !ok {
		d = long
	}
	switch {
	case s.life.phase == killing:
		return s.backoff
	case s.life.phase > killing:
		return stuckGap
	}
	if s.exit != nil || !proves {
		// A look may have failed, or one may not be enough.
		d = min(d, lookAgain)
	}
	return d
}
