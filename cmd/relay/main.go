// Command relay hands coding-agent jobs to machines that only dial out, and
// confirms a cancel only when the processes are really gone.
//
//	relay serve ──────── hub: daemons dial in, callers use its HTTP API
//	relay daemon ─────── the machine that runs the jobs
//	relay run -- CMD ──── one job: output here, its exit code is ours
//
// The binary is a composition: it gives the actors of the hub and of the daemon
// their real ports (sockets, files, processes), reads flags and environment, and
// turns answers into text, exit codes and words about what to do. It holds no
// policy of its own. What it promises its users (exit codes, streams, signals)
// is in docs/exit-codes.md and docs/operations.md, and tested by the scripts
// in testdata/script.
package main

import (
	"os"

	"codingrelay/containment"
)

func main() {
	// First of all: this executable is also the supervisor of each run.
	containment.SupervisorMain()
	os.Exit(realMain())
}

// realMain is the program apart from the supervisor's role.
func realMain() int {
	return newApp(os.Stdin, os.Stdout, os.Stderr, os.LookupEnv).main(os.Args[1:])
}
