package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// blobAge is how old the file of a blob has to be before it may go: it is younger while it is stored but not
// yet committed, and while a copy of the database is being made that refers to it.
const blobAge = 24 * time.Hour

// sweepShards is how many of the 256 directories of blobs one call looks at.
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

// touchBlobs makes the blobs of executions young, so that a day passes between the end of their last use and
// their own.
func (p *pruning) touchBlobs(numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	now := time.Now()
	var errs []error
	err := p.s.each(p.ctx, func(rows *sql.Rows) error {
		var hash string
		if err := rows.Scan(&hash); err != nil {
			return err
		}
		errs = append(errs, p.s.blobs.Touch(hash, now)) // one file that refuses does not hold up the others
		return nil
	}, p.s.sql["prune_blobs"], jsonList(numbers))
	p.errs = append(p.errs, errs...)
	return err
}

// removeRest removes unreferenced definitions, and a part of the unreferenced blobs.
func (p *pruning) removeRest() error {
	sw := &p.s.sweep
	sw.mu.Lock()
	defer sw.mu.Unlock()
	var errs []error
	if p.s.lock != nil && sw.removed {
		sw.removed = false
		errs = append(errs, p.removeDefinitions())
	}
	before := time.Now().Add(-blobAge)
	for range sweepShards { // one bad directory does not hold up the others
		n, err := p.s.blobs.Sweep(p.ctx, byte(sw.shard), before, p.s.blobsUsed)
		p.removed.Blobs += int64(n)
		errs = append(errs, err)
		sw.shard = (sw.shard + 1) % 256
	}
	p.more = p.more || sw.shard != 0
	return errors.Join(errs...)
}

// blobsUsed returns the blobs with references.
func (s *Store) blobsUsed(ctx context.Context, hashes []string) (map[string]bool, error) {
	list, err := json.Marshal(hashes)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	return used, s.each(ctx, func(rows *sql.Rows) error {
		var hash string
		err := rows.Scan(&hash)
		used[hash] = true
		return err
	}, s.sql["blobs_used"], string(list))
}

// removeDefinitions removes those without executions. Only the process that runs executions does: it knows which it may
// still use.
func (p *pruning) removeDefinitions() error {
	var hashes [][]byte
	err := p.s.each(p.ctx, func(rows *sql.Rows) error {
		var hash []byte
		err := rows.Scan(&hash)
		hashes = append(hashes, hash)
		return err
	}, p.s.sql["definitions_unused"])
	if err != nil || len(hashes) == 0 {
		return err
	}
	return p.change(func(w *writer) error {
		for _, hash := range hashes {
			if p.s.used.knows(hash) {
				continue
			}
			if err := w.run("prune_definition", hash); err != nil {
				return err
			}
		}
		return nil
	})
}
