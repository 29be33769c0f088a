//go:build unix

package secret

import (
	"io/fs"
	"syscall"
)

// exposed reports whether others than those who are meant to may read a key file. One that belongs to root may be readable by
// its group, which is how container platforms hand files to programs of other users.
func exposed(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	owner, ok := info.Sys().(*syscall.Stat_t)
	return mode&0o077 != 0 && !(ok && owner.Uid == 0 && mode&0o037 == 0)
}
