package step

import (
	"context"
	"slices"
	"testing"
	"time"
)

// lender is a port whose messages are its own memory, used again once settled.
type lender struct {
	lent    []string
	used    string // what an effect found
	left    int
	settled int
}

func (l *lender) Do(any, func(any, error)) { l.used = l.lent[0] }
func (l *lender) Close()                   {}

func (l *lender) Drain() (any, bool) {
	l.left--
	l.lent = append(l.lent[:0], "turn")
	return l.lent, l.left > 0
}

func (l *lender) Settle() {
	clear(l.lent)
	l.settled++
}

// Design section 6, batches: what a turn lends is the machine's until its effects
// were carried out, and the port's again before the next turn; mail that comes by
// another way settles nothing.
func TestHostSettlesAfterEachDrainedTurn(t *testing.T) {
	ref := Ref{"k", "a"}
	l := &lender{left: 3}
	type state struct{ settled, turns int }
	var turns int
	h := newTestHost(t, Config{})
	h.Spawn(ref, &scripted{handle: func(_ time.Time, _ Ref, m any, fx *Effects) {
		switch m := m.(type) {
		case []string:
			turns++
			if l.settled != turns-1 || !slices.Equal(m, []string{"turn"}) {
				t.Errorf("turn %d: %d were settled, message %q", turns, l.settled, m)
			}
			fx.Do("use")
		case question:
			fx.Reply(m.token, state{l.settled, turns})
		}
	}}, l)
	h.Ring(ref)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		got, err := askIt(t, h, ref)
		if err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
		if s := got.(state); s.turns == 3 {
			if s.settled != 3 || l.used != "turn" {
				t.Errorf("%d of 3 turns were settled; an effect found %q", s.settled, l.used)
			}
			return
		}
	}
}
