//go:build unix

package expr

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used so far: unlike the clock it does not count the time that
// other processes take on a busy machine.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
