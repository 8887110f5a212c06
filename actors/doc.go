// Package actors is the hub of the relay: who is connected, which runs exist,
// and what a cancel is worth.
//
// Four kinds of actors share no state and talk in messages (message.go):
//
//	hub ─────── one an installation: admits, places, replaces, stops
//	daemon_conn one a socket: the ordered outbound queue, the runs given to it
//	job ─────── one a run: its state machine, timers, tools, log, one outcome
//	fence ───── one a daemon id: what may start, and every durable record of it
//
// Each is a [codingrelay/step.Machine]: a pure step function from a message to
// effects. The edge files facade*.go and shim*.go are the only ones that know
// the engine, channels, contexts or the clock; everything else is policy and runs
// unchanged in the simulator. Invariants are cited as I1 to I15:
//
//	I1  at most one live connection a daemon id
//	I2  no run.start is written unless a record of the run is durable
//	I3  only the connection a run was dispatched on can touch it
//	I4  every run ends exactly once, and its caller learns exactly that outcome
//	I5  clean only after run.finished from the owner, or when never sent
//	I6  no run.start on a fenced or cancelling id, or where an acknowledgement is owed
//	I7  after a crash every id with an un-acknowledged run is fenced, and no other
//	I8  readers see a gap-free, duplicate-free sequence or an explicit mark
//	I9  after tools are revoked no call starts and open ones are cancelled
//	I10 concurrent starts open one listener
//	I11 a fence is lifted by acknowledgement of all its runs, or by an operator
//	I12 every run ends within its timeout, the cancel timeout and a bound
//	I13 told clean, the processes are dead (simulation only)
//	I14 memory is bounded by the configured limits
//	I15 no actor acts on a timer of another run, attempt or incarnation
//
// A program embeds the hub with [Start] and [Hub.Listen] and uses [Hub.Run]; a
// program with actors of its own may give its engine. The engine registers the
// protobuf names of hollywood: a program that also links protoactor-go panics at
// its start.
package actors
