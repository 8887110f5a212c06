//go:build !linux && !darwin

package transport

import "net"

// tune does nothing here: this system has no such option, or no need.
func tune(net.Conn) {}
