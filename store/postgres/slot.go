package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/store"
)

// slots knows the tables of the slots. A slot is the upper 32 bits of an execution's number.
type slots struct {
	s  *Store
	mu sync.Mutex

	known  map[int64]bool
	newest int64
	opened time.Time // when the newest was
	asked  time.Time // when its size was last asked for
}

// reload reads which tables there are.
func (x *slots) reload(ctx context.Context) error {
	known, newest, opened := map[int64]bool{}, int64(0), time.Time{}
	rows, err := x.s.pool.Query(ctx, `SELECT no, opened FROM slot ORDER BY no`)
	if err != nil {
		return err
	}
	var at instant
	if _, err := pgx.ForEachRow(rows, []any{&newest, &at}, func() error {
		known[newest], opened = true, at.time()
		return nil
	}); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.known, x.newest, x.opened = known, newest, opened
	return nil
}

// tables are the slots with tables of their own. Another process may have made those of a commit a moment ago.
func (x *slots) tables(ctx context.Context, commits []store.Commit) (map[int64]bool, error) {
	x.mu.Lock()
	known, newest := x.known, x.newest
	x.mu.Unlock()
	for i := range commits {
		if slot := slotOf(commits[i].Execution); slot > newest && len(known) > 0 {
			if err := x.reload(ctx); err != nil {
				return nil, err
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.known, nil
		}
	}
	return known, nil
}

// table is the end of the name of an execution's tables, "" for the parents.
func (x *slots) table(execution int64) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if slot := slotOf(execution); x.known[slot] {
		return suffix(slot)
	}
	return ""
}

// sizeInterval is how often a process asks for the size of the newest slot.
const sizeInterval = time.Minute

// due reports whether new executions are to go to new tables.
func (x *slots) due(ctx context.Context) (bool, error) {
	x.mu.Lock()
	newest, opened, asked, any := x.newest, x.opened, x.asked, len(x.known) > 0
	ask := time.Since(asked) >= sizeInterval
	if ask {
		x.asked = time.Now()
	}
	x.mu.Unlock()
	if !any || x.s.o.Now().Sub(opened) >= x.s.o.SlotAge || !ask {
		return any && x.s.o.Now().Sub(opened) >= x.s.o.SlotAge, nil
	}
	var size int64
	err := x.s.pool.QueryRow(ctx, fmt.Sprintf(`SELECT pg_total_relation_size('step%[1]s') + pg_total_relation_size('step_log%[1]s') + pg_total_relation_size('log_line%[1]s')`, suffix(newest))).Scan(&size)
	return size >= x.s.o.SlotSize, err
}

// open makes the tables of the next slot and lets new executions go there. Of several processes one does.
func (x *slots) open(ctx context.Context) error {
	x.mu.Lock()
	after := x.newest
	x.mu.Unlock()
	err := x.s.transaction(ctx, "open a slot", func(tx pgx.Tx) error {
		var newest int64
		if _, err := tx.Exec(ctx, `SELECT next FROM counter WHERE name = 'execution' FOR UPDATE`); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(no), 0) FROM slot`).Scan(&newest); err != nil || newest != after {
			return err // another process has
		}
		newest++
		if err := makeSlot(ctx, tx, newest, x.s.o.Now()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE counter SET next = greatest(next, $1) WHERE name = 'execution'`, newest<<32+1)
		return err
	})
	if err == nil {
		x.s.o.Log.Info("new executions go to new tables", "slot", after+1)
		err = x.reload(ctx)
	}
	return err
}

// makeSlot makes a slot's tables. Attaching a table, other than making it as a partition, lets readers of the others go on.
func makeSlot(ctx context.Context, tx pgx.Tx, slot int64, now time.Time) error {
	for _, name := range []string{"step", "step_log", "log_line"} {
		own := name + suffix(slot)
		for _, sql := range []string{
			fmt.Sprintf("CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMPRESSION INCLUDING STORAGE)", own, name),
			fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%d) TO (%d)", name, own, slot<<32, (slot+1)<<32),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
	}
	_, err := tx.Exec(ctx, `INSERT INTO slot (no, opened) VALUES ($1, $2)`, slot, now.UnixMicro())
	return err
}

// restore makes the tables of slots that have been dropped while a process still had numbers for new executions there.
func (x *slots) restore(ctx context.Context, commits []store.Commit) error {
	if err := x.reload(ctx); err != nil {
		return err
	}
	for i := range commits {
		slot := slotOf(commits[i].Execution)
		x.mu.Lock()
		missing := len(x.known) > 0 && !x.known[slot]
		x.mu.Unlock()
		if !missing {
			continue
		}
		err := x.s.transaction(ctx, "open a slot", func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT next FROM counter WHERE name = 'execution' FOR UPDATE`); err != nil {
				return err
			}
			var there bool
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM slot WHERE no = $1)`, slot).Scan(&there); err != nil || there {
				return err
			}
			return makeSlot(ctx, tx, slot, x.s.o.Now())
		})
		if err == nil {
			err = x.reload(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drop removes the tables of closed slots without executions. It gives way to those who use the tables, until the next time.
func (x *slots) drop(ctx context.Context) error {
	rows, err := x.s.pool.Query(ctx, `SELECT no FROM slot s WHERE no < (SELECT max(no) FROM slot)
    AND NOT EXISTS (SELECT 1 FROM execution_live WHERE no >= s.no << 32 AND no < (s.no + 1) << 32)
    AND NOT EXISTS (SELECT 1 FROM execution_past WHERE no >= s.no << 32 AND no < (s.no + 1) << 32) ORDER BY no`)
	if err != nil {
		return err
	}
	closed, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	var errs []error
	for _, slot := range closed {
		errs = append(errs, x.dropOne(ctx, slot))
	}
	if len(closed) > 0 {
		errs = append(errs, x.reload(ctx))
	}
	return errors.Join(append(errs, err)...)
}

func (x *slots) dropOne(ctx context.Context, slot int64) error {
	err := x.s.transaction(ctx, "drop a slot", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '2s'`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("DROP TABLE IF EXISTS step%[1]s, step_log%[1]s, log_line%[1]s", suffix(slot))); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM gone WHERE no >= $1::bigint << 32 AND no < ($1::bigint + 1) << 32`, slot); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM slot WHERE no = $1`, slot)
		return err
	})
	if sqlstate(err) == lockNotAvailable {
		return nil
	}
	if err == nil {
		x.s.o.Log.Info("dropped the tables of executions that retention has removed", "slot", slot)
	}
	return err
}
