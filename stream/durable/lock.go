package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/stepwell/stepwell"
)

// Locks keeps other executions away from the places that are written, on this machine and on those whose file
// system shares locks, and lets the streams of one execution share a place in this process. The zero value is
// ready. It is used by many goroutines.
type Locks struct {
	mu    sync.Mutex
	held  map[string]*place
	turns map[string]*turn
}

// turn is the right to publish to a place without a lock file.
type turn struct {
	sync.Mutex
	waiting int
}

// place is a lock file that is held.
type place struct {
	file  *flock.Flock
	owner string
	users int
	alone bool
	turn  sync.Mutex
}

// Lock is a claim to a place by one stream.
type Lock struct {
	locks *Locks
	path  string
	place *place
}

// Acquire locks a place by the file at path, which it creates. Streams of the same owner, an execution, share it unless
// alone is set. dest names the place in errors: CodeConflict when another owner has it, CodeInvalid when it is not
// writable. clear removes the remains of a dead run: it is called while no other stream of the execution has the place
// and none can get it.
func (l *Locks) Acquire(path, dest, owner string, alone bool, clear func() error) (*Lock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]*place{}
	}
	if p := l.held[path]; p != nil {
		if p.owner != owner || owner == "" || p.alone || alone {
			return nil, busy(dest)
		}
		p.users++
		return &Lock{locks: l, path: path, place: p}, nil
	}
	file, err := lockFile(path, dest)
	if err != nil {
		return nil, err
	}
	p := &place{file: file, owner: owner, users: 1, alone: alone}
	if err := clear(); err != nil {
		return nil, errors.Join(err, os.Remove(path), file.Close())
	}
	l.held[path] = p
	return &Lock{locks: l, path: path, place: p}, nil
}

func busy(dest string) error {
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: dest + " is being written by another run",
		Hint: "wait until it has ended, or give this one another path"}
}

func lockFile(path, dest string) (*flock.Flock, error) {
	for range 100 { // the owner removes the file, and may remove its directory, when it ends: a lock on a removed file means nothing
		file := flock.New(path)
		err := MakeDir(filepath.Dir(path))
		ok := false
		if err == nil {
			ok, err = file.TryLock()
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, unwritable(dest, path, err)
		}
		if !ok {
			return nil, busy(dest)
		}
		mine, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(mine, now) {
			return file, nil
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
	return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: dest + ": its lock changes all the time", Hint: "too many runs write it"}
}

// unwritable words an error of the hidden lock as one of dest: the directory is the cause.
func unwritable(dest, path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("lock %s: %w", dest, err)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: dest + ": the directory " + filepath.Dir(path) + " cannot be written",
		Hint: "give write permission on the directory, or write to another path", Err: err}
}

// Turn waits until no other stream of this process publishes to a place that has no lock file, and returns the end of its
// own turn.
func (l *Locks) Turn(place string) (done func()) {
	l.mu.Lock()
	if l.turns == nil {
		l.turns = map[string]*turn{}
	}
	t := l.turns[place]
	if t == nil {
		t = &turn{}
		l.turns[place] = t
	}
	t.waiting++
	l.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.waiting--; t.waiting == 0 {
			delete(l.turns, place)
		}
	}
}

// Publishing waits until no other stream of the execution publishes to the place, and returns the end of its own turn.
func (l *Lock) Publishing() (done func()) {
	l.place.turn.Lock()
	return l.place.turn.Unlock
}

// Release lets go of the place. The last stream removes the lock's file while it is still held.
func (l *Lock) Release() error {
	l.locks.mu.Lock()
	defer l.locks.mu.Unlock()
	if l.place.users--; l.place.users > 0 {
		return nil
	}
	delete(l.locks.held, l.path)
	return errors.Join(os.Remove(l.path), l.place.file.Close())
}
