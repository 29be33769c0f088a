package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/stepwell/stepwell/store"
)

// Steps lists an execution's steps in order of index, those without a row included: such a step is
// pending, or queued when the log says so. Key and action are there for every step.
func (s *Store) Steps(ctx context.Context, execution int64, f store.StepFilter) ([]store.Step, error) {
	mask := int64(0)
	for _, status := range f.Statuses {
		mask |= 1 << status
	}
	rows, err := s.read.QueryContext(ctx, s.sql["steps"], execution, f.From, mask, f.Key, limit(f.Limit, 1000, 10_000))
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	defer rows.Close()
	var out []store.Step
	for rows.Next() {
		var step store.Step
		if err := scanStep(rows, &step); err != nil {
			return nil, fault("read "+s.path, err)
		}
		out = append(out, step)
	}
	return out, fault("read "+s.path, rows.Err())
}

func scanStep(rows *sql.Rows, s *store.Step) error {
	var action, name, worker sql.NullString
	var seq, queued, started, ended, wake sql.NullInt64
	var failure []byte
	err := rows.Scan(&s.Idx, &seq, &s.Status, &s.Attempt, &s.Key, &action, &name, &s.Output, &s.Input, &failure, &worker,
		&queued, &started, &ended, &wake)
	if err != nil {
		return err
	}
	s.Action, s.Name, s.Worker, s.Seq = action.String, name.String, worker.String, int32(seq.Int64)
	s.Queued, s.Started, s.Ended, s.Wake = queued.Int64, started.Int64, ended.Int64, wake.Int64
	if failure != nil {
		return json.Unmarshal(failure, &s.Error)
	}
	return nil
}
