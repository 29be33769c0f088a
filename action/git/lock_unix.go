//go:build unix && !aix && !solaris

package git

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepwell/stepwell/action"
)

// lock takes the lock of a file, which lasts until the file is closed here and in all programs that inherited it. So a
// git that a dead process has left running keeps others out.
func lock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := tryLock(path)
		if f != nil || err != nil {
			return f, err
		}
		if err := action.Pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// tryLock is nil when somebody has the lock.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}
