//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endSignals ask a process to end; what the first and the later ones do differs
// by command.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// catchPipe makes writes to a closed stdout or stderr fail with EPIPE instead of
// ending the process. It does not ignore the signal: what this process starts
// would inherit that.
func catchPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// sigPipeNumber is the number of the signal that a program gets whose output
// nobody reads any more.
const sigPipeNumber = int(syscall.SIGPIPE)

// signalNumber is n of the exit code 128+n.
func signalNumber(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return int(syscall.SIGINT)
}
