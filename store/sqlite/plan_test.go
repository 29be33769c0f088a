package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// TestPlans: frequent queries, and those of large databases, find their rows by an index.
func TestPlans(t *testing.T) {
	s := open(t, Options{})
	for name, want := range map[string]string{
		"log_page":      "SEARCH step_log USING PRIMARY KEY (execution=? AND version>?)",
		"rows_named":    "SEARCH step USING PRIMARY KEY (execution=? AND idx=?)",
		"seen_running":  "SEARCH seen USING PRIMARY KEY (execution=? AND idx=?)",
		"logs":          "SEARCH log_line USING INDEX log_line_execution (execution=? AND rowid>? AND rowid<?)",
		"logs_loud":     "SEARCH log_line USING INDEX log_line_level (execution=? AND seq>? AND seq<?)",
		"log_spans":     "SEARCH log_line USING COVERING INDEX log_line_level (execution=?)",
		"waiting_steps": "SEARCH r USING PRIMARY KEY (execution=? AND idx=?)",
		"signals_for":   "SEARCH s USING PRIMARY KEY (key=? AND id=?)",
		"awaiting":      "SEARCH w USING COVERING INDEX waiting_external (external=?)",
		"prunable":      "SEARCH execution USING COVERING INDEX execution_ended (ended<?)",
		"prune_keys":    "SEARCH start_key USING COVERING INDEX start_key_created (created<?)",
		"prune_signals": "SEARCH signal USING COVERING INDEX signal_at (at<?)",
		"prune_firings": "SEARCH object USING COVERING INDEX object_firings (updated<?)",
		"steps_odd":     "SEARCH step USING INDEX step_odd (execution=? AND idx>?)",
		"steps_at":      "SEARCH step USING PRIMARY KEY (execution=? AND idx=?)",
		"prune_audit":   "SEARCH audit USING COVERING INDEX audit_at (at<?)",
		"blobs_used":    "SEARCH blob_use USING COVERING INDEX blob_use_hash (hash=?)",
		"ended_in":      "SEARCH execution USING INDEX execution_ended (ended>? AND ended<?)",
		"totals":        "SCAN execution USING COVERING INDEX execution_ended",
		"object":        "SEARCH object USING INDEX object_name (kind=? AND name=?)",
		"objects":       "SEARCH object USING PRIMARY KEY (kind=? AND id>? AND id<?)",
		"prune_items":   "SEARCH progress_item USING COVERING INDEX progress_item_at (at<?)",
		"progress_read": "SEARCH p USING PRIMARY KEY (project=?)",
		"progress_open": "SEARCH progress USING INDEX progress_open (project>?)",
		"outgoing":      "SEARCH outgoing USING INTEGER PRIMARY KEY (rowid>?)",

		"logs_texts_ends":      "SEARCH log_line USING COVERING INDEX log_line_execution (execution=? AND rowid>? AND rowid<?)",
		"logs_texts_ends_tail": "SEARCH log_line USING COVERING INDEX log_line_execution (execution=? AND rowid>? AND rowid<?)",
		"logs_texts_ends_all":  "SEARCH log_line USING COVERING INDEX log_line_execution (execution=? AND rowid>? AND rowid<?)",
		"logs_texts_between":   "SEARCH log_line USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
	} {
		wantPlan(t, s, name, s.sql[name], want)
	}
	wantPlan(t, s, "audit of an object", plain(s.sql["audit"], "object", 5), "USING INDEX audit_object (object=?")
}

// TestListPlans: a list of executions ends at its limit by an index whose rows it needs, and sorts nothing: the time of a page does
// not depend on how many executions there are besides.
func TestListPlans(t *testing.T) {
	s := open(t, Options{})
	paused, running, failed, cancelled, completed := stepwell.ExecutionPaused, stepwell.ExecutionRunning, stepwell.ExecutionFailed, stepwell.ExecutionCancelled, stepwell.ExecutionCompleted
	for _, x := range []struct {
		f    store.Filter
		want string // the index; each status is a search of its own
	}{
		{store.Filter{}, "INTEGER PRIMARY KEY (rowid<?)"},
		{store.Filter{Workflow: "w"}, "INDEX execution_workflow (workflow=? AND rowid<?)"},
		{store.Filter{Workflow: "w", WorkflowVersion: 2}, "INDEX execution_version (workflow=? AND workflow_version=? AND rowid<?)"},
		{of(store.Filter{Workflow: "w", WorkflowVersion: 2}, completed), "INDEX execution_version (workflow=? AND workflow_version=? AND rowid<?)"},
		{of(store.Filter{Workflow: "w", WorkflowVersion: 2}, failed, cancelled), "INDEX execution_version_odd (workflow=? AND workflow_version=? AND status=? AND rowid<?)"},
		{of(store.Filter{Workflow: "w"}, failed), "INDEX execution_workflow_odd (workflow=? AND status=? AND rowid<?)"},
		{of(store.Filter{Workflow: "w"}, running), "INDEX execution_open (no<?)"},
		{of(store.Filter{Workflow: "w", Partition: "p"}, running, paused), "INDEX execution_partition (partition_key=? AND workflow=? AND rowid<?)"},
		{store.Filter{Job: "j", Workflow: "w"}, "INDEX execution_job (job=? AND rowid<?)"},
		{store.Filter{Parent: "p", Job: "j"}, "INDEX execution_parent (parent=? AND rowid<?)"},
		{store.Filter{Lesson: "l", Project: "p"}, "INDEX execution_lesson (lesson=? AND rowid<?)"},
		{store.Filter{Project: "p", Workflow: "w"}, "INDEX execution_project (project=? AND rowid<?)"},
		{of(store.Filter{Project: "p"}, failed), "INDEX execution_project_status (project=? AND status=? AND rowid<?)"},
		{of(store.Filter{Project: "p"}, completed, paused, running), "INDEX execution_project_status (project=? AND status=? AND rowid<?)"},
		{of(store.Filter{}, paused, running), "INDEX execution_open (no<?)"},
		{of(store.Filter{}, failed, cancelled, failed), "INDEX execution_odd (status=? AND rowid<?)"},
		{of(store.Filter{}, completed), "INTEGER PRIMARY KEY (rowid<?)"},
		{store.Filter{Footprints: true}, "INDEX execution_footprints (no<?)"},
		{of(store.Filter{Footprints: true}, completed), "INDEX execution_footprints (no<?)"},
		{store.Filter{Footprints: true, Project: "p"}, "INDEX execution_project (project=? AND rowid<?)"},
	} {
		plan := planOf(t, s, narrow(s.sql["executions"], x.f))
		searches := max(1, len(slices.Compact(slices.Sorted(slices.Values(x.f.Statuses)))))
		if strings.Count(plan, "SEARCH x USING "+x.want) != searches || strings.Contains(plan, "SCAN") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%+v: not %d searches USING %s:\n%s", x.f, searches, x.want, plan)
		}
	}
}

// of is the filter with statuses.
func of(f store.Filter, statuses ...stepwell.ExecutionStatus) store.Filter {
	f.Statuses = statuses
	return f
}

// TestPlansAreKept: SQLite looks at a bare parameter when it plans a query, and plans it anew whenever the parameter is set
// again: behind LIMIT, and where a partial index of the table has a constant (object_firings: kind = 'schedule_firings').
func TestPlansAreKept(t *testing.T) {
	for name, query := range open(t, Options{}).sql {
		if strings.Contains(query, "LIMIT ?") {
			t.Errorf("%s: write LIMIT +?", name)
		}
		if strings.Contains(strings.ReplaceAll(query, "\n", " "), " object ") && strings.Contains(query, "kind = ?") {
			t.Errorf("%s: write kind = +?", name)
		}
	}
}

func wantPlan(t *testing.T, s *Store, name, query, want string) {
	t.Helper()
	if plan := planOf(t, s, query); !strings.Contains(plan, want) {
		t.Errorf("%s: the plan lacks %q:\n%s", name, want, plan)
	}
}

func planOf(t *testing.T, s *Store, query string) string {
	t.Helper()
	return strings.Join(rowsOf(t, s, "EXPLAIN QUERY PLAN "+query, make([]any, parameters(query))...), "\n")
}

// parameters is how many a query takes.
func parameters(query string) int {
	for n := 15; n > 0; n-- {
		if strings.Contains(query, fmt.Sprintf("?%d", n)) {
			return n
		}
	}
	return strings.Count(query, "?")
}

// large writes an execution of n steps that have nearly all ended.
func large(t testing.TB, s *Store, n int) (version int64) {
	t.Helper()
	var def strings.Builder
	for i := range n {
		fmt.Fprintf(&def, `,{"id":"step_%d","action":"do"}`, i)
	}
	begin(t, s, 1, `{"steps":[`+def.String()[1:]+"]}")
	for version = 2; int(version-1)*500 <= n; version++ {
		batch, rows := engine.Batch{At: version}, make([]engine.StepRow, 500)
		for i := range rows {
			idx := int32(version-2)*500 + int32(i)
			rows[i] = engine.StepRow{Idx: idx, Seq: idx + 1, Status: stepwell.StepCompleted, Attempt: 1, Worker: "w", Queued: 1, Started: 2, Ended: 3}
			batch.Events = append(batch.Events, engine.Event{Kind: engine.Done, Idx: idx, Epoch: 1, At: version, Started: version - 1})
		}
		if err := s.Commit(t.Context(), []store.Commit{{Execution: 1, Version: version, Log: record(t, batch), Steps: rows}}); err != nil {
			t.Fatal(err)
		}
		lines := make([]store.LogLine, 100)
		for i := range lines {
			lines[i] = store.LogLine{Execution: 1, StepKey: "step", Level: "info", Message: "hello", At: time.UnixMicro(version)}
		}
		if err := s.AppendLogs(t.Context(), lines); err != nil {
			t.Fatal(err)
		}
	}
	return version - 1
}

// BenchmarkFollow is the live feed's query after every commit of an execution of 100,000 steps.
func BenchmarkFollow(b *testing.B) {
	s := open(b, Options{Synchronous: "normal", Exclusive: true})
	last := large(b, s, 100_000)
	row := engine.StepRow{Idx: 7, Status: stepwell.StepSkipped, Ended: 9}
	batch := engine.Batch{At: 9, Events: []engine.Event{{Kind: engine.Done, Idx: 9, Epoch: 1, At: 9, Started: 8}}}
	if err := s.Commit(b.Context(), []store.Commit{{Execution: 1, Version: last + 1, Log: record(b, batch), Steps: []engine.StepRow{row}}}); err != nil {
		b.Fatal(err)
	}
	b.Run("names", func(b *testing.B) { // once for each definition
		for b.Loop() {
			s.ids = idCache{}
			if ids, err := s.stepIDs(b.Context(), 1); err != nil || len(ids) != 100_000 {
				b.Fatal(len(ids), err)
			}
		}
	})
	b.Run("events", func(b *testing.B) {
		for b.Loop() {
			if list, err := s.Events(b.Context(), 1, last, 1000); err != nil || len(list) != 3 {
				b.Fatal(list, err)
			}
		}
	})
	b.Run("first events", func(b *testing.B) {
		for b.Loop() {
			if list, err := s.Events(b.Context(), 1, 0, 1); err != nil || len(list) == 0 {
				b.Fatal(list, err)
			}
		}
	})
	b.Run("lines", func(b *testing.B) {
		lines, err := s.Logs(b.Context(), 1, store.LogFilter{Tail: 3})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if list, err := s.Logs(b.Context(), 1, store.LogFilter{After: lines[0].Seq}); err != nil || len(list) != 2 {
				b.Fatal(list, err)
			}
		}
	})
}
