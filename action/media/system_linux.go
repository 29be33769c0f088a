package media

import (
	"os"

	"golang.org/x/sys/unix"
)

// freeSpace is the space below dir for an ordinary user.
func freeSpace(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil || s.Blocks == 0 {
		return 0, false
	}
	return int64(s.Bavail) * s.Bsize, true
}

// dropCache asks the system to forget its copy of a flushed file, so that reading it back reads the
// disk. It is advice: a system that does not follow it still compares the bytes it would serve.
func dropCache(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
