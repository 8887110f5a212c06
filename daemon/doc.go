// Package daemon is the user's side of the relay: it dials a hub, runs what the
// hub asks for on this machine, streams the events back, and acknowledges the end
// of a run only when everything the run started is gone (protocol section 8).
//
//	hub ◀── link ──▶ session ──▶ run ──▶ Runner ──▶ process trees
//	                    │         │         │
//	                    │         │         └─ Job.Emit, Job.Command (your code, or exec)
//	                    │         └─ one per job: its end, its barrier
//	                    └─ one per daemon: dialling, liveness, the outbound queues
//
// # Embedding
//
// A program calls [SupervisorMain] first in main, makes a [Daemon] with [New] and
// calls [Daemon.Run]. What a run does is a [Runner]: one method, which gets the
// payload and a context, emits events, and starts processes with [Job.Command].
// The library owns the rest: the terminal event, the barrier, and the
// acknowledgement, which waits for Run to return and for every tree that
// [Job.Command] started. What a runner starts by other means is not covered by
// the word clean. Without a Runner the daemon runs commands, as docs/exec.md says.
//
// # How it is written
//
// [Session] and [Run] are policies in the sense of package step: pure functions
// from a message to effects, which a simulator drives as well. Files named shim*
// and facade* are the edges: only they know the engine, goroutines, channels,
// contexts, the clock, files and sockets. A test keeps it so.
//
// # When clean-up cannot be confirmed
//
// Then the run is never acknowledged, the connection is closed with 1011, the
// other runs are ended, and the daemon halts for good: a file in its state folder
// makes every later start refuse to dial ([HaltedError]) until the owner of the
// machine has looked and says so ([Daemon.AcceptUnclean]).
package daemon
