package web_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// TestBrowserOnTwoNodes has one browser look at two servers of one PostgreSQL database, of which the one that runs an execution is
// killed. It runs with STEPWELL_PAGES=nodes.
func TestBrowserOnTwoNodes(t *testing.T) {
	if os.Getenv("STEPWELL_PAGES") != "nodes" {
		t.Skip("STEPWELL_PAGES=nodes runs it")
	}
	database, err := postgrestest.Create(postgrestest.New(t).URL(), "")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "stepwell")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/stepwell").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	npm(t, []string{"STEPWELL_BINARY=" + program, "STEPWELL_NODES=" + database}, "browser", "--", "test/nodes.test.ts")
}
