// Package docs has the pages of the documentation that the program carries: those for people, and programs, who write pipelines.
package docs

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:embed lint.md mcp.md streams.md templates.md testing.md
var files embed.FS

// Pages are the names of the pages, in order.
func Pages() (names []string) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(err) // they are in the program
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".md"))
	}
	slices.Sort(names)
	return names
}

// Page is the text of a page in Markdown; ok is false where there is none.
func Page(name string) (text string, ok bool) {
	raw, err := files.ReadFile(name + ".md")
	return string(raw), err == nil
}
