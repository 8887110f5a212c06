package actors

import "codingrelay/step"

// The kinds of actors, as they stand in a [step.Ref].
const (
	KindHub   = "hub"
	KindConn  = "conn"
	KindJob   = "job"
	KindFence = "fence"
)

// HubRef is the address of the one hub of an installation.
var HubRef = step.Ref{Kind: KindHub, ID: "hub"}
