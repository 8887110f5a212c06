//go:build linux

package containment

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// stat is a line of /proc/PID/stat.
func stat(comm, state string, ppid, pgid, sid, threads, start int) string {
	return fmt.Sprintf("7 (%s) %s %d %d %d 0 -1 0 0 0 0 0 0 0 0 0 20 0 %d 0 %d 0 0", comm, state, ppid, pgid, sid, threads, start)
}

// A process chooses its own name; it must not choose its parent with it. One whose
// first thread has ended is not ended.
func TestParseStatBelievesNoName(t *testing.T) {
	for name, tt := range map[string]struct {
		line string
		want process
	}{
		"plain":             {stat("sh", "S", 3, 4, 5, 1, 6), process{Identity{7, 6}, 3, 4, 5, false}},
		"name_with_fields":  {stat("x) Z 1 1 1 (", "R", 3, 4, 5, 1, 6), process{Identity{7, 6}, 3, 4, 5, false}},
		"zombie":            {stat("sh", "Z", 3, 4, 5, 1, 6), process{Identity{7, 6}, 3, 4, 5, true}},
		"first_thread_only": {stat("sh", "Z", 3, 4, 5, 2, 6), process{Identity{7, 6}, 3, 4, 5, false}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(7, []byte(tt.line))
			if err != nil || got != tt.want {
				t.Errorf("parseStat(%q) = %+v, %v; want %+v", tt.line, got, err, tt.want)
			}
		})
	}
	for _, line := range []string{"", "7", "7 (sh)", "7 (sh) R 1", stat("sh", "R", 3, 4, 5, 1, 6)[:30]} {
		if _, err := parseStat(7, []byte(line)); !errors.Is(err, errStat) {
			t.Errorf("parseStat(%q): %v; want %v", line, err, errStat)
		}
	}
}

// Whatever stands there, reading it ends in an entry or an error.
func FuzzParseStat(f *testing.F) {
	f.Add([]byte(stat("sh", "S", 3, 4, 5, 1, 6)))
	f.Add([]byte(") ) ("))
	f.Fuzz(func(t *testing.T, line []byte) {
		if p, err := parseStat(7, line); err == nil && p.PID != 7 {
			t.Errorf("parseStat(%q) gave pid %d", line, p.PID)
		}
	})
}

// A table that tore while it was read: whoever is said to be killed is really a
// descendant, parents come first, and nothing loops.
func TestDescendantsOfATornTable(t *testing.T) {
	p := func(pid, ppid int, start uint64) process {
		return process{Identity: Identity{pid, start}, ppid: ppid}
	}
	table := []process{
		p(30, 20, 9), p(20, 10, 8), p(10, 1, 7), p(1, 0, 1),
		p(40, 20, 5),               // older than its "parent": that number was somebody else's
		p(51, 50, 9), p(50, 51, 9), // a loop that leads nowhere
		p(60, 99, 9), // its parent was gone when the table was read
		p(10, 30, 9), // root itself again, below its own child
	}
	var got []int
	for _, d := range descendants(table, 10) {
		got = append(got, d.PID)
	}
	if want := []int{20, 30}; !slices.Equal(got, want) {
		t.Errorf("descendants(10) = %v; want %v", got, want)
	}
}

// Every process of a random tree is found, exactly once, after its parent.
func TestDescendantsAreAllAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		table := []process{{Identity: Identity{1, 0}}}
		below := map[int]bool{2: true}
		want := 0
		for pid := 2; pid < 2+n; pid++ {
			ppid := rapid.IntRange(1, pid-1).Draw(t, "parent")
			table = append(table, process{Identity: Identity{pid, uint64(pid)}, ppid: ppid})
			if below[ppid] {
				below[pid] = true
				want++
			}
		}
		shuffled := rapid.Permutation(table).Draw(t, "order")
		seen := map[int]bool{2: true}
		for _, d := range descendants(shuffled, 2) {
			if seen[d.PID] || !seen[d.ppid] {
				t.Fatalf("pid %d (parent %d) came twice or before its parent", d.PID, d.ppid)
			}
			seen[d.PID] = true
		}
		if len(seen)-1 != want {
			t.Fatalf("found %d of %d", len(seen)-1, want)
		}
	})
}

// Design section 12, the weak level: an orphan that was given to init is still
// known, by its session or because an earlier look has seen it.
func TestKinRemembersOrphans(t *testing.T) {
	known := make(map[Identity]bool)
	sup := process{Identity: Identity{10, 1}, ppid: 1, sid: 10}
	leader := process{Identity: Identity{11, 2}, ppid: 10, sid: 10}
	escaped := process{Identity: Identity{12, 3}, ppid: 11, sid: 12}
	stranger := process{Identity: Identity{13, 3}, ppid: 1, sid: 13}
	if got := kin([]process{sup, leader, escaped, stranger}, 10, known); len(got) != 2 {
		t.Fatalf("first look found %+v; want leader and escaped", got)
	}
	escaped.ppid = 1
	child := process{Identity: Identity{14, 4}, ppid: 12, sid: 12}
	inSession := process{Identity: Identity{15, 4}, ppid: 1, sid: 10}
	got := kin([]process{sup, escaped, child, inSession, stranger}, 10, known)
	var pids []int
	for _, p := range got {
		pids = append(pids, p.PID)
	}
	slices.Sort(pids)
	if want := []int{12, 14, 15}; !slices.Equal(pids, want) {
		t.Errorf("second look found %v; want %v", pids, want)
	}
	escaped.Start++ // the number was given away
	if got := kin([]process{sup, escaped, stranger}, 10, known); len(got) != 0 {
		t.Errorf("third look found %+v; want nobody", got)
	}
}

// A pid is no identity: a number with another start time is left alone.
func TestSignalSparesARecycledPID(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := findProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.ppid != os.Getpid() {
		t.Errorf("ppid of our child is %d; want %d", p.ppid, os.Getpid())
	}
	wrong := p.Identity
	wrong.Start++
	if err := signalProcess(wrong, unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
		t.Errorf("signalProcess(another start time) = %v; want ESRCH", err)
	}
	if err := signalProcess(p.Identity, unix.SIGTERM); err != nil {
		t.Errorf("signalProcess(%+v): %v", p.Identity, err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("sleep ended with %v; want TERM, and not the KILL of before", err)
	}
}
