package stepwell_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A module of its own adds an action, as a third party would: it compiles against this one, and its
// own tests pass. It is copied, because the go command may want to complete its go.mod.
func TestExtend(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a whole module")
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("examples/extend")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "go.mod")
	mod, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(mod), "=> ../..", "=> "+root, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-mod=mod", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test: %v\n%s", err, out)
	}
}
