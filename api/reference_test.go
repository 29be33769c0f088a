package api

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/access"
)

var update = flag.Bool("update", false, "write docs/api.md anew")

// TestReference holds the list of operations in docs/api.md to the table.
func TestReference(t *testing.T) {
	const file, begin, end = "../docs/api.md", "<!-- operations -->\n", "<!-- end -->"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(raw), begin)
	old, tail, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatal("the marks are missing")
	}
	var b strings.Builder
	b.WriteString("| operation | name | role | |\n|---|---|---|---|\n")
	for _, op := range operations() {
		role := "anybody"
		if op.role != public {
			role = op.role.String()
		}
		fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s |\n", op.method, op.path, op.id, role, op.summary)
	}
	if b.String() == old {
		return
	}
	if !*update {
		t.Fatal("docs/api.md is not what the table says; write it anew with -update")
	}
	if err := os.WriteFile(file, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRoles says who may what, so that a change of it is made twice and on purpose.
func TestRoles(t *testing.T) {
	open := []string{"webhook.trigger", "callback", "health", "ready", "healthz", "readyz", "session.get", "session.open", "session.close", "auth.login", "auth.callback"}
	for _, op := range operations() {
		group, _, _ := strings.Cut(op.id, ".")
		reads := slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, op.method) || slices.Contains([]string{"pipeline.validate", "pipeline.plan", "pipeline.partitions.compare", "schedule.preview"}, op.id)
		least := access.Operator
		switch {
		case op.id == "cluster.create" || op.id == "cluster.delete" || group == "secret" || group == "key" || group == "policy" || group == "audit":
			least = access.Admin
		case op.id == "webhook.deliveries":
			least = access.Editor // what strangers have sent
		case reads:
			least = access.Viewer
		case op.id == "project.create" || op.id == "project.update" || op.id == "project.delete" || group == "lesson" || group == "upload":
			least = access.Editor
		case (group == "pipeline" || group == "schedule" || group == "webhook" || group == "event_trigger") && !strings.Contains("pipeline.partitions.start schedule.pause schedule.resume schedule.trigger schedule.backfill webhook.validate webhook.test", op.id):
			least = access.Editor
		}
		calls := group == "worker" && op.id != "worker.list" && op.id != "worker.drain"
		if calls {
			least = access.Worker
		}
		for _, id := range open {
			if op.id == id {
				least = public
			}
		}
		if op.role != least {
			t.Errorf("%s is for %s, want %s", op.id, op.role, least)
		}
		if change := !reads && !calls; change != op.is(changes) && op.role != public && op.id != "webhook.validate" && op.id != "pipeline_run.preview" && op.id != "project.items" && op.id != "upload.append" {
			t.Errorf("%s is in the audit log: %t, want %t", op.id, op.is(changes), change)
		}
	}
}
