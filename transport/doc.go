// Package transport carries coding-relay-v1 over WebSockets: a listener for the
// hub, a dialler for the daemon, and a pair of links in memory. All three give a
// [wire.Link] to an owner and feed a [wire.Sink] with validated frames.
//
// It knows messages, sizes, deadlines and close codes. It does not know what a
// frame says, who may send it, or what happens next: that is the owner's.
//
//	                    ┌─────────────── link ───────────────┐
//	owner ─ Link ─────▶ │ flush ─▶ pump ─▶ library ─▶ out ─▶ │ ─▶ kernel
//	owner ◀─ Sink ───── │ credit ◀─ reader ◀─ library ◀───── │ ◀─ kernel
//	                    └────────────────────────────────────┘
//
// # Reading
//
// One goroutine per link reads, and calls every method of the sink but Flushed.
// A message of up to [wire.OurMaxFrame] is decoded; a larger one is read to its
// end and thrown away, and becomes one [wire.Oversize] frame; above
// [wire.HardMaxFrame] the link is closed with 1009. On the hub's side a message
// above [wire.HelloMaxFrame] closes the link with 1008 until the owner admits the
// peer (protocol sections 1 and 3.1).
//
// github.com/coder/websocket v1.8.15 can end a message without an error when TCP
// ends inside it. The bytes under the library are ours, so this is seen: such a
// message is no message. The decoder, which takes complete objects only, is the
// second wall.
//
// A run.event holds inbound credit from before the sink gets it until the owner
// gives it back ([Limits]). While there is none, the socket is not read.
//
// # Writing
//
// The pump is a goroutine that lives while there is something to write. What the
// library writes lands in memory first (out), and the pump alone gives it to the
// kernel, in pieces. So many small messages of a flush cost one system call; an
// answer to a ping never waits for a peer that reads slowly; and no lock of the
// library is held while the kernel makes us wait. A message above 256 KiB is sent
// in fragments (RFC 6455 section 5.4), so that out stays small and answers to
// pings can overtake.
//
// Pings and close frames are written by the pump itself, between two messages:
// the library's Ping and Close wait for the peer, its Close throws inbound
// messages away, and both need a goroutine or a context for it. No call into the
// library has a context that can end, since one that ends closes the connection.
//
// # Ending
//
// Whatever happens, the socket is closed, the pump ends, and then [wire.Sink]'s
// Closed is called, once and last. What was given to the sink before is always a
// prefix of what the peer sent: when a frame finds no credit because the link is
// closing, nothing after it is given either.
package transport
