package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/store"
)

// blobAge is how old a blob has to be before it may go: it is younger while it is stored but not yet committed.
const blobAge = 24 * time.Hour

// sweepShards is how many of the 256 parts of the blobs one call looks at.
const sweepShards = 32

// sweep is the progress of the search for unreferenced blobs.
type sweep struct {
	mu      sync.Mutex
	shard   int
	removed bool // executions have gone since the definitions were looked through
}

func (sw *sweep) mark() {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	sw.removed = true
}

// touch makes the blobs of executions young, so that a day passes between the end of their last use and their own.
func (p *pruning) touch(numbers []int64) error {
	sweeper, ok := p.s.blobs.(store.Sweeper)
	if !ok || len(numbers) == 0 {
		return nil
	}
	hashes, err := list(p.ctx, p.s, pgx.RowTo[[]byte], `SELECT DISTINCT hash FROM blob_use WHERE execution = ANY ($1)`, numbers)
	now := p.s.o.Now()
	for _, hash := range hashes {
		p.errs = append(p.errs, sweeper.Touch(hex.EncodeToString(hash), now)) // one that refuses does not hold up the others
	}
	return err
}

// rest removes unreferenced definitions, and a part of the unreferenced blobs.
func (p *pruning) rest() error {
	sw := &p.s.sweep
	sw.mu.Lock()
	defer sw.mu.Unlock()
	var errs []error
	if sw.removed {
		sw.removed = false
		errs = append(errs, p.definitions())
	}
	sweeper, ok := p.s.blobs.(store.Sweeper)
	if !ok {
		return errors.Join(errs...)
	}
	before := p.s.o.Now().Add(-blobAge)
	for range sweepShards {
		n, err := sweeper.Sweep(p.ctx, byte(sw.shard), before, p.s.blobsUsed)
		p.removed.Blobs += int64(n)
		errs = append(errs, err)
		sw.shard = (sw.shard + 1) % 256
	}
	p.more = p.more || sw.shard != 0
	return errors.Join(errs...)
}

// blobsUsed returns the blobs with references.
func (s *Store) blobsUsed(ctx context.Context, hashes []string) (map[string]bool, error) {
	found, err := list(ctx, s, pgx.RowTo[string], `SELECT h FROM unnest($1::text[]) AS h WHERE EXISTS (SELECT 1 FROM blob_use WHERE hash = decode(h, 'hex'))`, hashes)
	used := map[string]bool{}
	for _, hash := range found {
		used[hash] = true
	}
	return used, err
}

// definitions removes those without executions that nobody has used for a day.
func (p *pruning) definitions() error {
	return p.change(func(tx pgx.Tx) error {
		_, err := tx.Exec(p.ctx, `DELETE FROM definition WHERE used < $1
    AND hash NOT IN (SELECT definition FROM execution_live) AND hash NOT IN (SELECT definition FROM execution_past)`, p.s.o.Now().Add(-unusedFor).UnixMicro())
		return err
	})
}
