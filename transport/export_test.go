package transport

import "codingrelay/wire"

// AwaitMute returns when nothing more is written to a link.
func AwaitMute(l wire.Link) { l.(*link).awaitSeal() }
