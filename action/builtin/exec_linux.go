package builtin

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitExit returns when the process has ended, without reaping it: until then its number, and so that of
// its group, cannot be given to another process, and the group can safely be killed.
func awaitExit(pid int, wait func() error) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EINTR) {
			_ = wait() // waitid is not to be had here; the caller asks for the result once more
			return
		}
	}
}
