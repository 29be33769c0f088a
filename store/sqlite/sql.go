package sqlite

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// queries are the statements by name. In the files, each begins with a line "-- name: x".
type queries map[string]string

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
			q[name] = strings.TrimSpace(body)
		}
	}
	return q, nil
}

// values repeats the last row of placeholders of an INSERT, so that one statement takes n rows.
func values(insert string, n int) string {
	at := strings.LastIndexByte(insert, '(')
	return insert + strings.Repeat(",\n"+insert[at:], n-1)
}
