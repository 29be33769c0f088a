package conformance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/tooltest"
	"github.com/stepwell/stepwell/worker/conformance"
)

// long leaves a test out of short runs, which are those with the race detector: TestGo shows it all of the suite.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs many processes")
	}
}

// The Python worker passes.
func TestPython(t *testing.T) {
	long(t)
	python := tooltest.Program(t, "the Python worker is not run", "python3")
	judge(t, conformance.Options{Command: []string{python, filepath.Join(tooltest.Root(t), "clients", "python", "conformance_worker.py")}})
}

// The TypeScript worker compiles without a complaint of the strict compiler, and passes.
func TestTypeScript(t *testing.T) {
	long(t)
	node, out := tooltest.TypeScript(t, "clients/typescript")
	judge(t, conformance.Options{Command: []string{node, filepath.Join(out, "conformance.js")}})
}

// The worker that the documentation shows has at most sixty lines, and does what it says.
func TestSixtyLines(t *testing.T) {
	long(t)
	python := tooltest.Program(t, "the Python worker is not run", "python3")
	page, err := os.ReadFile(filepath.Join(tooltest.Root(t), "docs", "writing-workers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(page), "```python\nimport json")
	code, _, _ = strings.Cut("import json"+code, "```\n")
	if n := strings.Count(code, "\n"); n > 60 {
		t.Errorf("the sixty lines are %d", n)
	}
	const own = `{"text.words": words}`
	if !strings.Contains(code, own) {
		t.Fatal("the page has no worker with " + own)
	}
	code = strings.Replace(code, own, `{"conformance.echo": lambda p: {"value": p.get("value")}, "conformance.sleep": lambda p: time.sleep(p["seconds"]) or {}}`, 1)
	file := filepath.Join(t.TempDir(), "sixty.py")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	judge(t, conformance.Options{Command: []string{python, file}, Only: []string{"echo", "many", "lost", "refused", "busy", "late", "restart", "protocol"}})
}
