package media

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache asks the system to forget its copy of a flushed file, so that reading it back reads the
// disk. It is advice: a system that does not follow it still compares the bytes it would serve.
func dropCache(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
