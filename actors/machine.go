package actors

import (
	"fmt"
	"slices"

	"codingrelay/step"
)

// The kinds of actors, as they stand in a [step.Ref].
const (
	KindHub   = "hub"
	KindConn  = "conn"
	KindJob   = "job"
	KindFence = "fence"
)

// HubRef is the address of the one hub of an installation.
var HubRef = step.Ref{Kind: KindHub, ID: "hub"}

// edges is the table of a state machine: what may follow what.
type edges[S comparable] map[S][]S

// become changes a state. An edge that is not in the table is a mistake in this
// program, and a relay that is wrong must stop rather than go on: it panics, and
// the shim contains it.
func become[S interface {
	comparable
	fmt.Stringer
}](who string, state *S, to S, table edges[S],
) {
	if !slices.Contains(table[*state], to) {
		panic(fmt.Sprintf("actors: %s: no edge from %v to %v", who, *state, to))
	}
	*state = to
}

// unexpected is what every machine does with a message of a type it does not
// accept: the program is wrong.
func unexpected(who string, message any) {
	panic(fmt.Sprintf("actors: %s: unexpected message %T", who, message))
}
