package wire

import (
	"strconv"
	"strings"
	"time"
)

// The names of the extensions (protocol section 10).
const (
	extMaxFrame      = "max-frame"
	extCancelTimeout = "cancel-timeout"
	extReceipt       = "receipt"
)

// What an announced number may be. A side that speaks extensions takes at least
// a frame as large as a hello; above [HardMaxFrame] every socket is closed; and
// a cancel timeout of more than a day is no timeout.
const (
	minMaxFrame      = HelloMaxFrame
	maxMaxFrame      = HardMaxFrame
	maxCancelTimeout = 24 * time.Hour
)

// Extensions is what one side of a connection announced beyond v1: the daemon in
// its hello, the hub in its ready. The zero value is a v1 peer, which announced
// nothing.
type Extensions struct {
	// MaxFrame is how large a frame this side takes, in bytes; 0: not said. Use
	// [Extensions.FrameLimit] to decide what may be sent.
	MaxFrame int
	// CancelTimeout is how long the hub waits for run.finished after a cancel;
	// 0: not said. It is sent in whole milliseconds.
	CancelTimeout time.Duration
	// Receipt says that receipt keys come with run.finished (see [Receipt]).
	Receipt bool
}

// FrameLimit is the largest frame, in bytes, that may be sent to the side that
// announced e: [DefaultMaxFrame] unless it said otherwise (protocol section 1).
func (e Extensions) FrameLimit() int {
	if e.MaxFrame == 0 {
		return DefaultMaxFrame
	}
	return min(max(e.MaxFrame, minMaxFrame), maxMaxFrame)
}

// ParseExtensions reads the strings of an extensions array, each name or
// name=value. Unknown names and values that are no such value are ignored; of a
// name that comes twice, the first good one counts. A max-frame below 64 KiB or
// above [HardMaxFrame] counts as that bound; a cancel-timeout is 1 ms to 24 h.
func ParseExtensions(list []string) Extensions {
	var e Extensions
	for _, s := range list {
		name, value, valued := strings.Cut(s, "=")
		switch {
		case name == extMaxFrame && valued && e.MaxFrame == 0:
			if n, ok := number(value); ok {
				e.MaxFrame = int(min(max(n, minMaxFrame), maxMaxFrame))
			}
		case name == extCancelTimeout && valued && e.CancelTimeout == 0:
			if n, ok := number(value); ok && n <= maxCancelTimeout.Milliseconds() {
				e.CancelTimeout = time.Duration(n) * time.Millisecond
			}
		case name == extReceipt && !valued:
			e.Receipt = true
		}
	}
	return e
}

// Strings gives what [ParseExtensions] reads as e; nil when e says nothing.
func (e Extensions) Strings() []string {
	var list []string
	if e.MaxFrame > 0 {
		list = append(list, extMaxFrame+"="+strconv.Itoa(e.MaxFrame))
	}
	if ms := e.CancelTimeout.Milliseconds(); ms > 0 {
		list = append(list, extCancelTimeout+"="+strconv.FormatInt(ms, 10))
	}
	if e.Receipt {
		list = append(list, extReceipt)
	}
	return list
}

// number reads plain decimal digits above zero; more digits than an int64 holds
// are no number.
func number(s string) (int64, bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n > 0
}

// extensionStrings reads the value of an extensions key: the strings of an
// array. Anything else is left out, as protocol section 3.2 wants it for
// metadata: an extension is never a reason to refuse a peer.
func extensionStrings(value []byte) []string {
	if len(value) == 0 || value[0] != '[' {
		return nil
	}
	var list []string
	_ = elements(value, func(element []byte) bool {
		if s, ok := unquote(element); ok {
			list = append(list, s)
		}
		return true
	})
	return list
}
