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
	found, err := s.Beginning(ctx, id, 2)
	if err != nil {
		return nil, err
	}
	return store.TheExecution(found, id)
}

// Beginning lists executions by the beginning of their ids.
func (s *Store) Beginning(ctx context.Context, id string, limit int) ([]store.Execution, error) {
	if id == "" {
		return nil, store.NoID()
	}
	return s.executions(ctx, s.sql["execution"], id, limit)
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
	return s.executions(ctx, narrow(s.sql["executions"], f), f.Before, f.Pipeline, mask, f.Workflow, f.Job, f.Parent, f.Trigger, from, to, store.Limit(f.Limit, 50, 1000), f.Project, f.Lesson, f.WorkflowVersion, f.Partition, f.Footprints)
}

// UnfinishedRuns lists executions of lessons that are queued or running, oldest first. It reads the index of executions under way.
func (s *Store) UnfinishedRuns(ctx context.Context, after string, limit int) ([]store.Execution, error) {
	return s.executions(ctx, s.sql["unfinished_runs"], after, store.Limit(limit, 50, 1000))
}

// narrow makes the condition that has an index plain, so that SQLite uses it. Statuses without a narrower condition become a query
// each, merged by number: with its index each ends at the limit, however many executions have other statuses.
func narrow(query string, f store.Filter) string {
	if f.Footprints {
		query = strings.Replace(query, "NOT ?15 OR ", "", 1)
	}
	switch {
	case f.Parent != "":
		return plain(query, "parent", 6)
	case f.Job != "":
		return plain(query, "job", 5)
	case f.Lesson != "":
		return plain(query, "lesson", 12)
	case len(f.Statuses) == 0:
		return narrowTo(query, f, stepwell.ExecutionCompleted)
	}
	head, order, _ := strings.Cut(query, "ORDER BY")
	var each []string
	for _, status := range slices.Compact(slices.Sorted(slices.Values(f.Statuses))) {
		each = append(each, strings.Replace(narrowTo(head, f, status), anyStatus, fmt.Sprintf("%s = %d", withIndex(status), status), 1))
	}
	return strings.Join(each, "UNION ALL\n") + "ORDER BY" + order
}

const anyStatus = "(?3 = 0 OR (1 << status) & ?3)"

// withIndex names the status behind the condition of the index that has it: there is one of executions under way, and one of those
// that did not complete.
func withIndex(s stepwell.ExecutionStatus) string {
	switch {
	case s < stepwell.ExecutionCompleted:
		return "status < 4 AND status"
	case s > stepwell.ExecutionCompleted:
		return "status > 4 AND status"
	}
	return "status"
}

// narrowTo is narrow for one status. Executions under way are found as such: they are few.
func narrowTo(query string, f store.Filter, s stepwell.ExecutionStatus) string {
	switch {
	case f.Partition != "" && s < stepwell.ExecutionCompleted:
		return plain(plain(query, "partition_key", 14), "workflow", 4)
	case f.Project != "":
		return plain(query, "project", 11)
	case f.Workflow == "" || s < stepwell.ExecutionCompleted:
		return query
	case f.WorkflowVersion > 0:
		query = strings.Replace(query, "(?13 = 0 OR workflow_version = ?13)", "workflow_version = ?13", 1)
	}
	return plain(query, "workflow", 4)
}

func plain(query, column string, n int) string {
	return strings.Replace(query, fmt.Sprintf("(?%d = '' OR %s = ?%d)", n, column, n), fmt.Sprintf("%s = ?%d", column, n), 1)
}
