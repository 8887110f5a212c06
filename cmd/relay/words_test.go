package main

import (
	"testing"
	"time"
)

// A duration is read at a glance.
func TestShortDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                    "0ms",
		340 * time.Millisecond:          "340ms",
		2500 * time.Millisecond:         "2.5s",
		42 * time.Second:                "42s",
		3*time.Minute + 4*time.Second:   "3m4s",
		26*time.Hour + 30*time.Minute:   "26h30m",
		49*time.Hour + 59*time.Minute:   "2d1h",
		9*time.Second + time.Nanosecond: "9.0s",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %q, want %q", d, got, want)
		}
	}
}

// What relay.json says can be dialled on this machine.
func TestDialableAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:7433": "127.0.0.1:7433",
		"0.0.0.0:7433":   "127.0.0.1:7433",
		"[::]:7433":      "127.0.0.1:7433",
		"[::1]:7433":     "[::1]:7433",
		"10.1.2.3:80":    "10.1.2.3:80",
	} {
		if got := dialable(addr); got != want {
			t.Errorf("dialable(%q) = %q, want %q", addr, got, want)
		}
	}
}

// Commands that are printed can be pasted.
func TestShellWords(t *testing.T) {
	for word, want := range map[string]string{
		"laptop-1.local":  "laptop-1.local",
		"sha256:00ff":     "sha256:00ff",
		"my laptop":       "'my laptop'",
		"it's; rm -rf /":  `'it'\''s; rm -rf /'`,
		"$(reboot)`date`": "'$(reboot)`date`'",
	} {
		if got := shellWord(word); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", word, got, want)
		}
	}
}

// The exit code of a signal is a shell's, 128 and its number.
func TestSignalNames(t *testing.T) {
	for name, want := range map[string]int{"SIGKILL": 9, "SIGTERM": 15, "signal 34": 34, "": 0} {
		if got := numberOf(name); got != want {
			t.Errorf("numberOf(%q) = %d, want %d", name, got, want)
		}
	}
}
