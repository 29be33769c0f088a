package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

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
	sweeper, _ := p.s.blobs.(store.Sweeper)
	n, more, err := p.s.sweep.Run(p.ctx, p.s.o.Now(), p.definitions, sweeper, p.s.blobsUsed)
	p.removed.Blobs, p.more = p.removed.Blobs+n, p.more || more
	return err
}

// blobsUsed returns the blobs with references.
func (s *Store) blobsUsed(ctx context.Context, hashes []string) (map[string]bool, error) {
	found, err := list(ctx, s, pgx.RowTo[string], `SELECT h FROM unnest($1::text[]) AS h WHERE EXISTS (SELECT 1 FROM blob_use WHERE hash = decode(h, 'hex'))
    OR EXISTS (SELECT 1 FROM object_blob WHERE hash = decode(h, 'hex'))`, hashes)
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

// placePatience is how long a server that starts waits for the place of the blobs.
const placePatience = 5 * time.Second

// place names the place of the blobs, the same in all processes that have the same one; nil: it cannot be told now.
func (s *Store) place(ctx context.Context) *string {
	ctx, cancel := context.WithTimeout(ctx, placePatience)
	defer cancel()
	name, err := "table", error(nil)
	switch b := s.blobs.(type) {
	case *store.Folder:
		name, err = b.Place()
	case *table:
		if b.bodies != nil {
			name, err = b.bodies.place(ctx)
		}
	}
	if err != nil {
		s.o.Log.Error("the place of the large outputs does not answer", "error", err, "hint", stepwell.HintOf(err))
		return nil
	}
	return &name
}

// samePlace is CodeInvalid when a node that lives has another place for blobs than node no.
func (s *Store) samePlace(ctx context.Context, no int64) error {
	var other string
	there, err := s.one(ctx, []any{&other}, `SELECT n.address FROM node n JOIN node me ON me.no = $1 AND n.place <> me.place WHERE n.until > clock_timestamp() LIMIT 1`, no)
	if err != nil || !there {
		return err
	}
	return stepwell.Invalid(samePlaceHint, "the server at %s has another place for large outputs", decode(other))
}

const samePlaceHint = "all servers name the same place in the address of the database (blobs=s3://bucket/folder, blobs=/mnt/folder, or none), and a folder is mounted on all of them"

// lookForBlobs is CodeNotFound when none of a hundred blobs in use is at this process's place: others have another place, or the
// folder is not mounted.
func (s *Store) lookForBlobs(ctx context.Context) error {
	hashes, err := list(ctx, s, pgx.RowTo[string], `SELECT encode(hash, 'hex') FROM blob_use LIMIT 100`)
	if err != nil || len(hashes) == 0 {
		return err
	}
	there := false
	if folder, ok := s.blobs.(*store.Folder); ok {
		there = slices.ContainsFunc(hashes, folder.Has)
	} else if _, err := s.one(ctx, []any{&there}, `SELECT EXISTS (SELECT 1 FROM blob WHERE hash IN (SELECT decode(h, 'hex') FROM unnest($1::text[]) AS h))`, hashes); err != nil {
		return err
	}
	if there {
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("none of %d is there", len(hashes)),
		Hint: samePlaceHint}
}
