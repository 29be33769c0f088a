package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Steps lists an execution's steps in order of index, also those without a row: pending ones, or queued ones by the
// log. Every step has its key and action. An unfiltered page costs its rows and a read of definition and log.
func (s *Store) Steps(ctx context.Context, execution int64, f store.StepFilter) ([]store.Step, error) {
	n := store.Limit(f.Limit, 1000, 10_000)
	from := int64(f.From)
	var page []store.Step
	if len(f.Statuses) == 0 && f.Key == "" { // nearly always the indexes have no gaps
		var err error
		if page, err = s.steps(ctx, execution, from, from+int64(n), f, n); err != nil || len(page) == n {
			return page, err
		}
		from += int64(n)
	}
	if f.Key == "" && len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, func(status stepwell.StepStatus) bool { return status <= stepwell.StepCompleted }) {
		odd, err := s.oddSteps(ctx, execution, f, n)
		if err == nil || !strings.Contains(err.Error(), "no such index") { // of a database of before, which may only be read
			return odd, err
		}
	}
	rest, err := s.steps(ctx, execution, from, math.MaxInt64, f, n-len(page))
	if err != nil {
		return nil, err
	}
	return append(page, rest...), nil
}

// oddSteps lists up to n ended steps that did not complete.
func (s *Store) oddSteps(ctx context.Context, execution int64, f store.StepFilter, n int) (out []store.Step, err error) {
	return list(ctx, s, func(rows *sql.Rows, step *store.Step) error {
		return scanStep(rows, step)
	}, s.sql["steps_odd"], execution, int64(f.From), statusMask(f.Statuses), n)
}

// StepsAt implements store.Reader.
func (s *Store) StepsAt(ctx context.Context, execution int64, of []int32) ([]store.Step, error) {
	some, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	return list(ctx, s, func(rows *sql.Rows, step *store.Step) error {
		return scanStep(rows, step)
	}, s.sql["steps_at"], execution, string(some))
}

// steps lists up to n of those from one index to before another.
func (s *Store) steps(ctx context.Context, execution, from, until int64, f store.StepFilter, n int) (out []store.Step, err error) {
	return list(ctx, s, func(rows *sql.Rows, step *store.Step) error {
		return scanStep(rows, step)
	}, s.sql["steps"], execution, from, until, statusMask(f.Statuses), f.Key, n)
}

// statusMask has a bit for each status.
func statusMask(statuses []stepwell.StepStatus) (mask int64) {
	for _, status := range statuses {
		mask |= 1 << status
	}
	return mask
}

// scanStep reads a step from the columns that come after those for before.
func scanStep(rows *sql.Rows, s *store.Step, before ...any) error {
	var action, name, worker, external sql.NullString
	var seq, queued, started, ended, wake, cost, input, output, audio sql.NullInt64
	var failure, counted, resources []byte
	err := rows.Scan(append(before, &s.Idx, &seq, &s.Status, &s.Attempt, &s.Key, &action, &name, &s.Output, &s.Input, &failure, &worker,
		&queued, &started, &ended, &wake, &external, &cost, &counted, &input, &output, &audio, &resources)...)
	if err != nil {
		return err
	}
	s.Action, s.Name, s.Worker, s.Seq = action.String, name.String, worker.String, int32(seq.Int64)
	s.Queued, s.Started, s.Ended, s.Wake = queued.Int64, started.Int64, ended.Int64, wake.Int64
	s.External, s.Cost, s.Usage = external.String, cost.Int64, stepwell.Usage{InputTokens: input.Int64, OutputTokens: output.Int64, AudioMillis: audio.Int64}
	if resources != nil {
		if err := json.Unmarshal(resources, &s.Resources); err != nil {
			return err
		}
	}
	if counted != nil {
		if err := json.Unmarshal(counted, &s.Counted); err != nil {
			return err
		}
	}
	if failure != nil {
		return json.Unmarshal(failure, &s.Error)
	}
	return nil
}

// WaitingSteps lists steps that wait for a signal, also while their handler polls. The cost depends on their number
// alone.
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
	return list(ctx, s, func(rows *sql.Rows, w *store.WaitingStep) error {
		return scanStep(rows, &w.Step, &w.Execution, &w.Pipeline)
	}, s.sql["waiting_steps"], no, idx, prefix, store.Limit(n, 1000, 10_000))
}
