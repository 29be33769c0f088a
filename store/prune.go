package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// These are the parts of Prune that every database shares.

// maxUnremovable bounds the executions that are remembered because they could not be removed.
const maxUnremovable = 10_000

// Unremovable are executions that could not be removed: others go on, and they are tried again by the next process. The
// zero value is ready.
type Unremovable struct {
	mu   sync.Mutex
	list []int64
}

// Executions lists them. It is never nil: in SQL, nothing is NOT IN what is NULL.
func (u *Unremovable) Executions() []int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]int64{}, u.list...)
}

// Without removes them from a list.
func (u *Unremovable) Without(numbers []int64) []int64 {
	bad := u.Executions()
	return slices.DeleteFunc(numbers, func(no int64) bool { return slices.Contains(bad, no) })
}

// Remove removes all executions at once or, where that fails, each of them, apart from those at which it fails: they are in
// the error and remembered. It stops at an error that says that the store is away.
func (u *Unremovable) Remove(ctx context.Context, numbers []int64, remove func([]int64) error, away func(error) bool) error {
	if len(numbers) == 0 || remove(numbers) == nil {
		return nil
	}
	var errs []error
	for _, no := range numbers {
		err := remove([]int64{no})
		if err == nil {
			continue
		}
		if ctx.Err() != nil || away(err) {
			return errors.Join(append(errs, err)...)
		}
		u.add(no)
		errs = append(errs, fmt.Errorf("execution %d: %w", no, err))
	}
	return errors.Join(errs...)
}

func (u *Unremovable) add(no int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) < maxUnremovable {
		u.list = append(u.list, no)
	}
}

// blobAge is how old a blob has to be before it may go: it is younger while it is stored but not yet committed, and while a
// copy of the database is being made that refers to it.
const blobAge = 24 * time.Hour

// sweepShards is how many of the 256 parts of the blobs one call looks at.
const sweepShards = 32

// Sweep is the progress of the search for definitions and blobs that nothing refers to. The zero value is ready.
type Sweep struct {
	mu      sync.Mutex
	shard   int
	removed bool // executions have gone since the definitions were looked through
}

// Mark says that executions have gone.
func (s *Sweep) Mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = true
}

// Run removes the definitions, if executions have gone and definitions is not nil, and the unused blobs of the next parts. A
// part that fails does not hold up the others. Sweeper may be nil; more is false when the last part has been looked at.
func (s *Sweep) Run(ctx context.Context, now time.Time, definitions func() error, sweeper Sweeper, used func(context.Context, []string) (map[string]bool, error)) (blobs int64, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.removed && definitions != nil {
		s.removed = false
		errs = append(errs, definitions())
	}
	if sweeper == nil {
		return 0, false, errors.Join(errs...)
	}
	for range sweepShards {
		n, err := sweeper.Sweep(ctx, byte(s.shard), now.Add(-blobAge), used)
		blobs += int64(n)
		errs = append(errs, err)
		s.shard = (s.shard + 1) % 256
	}
	return blobs, s.shard != 0, errors.Join(errs...)
}

// Limit is how many entries a list has: normal if none is asked for, and at most most.
func Limit(asked, normal, most int) int {
	return min(cmp.Or(max(asked, 0), normal), most)
}
