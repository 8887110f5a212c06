package containment

import (
	"errors"
	"fmt"
	"time"
)

// The defaults of [Config]. The numbers fit the hub's cancel timeout of 10 s
// (protocol section 8).
const (
	DefaultGrace      = 5 * time.Second
	DefaultDrainGrace = 2 * time.Second
	DefaultGiveUp     = 30 * time.Second
)

// Mode is how strong the containment must be. The owner of the machine decides.
type Mode uint8

const (
	// Strict takes only a mechanism that proves that a tree is empty.
	Strict Mode = iota
	// Weak also takes one that can only look (macOS). Where a proving mechanism
	// exists it is used all the same.
	Weak
)

// Level is the mechanism a machine offers; it is named in every [Receipt].
type Level string

const (
	// LevelSupervisor is a supervisor process that is the child subreaper of the
	// tree: the kernel itself says when the tree is empty.
	LevelSupervisor Level = "supervisor"
	// LevelGroupWalk is a supervisor process that can only look for members, by
	// process group, session and parent.
	LevelGroupWalk Level = "group-walk"
)

// Weak reports whether the level looks for survivors instead of proving that
// there are none.
func (l Level) Weak() bool { return l != LevelSupervisor }

// Config says how trees are run and ended. The zero Config is the default.
type Config struct {
	// Supervisor is the path of a program that calls [SupervisorMain] first in
	// its main. Empty means this executable, which then must do so itself.
	Supervisor string
	// Grace is how long the members of a tree have between TERM and KILL. It is
	// never cut short while one of them lives. Default 5 s.
	Grace time.Duration
	// DrainGrace is how long helpers may stay, and write, after the leader has
	// ended by itself, before they are ended too. Default 2 s.
	DrainGrace time.Duration
	// GiveUp is how long after TERM a tree that is still not empty becomes
	// unconfirmed. Default 30 s; it must be longer than Grace, or nothing would
	// ever see a KILL in time.
	GiveUp time.Duration
	// Mode is what the owner of the machine accepts. Default [Strict].
	Mode Mode
}

// Validate reports every field that cannot be used.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"Grace", c.Grace}, {"DrainGrace", c.DrainGrace}, {"GiveUp", c.GiveUp}} {
		if d.d < 0 {
			errs = append(errs, fmt.Errorf("containment: Config.%s is %v; it must not be negative", d.name, d.d))
		}
	}
	if c.GiveUp <= c.Grace {
		errs = append(errs, fmt.Errorf("containment: Config.GiveUp (%v) must be longer than Config.Grace (%v)", c.GiveUp, c.Grace))
	}
	if c.Mode > Weak {
		errs = append(errs, fmt.Errorf("containment: Config.Mode %d is not known", c.Mode))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.DrainGrace == 0 {
		c.DrainGrace = DefaultDrainGrace
	}
	if c.GiveUp == 0 {
		c.GiveUp = DefaultGiveUp
	}
	return c
}
