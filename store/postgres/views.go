package postgres

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"os"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/stepwell/stepwell/store"
)

//go:embed views.sql
var viewsTemplate string

// viewsMigration is the number of the migration that remakes the views. A change of views.sql, or of the Go values in
// it, gets the next free number; former texts are not kept.
const viewsMigration = 3

// views is the migration: views.sql with the event types of the history, so that the views show the step log as
// engine.History does.
func views() *goose.Migration {
	text := os.Expand(viewsTemplate, viewsValue)
	return goose.NewGoMigration(viewsMigration, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text)
		return err
	}}, nil)
}

// viewsValue replaces a name in views.sql: store.ViewValue, or with "time" or "json" an expression.
func viewsValue(name string) string {
	if text, ok := store.ViewValue(name); ok {
		return text
	}
	if column, ok := strings.CutPrefix(name, "json "); ok { // PostgreSQL's JSON has no NUL
		return fmt.Sprintf(`(CASE WHEN left(%[1]s, 1) <> chr(1) THEN replace(%[1]s, '\u0000', '\ufffd')::json END)`, column)
	}
	us := strings.TrimPrefix(name, "time ")
	return fmt.Sprintf(`to_char(to_timestamp(0) AT TIME ZONE 'UTC' + (%s) * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`, us)
}
