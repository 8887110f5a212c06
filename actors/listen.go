package actors

import (
	"net"
	"strings"
)

// The shared profile's demands on a token (protocol section 7).
const (
	sharedTokenMin      = 32
	sharedTokenDistinct = 12
)

// check refuses a configuration that nobody should listen with.
func (c ListenConfig) check(durable bool) *Error {
	if c.Shared {
		if !strongToken(c.Token) {
			return errorf(CodeTokenRequired, "the shared profile needs a daemon token of at least %d characters, %d of them distinct, without white space at its ends; make one with: relay token new", sharedTokenMin, sharedTokenDistinct)
		}
		if !durable {
			return errorf(CodeInvalidRequest, "the shared profile needs a durable store; give the hub a state folder")
		}
	}
	if c.Token == "" && !c.Force && !loopback(c.Host) {
		return errorf(CodeTokenRequired, "without a token the hub listens on loopback only, not on %q; make a token with: relay token new", c.Host)
	}
	if c.Port < 0 || c.Port > 65535 {
		return errorf(CodeInvalidRequest, "port %d is not between 0 and 65535", c.Port)
	}
	return nil
}

func strongToken(token string) bool {
	if strings.TrimSpace(token) != token {
		return false
	}
	distinct := make(map[rune]struct{})
	n := 0
	for _, r := range token {
		distinct[r] = struct{}{}
		n++
	}
	return n >= sharedTokenMin && len(distinct) >= sharedTokenDistinct
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
