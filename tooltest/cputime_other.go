//go:build !unix

package tooltest

import "time"

var processStart = time.Now()

// CPUTime is how long this process has run: where its CPU time is not known.
func CPUTime() time.Duration { return time.Since(processStart) }
