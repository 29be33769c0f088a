package action

import "golang.org/x/sys/windows"

// FreeSpace returns the bytes that this user may still write below dir, and whether that is known.
func FreeSpace(dir string) (int64, bool) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, false
	}
	return int64(min(free, 1<<62)), true
}
