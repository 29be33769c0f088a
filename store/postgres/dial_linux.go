package postgres

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// userTimeout ends a connection whose other side acknowledges nothing: a machine or a network that has gone without a word.
func userTimeout(_, _ string, c syscall.RawConn) (err error) {
	if controlled := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(batchDeadline.Milliseconds()))
	}); controlled != nil {
		return controlled
	}
	if err == unix.ENOPROTOOPT || err == unix.EOPNOTSUPP { // a socket of the file system
		return nil
	}
	return err
}
