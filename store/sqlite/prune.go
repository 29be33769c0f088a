package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/stepwell/stepwell/store"
)

// pruneRows bounds the rows that one transaction removes: commits wait no longer than for one of them, a few
// milliseconds.
const pruneRows = 1000

// Prune removes one batch of expired data: an execution's row first and then, in small transactions, its other rows,
// so that commits go on meanwhile; the next call completes one cut off by a crash. Rows that cannot be removed are in
// the error and not retried by this process. Executions whose log was read in the last ten minutes are left for
// later.
func (s *Store) Prune(ctx context.Context, r store.Retention) (removed store.Removed, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return removed, false, err
	}
	if _, err := s.writing(); err != nil {
		return removed, false, err
	}
	p := &pruning{s: s, ctx: ctx, batch: store.Limit(r.Batch, 100, 10_000)}
	for _, kind := range []struct {
		before time.Time
		remove func(int64) error
	}{{r.Executions, p.removeExecutions}, {r.Logs, p.removeLogs}, {r.Keys, p.removeKeys}, {r.Audit, p.removeAudit}, {r.Firings, p.removeFirings}, {r.Ends, p.removeEnds}} {
		if !kind.before.IsZero() {
			p.errs = append(p.errs, kind.remove(kind.before.UnixMicro()))
		}
	}
	if (r.Blobs || !r.Executions.IsZero()) && !p.more {
		p.errs = append(p.errs, p.removeRest())
	}
	return p.removed, p.more, fault("remove from "+s.path, errors.Join(p.errs...))
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

// change is one transaction, without a sync to disk: lost removals are repeated.
func (p *pruning) change(f func(w *writer) error) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	w := p.s.write
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.relaxed(f)
}

// removeExecutions removes the oldest ones.
func (p *pruning) removeExecutions(before int64) error {
	var numbers []int64
	err := p.s.each(p.ctx, scanNumber(&numbers), p.s.sql["prunable"], before, jsonList(append(p.s.used.executions(), p.s.bad.Executions()...)), p.batch)
	if err != nil {
		return err
	}
	p.more = p.more || len(numbers) == p.batch
	if err := p.touchBlobs(numbers); err != nil {
		return err
	}
	takeOut := func(numbers []int64) error {
		gone := int64(0)
		err := p.change(func(w *writer) error {
			gone = 0
			for _, no := range numbers {
				n, err := w.change("prune_execution", no, before)
				if err == nil && n > 0 {
					err = w.run("prune_begin", no)
				}
				if err != nil {
					return err
				}
				gone += n
			}
			return nil
		})
		if err == nil && gone > 0 {
			p.removed.Executions += gone
			p.s.sweep.Mark()
		}
		return err
	}
	return errors.Join(p.together(numbers, takeOut), p.removeLeftovers())
}

// together is Unremovable.Remove.
func (p *pruning) together(numbers []int64, remove func([]int64) error) error {
	return p.s.bad.Remove(p.ctx, numbers, remove, func(err error) bool { return store.IsAway(fault("", err)) })
}

// removeLeftovers removes the other rows of removed executions.
func (p *pruning) removeLeftovers() error {
	for {
		var numbers []int64
		if err := p.s.each(p.ctx, scanNumber(&numbers), p.s.sql["prune_left"], jsonList(p.s.bad.Executions()), 1000); err != nil {
			return err
		}
		if len(numbers) == 0 {
			return nil
		}
		if err := p.together(numbers, p.removeBelongings); err != nil {
			return err
		}
	}
}

// parts are the tables with an execution's other rows.
var parts = [...]string{"prune_step", "prune_step_log", "prune_log_line", "prune_spawned", "prune_seen", "prune_waiting", "prune_memo", "prune_outside", "prune_start_key", "prune_blob_use"}

func (p *pruning) removeBelongings(numbers []int64) error {
	for len(numbers) > 0 {
		lines, done := int64(0), 0
		err := p.change(func(w *writer) (err error) {
			lines, done, err = w.removeParts(numbers)
			return err
		})
		if err != nil {
			return err
		}
		p.removed.Lines += lines
		numbers = numbers[done:]
	}
	return nil
}

// removeParts removes up to pruneRows rows and says how many executions that has finished.
func (w *writer) removeParts(numbers []int64) (lines int64, done int, err error) {
	left := int64(pruneRows)
	for _, no := range numbers {
		for _, part := range parts {
			n, err := w.change(part, no, left)
			if err != nil {
				return 0, 0, err
			}
			if part == "prune_log_line" {
				lines += n
			}
			if left -= n; left <= 0 {
				return lines, done, nil
			}
		}
		if err := w.run("prune_done", no); err != nil {
			return 0, 0, err
		}
		done++
	}
	return lines, done, w.run("prune_forget")
}

// removeLogs removes the lines of executions that ended before.
func (p *pruning) removeLogs(before int64) error {
	for from := int64(0); ; {
		var numbers []int64
		if err := p.s.each(p.ctx, scanNumber(&numbers), p.s.sql["prune_logged"], before, p.batch, from); err != nil || len(numbers) == 0 {
			return err
		}
		from = numbers[len(numbers)-1]
		found := len(numbers)
		if numbers = p.s.bad.Without(numbers); len(numbers) == 0 {
			continue // all of them are bad: look behind them
		}
		p.more = p.more || found == p.batch
		return p.together(numbers, func(numbers []int64) error {
			for _, no := range numbers {
				if err := p.removeLines(no); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func (p *pruning) removeLines(no int64) error {
	for n := int64(pruneRows); n == pruneRows; {
		err := p.change(func(w *writer) (err error) {
			n, err = w.change("prune_log_line", no, pruneRows)
			return err
		})
		if err != nil {
			return err
		}
		p.removed.Lines += n
	}
	return nil
}

func (p *pruning) removeKeys(before int64) error {
	return errors.Join(p.removeOld("prune_keys", before, &p.removed.Keys), p.removeOld("prune_signals", before, &p.removed.Keys), p.removeOld("prune_items", before, &p.removed.Keys))
}

func (p *pruning) removeAudit(before int64) error {
	return p.removeOld("prune_audit", before, &p.removed.Audit)
}

func (p *pruning) removeFirings(before int64) error {
	return p.removeOld("prune_firings", before, &p.removed.Firings)
}

// removeEnds removes one batch, of each kind, of counts of executions that ended long ago.
func (p *pruning) removeEnds(before int64) error {
	for _, kind := range store.EndKinds() {
		var n int64
		err := p.change(func(w *writer) (err error) {
			n, err = w.change("prune_ends", kind, store.EndsFrom(time.UnixMicro(before)), pruneRows)
			return err
		})
		if p.more = p.more || n == pruneRows; err != nil {
			return err
		}
	}
	return nil
}

// removeOld removes one batch of rows from before a time.
func (p *pruning) removeOld(query string, before int64, count *int64) error {
	var n int64
	err := p.change(func(w *writer) (err error) {
		n, err = w.change(query, before, pruneRows)
		return err
	})
	if err == nil {
		*count += n
		p.more = p.more || n == pruneRows
	}
	return err
}

func scanNumber(to *[]int64) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var no int64
		err := rows.Scan(&no)
		*to = append(*to, no)
		return err
	}
}

// jsonList is a list for json_each.
func jsonList[T any](list []T) string {
	raw, _ := json.Marshal(append([]T{}, list...)) // numbers and texts always can be
	return string(raw)
}
