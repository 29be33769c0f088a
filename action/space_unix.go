//go:build linux || darwin

package action

import "golang.org/x/sys/unix"

// FreeSpace returns the bytes that an ordinary user may still write below dir, and whether that is known.
func FreeSpace(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil || s.Blocks == 0 {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // the types differ from system to system
}
