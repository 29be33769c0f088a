package main

import (
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/tooltest"
)

// TestWalkthroughs builds the command with the changes that CONTRIBUTING.md shows, and nothing else, and runs what it
// says about them: so many files are all that has to be touched.
func TestWalkthroughs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the whole command")
	}
	type files struct{ new, changed, lines, written int } // lines: added to changed files
	wants := map[string]files{
		"Adding an action":        {new: 1, changed: 1, lines: 1, written: 1},
		"Adding a STAC module":    {new: 1, changed: 1, lines: 2, written: 1}, // an import and an entry
		"Adding a command":        {new: 1, changed: 1, lines: 1},
		"Adding an API operation": {new: 1, changed: 2, lines: 2, written: 1},
	}
	all, tree := tooltest.Walkthroughs(t)
	program := tree.Build(t, "./cmd/stepwell")
	for _, w := range all {
		t.Run(w.Title, func(t *testing.T) {
			if got := (files{len(w.New), len(w.Changed), w.Lines, len(w.Written)}); got != wants[w.Title] {
				t.Errorf("it touches %+v, want %+v", got, wants[w.Title])
			}
			for _, c := range w.Console {
				out, err := ask(t, program, c)
				for _, want := range c.Wants {
					if err != nil || !strings.Contains(string(out), want) {
						t.Errorf("%+v: %v; want %q in\n%s", c, err, want, out)
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

// ask runs a command in the repository, or asks a server of the program.
func ask(t *testing.T, program string, c tooltest.Console) ([]byte, error) {
	if c.Asks == "" {
		cmd := exec.CommandContext(t.Context(), program, c.Args...)
		cmd.Dir = tooltest.Root(t)
		return cmd.CombinedOutput()
	}
	address := freeAddress()
	server := exec.CommandContext(t.Context(), program, "serve", "--listen", address)
	server.Dir = t.TempDir()
	if err := server.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get("http://" + address + c.Asks)
		if err != nil && time.Now().Before(deadline) {
			continue // it is starting
		} else if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		return io.ReadAll(answer.Body)
	}
}
