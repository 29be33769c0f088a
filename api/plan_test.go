package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/field"
)

const planned = `name: planned
parameters:
  - {name: count, type: integer, default: 3}
  - {name: regions, type: array, required: true}
steps:
  - id: first
    action: util.log
    params: {message: hello}
  - id: each
    depends_on: [first]
    for_each: "{{ range(params.count) }}"
    action: util.log
    params: {message: "{{ item }}"}
  - id: places
    for_each: "{{ params.regions }}"
    steps:
      - {id: inner, action: util.log, params: {message: "{{ item }} {{ steps.first.status | default('') }}"}}
  - id: later
    for_each: "{{ steps.each.outputs.results }}"
    action: util.noop
    depends_on: [each]
  - id: choose
    action: conditional
    depends_on: [places]
    params:
      branches:
        - {id: good, condition: "steps.places.outputs.failed == 0", target_step: later}
finally:
  - {id: last, action: util.log, params: {message: bye}}
`

func (r *rig) plan(t *testing.T, document string, params map[string]any) *api.PipelinePlan {
	t.Helper()
	p, err := r.client("viewer").PlanPipeline(t.Context(), api.Document(document), params)
	good(t, err)
	return p
}

func drafted(p *api.PipelinePlan) map[string]field.DraftNode {
	out := map[string]field.DraftNode{}
	for _, n := range p.Graph.Nodes {
		out[n.ID] = n
	}
	return out
}

func TestPlanOfADocument(t *testing.T) {
	r := newRig(t)
	p := r.plan(t, planned, map[string]any{"regions": []any{"north", "south"}})
	if !p.Valid || p.Name != "planned" || p.Estimate != nil {
		t.Fatalf("the plan is %+v", p)
	}
	n := drafted(p)
	for id, want := range map[string]string{
		"first": "step  0 []", "each": "for_each  1 [first] 3", "places": "for_each  0 [] 2", "places.inner": "step places 0 []",
		"later": "for_each  2 [each choose]", "choose": "step  1 [places]", "finally": "handler  3 []", "finally.last": "step finally 0 []",
	} {
		got := fmt.Sprintf("%s %s %d %v", n[id].Kind, n[id].Parent, n[id].Layer, n[id].DependsOn)
		if n[id].Items != nil {
			got += fmt.Sprintf(" %d", *n[id].Items)
		}
		if got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	if len(n) != 8 || n["choose"].Line != 22 || n["choose"].Path != "steps[4]" {
		t.Errorf("%d nodes, choose is at %d %s", len(n), n["choose"].Line, n["choose"].Path)
	}
	if o := n["later"].Outputs; len(o) != 5 || !n["later"].Closed || !slices.Contains(o, field.DraftOutput{Name: "results", Type: "array"}) {
		t.Errorf("the outputs of a for_each: %+v", o)
	}
	lines := strings.Split(planned, "\n")
	for id, count := range map[string]int{"first": 3, "each": 3, "places": 3, "later": 2, "choose": 1, "inner": 1, "last": 1} {
		ref := p.References[id]
		if len(ref.Ranges) != count || len(ref.Unmapped) != 0 {
			t.Errorf("%s is named at %+v, want %d places", id, ref, count)
		}
		for _, at := range ref.Ranges {
			if got := lines[at.Line-1][at.Column-1 : at.End-1]; got != id {
				t.Errorf("%s at %+v is %q", id, at, got)
			}
		}
	}
	if p := r.plan(t, planned, map[string]any{"count": "many"}); p.Valid || len(p.Problems) != 3 || p.Problems[1].Path != "params.count" || p.Problems[2].Path != "params.regions" {
		t.Errorf("with wrong parameters: %+v", p.Problems)
	}
	if p := r.plan(t, planned, nil); !p.Valid || drafted(p)["places"].Items != nil || *drafted(p)["each"].Items != 3 {
		t.Errorf("without parameters: %+v", p.Problems)
	}
}

// A document with problems still has a graph, as long as it can be parsed.
func TestPlanOfABrokenDocument(t *testing.T) {
	r := newRig(t)
	p := r.plan(t, "name: x\nsteps: [{id: a", nil)
	if p.Valid || p.Graph != nil || len(p.Problems) == 0 || p.Problems[0].Line == 0 || len(p.References) != 0 {
		t.Errorf("a text that cannot be read: %+v", p)
	}
	p = r.plan(t, "name: x\nsteps:\n  - {id: a, action: util.log, depends_on: [b, nothing]}\n  - {id: b, action: no.such, depends_on: [a]}\n", nil)
	if p.Valid || p.Graph == nil || len(p.Graph.Nodes) != 2 {
		t.Fatalf("a cycle: %+v", p)
	}
	if n := drafted(p); fmt.Sprint(n["a"].DependsOn, n["b"].DependsOn) != "[b] [a]" || n["a"].Column != 5 {
		t.Errorf("a cycle: %+v", n)
	}
	r.do("", "POST", "/api/v1/pipelines/plan", map[string]any{"document": "name: x"}).is(401)
	many := &strings.Builder{}
	many.WriteString("name: many\nsteps:\n")
	for i := range field.MaxDraft + 1 {
		fmt.Fprintf(many, "  - {id: s%d, action: util.noop}\n", i)
	}
	if p := r.plan(t, many.String(), nil); !p.Valid || !p.Graph.Truncated || len(p.Graph.Nodes) != 0 {
		t.Errorf("too many steps: %d nodes", len(p.Graph.Nodes))
	}
}

func TestPlanEstimatesFromHistory(t *testing.T) {
	r := newRig(t)
	document := "name: timed\nsteps:\n  - {id: a, action: util.wait, params: {seconds: 0.05}}\n  - {id: b, action: util.noop, depends_on: [a]}\n"
	r.run(document, nil)
	r.run(document, nil)
	e := r.plan(t, document, nil).Estimate
	if e == nil || e.Executions != 2 || e.P50 < 0.05 || e.P95 < e.P50 || e.Steps["a"] < 0.05 || e.Seconds == nil || *e.Seconds < e.Steps["a"] || len(e.New) != 0 {
		t.Fatalf("the estimate is %+v", e)
	}
	e = r.plan(t, document+"  - {id: c, action: util.noop, depends_on: [b]}\n", nil).Estimate
	if e == nil || e.Seconds != nil || fmt.Sprint(e.New) != "[c]" {
		t.Errorf("with a new step: %+v", e)
	}
}
