package sqlite

import (
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
const viewsMigration = 8

// views is the migration: views.sql with the event types of the history, so that the views show the step log as
// engine.History does.
func views() *goose.Migration {
	return migration(viewsMigration, os.Expand(viewsTemplate, viewsValue)+fmt.Sprintf("\nPRAGMA user_version = %d;", viewsMigration))
}

// viewsValue replaces a name in views.sql: store.ViewValue, or with "time" an expression.
func viewsValue(name string) string {
	if text, ok := store.ViewValue(name); ok {
		return text
	}
	us := strings.TrimPrefix(name, "time ")
	return fmt.Sprintf("strftime('%%Y-%%m-%%dT%%H:%%M:%%S', %[1]s / 1000000, 'unixepoch') || printf('.%%06dZ', %[1]s %% 1000000)", us)
}
