// Package geoparquettest asks DuckDB, an independent reader, what is in a Parquet file. For tests only.
//
// The program that it asks is the module in the folder duckdb beside it.
package geoparquettest

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/tooltest"
)

// Query runs a statement in a database of its own and returns the rows by column name. Numbers are float64. An
// error of the statement fails the test. Without a C compiler the test is skipped, unless CI is "true".
func Query(t testing.TB, sql string) []map[string]any {
	t.Helper()
	cmd := exec.Command(tooltest.Path(t, tooltest.DuckDB))
	cmd.Stdin = strings.NewReader(strings.Join(strings.Fields(sql), " ") + "\n")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("duckdb: %v", err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatalf("%s\n%s", sql, out)
	}
	return rows
}
