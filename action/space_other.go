//go:build !linux && !darwin && !windows

package action

// FreeSpace is not known here.
func FreeSpace(string) (int64, bool) { return 0, false }
