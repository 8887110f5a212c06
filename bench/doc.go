// Package bench measures the hub as a process of its own: what an event costs
// beside the bare WebSocket library, how fast runs start and end, what a
// connection weighs.
//
// Three processes take part. The subject is the hub, or the ceiling: the same
// library reading the same frames with no actors at all. The generator plays the
// daemons with frames built before the clock starts. Both subjects are driven by
// the same generator in the same run, so their ratio does not depend on the
// machine; times and rates do, and are printed for the reader, never gated on.
package bench
