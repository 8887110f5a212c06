//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// demoSystem is the system whose containment the demo needs.
func demoSystem() string { return runtime.GOOS }

// demoRoleCommand is what the demo's resisting run is: hidden, and of no other
// use.
func (a *app) demoRoleCommand() *cobra.Command {
	return &cobra.Command{
		Use: demoRole, Hidden: true, Args: exactly("ROLE"),
		RunE: func(_ *cobra.Command, args []string) error { return a.playDemoRole(args[0]) },
	}
}

// playDemoRole: "tree" starts "escape" in a session of its own, which starts
// "sleep" in another one and goes; all ignore TERM and would stay for a minute.
func (a *app) playDemoRole(role string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	say := func(what string) { fmt.Fprintf(a.stdout, "pid %d %s\n", os.Getpid(), what) }
	spawn := func(role string) error {
		c := exec.Command(self, demoRole, role)
		c.Stdout, c.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
		return c.Start()
	}
	switch role {
	case "tree":
		say("the-command,ignores-TERM")
		err = spawn("escape")
	case "escape":
		say("its-child,in-a-session-of-its-own")
		err = spawn("sleep")
	case "sleep":
		say("its-grandchild,in-another-session")
	}
	if err != nil {
		return err
	}
	<-time.After(time.Minute)
	return nil
}

// living are those of the processes that still exist and are no zombies.
func living(pids []int) []int {
	var alive []int
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			alive = append(alive, pid)
		}
	}
	return alive
}
