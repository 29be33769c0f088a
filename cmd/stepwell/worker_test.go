package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestOwnWorker runs examples/worker, a module of its own, against a server.
func TestOwnWorker(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a whole module")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // a copy, because the go command may want to complete its go.mod
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples/worker"))); err != nil {
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
	cmd := exec.Command("go", "build", "-mod=mod", "-o", "own-worker", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	runScripts(t, "testdata/worker", func(env *testscript.Env) error {
		env.Setenv("OWN_WORKER", filepath.Join(dir, "own-worker"))
		return nil
	})
}

// A worker that finds no server ends when it is told to: it holds nothing.
func TestWorkerStopsBeforeItHasJoined(t *testing.T) {
	c := exec.Command("stepwell", "worker", "--server", "http://"+freeAddress())
	log, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(log)
	if !lines.Scan() || !strings.Contains(lines.Text(), "no node can be joined") {
		t.Errorf("it says %q", lines.Text())
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := c.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}
