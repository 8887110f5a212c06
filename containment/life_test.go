package containment

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files; read the difference before it is committed")

// Design section 5: the whole policy of a supervisor as a table, phase × facts ×
// whether the phase's time is over.
func TestLifeMatrix(t *testing.T) {
	now := time.Unix(1000, 0)
	var b strings.Builder
	for _, at := range []phase{running, draining, ending, killing, stuck} {
		for _, due := range []bool{false, true} {
			for bits := range 8 {
				f := facts{stop: bits&1 != 0, exited: bits&2 != 0, empty: bits&4 != 0}
				if at == draining && !f.exited || f.empty && !f.exited || at == running && due {
					continue // cannot be
				}
				l := life{phase: at, grace: time.Second, drainGrace: time.Second, giveUp: time.Minute, until: now.Add(time.Second), giveUpAt: now.Add(time.Minute)}
				if due {
					l.until = now
				}
				act := l.advance(now, f)
				fmt.Fprintf(&b, "%-8v due=%-5t stop=%-5t exited=%-5t empty=%-5t -> %-8v %v\n", at, due, f.stop, f.exited, f.empty, l.phase, act)
			}
		}
	}
	const golden = "testdata/life_matrix.golden"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the matrix has changed (-golden +now); -rewrite if that is meant:\n%s", diff)
	}
}

// D17, protocol section 8: whatever happens in whatever order, KILL comes a whole
// grace after TERM, TERM comes once, giving up comes once and after GiveUp, and
// done comes only when empty.
func TestLifeNeverCutsAGraceShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string, low int) time.Duration {
			return time.Duration(rapid.IntRange(low, 100).Draw(t, name)) * time.Millisecond
		}
		l := life{grace: ms("grace", 1), drainGrace: ms("drain", 1)}
		l.giveUp = l.grace + ms("give up", 1)
		now := time.Unix(1000, 0)
		var f facts
		var exitedAt, termAt, gaveUpAt time.Time
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(ms("pass", 0))
			f.stop = f.stop || rapid.Bool().Draw(t, "stop")
			if !f.exited && rapid.Bool().Draw(t, "exited") {
				f.exited, exitedAt = true, now
			}
			f.empty = f.exited && rapid.IntRange(0, 20).Draw(t, "empty") == 0
			switch act := l.advance(now, f); act {
			case actTerm:
				if !termAt.IsZero() {
					t.Fatal("TERM twice")
				}
				if !f.stop && now.Sub(exitedAt) < l.drainGrace {
					t.Fatalf("TERM %v after the leader's end; want %v, nobody has asked", now.Sub(exitedAt), l.drainGrace)
				}
				termAt = now
			case actKill:
				if termAt.IsZero() || now.Sub(termAt) < l.grace {
					t.Fatalf("KILL %v after TERM; want at least %v", now.Sub(termAt), l.grace)
				}
			case actGiveUp:
				if !gaveUpAt.IsZero() || now.Sub(termAt) < l.giveUp {
					t.Fatalf("given up %v after TERM (before: %v); want once, after %v", now.Sub(termAt), gaveUpAt, l.giveUp)
				}
				gaveUpAt = now
			case actDone:
				if !f.empty {
					t.Fatal("done, but not empty")
				}
				return
			case actNone:
			}
			if f.empty {
				t.Fatal("empty, but not done")
			}
		}
	})
}

// The table of edges is the only way: the programmer's error stops the supervisor,
// which then proves nothing.
func TestLifePanicsOnUnknownEdge(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("become(running) from empty did not panic")
		}
	}()
	l := life{phase: empty}
	l.become(running)
}

// Ecosystem 3.5, style E10: all wrong fields are reported, with what would be right.
func TestConfigReportsEveryBadField(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero Config: %v; want nil", err)
	}
	err := Config{Grace: -1, DrainGrace: -1, GiveUp: -2, Mode: 7}.Validate()
	for _, want := range []string{"Config.Grace is", "Config.DrainGrace", "Config.GiveUp is", "Config.GiveUp (", "Config.Mode"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v; want it to name %q", err, want)
		}
	}
	if err := (Config{Grace: time.Minute}).Validate(); err == nil {
		t.Error("a Grace longer than GiveUp was accepted")
	}
}
