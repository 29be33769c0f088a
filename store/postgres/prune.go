package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/store"
)

const (
	// pruneRows bounds the rows of a kind that one transaction removes by their age.
	pruneRows = 1000
	// slotGrace is how long the rows in large tables of closed slots wait for the tables to be dropped.
	slotGrace = 48 * time.Hour
)

// Prune removes one batch of expired data: an execution's row first, in one transaction with a note of it, then its other
// rows; the next call, of any process, completes one that was cut off. Two processes may prune at once.
func (s *Store) Prune(ctx context.Context, r store.Retention) (removed store.Removed, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return removed, false, err
	}
	if s.readOnly {
		return removed, false, errReadOnly
	}
	p := &pruning{s: s, ctx: ctx, batch: store.Limit(r.Batch, 100, 10_000)}
	for _, kind := range []struct {
		before time.Time
		remove func(int64) error
	}{{r.Executions, p.executions}, {r.Logs, p.logs}, {r.Keys, p.keys}, {r.Audit, p.audit}, {r.Firings, p.firings}, {r.Ends, p.ends}} {
		if !kind.before.IsZero() {
			p.errs = append(p.errs, kind.remove(kind.before.UnixMicro()))
		}
	}
	if (r.Blobs || !r.Executions.IsZero()) && !p.more {
		p.errs = append(p.errs, p.rest(), s.slots.drop(ctx))
	}
	return p.removed, p.more, fault("remove old data", errors.Join(p.errs...))
}

// pruning is one call of Prune.
type pruning struct {
	s       *Store
	ctx     context.Context
	batch   int
	removed store.Removed
	more    bool
	errs    []error
}

// change is one transaction, which does not wait for the disk: removals that are lost are repeated.
func (p *pruning) change(f func(tx pgx.Tx) error) error {
	return p.s.transaction(p.ctx, "remove old data", func(tx pgx.Tx) error {
		if _, err := tx.Exec(p.ctx, `SET LOCAL synchronous_commit = off`); err != nil {
			return err
		}
		return f(tx)
	})
}

// executions removes the oldest ones.
func (p *pruning) executions(before int64) error {
	numbers, err := list(p.ctx, p.s, pgx.RowTo[int64], `SELECT no FROM execution_past x WHERE ended < $1 AND NOT no = ANY ($2)
    AND NOT EXISTS (SELECT 1 FROM outside_work w WHERE w.execution = x.no AND NOT w.held AND w.next > 0) ORDER BY ended LIMIT $3`, before, p.s.bad.Executions(), p.batch)
	if err != nil {
		return err
	}
	p.more = p.more || len(numbers) == p.batch
	if err := p.touch(numbers); err != nil {
		return err
	}
	return errors.Join(p.together(numbers, func(numbers []int64) error { return p.takeOut(numbers, before) }), p.leftovers())
}

// takeOut removes the rows of executions that have not been restarted meanwhile, and notes that the rest is to go. Their
// numbers are not given again.
func (p *pruning) takeOut(numbers []int64, before int64) error {
	gone := int64(0)
	err := p.change(func(tx pgx.Tx) error {
		return tx.QueryRow(p.ctx, `WITH d AS (
    DELETE FROM execution_past WHERE no = ANY ($1) AND ended < $2 RETURNING no
), g AS (
    INSERT INTO gone (no, at) SELECT no, $3::bigint FROM d ON CONFLICT DO NOTHING
), c AS (
    UPDATE counter SET next = greatest(next, (SELECT max(no) + 1 FROM d)) WHERE name = 'execution' AND next <= (SELECT max(no) FROM d)
)
SELECT count(*) FROM d`, numbers, before, p.s.o.Now().UnixMicro()).Scan(&gone)
	})
	if err == nil && gone > 0 {
		p.removed.Executions += gone
		p.s.sweep.Mark()
	}
	return err
}

// together is Unremovable.Remove.
func (p *pruning) together(numbers []int64, remove func([]int64) error) error {
	return p.s.bad.Remove(p.ctx, numbers, remove, func(err error) bool { return store.IsAway(fault("", err)) })
}

// leftovers removes the other rows of removed executions. In the large tables those of a closed slot wait for the tables
// to be dropped, unless that takes long.
func (p *pruning) leftovers() error {
	for from := int64(-1); ; {
		numbers, err := list(p.ctx, p.s, pgx.RowTo[int64], `SELECT no FROM gone WHERE no > $1 AND NOT no = ANY ($2) ORDER BY no LIMIT $3`, from, p.s.bad.Executions(), p.batch)
		if err != nil || len(numbers) == 0 {
			return err
		}
		from = numbers[len(numbers)-1]
		if err := p.together(numbers, p.belongings); err != nil {
			return err
		}
	}
}

// smallParts are the tables with an execution's other rows, by the column with its number; largeParts those in slots.
var (
	smallParts = []struct{ table, column string }{{"spawned", "execution"}, {"seen", "execution"}, {"waiting", "execution"}, {"memo", "execution"},
		{"memo_fence", "execution"}, {"outside_work", "execution"}, {"start_key", "execution"}, {"blob_use", "execution"}}
	largeParts = []string{"step", "step_log", "log_line"}
)

func (p *pruning) belongings(numbers []int64) error {
	for _, part := range smallParts {
		if err := p.change(func(tx pgx.Tx) error {
			_, err := tx.Exec(p.ctx, "DELETE FROM "+part.table+" WHERE "+part.column+" = ANY ($1)", numbers)
			return err
		}); err != nil {
			return err
		}
	}
	now, err := list(p.ctx, p.s, pgx.RowTo[int64], `SELECT no FROM gone g WHERE no = ANY ($1) AND (at < $2 OR NOT EXISTS (SELECT 1 FROM slot s WHERE s.no > g.no >> 32))`,
		numbers, p.s.o.Now().Add(-slotGrace).UnixMicro())
	if err != nil || len(now) == 0 {
		return err
	}
	for _, table := range largeParts {
		var n int64
		if err := p.change(func(tx pgx.Tx) error {
			tag, err := tx.Exec(p.ctx, "DELETE FROM "+table+" WHERE execution = ANY ($1)", now)
			n = tag.RowsAffected()
			return err
		}); err != nil {
			return err
		}
		if table == "log_line" {
			p.removed.Lines += n
		}
	}
	return p.change(func(tx pgx.Tx) error {
		_, err := tx.Exec(p.ctx, `DELETE FROM gone WHERE no = ANY ($1)`, now)
		return err
	})
}

// logs removes the lines of executions that ended before. It goes from one execution with lines to the next; numbers are
// given in order of creation, so none behind the first that was created too late has ended in time.
func (p *pruning) logs(before int64) error {
	for from := int64(0); ; {
		numbers, err := list(p.ctx, p.s, pgx.RowTo[int64], `WITH RECURSIVE logged (no) AS (
    (SELECT execution FROM log_line WHERE execution > $1 ORDER BY execution LIMIT 1)
    UNION ALL
    SELECT (SELECT execution FROM log_line l WHERE l.execution > logged.no ORDER BY execution LIMIT 1)
    FROM logged WHERE logged.no IS NOT NULL AND coalesce((SELECT created FROM execution x WHERE x.no = logged.no), 0) < $2
)
SELECT x.no FROM logged JOIN execution_past x ON x.no = logged.no WHERE x.ended < $2 LIMIT $3`, from, before, p.batch)
		if err != nil || len(numbers) == 0 {
			return err
		}
		from = slices.Max(numbers)
		found := len(numbers)
		if numbers = p.s.bad.Without(numbers); len(numbers) == 0 {
			continue // all of them are bad: look behind them
		}
		p.more = p.more || found == p.batch
		return p.together(numbers, func(numbers []int64) error {
			var n int64
			err := p.change(func(tx pgx.Tx) error {
				tag, err := tx.Exec(p.ctx, `DELETE FROM log_line WHERE execution = ANY ($1)`, numbers)
				n = tag.RowsAffected()
				return err
			})
			if err == nil {
				p.removed.Lines += n
			}
			return err
		})
	}
}

func (p *pruning) keys(before int64) error {
	return errors.Join(p.old(`start_key`, `key`, `created`, ``, before, &p.removed.Keys), p.old(`signal`, `(key, id)`, `at`, ``, before, &p.removed.Keys),
		p.old(`progress_item`, `(project, key)`, `at`, ``, before, &p.removed.Keys))
}

func (p *pruning) audit(before int64) error {
	return p.old(`audit`, `no`, `at`, ``, before, &p.removed.Audit)
}

func (p *pruning) firings(before int64) error {
	return p.old(`object`, `(kind, id)`, `updated`, `kind = '`+store.KindFirings+`' AND `, before, &p.removed.Firings)
}

// old removes one batch of rows from before a time.
func (p *pruning) old(table, key, column, and string, before int64, count *int64) error {
	columns := key
	if key[0] == '(' {
		columns = key[1 : len(key)-1]
	}
	var n int64
	err := p.change(func(tx pgx.Tx) error {
		tag, err := tx.Exec(p.ctx, fmt.Sprintf(`DELETE FROM %[1]s WHERE %[2]s IN (SELECT %[3]s FROM %[1]s WHERE %[5]s%[4]s < $1 ORDER BY %[4]s LIMIT $2)`, table, key, columns, column, and), before, pruneRows)
		n = tag.RowsAffected()
		return err
	})
	if err == nil {
		*count += n
		p.more = p.more || n == pruneRows
	}
	return err
}
