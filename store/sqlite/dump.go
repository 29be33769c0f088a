package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/stepwell/stepwell"
)

// dumps are the tables that Dump reads: their columns and the key that orders their rows, whose columns come first.
var dumps = map[string]struct {
	key          int // number of columns
	columns, and string
}{
	"definition": {1, "hash, body", ""},
	"execution": {1, "no, id, pipeline, status, definition, parent, caused_by, dir, created, started, ended, failure, progress, params, outputs, " +
		"workflow, workflow_version, job, actor, concurrency, priority, project, lesson, partition_key", ""},
	"step": {2, "execution, idx, version, status, attempt, seq, queued, started, ended, worker, output, rare", ""},
	// A log from before the steps whose rows it does not name were listed: all rows of the version are.
	"step_log": {2, "execution, version, body, coalesce(unnamed, (SELECT json_group_array(json_array(s.idx, 1)) FROM step s " +
		"WHERE s.execution = t.execution AND s.version = t.version))", ""},
	"log_line":     {1, "seq, execution, step, step_key, attempt, at, level, message, attrs", ""},
	"spawned":      {2, "execution, idx, depends_on, created", ""},
	"seen":         {3, "execution, idx, epoch, version", ""},
	"waiting":      {2, "execution, idx, external", ""},
	"memo":         {3, "execution, step, key, value, epoch", ""}, // an empty blob as key: a fence
	"start_key":    {1, "key, hash, execution, created", ""},
	"signal":       {2, "key, id, body, at, taken", ""},
	"outgoing":     {1, "no, kind, execution, body, at", ""},
	"object":       {2, "kind, id, name, revision, body, created, updated", ""},
	"audit":        {1, "no, at, actor, role, remote, action, object, result, detail", ""},
	"request":      {1, "no, execution, kind, body", ""},
	"outside_work": {3, "execution, idx, epoch, attempt, key, action, state, since, held, tries, next, error", ""},
	"blob_use":     {2, "execution, hash", ""},
	"object_blob":  {3, "kind, id, hash, size", ""},
	"gone":         {1, "no", " AND NOT done"},
	"counter":      {1, "name, next", ""},

	"progress":      {1, "project, status, total, done, errors, other_done, other_errors, rev, epoch, event, touched, completed", ""},
	"progress_item": {2, "project, key, at", ""},
	"usage":         {2, "kind, id, input, output, audio, cost", ""},
}

// A page of Dump ends at either limit.
const (
	dumpRows  = 2000
	dumpBytes = 16 << 20
)

// Dump reads a page of a table in the order of its key, from after the key of a row, for another store that takes the
// database over (postgres.Store.Import). Values are int64, string, []byte or nil. The last page is empty. The database must
// not be in use: open it with Exclusive.
func (s *Store) Dump(ctx context.Context, table string, after []any) (rows [][]any, err error) {
	d, ok := dumps[table]
	if !ok {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("there is no table %q to be read", table)}
	}
	columns := strings.Split(d.columns, ", ")
	key := strings.Join(columns[:d.key], ", ")
	where := "true"
	if after != nil {
		where = "(" + key + ") > (?" + strings.Repeat(", ?", d.key-1) + ")"
	}
	db, err := s.read.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s t WHERE %s%s ORDER BY %s LIMIT %d", d.columns, table, where, d.and, key, dumpRows), after...)
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	defer db.Close()
	for size := 0; size < dumpBytes && db.Next(); {
		row, err := scanRow(db)
		if err != nil {
			return nil, fault("read "+s.path, err)
		}
		for _, v := range row {
			switch v := v.(type) {
			case string:
				size += len(v)
			case []byte:
				size += len(v)
			}
		}
		rows = append(rows, row)
	}
	return rows, fault("read "+s.path, db.Err())
}

// DumpKey is the key of a row that Dump has read, to go on after it.
func (s *Store) DumpKey(table string, row []any) []any { return row[:dumps[table].key] }

func scanRow(rows *sql.Rows) ([]any, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	row, to := make([]any, len(columns)), make([]any, len(columns))
	for i := range row {
		to[i] = &row[i]
	}
	return row, rows.Scan(to...)
}
