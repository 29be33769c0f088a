package stepwell_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestLinkerDropsUnusedMethods: as soon as a function of the program calls methods by names known at run time only, the linker keeps every
// exported method of every type, which costs 16 MB of file and 8 MB of the memory of each process. Templates do (text/template,
// html/template), also those in flags of cobra and in what gRPC shows for debugging.
func TestLinkerDropsUnusedMethods(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program")
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-dumpdep -s -w", "-o", os.DevNull, "./cmd/stepwell")
	graph, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	edges, found := 0, map[string]bool{}
	for lines := bufio.NewScanner(graph); lines.Scan(); {
		from, to, ok := strings.Cut(lines.Text(), " -> ")
		if ok {
			edges++
		}
		if caller, ok := strings.CutSuffix(to, " <ReflectMethod>"); ok && !strings.HasPrefix(from, "type:") && !found[caller] {
			found[caller] = true
			t.Errorf("%s, which %s uses, calls methods by name", caller, from)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if edges < 10_000 {
		t.Errorf("%d edges: is -dumpdep of another form now?", edges)
	}
}
