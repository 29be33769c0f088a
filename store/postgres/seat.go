package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/store"
)

var _ store.Seats = (*Store)(nil)

// lockKey makes the changes of a key follow one another.
func lockKey(ctx context.Context, tx pgx.Tx, key string) error {
	_, err := tx.Exec(ctx, `INSERT INTO seat_key (key) VALUES ($1) ON CONFLICT (key) DO UPDATE SET key = excluded.key`, encode(key))
	return err
}

const selectSeats = `SELECT key, execution, id, owner, priority, slots, sitting FROM seat WHERE key = $1 ORDER BY execution`

func scanSeat(row pgx.CollectableRow) (s store.Seat, err error) {
	var key, id text
	err = row.Scan(&key, &s.Execution, &id, &s.Owner, &s.Priority, &s.Slots, &s.Sitting)
	s.Key, s.ID = string(key), string(id)
	return s, err
}

// Enter implements store.Seats.
func (s *Store) Enter(ctx context.Context, seat store.Seat, list bool) (others []store.Seat, err error) {
	err = s.transaction(ctx, "enter a concurrency key", func(tx pgx.Tx) error {
		others = nil
		if err := lockKey(ctx, tx, seat.Key); err != nil {
			return err
		}
		if list {
			rows, err := tx.Query(ctx, selectSeats, encode(seat.Key))
			if err == nil {
				others, err = pgx.CollectRows(rows, scanSeat)
			}
			if err != nil {
				return err
			}
			others = slices.DeleteFunc(others, func(x store.Seat) bool { return x.Execution == seat.Execution })
		}
		_, err := tx.Exec(ctx, `INSERT INTO seat AS s (key, execution, id, owner, priority, slots, sitting, wants) VALUES ($1, $2, $3, $4, $5, $6, $7, false)
ON CONFLICT (key, execution) DO UPDATE SET owner = excluded.owner, sitting = s.sitting OR excluded.sitting`,
			encode(seat.Key), seat.Execution, encode(seat.ID), seat.Owner, seat.Priority, seat.Slots, seat.Sitting)
		return err
	})
	return others, err
}

// held counts the slots of the key m.key that are taken.
const held = `(SELECT count(*) FROM seat x WHERE x.key = m.key AND x.sitting)`

// firstOf has a column of the waiting member of the key m.key that gets the next slot; none: all are taken for it. It is the first in the
// order of index seat_waiting, so that the cost does not depend on how many wait.
func firstOf(column string) string {
	return `(SELECT ` + column + ` FROM seat w WHERE w.key = m.key AND w.wants AND NOT w.sitting AND w.slots > ` + held + ` ORDER BY w.priority DESC, w.execution LIMIT 1)`
}

// free is true for a member m when it may have a slot: one is free, and no waiting one goes before it that could have it.
var free = held + ` < m.slots AND NOT coalesce(` + firstOf(`w.priority > m.priority OR w.priority = m.priority AND w.execution < m.execution`) + `, false)`

// Sit implements store.Seats.
func (s *Store) Sit(ctx context.Context, seat store.Seat) (sitting bool, err error) {
	err = s.transaction(ctx, "take a slot", func(tx pgx.Tx) error {
		sitting = false
		if err := lockKey(ctx, tx, seat.Key); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `UPDATE seat m SET sitting = m.sitting OR (`+free+`), wants = NOT (m.sitting OR (`+free+`))
WHERE m.key = $1 AND m.execution = $2 AND m.owner = $3 RETURNING m.sitting`, encode(seat.Key), seat.Execution, seat.Owner)
		if err != nil {
			return err
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[bool])
		sitting = len(list) == 1 && list[0]
		return err
	})
	return sitting, err
}

// Rise implements store.Seats. The seat of an execution that another process runs by now is that one's; it is told by Vacant, as it may have
// asked for a slot in vain. The row of a key without members goes, too.
func (s *Store) Rise(ctx context.Context, seat store.Seat) error {
	return s.transaction(ctx, "leave a concurrency key", func(tx pgx.Tx) error {
		if err := lockKey(ctx, tx, seat.Key); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE seat s SET owner = x.owner, wants = true FROM execution_live x
WHERE s.key = $1 AND s.execution = $2 AND s.owner = $3 AND x.no = s.execution AND x.owner <> s.owner`, encode(seat.Key), seat.Execution, seat.Owner)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM seat s WHERE s.key = $1 AND s.execution = $2 AND s.owner = $3`, encode(seat.Key), seat.Execution, seat.Owner); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM seat_key k WHERE k.key = $1 AND NOT EXISTS (SELECT 1 FROM seat s WHERE s.key = k.key)`, encode(seat.Key))
		return err
	})
}

// Seated implements store.Seats.
func (s *Store) Seated(ctx context.Context, key string) ([]store.Seat, error) {
	return list(ctx, s, scanSeat, selectSeats, encode(key))
}

// SeatsOf implements store.Seats.
func (s *Store) SeatsOf(ctx context.Context, owner int64, limit int) ([]store.Seat, error) {
	return list(ctx, s, scanSeat, `SELECT key, execution, id, owner, priority, slots, sitting FROM seat WHERE owner = $1 ORDER BY execution LIMIT $2`, owner, limit)
}

// Vacant implements store.Seats.
func (s *Store) Vacant(ctx context.Context, owner int64, limit int) ([]string, error) {
	_, err := s.change(ctx, "free slots", `DELETE FROM seat s WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.no = s.owner AND n.until > clock_timestamp())
    AND NOT EXISTS (SELECT 1 FROM execution_live x WHERE x.no = s.execution)`)
	if err != nil {
		return nil, err
	}
	return list(ctx, s, func(row pgx.CollectableRow) (string, error) {
		var key text
		err := row.Scan(&key)
		return string(key), err
	}, `SELECT m.key FROM (SELECT key, bool_or(sitting) AS sits FROM seat WHERE owner = $1 AND wants GROUP BY key) m WHERE m.sits OR `+firstOf("w.owner")+` = $1 LIMIT $2`, owner, limit)
}
