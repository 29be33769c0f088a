package postgres

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/store/storetest"
)

// rowsOf runs a query and writes each row as its columns with | between them.
func rowsOf(t *testing.T, s *Store, query string, args ...any) (out []string) {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(values))
		for i, v := range values {
			if v != nil {
				texts[i] = fmt.Sprint(v)
			}
		}
		out = append(out, strings.Join(texts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// rowsOfSQLite is rowsOf for a file.
func rowsOfSQLite(t *testing.T, path, query string, args ...any) (out []string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(columns))
		for i, v := range values {
			texts[i] = v.String
		}
		out = append(out, strings.Join(texts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// told is what a store says of an execution, page by page.
func told(t *testing.T, s store.Store, no int64) (out []string) {
	t.Helper()
	for after := int64(0); ; {
		page, err := s.Events(t.Context(), no, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			out = append(out, fmt.Sprintf("%+v", e))
			after = e.Version
		}
	}
	for _, statuses := range [][]stepwell.StepStatus{nil, {stepwell.StepQueued, stepwell.StepCompleted}, {stepwell.StepFailed, stepwell.StepSkipped}} {
		for from := int32(0); ; {
			page, err := s.Steps(t.Context(), no, store.StepFilter{From: from, Limit: 3, Statuses: statuses})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, x := range page {
				more := fmt.Sprintf("%+v %+v", x.Error, x.Items())
				x.Error, x.Counted = nil, nil
				out = append(out, fmt.Sprintf("%+v %s", x, more))
				from = x.Idx + 1
			}
		}
	}
	for row, err := range s.Outputs(t.Context(), no) {
		if err != nil {
			t.Fatal(err)
		}
		row.Error, row.Counted = nil, nil
		out = append(out, fmt.Sprintf("%+v", row))
	}
	return out
}

// TestSameAsSQLite: for random histories the readers and the views say the same as those of the other store.
func TestSameAsSQLite(t *testing.T) {
	s := open(t, Options{})
	path := filepath.Join(t.TempDir(), "store.db")
	other, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for no := int64(1); no <= 12; no++ {
		random, running := rand.New(rand.NewPCG(7, uint64(no))), map[int32]uint32{}
		one := first(no)
		for version := int64(1); version < 30; version++ {
			c := one
			if version > 1 {
				c = storetest.RandomCommit(t, random, running, no, version)
			}
			if version == 29 && no%2 == 0 {
				c.Update = &store.Update{Status: stepwell.ExecutionFailed, Ended: 1}
			}
			for _, x := range []store.Store{s, other} {
				if err := x.PutDefinition(t.Context(), []byte("hash"), []byte(`{"steps":[{"id":"a"},{"id":"b","action":"do.b"},{"id":"c","name":"See","depends_on":["a"]},{"id":"d","params":{"x":[1,"y"]}}]}`)); err != nil {
					t.Fatal(err)
				}
				if err := x.Commit(t.Context(), []store.Commit{c}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, want := told(t, s, no), told(t, other, no); !slices.Equal(got, want) {
			t.Fatalf("history %d:\n\t%s\nSQLite:\n\t%s", no, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
		id := one.Create.ID
		for _, query := range []string{
			`SELECT id, step_name, step_key, status, depends_on, params, input_data, output_data, worker_id, error_message, attempt, created_at, queued_at, started_at, completed_at, wake_at, waits_for, cost_micros
				FROM pipeline_steps WHERE execution_id = %s`,
			`SELECT step_key, event_type, worker_id, attempt, details, created_at, version FROM pipeline_step_log WHERE execution_id = %s`,
		} {
			got, want := rowsOf(t, s, fmt.Sprintf(query, "$1"), id), rowsOfSQLite(t, path, fmt.Sprintf(query, "?"), id)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || len(got) == 0 {
				t.Fatalf("history %d: %s\n\t%s\nSQLite:\n\t%s", no, query, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
		}
	}
}

// TestViewSteps has a step of each origin, as a person with SQL sees it (pipeline-steps, "Pipeline Step Model"), and
// values that PostgreSQL's JSON refuses.
func TestViewSteps(t *testing.T) {
	s := open(t, Options{})
	if err := s.PutDefinition(t.Context(), []byte("hash"), []byte(`{"steps":[{"id":"scan","action":"media.scan","params":{"dir":"/x"}},{"id":"copy","name":"Copy all","action":"media.copy","depends_on":["scan"]},{"id":"loop","for_each":{"items":3}}]}`)); err != nil {
		t.Fatal(err)
	}
	commit(t, s, first(1))
	spawn := []engine.Spawn{{Name: "meta", Key: "meta:GX01.MP4", Action: "media.meta", DependsOn: []string{"scan", "copy"}, Params: []byte(`{"f":1}`)}}
	log, err := engine.AppendBatch(nil, &engine.Batch{At: 3_000_000, Events: []engine.Event{{Kind: engine.Spawned, At: 2_000_000, Idx: 0, Epoch: 1, Spawns: spawn},
		{Kind: engine.Failed, At: 2_000_000, Idx: 5, Epoch: 1, Failure: &engine.Failure{Message: "nul \x00"}}}, Queued: []int32{1, 6}})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, store.Commit{Execution: 1, Version: 2, Log: log, Steps: []engine.StepRow{
		{Idx: 0, Seq: 1, Status: stepwell.StepCompleted, Attempt: 1, Worker: "w1", Output: []byte(`@sha256:00:5`), Queued: 1_000_000, Started: 1_000_005, Ended: 2_000_000},
		{Idx: 3, Status: stepwell.StepPending, Key: "meta:GX01.MP4", Action: "media.meta", Input: spawn[0].Params},
		{Idx: 4, Seq: 2, Status: stepwell.StepFailed, Attempt: 2, Key: "loop[12].in.ner", Action: "do", Error: &engine.Failure{Message: "broke\x00"}},
		{Idx: 5, Status: stepwell.StepWaiting, Attempt: 1, Key: "loop[3]", Action: "do", Wake: 9_000_000, Input: []byte(`{"rendered":true}`), External: "event:x", Cost: 5},
	}})
	want := []string{
		`scan|scan|completed|[]|{"dir":"/x"}||{"blob":"@sha256:00:5"}|w1||1|1970-01-01T00:00:01.000000Z|||0`,
		`copy|Copy all|queued|["scan"]|{}|||||0|1970-01-01T00:00:03.000000Z|||0`,
		`loop|loop|queued|[]|{}|||||0|1970-01-01T00:00:00.000001Z|||0`,
		`meta:GX01.MP4|meta|pending|["scan","copy"]|{"f":1}|{"f":1}||||0||||0`,
		"loop[12].in.ner|ner|failed|[]|{}||||broke\ufffd|2||||0",
		`loop[3]|loop|waiting|[]|{"rendered":true}|{"rendered":true}||||1||1970-01-01T00:00:09.000000Z|event:x|5`,
		`#6|#6|queued|[]|{}|||||0|1970-01-01T00:00:03.000000Z|||0`,
	}
	want[2] = strings.Replace(want[2], "queued|[]|{}|||||0|1970-01-01T00:00:00.000001Z", "pending|[]|{}|||||0|", 1)
	got := rowsOf(t, s, `SELECT step_key, step_name, status, depends_on, params, input_data, output_data, worker_id, error_message, attempt, queued_at, wake_at, waits_for, cost_micros
		FROM pipeline_steps WHERE execution_id = $1 ORDER BY split_part(id, ':', 2)::int`, "execution-000001")
	if !slices.Equal(got, want) {
		t.Errorf("pipeline_steps:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	details := rowsOf(t, s, `SELECT details FROM pipeline_step_log WHERE execution_id = $1 AND event_type IN ('failed', 'spawned') ORDER BY details`, "execution-000001")
	if fmt.Sprintf("%q", details) != `["broke�" "meta:GX01.MP4" "nul �"]` {
		t.Errorf("details %q", details)
	}
}

// TestViewPlan: asking for one execution reads no other.
func TestViewPlan(t *testing.T) {
	s := open(t, Options{})
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO execution_past (no, id, pipeline, status, definition, caused_by, dir, created, priority)
		SELECT n, 'many-' || n, 'p', 5, '', '', '', 0, 0 FROM generate_series(1000, 30000) n`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO step_log (execution, version, at, body) SELECT n, 1, 1, '{"t":1,"e":[]}' FROM generate_series(1000, 30000) n`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO step (execution, idx, version, attempt, status) SELECT n, 0, 1, 1, 5 FROM generate_series(1000, 30000) n`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"SELECT * FROM pipeline_steps WHERE execution_id = 'many-2000'", "SELECT status, count(*) FROM pipeline_steps WHERE execution_id = 'many-2000' GROUP BY status",
		"SELECT * FROM pipeline_step_log WHERE execution_id = 'many-2000'", "SELECT * FROM step_state WHERE execution = 2000 AND idx > 7",
		"SELECT * FROM execution WHERE id > 'many-3' ORDER BY id LIMIT 10",
	} {
		for _, row := range rowsOf(t, s, "EXPLAIN (COSTS OFF) "+query) {
			for _, table := range []string{"step_0", "step_log_0", "execution_past"} {
				if strings.Contains(row, "Seq Scan on "+table) {
					t.Errorf("%s:\n\t%s", query, row)
				}
			}
		}
	}
}

// TestListPlans: a list of executions reads the ended ones by an index that has its order, and none at all for executions that
// have not ended.
func TestListPlans(t *testing.T) {
	s := open(t, Options{})
	for _, query := range []string{`INSERT INTO execution_past (no, id, pipeline, status, definition, caused_by, dir, created, priority, workflow, workflow_version, project, lesson, progress)
		SELECT n, 'many-' || lpad(n::text, 9, '0'), 'p', CASE WHEN n % 50 = 0 THEN 5 + n / 50 % 4 ELSE 4 END, '', '', '', n, 0, 'w' || n % 10, n % 7, 'p' || n % 10, 'l' || n % 3000, CASE WHEN n % 500 = 1 THEN '{"total":1,"footprints":true}' ELSE '{"total":1}' END FROM generate_series(1, 60000) n`, "ANALYZE"} {
		if _, err := s.pool.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	of := func(f store.Filter, statuses ...stepwell.ExecutionStatus) store.Filter {
		f.Statuses = statuses
		return f
	}
	completed, running, failed, cancelled := stepwell.ExecutionCompleted, stepwell.ExecutionRunning, stepwell.ExecutionFailed, stepwell.ExecutionCancelled
	for _, x := range []struct {
		f    store.Filter
		want string // index of the ended ones; "": they are not read
	}{
		{store.Filter{}, "execution_past_id_key"},
		{of(store.Filter{}, completed), "execution_past_id_key"},
		{of(store.Filter{}, running, stepwell.ExecutionPending), ""},
		{of(store.Filter{Project: "p1"}, running), ""},
		{of(store.Filter{}, cancelled, failed, failed), "execution_past_status_odd"},
		{store.Filter{Workflow: "w1"}, "execution_past_workflow"},
		{of(store.Filter{Workflow: "w1"}, cancelled), "execution_past_workflow_odd"},
		{store.Filter{Workflow: "w1", WorkflowVersion: 2}, "execution_past_version"},
		{of(store.Filter{Workflow: "w1", WorkflowVersion: 2}, completed), "execution_past_version"},
		{store.Filter{Project: "p1"}, "execution_past_project"},
		{store.Filter{Project: "p1", Before: "many-000030000"}, "execution_past_project"},
		{of(store.Filter{Project: "p1"}, completed, failed, running), "execution_past_project_status"},
		{store.Filter{Lesson: "l7"}, "execution_past_lesson"},
		{store.Filter{Footprints: true}, "execution_past_footprints"},
		{of(store.Filter{Footprints: true, Before: "many-000030000"}, completed), "execution_past_footprints"},
		{store.Filter{Lesson: "l7", Project: "p7"}, "execution_past_lesson"},
	} {
		query, args := executionsQuery(x.f)
		plan := rowsOf(t, s, "EXPLAIN (COSTS OFF) "+query, args...)
		read, wrong := 0, false
		for _, row := range plan {
			if strings.Contains(row, "execution_past") && !strings.Contains(row, "Bitmap Heap Scan") && !strings.Contains(row, "Sort Key") {
				read++
				few := strings.HasSuffix(row, "Bitmap Index Scan on "+x.want) // which are sorted then
				wrong = wrong || !few && !strings.Contains(row, "Index Scan Backward using "+x.want+" on execution_past")
			}
		}
		ended := len(x.f.Statuses) == 0
		for _, status := range x.f.Statuses {
			ended = ended || status.Terminal()
		}
		if wrong || read > 0 != ended || ended != (x.want != "") {
			t.Errorf("%+v: not by the index %q:\n%s", x.f, x.want, strings.Join(plan, "\n"))
		}
	}
}
