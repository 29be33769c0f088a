//go:build unix && !linux

package sqlite

import "golang.org/x/sys/unix"

// linked reports whether a file has more than one name.
func linked(path string) bool {
	var s unix.Stat_t
	return unix.Stat(path, &s) == nil && s.Nlink > 1
}
