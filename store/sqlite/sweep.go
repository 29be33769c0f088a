package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

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
	definitions := p.removeDefinitions
	if p.s.lock == nil {
		definitions = nil
	}
	n, more, err := p.s.sweep.Run(p.ctx, time.Now(), definitions, p.s.blobs, p.s.blobsUsed)
	p.removed.Blobs, p.more = p.removed.Blobs+n, p.more || more
	return err
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
