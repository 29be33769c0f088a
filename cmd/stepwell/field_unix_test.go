//go:build unix

package main

import (
	"slices"
	"testing"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// TestFieldOnAnotherNode: every server answers with the columns and the graph of an execution, whichever of them runs it, and
// while it runs.
func TestFieldOnAnotherNode(t *testing.T) {
	t.Parallel()
	r := newServers(t, postgrestest.URL(t), 2, "16", "")
	r.nodes[0].must("POST", "/api/v1/pipelines", api.Object{"document": `name: wide
steps:
  - {id: each, action: util.noop, for_each: {items: 60}}
  - {id: ask, action: util.approval, depends_on: [each], params: {message: "continue?"}}
  - {id: join, action: util.noop, depends_on: [ask]}
`}, nil)
	x, err := r.nodes[0].client.Execute(t.Context(), api.ExecuteRequest{Workflow: "wide"}, "")
	if err != nil {
		t.Fatal(err)
	}
	id := api.ExecutionPath{ID: x.ID}
	field := func(n *fleetNode) *columns.Table {
		t.Helper()
		f, err := n.client.Field(t.Context(), api.GetField{ExecutionPath: id})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	is := func(f *columns.Table, index int, status string) bool {
		return f.States[f.Column("status")[index]] == status
	}
	runs := r.ownerOf(x.ID)
	other := r.nodes[1-slices.Index(r.nodes, runs)]
	field(other) // of the beginning: what comes later is added to it
	other.until("the step to ask", func() bool { return is(field(other), 1, "waiting") })
	asked, err := other.client.Approvals(t.Context(), api.ListApprovals{})
	if err != nil || len(asked.Approvals) != 1 {
		t.Fatalf("%+v, error %v", asked, err)
	}
	if _, err := other.client.Approve(t.Context(), asked.Approvals[0].ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := other.client.Wait(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	f, same := field(other), field(runs)
	if f.Version != same.Version || f.Total != 63 || !is(f, 2, "completed") {
		t.Errorf("version %d with %d steps, the node that ran it has version %d; the last is %s", f.Version, f.Total, same.Version, f.States[f.Column("status")[2]])
	}
	for _, c := range f.Columns {
		got, want := f.Column(c.Name), same.Column(c.Name)
		for i := range got {
			if c.Name == "worker" && f.Workers[got[i]] == same.Workers[want[i]] { // they are numbered in the order in which they come
				continue
			}
			if got[i] != want[i] {
				t.Errorf("column %s of step %d is %d, on the node that ran it %d", c.Name, i, got[i], want[i])
			}
		}
	}
	for _, n := range r.nodes {
		g, err := n.client.Graph(t.Context(), api.GetGraph{ExecutionPath: id})
		if err != nil || len(g.Nodes) != 3 || g.Nodes[0].States["completed"] != 60 {
			t.Errorf("the graph is %+v, error %v", g, err)
		}
	}
}
