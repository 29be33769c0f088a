// Command duckdb answers SQL: one statement per line on standard input, one JSON array of rows per line on
// standard output. A statement that fails is answered by {"error": "…"}. It is an independent reader of the
// Parquet files that Stepwell writes, for tests only, and a module of its own, so that the product does not
// depend on it.
package main

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"

	_ "github.com/duckdb/duckdb-go/v2"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "duckdb:", err)
		os.Exit(1)
	}
}

func serve() error {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer db.Close()
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var answer any
		rows, err := query(db, lines.Text())
		if answer = rows; err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// query runs one statement. Rows are objects by column name.
func query(db *sql.DB, statement string) ([]map[string]any, error) {
	found, err := db.Query(statement)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	names, err := found.Columns()
	if err != nil {
		return nil, err
	}
	rows := []map[string]any{}
	for found.Next() {
		cells := make([]any, len(names))
		places := make([]any, len(names))
		for i := range cells {
			places[i] = &cells[i]
		}
		if err := found.Scan(places...); err != nil {
			return nil, err
		}
		row := make(map[string]any, len(names))
		for i, name := range names {
			row[name] = plain(cells[i])
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

// plain makes of a driver's value one that JSON can carry: numbers and texts as they are, blobs as text,
// everything else as the driver prints it.
func plain(cell any) any {
	switch v := cell.(type) {
	case []byte:
		return string(v)
	case fmt.Stringer:
		return v.String()
	}
	if _, err := json.Marshal(cell); err != nil {
		return fmt.Sprint(cell)
	}
	return cell
}
