package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/storetest"
)

// rowsOf runs a query and writes each row as its columns with | between them.
func rowsOf(t *testing.T, s *Store, query string, args ...any) (out []string) {
	t.Helper()
	rows, err := s.read.Query(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		to := make([]any, len(columns))
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

func wantRows(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n\t%s\nwant:\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func record(t testing.TB, b engine.Batch) []byte {
	t.Helper()
	raw, err := engine.AppendBatch(nil, &b)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const second = 1_000_000

// TestViewSteps has a step of each origin, as a person with SQL sees it (pipeline-steps, "Pipeline
// Step Model").
func TestViewSteps(t *testing.T) {
	s := open(t, Options{})
	begin(t, s, 1, `{"steps":[{"id":"scan","action":"media.scan","params":{"dir":"/x"}},{"id":"copy","name":"Copy all","action":"media.copy","depends_on":["scan"]},{"id":"loop","for_each":{"items":3}}]}`)
	spawn := []engine.Spawn{{Name: "meta", Key: "meta:GX01.MP4", Action: "media.meta", DependsOn: []string{"scan", "copy"}, Params: []byte(`{"f":1}`)}}
	err := s.Commit(t.Context(), []store.Commit{{Execution: 1, Version: 2,
		Log: record(t, engine.Batch{At: 3 * second, Events: []engine.Event{{Kind: engine.Spawned, At: 2 * second, Idx: 0, Epoch: 1, Spawns: spawn}}, Queued: []int32{1, 6}}),
		Steps: []engine.StepRow{
			{Idx: 0, Seq: 1, Status: stepwell.StepCompleted, Attempt: 1, Worker: "w1", Output: []byte(`{"n":2}`), Queued: second, Started: second + 5, Ended: 2 * second},
			{Idx: 3, Status: stepwell.StepPending, Key: "meta:GX01.MP4", Action: "media.meta", Input: spawn[0].Params},
			{Idx: 4, Seq: 2, Status: stepwell.StepFailed, Attempt: 2, Key: "loop[12].in.ner", Action: "do", Error: &engine.Failure{Message: "broke"}},
			{Idx: 5, Status: stepwell.StepRetrying, Attempt: 1, Key: "loop[3]", Action: "do", Wake: 9 * second, Input: []byte(`{"rendered":true}`)},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, "pipeline_steps", rowsOf(t, s, `SELECT step_key, step_name, status, depends_on, params, input_data, output_data, worker_id, error_message, attempt, created_at, queued_at, started_at, completed_at, wake_at
		FROM pipeline_steps WHERE execution_id = 'execution-000001'`),
		`scan|scan|completed|[]|{"dir":"/x"}||{"n":2}|w1||1|1970-01-01T00:00:00.000001Z|1970-01-01T00:00:01.000000Z|1970-01-01T00:00:01.000005Z|1970-01-01T00:00:02.000000Z|`,
		`copy|Copy all|queued|["scan"]|{}|||||0|1970-01-01T00:00:00.000001Z|1970-01-01T00:00:03.000000Z|||`,
		`loop|loop|pending|[]|{}|||||0|1970-01-01T00:00:00.000001Z||||`,
		`meta:GX01.MP4|meta|pending|["scan","copy"]|{"f":1}|{"f":1}||||0|1970-01-01T00:00:02.000000Z||||`,
		`loop[12].in.ner|ner|failed|[]|{}||||broke|2|1970-01-01T00:00:00.000001Z||||`,
		`loop[3]|loop|retrying|[]|{"rendered":true}|{"rendered":true}||||1|1970-01-01T00:00:00.000001Z||||1970-01-01T00:00:09.000000Z`,
		`#6|#6|queued|[]|{}|||||0|1970-01-01T00:00:00.000001Z|1970-01-01T00:00:03.000000Z|||`)
	wantRows(t, "pipeline_step_log", rowsOf(t, s, `SELECT step_key, event_type, worker_id, attempt, details, created_at FROM pipeline_step_log WHERE execution_id = 'execution-000001' AND version = 2 ORDER BY step_key, event_type`),
		"#6|queued||||1970-01-01T00:00:03.000000Z",
		"copy|queued||||1970-01-01T00:00:03.000000Z",
		"loop[12].in.ner|failed||2|broke|",
		"scan|completed|w1|1||1970-01-01T00:00:02.000000Z",
		"scan|spawned||1|meta:GX01.MP4|1970-01-01T00:00:02.000000Z")
}

// TestViewsOfBefore: an earlier version's database gets the present views.
func TestViewsOfBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, Options{Path: path})
	begin(t, s, 1, `{"steps":[{"id":"a"}]}`)
	const log = "SELECT event_type FROM pipeline_step_log WHERE execution_id = 'execution-000001'"
	want := rowsOf(t, s, log)
	_, err := s.write.conn.ExecContext(t.Context(), fmt.Sprintf(`DROP VIEW pipeline_step_log; DROP VIEW step_event; CREATE VIEW pipeline_step_log AS SELECT 'old' AS event_type, 1 AS execution_id;
		DROP TABLE usage; DROP TABLE progress; DROP TABLE progress_item; DROP TABLE object_blob; DROP INDEX execution_project; DROP INDEX execution_project_status; DROP INDEX execution_lesson; DROP INDEX execution_version; DROP INDEX execution_workflow_odd; DROP INDEX execution_partition; DROP INDEX execution_footprints;
		ALTER TABLE execution DROP COLUMN project; ALTER TABLE execution DROP COLUMN lesson; ALTER TABLE execution DROP COLUMN partition_key; DELETE FROM goose_db_version WHERE version_id >= %d; PRAGMA user_version = %d`, viewsMigration, viewsMigration-1))
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "pipeline_step_log", rowsOf(t, open(t, Options{Path: path}), log), want...)
	if len(want) == 0 {
		t.Error("nothing was told")
	}
}

// TestViewPlan: asking for one execution reads no other.
func TestViewPlan(t *testing.T) {
	s := open(t, Options{})
	for _, query := range []string{
		"SELECT * FROM pipeline_steps WHERE execution_id = 'x'", "SELECT status, count(*) FROM pipeline_steps WHERE execution_id = 'x' GROUP BY status",
		"SELECT * FROM pipeline_step_log WHERE execution_id = 'x'", "SELECT * FROM step_state WHERE execution = 1 AND idx > 7",
	} {
		for _, row := range rowsOf(t, s, "EXPLAIN QUERY PLAN "+query) {
			step := row[strings.LastIndexByte(row, '|')+1:]
			for _, alias := range []string{"x", "d", "s", "r", "l", "b"} { // tables; "SCAN s VIRTUAL TABLE" is one document's list
				if step == "SCAN "+alias || strings.HasPrefix(step, "SCAN "+alias+" USING") {
					t.Errorf("%s:\n\t%s", query, step)
				}
			}
		}
	}
}

// TestReaderAgrees writes random histories and compares Events and Steps, in pages, with the views.
func TestReaderAgrees(t *testing.T) {
	s := open(t, Options{})
	for no := range int64(12) {
		random := rand.New(rand.NewPCG(1, uint64(no)))
		running := map[int32]uint32{}
		begin(t, s, no+1, `{"steps":[{"id":"a"},{"id":"b"},{"id":"c"},{"id":"d"}]}`)
		for version := int64(2); version < 30; version++ {
			if err := s.Commit(t.Context(), []store.Commit{storetest.RandomCommit(t, random, running, no+1, version)}); err != nil {
				t.Fatal(err)
			}
		}
		if no%3 == 0 { // written before the log named all rows
			if _, err := s.write.conn.ExecContext(t.Context(), "UPDATE step_log SET unnamed = NULL WHERE execution = ? AND version % 2", no+1); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for after := int64(0); ; {
			page, err := s.Events(t.Context(), no+1, after, 7)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				got = append(got, fmt.Sprintf("%d|%s|%s|%d|%s|%s", e.Version, e.Type, e.StepKey, e.At.UnixMicro(), e.Worker, e.Detail))
				after = e.Version
			}
		}
		want := rowsOf(t, s, `SELECT version, type, iif(idx IS NULL, NULL, coalesce(key, '#' || idx)), at, worker, detail FROM step_event WHERE execution = ?`, no+1)
		onlyIn(t, "Events", no, got, want)
		onlyIn(t, "the view", no, want, got)
		stepsAgree(t, s, no+1)
	}
}

func stepsAgree(t *testing.T, s *Store, no int64) {
	t.Helper()
	for _, statuses := range [][]stepwell.StepStatus{nil, {stepwell.StepQueued, stepwell.StepCompleted}} {
		var got []string
		mask := 0
		for _, status := range statuses {
			mask |= 1 << status
		}
		for from := int32(0); ; {
			page, err := s.Steps(t.Context(), no, store.StepFilter{From: from, Limit: 3, Statuses: statuses})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, x := range page {
				got = append(got, fmt.Sprintf("%d|%s|%d|%d|%d", x.Idx, x.Key, x.Status, x.Queued, x.Ended))
				from = x.Idx + 1
			}
		}
		wantRows(t, fmt.Sprint("steps of ", no), got, rowsOf(t, s, `SELECT idx, key, status, coalesce(queued, 0), coalesce(ended, 0) FROM step_state
			WHERE execution = ? AND (? = 0 OR (1 << status) & ?) ORDER BY idx`, no, mask, mask)...)
	}
}

// onlyIn reports the differences of two lists, repetitions included.
func onlyIn(t *testing.T, where string, history int64, list, other []string) {
	t.Helper()
	count := map[string]int{}
	for _, x := range other {
		count[x]++
	}
	for _, x := range list {
		if count[x]--; count[x] < 0 {
			t.Errorf("history %d, only in %s: %s", history, where, x)
		}
	}
}

// BenchmarkSteps asks about an execution of 100,000 steps of which half have ended.
func BenchmarkSteps(b *testing.B) {
	const n = 100_000
	s := open(b, Options{Synchronous: "normal", Exclusive: true})
	var def strings.Builder
	for i := range n {
		fmt.Fprintf(&def, `,{"id":"step_%d","action":"do","depends_on":["a"]}`, i)
	}
	for no := range int64(3) { // the others must cost nothing
		begin(b, s, no+1, `{"steps":[`+def.String()[1:]+"]}")
		for v := range int64(n / 1000) {
			batch := engine.Batch{At: v}
			rows := make([]engine.StepRow, 500)
			for i := range rows {
				idx := int32(v)*500 + int32(i)
				rows[i] = engine.StepRow{Idx: idx, Seq: idx + 1, Status: stepwell.StepCompleted, Attempt: 1, Output: []byte(`{"v":1}`), Queued: 1, Started: 2, Ended: 3}
				batch.Events = append(batch.Events, engine.Event{Kind: engine.Done, Idx: idx, Epoch: 1, At: v, Started: v - 1})
				batch.Queued = append(batch.Queued, idx+2000)
			}
			if err := s.Commit(b.Context(), []store.Commit{{Execution: no + 1, Version: v + 2, Log: record(b, batch), Steps: rows}}); err != nil {
				b.Fatal(err)
			}
		}
	}
	for name, query := range map[string]string{
		"count by status": "SELECT status, count(*) FROM pipeline_steps WHERE execution_id = 'execution-000002' GROUP BY status",
		"count of events": "SELECT event_type, count(*) FROM pipeline_step_log WHERE execution_id = 'execution-000002' GROUP BY event_type",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				rows, err := s.read.Query(query)
				if err != nil {
					b.Fatal(err)
				}
				for rows.Next() {
				}
				if err := rows.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("page of 1000 steps", func(b *testing.B) {
		for b.Loop() {
			if list, err := s.Steps(b.Context(), 2, store.StepFilter{From: 50_000}); err != nil || len(list) != 1000 {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("page of 1000 events", func(b *testing.B) {
		for b.Loop() {
			if list, err := s.Events(b.Context(), 2, 50, 1000); err != nil || len(list) < 1000 {
				b.Fatal(len(list), err)
			}
		}
	})
}
