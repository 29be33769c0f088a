//go:build unix

package bench

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// peakUsage is the process's peak resident memory in MB, as the system counts it.
func peakUsage() float64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return float64(usage.Maxrss) / (1 << 20)
	}
	return float64(usage.Maxrss) / 1024
}

// cpuTime is the process's processor time so far.
func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
