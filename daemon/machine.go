package daemon

import "codingrelay/step"

// The kinds of actors, as they stand in a [step.Ref].
const (
	KindSession = "session"
	KindRun     = "run"
)

// SessionRef is the address of the session of the daemon that has this name in
// its executor (see SessionConfig.Name). Its runs are named after it.
func SessionRef(name string) step.Ref { return step.Ref{Kind: KindSession, ID: name} }
