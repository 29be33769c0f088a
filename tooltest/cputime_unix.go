//go:build unix

package tooltest

import (
	"syscall"
	"time"
)

// CPUTime is this process's CPU time so far: unlike the clock it excludes other processes on a busy machine.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
