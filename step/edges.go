package step

import (
	"fmt"
	"slices"
)

// Edges is the table of a state machine: what may follow what.
type Edges[S comparable] map[S][]S

// Become changes a state. An edge that is not in the table is a mistake in the
// program, and a relay that is wrong must stop rather than go on: it panics with
// the machine's name, and the executor contains it.
func Become[S interface {
	comparable
	fmt.Stringer
}](who string, state *S, to S, table Edges[S],
) {
	if !slices.Contains(table[*state], to) {
		panic(fmt.Sprintf("%s: no edge from %v to %v", who, *state, to))
	}
	*state = to
}

// Unexpected is what a machine does with a message of a type it does not accept:
// the program is wrong.
func Unexpected(who string, message any) {
	panic(fmt.Sprintf("%s: unexpected message %T", who, message))
}
