package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/store"
)

// liner is the one connection that writes log lines. It does not wait for the disk: the lines are durable with the next
// commit at the latest, as the server writes both to one log.
type liner struct {
	s    *Store
	mu   sync.Mutex
	link link
	next map[int64]int64 // the number of the next line, by execution
	rows map[int64]*rows // by slot
}

// maxLiners bounds the executions whose next number is remembered.
const maxLiners = 100_000

// AppendLogs stores lines in order. A line's number counts within its execution: another process that has written the same
// number is seen by its key, and the lines get the next ones.
func (s *Store) AppendLogs(ctx context.Context, lines []store.LogLine) error {
	if err := ctx.Err(); err != nil || len(lines) == 0 {
		return err
	}
	if s.readOnly {
		return errReadOnly
	}
	for i := range lines {
		if _, err := store.LevelNumber(lines[i].Level); err != nil {
			return err
		}
	}
	l := s.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*commitTries*l.link.patience())
	defer cancel()
	return fault("write logs", l.append(ctx, lines))
}

func (l *liner) append(ctx context.Context, lines []store.LogLine) error {
	seqs, err := l.number(ctx, lines)
	if err != nil {
		return err
	}
	unsure := false
	for try := 1; ; try++ {
		err := l.send(ctx, lines, seqs)
		if err == nil {
			break
		}
		_, lost := errors.AsType[*unknownError](err)
		unsure = unsure || lost
		taken := sqlstate(err) == uniqueViolation
		if taken && unsure && l.written(ctx, lines, seqs) {
			break
		}
		missing := sqlstate(err) == noPartition || sqlstate(err) == undefinedTable
		if missing {
			if err := l.s.slots.reload(ctx); err != nil {
				return err
			}
		}
		if try >= commitTries && !taken || try == numberTries || !taken && !missing && !again(err) && !store.IsAway(fault("", err)) {
			clear(l.next)
			return err
		}
		if taken {
			unsure = false
			clear(l.next)
			if seqs, err = l.number(ctx, lines); err != nil {
				return err
			}
			continue // at once, before others take these numbers too
		}
		time.Sleep(commitPause << (try - 1))
	}
	for i := range lines {
		l.next[lines[i].Execution] = seqs[i] + 1
	}
	return nil
}

// numberTries is how often lines get other numbers while other processes write lines of the same executions.
const numberTries = 50

// number gives the lines their numbers.
func (l *liner) number(ctx context.Context, lines []store.LogLine) ([]int64, error) {
	if len(l.next) > maxLiners {
		clear(l.next)
	}
	next := map[int64]int64{}
	var ask []int64
	for i := range lines {
		no := lines[i].Execution
		if _, here := next[no]; here {
			continue
		}
		n, known := l.next[no]
		if next[no] = max(n, 1); !known {
			ask = append(ask, no)
		}
	}
	if len(ask) > 0 {
		rows, err := l.s.pool.Query(ctx, `SELECT u.execution, coalesce((SELECT max(seq) FROM log_line l WHERE l.execution = u.execution), 0) + 1 FROM unnest($1::bigint[]) AS u (execution)`, ask)
		if err != nil {
			return nil, err
		}
		var no, n int64
		if _, err := pgx.ForEachRow(rows, []any{&no, &n}, func() error {
			next[no] = n
			return nil
		}); err != nil {
			return nil, err
		}
	}
	seqs := make([]int64, len(lines))
	for i := range lines {
		seqs[i] = next[lines[i].Execution]
		next[lines[i].Execution]++
	}
	return seqs, nil
}

func (l *liner) send(ctx context.Context, lines []store.LogLine, seqs []int64) error {
	if len(l.rows) > maxSlots {
		l.rows = nil
	}
	if l.rows == nil {
		l.rows = map[int64]*rows{}
	}
	for _, r := range l.rows {
		r.reset()
	}
	for i := range lines {
		x := &lines[i]
		end := l.s.slots.table(x.Execution)
		slot := int64(-1)
		if end != "" {
			slot = slotOf(x.Execution)
		}
		r := l.rows[slot]
		if r == nil {
			r = newRows(strings.ReplaceAll(sqlLines, "{slot}", end), i8, i8, i4, i4, i8, i2, str, str, str)
			l.rows[slot] = r
		}
		level, _ := store.LevelNumber(x.Level) // checked before
		row := r.row()
		row[0].int(x.Execution)
		row[1].int(seqs[i])
		row[2].int(int64(x.Step))
		row[3].int(int64(x.Attempt))
		row[4].int(x.At.UnixMicro())
		row[5].int(int64(level))
		row[6].text(x.StepKey)
		row[7].text(x.Message)
		row[8].json(x.Attrs)
	}
	var list []statement
	for _, r := range l.rows {
		list = r.statements(list)
	}
	return l.link.send(ctx, list)
}

// written reports whether these very lines are there, under their numbers.
func (l *liner) written(ctx context.Context, lines []store.LogLine, seqs []int64) bool {
	for i := range lines {
		var message text
		var at instant
		there, err := l.s.one(ctx, []any{&message, &at}, `SELECT message, at FROM log_line WHERE execution = $1 AND seq = $2`, lines[i].Execution, seqs[i])
		if err != nil || !there || string(message) != lines[i].Message || at.time().UnixMicro() != lines[i].At.UnixMicro() {
			return false
		}
	}
	return true
}
