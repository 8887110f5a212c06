//go:build !unix

package main

import "os"

// endSignals ask a process to end.
var endSignals = []os.Signal{os.Interrupt}

// catchPipe has nothing to do: writes to a closed pipe just fail here.
func catchPipe() {}

// sigPipeNumber is the number that other systems give to a closed output.
const sigPipeNumber = 13

// signalNumber is n of the exit code 128+n: the interrupt's.
func signalNumber(os.Signal) int { return 2 }
