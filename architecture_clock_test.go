package stepwell_test

import (
	"go/ast"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// clocked are the packages in which every time that is recorded or decides comes from the clock of their options (Now).
var clocked = []string{"app", "conductor", "feed", "store", "store/postgres", "store/sqlite", "trigger", "trigger/event", "trigger/webhook", "worker"}

// measured are the files there that ask the machine's own clock, and why they may.
var measured = map[string]string{
	"app/reading.go":          "how long a request to another process is waited for",
	"app/server_run.go":       "how long the recovery took, for the log",
	"app/sidecar.go":          "how long ago the sidecar answered",
	"conductor/commit.go":     "how long the store has been away",
	"feed/snapshot.go":        "how old a cached snapshot is",
	"store/blob.go":           "the age of files is the file system's",
	"store/outage.go":         "how long the store has been away",
	"store/postgres/load.go":  "how long ago this process has used a definition",
	"store/postgres/slot.go":  "how long ago this process has asked for the size of tables",
	"store/sqlite/connect.go": "how long a busy database is waited for",
	"store/sqlite/in_use.go":  "how long ago an execution was read",
	"store/sqlite/sweep.go":   "the age of files is the file system's",
	"worker/deadline.go":      "the deadline of a context is this machine's",
	"trigger/relay.go":        "pauses between the tries of this process",
}

// TestOneClock lets nothing in the packages that record and decide ask for the time but through their clock: processes that
// share a store share it, and a test sets it.
func TestOneClock(t *testing.T) {
	tree := readTree(os.DirFS("."))
	asked := map[string]bool{}
	for _, folder := range clocked {
		for _, f := range tree.packages[path.Clean(folder)] {
			if f.test {
				continue
			}
			for _, call := range clockCalls(f.ast) {
				if asked[f.name] = true; measured[f.name] == "" {
					t.Errorf("%s asks for the time past the clock of its options (Now)", tree.at(call))
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		if !asked[name] {
			t.Errorf("%s does not ask for the time any more (%s): shorten the list", name, measured[name])
		}
	}
}

// clockCalls are the calls of the functions of package time that look at the machine's clock. Naming time.Now, as the default of
// an option, is none.
func clockCalls(file *ast.File) (calls []ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok {
			if of, ok := f.X.(*ast.Ident); ok && of.Name == "time" && slices.Contains(strings.Fields("Now Since Until"), f.Sel.Name) {
				calls = append(calls, call)
			}
		}
		return true
	})
	return calls
}

func TestClockCallsAreSeen(t *testing.T) {
	files := soundModule()
	files["engine/e.go"] = "package engine\n\nimport \"time\"\n\nvar now = time.Now\nvar a, b = time.Now().Add(1), time.Since(now())\n"
	for _, f := range readTree(mapFS(files)).packages["engine"] {
		if n := len(clockCalls(f.ast)); f.name == "engine/e.go" && n != 2 {
			t.Errorf("two calls are %d", n)
		}
	}
}
