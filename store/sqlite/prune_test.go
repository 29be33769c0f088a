package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// over stores executions that ended long ago, with a row and a log line each.
func over(t *testing.T, s *Store, numbers ...int64) {
	t.Helper()
	for _, no := range numbers {
		begin(t, s, no, `{"steps":[{"id":"a"}]}`)
		err := s.Commit(t.Context(), []store.Commit{{Execution: no, Version: 2, Log: []byte(`{"t":1,"e":[]}`), Steps: []engine.StepRow{{Status: stepwell.StepCompleted, Ended: no}},
			Update: &store.Update{Status: stepwell.ExecutionCompleted, Ended: no}}})
		if err == nil {
			err = s.AppendLogs(t.Context(), []store.LogLine{{Execution: no, Level: "info"}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// leftIn are the numbers of executions that a table has rows of.
func leftIn(t *testing.T, s *Store, table string) string {
	t.Helper()
	column := "execution"
	if table == "execution" {
		column = "no"
	}
	return strings.Join(rowsOf(t, s, "SELECT DISTINCT "+column+" FROM "+table+" ORDER BY 1"), " ")
}

var forever = store.Retention{Executions: time.UnixMicro(1 << 50), Batch: 2}

// TestPruneBad: an execution that cannot be removed does not hold up the others; the next process tries again.
func TestPruneBad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, Options{Path: path})
	over(t, s, 1, 2, 3, 4, 5, 6)
	for _, trigger := range []string{"bad BEFORE DELETE ON execution WHEN old.no = 1", "worse BEFORE DELETE ON step_log WHEN old.execution = 3"} {
		if _, err := s.write.conn.ExecContext(t.Context(), "CREATE TRIGGER "+trigger+" BEGIN SELECT RAISE(ABORT, 'damaged'); END"); err != nil {
			t.Fatal(err)
		}
	}
	var errs []string
	for more := true; more; {
		var err error
		if _, more, err = s.Prune(t.Context(), forever); err != nil {
			errs = append(errs, err.Error())
		}
	}
	if text := strings.Join(errs, "\n"); len(errs) != 2 || !strings.Contains(text, "execution 1: ") || !strings.Contains(text, "execution 3: ") {
		t.Errorf("errors: %s", text)
	}
	if left, logs := leftIn(t, s, "execution"), leftIn(t, s, "step_log"); left != "1" || logs != "1 3" {
		t.Errorf("left are %s, logs of %s", left, logs)
	}
	if _, err := s.write.conn.ExecContext(t.Context(), "DROP TRIGGER worse"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, Options{Path: path}).Prune(t.Context(), forever); err == nil || leftIn(t, s, "step_log") != "1" {
		t.Errorf("after the next start: error %v, logs of %s", err, leftIn(t, s, "step_log"))
	}
}

// TestPruneInterrupted: the next call completes a removal cut off by a crash or the end of a context.
func TestPruneInterrupted(t *testing.T) {
	s := open(t, Options{})
	over(t, s, 1, 2, 3)
	if _, err := s.write.conn.ExecContext(t.Context(), "DELETE FROM execution WHERE no = 1; INSERT INTO gone (no) VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Prune(ctx, forever); err == nil {
		t.Error("a call after its end has removed something")
	}
	if _, _, err := s.Prune(t.Context(), store.Retention{Executions: time.UnixMicro(1)}); err != nil {
		t.Fatal(err)
	}
	if logs := leftIn(t, s, "log_line"); logs != "2 3" {
		t.Errorf("lines of %s", logs)
	}
}

// TestPruneUsed leaves an execution alone that may be about to be restarted.
func TestPruneUsed(t *testing.T) {
	s := open(t, Options{})
	over(t, s, 1, 2)
	for range s.StepLog(t.Context(), 1, 0) {
	}
	prune := func(want string) {
		t.Helper()
		if _, _, err := s.Prune(t.Context(), forever); err != nil {
			t.Fatal(err)
		}
		if left := leftIn(t, s, "execution"); left != want {
			t.Errorf("left are %q, want %q", left, want)
		}
	}
	prune("1")
	s.used.turn = s.used.turn.Add(-usedFor)
	prune("1")
	s.used.turn = s.used.turn.Add(-usedFor)
	prune("")
}

// TestPruneDefinitions: the process that runs executions removes definitions that neither an execution has nor
// it may hold in memory.
func TestPruneDefinitions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, Options{Path: path, Exclusive: true})
	over(t, s, 1)
	begin(t, s, 2, `{"steps":[{"id":"b"}]}`)
	prune := func(want string) {
		t.Helper()
		for more := true; more; {
			var err error
			if _, more, err = s.Prune(t.Context(), forever); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(rowsOf(t, s, "SELECT body ->> '$.steps[0].id' FROM definition ORDER BY 1"), " "); got != want {
			t.Errorf("definitions of %q, want %q", got, want)
		}
	}
	prune("a b")
	over(t, s, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{Path: path, Exclusive: true})
	prune("b")
}

// TestBackupSound: the copy of a database in use is sound, nothing but it is left behind, and a copy that
// fails leaves nothing.
func TestBackupSound(t *testing.T) {
	s := open(t, Options{})
	last := large(t, s, 5000)
	dir := t.TempDir()
	path := filepath.Join(dir, "copy.db")
	err := s.Backup(t.Context(), path, func(done, total int) {
		last++
		if err := s.Commit(t.Context(), []store.Commit{{Execution: 1, Version: last, Log: []byte(`{"t":1,"e":[]}`)}}); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Backup(ctx, filepath.Join(dir, "other.db"), func(int, int) { cancel() }); err == nil {
		t.Error("a cancelled copy is a copy")
	}
	if err := s.Backup(t.Context(), filepath.Join(dir, "no", "such"), nil); stepwell.CodeOf(err) != stepwell.CodeUnavailable {
		t.Errorf("a copy to nowhere: %v", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != "copy.db" {
		t.Errorf("left behind: %v %v", files, err)
	}
	copied := open(t, Options{Path: path, ReadOnly: true})
	if check := rowsOf(t, copied, "PRAGMA quick_check"); !slices.Equal(check, []string{"ok"}) {
		t.Errorf("the copy: %v", check)
	}
}

// TestMigrateServer brings a database of the version before up to date, with its rows.
func TestMigrateServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := &Store{path: path}
	db, err := openWriterDB(path, "full")
	if err != nil {
		t.Fatal(err)
	}
	old := os.DirFS("migrations")
	p, err := goose.NewProvider(goose.DialectSQLite3, db, old, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	ref, logged := "@sha256:"+strings.Repeat("a", 64)+":7", "@sha256:"+strings.Repeat("b", 64)+":7"
	for _, statement := range []string{
		`INSERT INTO definition VALUES (x'01', '{"steps":[{"id":"a"},{"id":"b"}]}')`,
		`INSERT INTO execution (no, id, pipeline, status, definition, caused_by, dir, created, ended) VALUES (1, 'x', 'p', 5, x'01', 'manual', '', 1, 9)`,
		`INSERT INTO step_log VALUES (1, 1, '{"t":1,"e":[{"k":1,"d":0,"begin":{"revision":1}}]}'), (1, 2, '{"t":2,"e":[{"k":6,"i":0,"p":1,"d":0,"s":-1,"w":"w1"}]}'),
			(1, 3, '{"t":3,"e":[[2,0,1,0,-2,"` + logged + `"],{"k":8,"i":1,"d":0,"reason":"` + ref + ` ` + logged + `"}]}')`,
		`INSERT INTO step (execution, idx, version, status, attempt, ended, output) VALUES (1, 0, 3, 5, 1, 3, '` + ref + `'), (1, 1, 3, 7, 0, 3, NULL)`,
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{Path: path})
	wantRows(t, "blobs", rowsOf(t, s, "SELECT execution, substr(hash, 1, 2) FROM blob_use ORDER BY 2"), "1|aa", "1|bb")
	list, err := s.Events(t.Context(), 1, 2, 9)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Type+" "+e.StepKey)
	}
	wantRows(t, "events", got, "timer b", "completed a", "skipped b")
	if x, err := s.Execution(t.Context(), "x"); err != nil || x.Workflow != "" || x.Priority != 0 {
		t.Errorf("%+v %v", x, err)
	}
}
