//go:build unix

package store

import (
	"errors"
	"syscall"
)

// diskFull reports whether there is no room, or no more of it for this user.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
