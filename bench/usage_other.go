//go:build !unix

package bench

import "time"

// processCPU is not measured on this system.
func processCPU() time.Duration { return 0 }

// residentBytes is not measured on this system.
func residentBytes() int64 { return 0 }
