package conformance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell/tooltest"
	"github.com/stepwell/stepwell/worker/conformance"
)

// The Python worker passes.
func TestPython(t *testing.T) {
	t.Parallel()
	python := tooltest.Program(t, "the Python worker is not run", "python3")
	judge(t, conformance.Options{Command: []string{python, filepath.Join(tooltest.Root(t), "clients", "python", "conformance_worker.py")}})
}

// The TypeScript worker compiles without a complaint of the strict compiler, and passes.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	const purpose = "the TypeScript worker is not run"
	dir := tooltest.Packages(t, purpose, "typescript@5.9.3")
	node := tooltest.Program(t, purpose, "node")
	out := t.TempDir()
	source := filepath.Join(tooltest.Root(t), "clients", "typescript")
	compile := exec.Command(node, filepath.Join(dir, "node_modules", "typescript", "bin", "tsc"), "--project", source, "--outDir", out)
	if text, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s", err, text)
	}
	about, err := os.ReadFile(filepath.Join(source, "package.json")) // says that the files are modules
	if err == nil {
		err = os.WriteFile(filepath.Join(out, "package.json"), about, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	judge(t, conformance.Options{Command: []string{node, filepath.Join(out, "conformance.js")}})
}
