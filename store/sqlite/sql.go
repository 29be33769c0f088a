package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"strings"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// queries are the statements by name. In the files, each begins with a line "-- name: x".
type queries map[string]string

// executionColumns are the columns that scanExecution reads, before the outputs.
const executionColumns = `no, id, pipeline, status, definition, parent, caused_by, dir, created, started, ended, failure, progress, params,
    workflow, workflow_version, job, actor, concurrency, priority, project, lesson, partition_key, (SELECT coalesce(max(version), 0) FROM step_log l WHERE l.execution = no)`

func loadQueries() (queries, error) {
	q := queries{}
	files, err := queryFiles.ReadDir("queries")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := queryFiles.ReadFile("queries/" + f.Name())
		if err != nil {
			return nil, err
		}
		blocks := strings.Split("\n"+string(text), "\n-- name: ")
		for _, block := range blocks[1:] {
			name, body, _ := strings.Cut(block, "\n")
			if _, twice := q[name]; twice || strings.TrimSpace(body) == "" {
				return nil, fmt.Errorf("%s: query %q is empty or there twice", f.Name(), name)
			}
			q[name] = strings.ReplaceAll(strings.TrimSpace(body), "{execution}", executionColumns)
		}
	}
	return q, nil
}

// values repeats the last row of placeholders of an INSERT, so that one statement takes n rows.
func values(insert string, n int) string {
	at := strings.LastIndexByte(insert, '(')
	return insert + strings.Repeat(",\n"+insert[at:], n-1)
}

// list reads all rows of a query.
func list[T any](ctx context.Context, s *Store, scan func(*sql.Rows, *T) error, query string, args ...any) (out []T, err error) {
	err = s.each(ctx, into(&out, scan), query, args...)
	return out, fault("read "+s.path, err)
}

// into appends each row to a list.
func into[T any](out *[]T, scan func(*sql.Rows, *T) error) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var x T
		err := scan(rows, &x)
		*out = append(*out, x)
		return err
	}
}
