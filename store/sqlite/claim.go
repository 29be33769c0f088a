package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/stepwell/stepwell"
)

// claimPause is the pause between tries for the lock, claimTries the number of tries before a claimed lock is
// believed.
const (
	claimPause = 10 * time.Millisecond
	claimTries = 3
)

// claim takes the lock that makes this process the only one that runs executions. The operating system releases it
// when the process dies. The file holds the holder's process id, for people; an empty one means a migration, which
// claim waits for.
func (s *Store) claim(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, migrationPatience)
	defer cancel()
	l := newLock(s.path)
	for try := 1; ; try++ {
		ok, err := l.TryLock()
		if err != nil {
			return err
		}
		if ok {
			break
		}
		if pid := s.holder(); pid != "" && try >= claimTries {
			return s.claimed(" (pid " + pid + ")")
		}
		select {
		case <-ctx.Done():
			return s.claimed("")
		case <-time.After(claimPause):
		}
	}
	s.lock = l
	if err := os.WriteFile(l.Path(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		log.Debug("the lock file does not take a process id", "file", l.Path(), "error", err) // a locked file is not writable everywhere
	}
	return nil
}

func newLock(path string) *flock.Flock {
	return flock.New(path+".lock", flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o644))
}

// holder is the process id in the lock file, "" if there is none.
func (s *Store) holder() string {
	raw, err := os.ReadFile(s.path + ".lock")
	if pid := strings.TrimSpace(string(raw)); err == nil && len(pid) < 20 {
		return pid
	}
	return ""
}

func (s *Store) claimed(by string) error {
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("another process%s runs the executions of %s", by, s.path),
		Hint: "to ask it, if it is a server: --server URL (or STEPWELL_SERVER); to work beside it: --data DIR"}
}

// unclaim leaves the empty file: removing it would race with the next one to claim.
func (s *Store) unclaim() error {
	if s.lock == nil {
		return nil
	}
	return errors.Join(os.Truncate(s.lock.Path(), 0), s.lock.Close())
}
