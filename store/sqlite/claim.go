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

// How long a claim waits: whoever only migrates a database holds it for some milliseconds.
const (
	claimPatience = 250 * time.Millisecond
	claimPause    = 10 * time.Millisecond
)

// claim takes the lock that makes this process the only one that runs executions. The operating
// system gives it back when the process dies. The file holds the holder's process id, for people.
func (s *Store) claim(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, claimPatience)
	defer cancel()
	l := newLock(s.path)
	ok, err := l.TryLockContext(ctx, claimPause)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if !ok {
		return s.claimed()
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

func (s *Store) claimed() error {
	by := "another process"
	if raw, err := os.ReadFile(s.path + ".lock"); err == nil {
		if pid := strings.TrimSpace(string(raw)); pid != "" && len(pid) < 20 {
			by += " (pid " + pid + ")"
		}
	}
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("%s runs the executions of %s", by, s.path),
		Hint: "use another --db, or stop the other process"}
}

// unclaim leaves the empty file: removing it would race with the next one to claim.
func (s *Store) unclaim() error {
	if s.lock == nil {
		return nil
	}
	return errors.Join(os.Truncate(s.lock.Path(), 0), s.lock.Close())
}
