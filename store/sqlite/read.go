package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Execution finds one by id or by a unique beginning of it; CodeNotFound, CodeConflict when several
// begin so.
func (s *Store) Execution(ctx context.Context, id string) (*store.Execution, error) {
	if id == "" {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the id of an execution is empty"}
	}
	found, err := s.executions(ctx, s.sql["execution"], id)
	if err != nil {
		return nil, err
	}
	return store.TheExecution(found, id)
}

// Executions lists, newest first, without outputs.
func (s *Store) Executions(ctx context.Context, f store.Filter) ([]store.Execution, error) {
	if f.Before != "" {
		if _, err := s.Execution(ctx, f.Before); err != nil {
			return nil, err
		}
	}
	mask := int64(0)
	for _, status := range f.Statuses {
		mask |= 1 << status
	}
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !f.From.IsZero() {
		from = f.From.UnixMicro()
	}
	if !f.To.IsZero() {
		to = f.To.UnixMicro()
	}
	return s.executions(ctx, narrow(s.sql["executions"], f), f.Before, f.Pipeline, mask, f.Workflow, f.Job, f.Parent, f.Trigger, from, to, store.Limit(f.Limit, 50, 1000), f.Project)
}

// narrow makes the condition that has an index plain, so that SQLite uses it.
func narrow(query string, f store.Filter) string {
	switch {
	case f.Parent != "":
		return plain(query, "parent", 6)
	case f.Job != "":
		return plain(query, "job", 5)
	case f.Project != "":
		return plain(query, "project", 11)
	case f.Workflow != "":
		return plain(query, "workflow", 4)
	case len(f.Statuses) == 0:
		return query
	}
	few := "" // both have an index of the few executions that they hold for
	switch {
	case slices.Max(f.Statuses) < stepwell.ExecutionCompleted:
		few = "status < 4"
	case slices.Min(f.Statuses) > stepwell.ExecutionCompleted:
		few = "status > 4"
	default:
		return query
	}
	return strings.Replace(query, "(?3 = 0 OR (1 << status) & ?3)", few+" AND (1 << status) & ?3", 1)
}

func plain(query, column string, n int) string {
	return strings.Replace(query, fmt.Sprintf("(?%d = '' OR %s = ?%d)", n, column, n), fmt.Sprintf("%s = ?%d", column, n), 1)
}
