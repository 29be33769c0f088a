package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/tooltest"
)

// TestWalkthroughs builds the command with the changes that CONTRIBUTING.md shows, and nothing else, and runs what it
// says about them: so many files are all that has to be touched.
func TestWalkthroughs(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the whole command")
	}
	type files struct{ new, changed, lines, written int } // lines: added to changed files
	wants := map[string]files{
		"Adding an action":     {new: 1, changed: 1, lines: 1, written: 1},
		"Adding a STAC module": {new: 1, changed: 1, lines: 2, written: 1}, // an import and an entry
		"Adding a command":     {new: 1, changed: 1, lines: 1},
	}
	all, tree := tooltest.Walkthroughs(t)
	program := tree.Build(t, "./cmd/stepwell")
	for _, w := range all {
		t.Run(w.Title, func(t *testing.T) {
			if got := (files{len(w.New), len(w.Changed), w.Lines, len(w.Written)}); got != wants[w.Title] {
				t.Errorf("it touches %+v, want %+v", got, wants[w.Title])
			}
			for _, c := range w.Console {
				cmd := exec.CommandContext(t.Context(), program, c.Args...)
				cmd.Dir = tooltest.Root(t)
				out, err := cmd.CombinedOutput()
				for _, want := range c.Wants {
					if err != nil || !strings.Contains(string(out), want) {
						t.Errorf("%s: %v; want %q in\n%s", cmd, err, want, out)
					}
				}
			}
			delete(wants, w.Title)
		})
	}
	for title := range wants {
		t.Errorf("CONTRIBUTING.md has no section %q", title)
	}
}
