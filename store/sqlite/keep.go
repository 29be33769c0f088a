package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// StartKey finds what was started under a key; CodeNotFound.
func (s *Store) StartKey(ctx context.Context, key string) (*store.StartKey, error) {
	k := &store.StartKey{Key: key}
	var created sql.NullInt64
	err := s.read.QueryRowContext(ctx, s.sql["start_key"], key).Scan(&k.Hash, &k.Execution, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("nothing was started under the key %q", key)}
	}
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	k.Created = instant(created)
	return k, nil
}

// WaitingSteps lists steps that wait for a signal. What it costs depends on how many wait, not on how
// many steps there are. A step whose handler looks after it again just now is listed too.
func (s *Store) WaitingSteps(ctx context.Context, prefix string, after *store.WaitingStep, n int) (out []store.WaitingStep, err error) {
	no, idx := int64(0), int32(-1)
	if after != nil {
		idx = after.Idx
		err := s.read.QueryRowContext(ctx, s.sql["execution_no"], after.Execution).Scan(&no)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("no execution %q", after.Execution)}
		}
		if err != nil {
			return nil, fault("read "+s.path, err)
		}
	}
	err = s.each(ctx, func(rows *sql.Rows) error {
		var w store.WaitingStep
		err := scanStep(rows, &w.Step, &w.Execution, &w.Pipeline)
		out = append(out, w)
		return err
	}, s.sql["waiting_steps"], no, idx, prefix, limit(n, 1000, 10_000))
	return out, fault("read "+s.path, err)
}

// Totals counts executions. It looks at an entry of an index for each: a tenth of a second for a million.
func (s *Store) Totals(ctx context.Context, since time.Time) (*store.Totals, error) {
	t := &store.Totals{Executions: map[string]int64{}, Since: map[string]int64{}}
	from := int64(0)
	if !since.IsZero() {
		from = since.UnixMicro()
	}
	err := s.each(ctx, func(rows *sql.Rows) error {
		var status stepwell.ExecutionStatus
		var count, recent, micros int64
		if err := rows.Scan(&status, &count, &recent, &micros); err != nil {
			return err
		}
		t.Executions[status.String()] = count
		if recent > 0 {
			t.Since[status.String()] = recent
		}
		if status == stepwell.ExecutionCompleted {
			t.Completed, t.Durations = recent, time.Duration(micros)*time.Microsecond
		}
		return nil
	}, s.sql["totals"], from)
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	return t, nil
}
