// Package starter has the pipelines that `stepwell init` writes: each is whole, documented and runs at once.
package starter

import (
	"embed"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

//go:embed templates/*.yaml
var files embed.FS

// Agents is AGENTS.md: what coding agents need to know to write, check and test pipelines.
//
//go:embed AGENTS.md
var Agents string

// Template is a pipeline file to begin with. Its first line, a comment, is the summary.
type Template struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	Text    string `json:"-"`
}

// Default is the name of the template that is written when none is named.
const Default = "hello"

// All returns the templates: the default first, then by name.
func All() []Template {
	entries, err := files.ReadDir("templates")
	if err != nil {
		panic(err) // they are in the program
	}
	var list []Template
	for _, e := range entries {
		text, err := files.ReadFile("templates/" + e.Name())
		if err != nil {
			panic(err)
		}
		list = append(list, Template{Name: strings.TrimSuffix(e.Name(), ".yaml"), Summary: Summary(string(text)), Text: string(text)})
	}
	slices.SortStableFunc(list, func(a, b Template) int {
		switch Default {
		case a.Name:
			return -1
		case b.Name:
			return 1
		}
		return 0
	})
	return list
}

// Summary is the first line of a pipeline file, where that is a comment.
func Summary(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	comment, ok := strings.CutPrefix(first, "#")
	if !ok {
		return ""
	}
	return strings.TrimSpace(comment)
}

// Names are the names of all templates.
func Names() []string {
	var names []string
	for _, t := range All() {
		names = append(names, t.Name)
	}
	return names
}

// Find returns the template with a name: CodeNotFound when there is none.
func Find(name string) (Template, error) {
	all := All()
	if at := slices.IndexFunc(all, func(t Template) bool { return t.Name == name }); at >= 0 {
		return all[at], nil
	}
	hint := spec.DidYouMean(name, Names())
	if hint == "" {
		hint = "the templates are " + strings.Join(Names(), ", ")
	}
	return Template{}, stepwell.Errorf(stepwell.CodeNotFound, hint, "there is no template %q", stepwell.Clip(name, 80))
}
