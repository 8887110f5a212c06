package transport

import "time"

const (
	// Unlimited as [Limits.InboundCredit] counts nothing.
	Unlimited = -1
	// DefaultInboundCredit is how much a hub holds of one connection's events
	// (design section 7).
	DefaultInboundCredit = 4 << 20
	// DefaultWriteStall is how long a peer may take no byte (design section 7).
	DefaultWriteStall = 10 * time.Second
	// closeWait bounds a closing handshake (protocol section 1, wire.Link).
	closeWait = time.Second
)

// Limits bound one link. The zero value means the defaults.
type Limits struct {
	// InboundCredit is how many bytes of run.event messages may lie between the
	// reader and [wire.Link]'s Credit. An event larger than all of it passes alone,
	// when nothing else is counted, and counts whole. Other frames are not
	// counted. Default [DefaultInboundCredit]; [Unlimited] counts nothing.
	InboundCredit int
	// WriteStall ends the link when bytes are waiting and the kernel took none
	// for this long. It also bounds how long a Close waits for the flush that is
	// under way. Default [DefaultWriteStall].
	WriteStall time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.InboundCredit == 0 {
		l.InboundCredit = DefaultInboundCredit
	}
	if l.WriteStall <= 0 {
		l.WriteStall = DefaultWriteStall
	}
	return l
}
