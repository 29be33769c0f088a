package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
)

// begun starts a document and returns its run in the hands of a harness.
func begun(t *testing.T, doc, params string) *harness {
	t.Helper()
	h := newHarness(t, compile(t, doc))
	h.batch(Event{Kind: Start, Begin: &Begin{Params: json.RawMessage(params), Revision: Revision}})
	return h
}

func TestForEachItems(t *testing.T) {
	for _, c := range []struct{ items, want string }{
		{`3`, "3 iterations"}, {`3.0`, "3 iterations"}, {`{"b": 1, "a": 2}`, "2 iterations"}, {`[]`, "completed"}, {`0`, "completed"},
		{`2.5`, "is a number with a fraction"}, {`true`, "is a boolean"}, {`"abc"`, "is a string"}, {`-1`, "-1 is not a number of iterations"}, {`null`, "is null"},
		{`10000001`, "10000001 is not a number of iterations"}, {`10000000`, "go beyond the limit of 10000000 steps"}, {`1e300`, "is a number with a fraction"},
	} {
		h := begun(t, "name: t\nsteps: [{id: loop, action: work, for_each: {items: \"{{ params.x }}\"}}]", `{"x": `+c.items+`}`)
		row := h.rows[0]
		got := fmt.Sprintf("%d iterations", len(h.fx.Tasks))
		if row.Status.Terminal() {
			got = row.Status.String()
		}
		if row.Error != nil {
			got = row.Error.Message
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("items %s: %q, want %q", c.items, got, c.want)
		}
	}
}

// TestCollectedResults: the results a for_each keeps for its readers are bounded, with an error that says so, and
// freed when the step is reset.
func TestCollectedResults(t *testing.T) {
	h := begun(t, "name: t\nsteps:\n  - {id: loop, action: work, for_each: {items: 2}}\n  - {id: all, action: work, depends_on: [loop], params: {r: \"{{ steps.loop.outputs.results }}\"}}", "")
	large := append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), maxCollected-100)...), `"}`...)
	report := func() {
		var events []Event
		for _, task := range h.fx.Tasks {
			events = append(events, Event{Kind: Done, Idx: task.Idx, Epoch: task.Epoch, Output: large})
		}
		h.batch(events...)
	}
	report()
	if f := h.run.Failure(); f == nil || f.Code != stepwell.CodeLimit || h.run.Status() != stepwell.ExecutionFailed {
		t.Fatalf("%v %+v", h.run.Status(), f)
	}
	h.batch(Event{Kind: Restart, Step: "loop"})
	if h.run.collected != 0 {
		t.Errorf("%d bytes are still counted", h.run.collected)
	}
	large = []byte(`{"x":1}`)
	report()
	if len(h.fx.Tasks) != 1 || h.fx.Tasks[0].Key != "all" {
		t.Errorf("%+v", h.fx.Tasks)
	}
}

func TestSpawnLimits(t *testing.T) {
	h := begun(t, "name: t\nsteps: [{id: a, action: work}]", "")
	many := make([]Spawn, maxSpawn+1)
	for i := range many {
		many[i] = Spawn{Name: "x", Key: fmt.Sprintf("x:%d", i), Action: "x"}
	}
	bad := [][]Spawn{many, {{Name: "x", Key: "x:\xff", Action: "x"}}, {{Key: "x", Action: "x"}}, {{Name: "x", Key: "x", Action: "x", Params: json.RawMessage(`[1]`)}},
		{{Name: "x", Key: "x", Action: "x", Params: json.RawMessage(`{`)}}, {{Name: "a", Key: "a", Action: "x"}}, {{Name: "x", Key: "x", Action: "x"}, {Name: "x", Key: "x", Action: "y"}}}
	for i, spawns := range bad {
		was := dump(h.run)
		said := h.batch(Event{Kind: Spawned, Idx: 0, Epoch: 1, Spawns: spawns})
		if !strings.HasPrefix(said[0], "refused: ") || dump(h.run) != was {
			t.Errorf("%d: %q", i, said)
		}
	}
	h.run.next = MaxSteps
	if said := h.batch(Event{Kind: Spawned, Idx: 0, Epoch: 1, Spawns: many[:1]}); !strings.Contains(said[0], "more than 10000000 steps") {
		t.Errorf("%q", said)
	}
}

// TestPipelinesWithoutEnd: pipelines that run others twice each, and so on, come to the limit of steps
// instead of the end of memory.
func TestPipelinesWithoutEnd(t *testing.T) {
	d := &definition.Definition{Name: "p0", Pipelines: map[string]*definition.Definition{}}
	d.Steps = []definition.Step{{ID: "a", Pipeline: "p1"}}
	for i := 1; i < 60; i++ {
		next := fmt.Sprintf("p%d", i+1)
		sub := &definition.Definition{Name: fmt.Sprintf("p%d", i), Steps: []definition.Step{{ID: "a", Pipeline: next}, {ID: "b", Pipeline: next, DependsOn: []string{"a"}}}}
		d.Pipelines[sub.Name] = sub
	}
	d.Pipelines["p60"] = &definition.Definition{Name: "p60", Steps: []definition.Step{{ID: "end", Action: "work"}}}
	h := newHarness(t, mustCompile(t, d))
	h.batch(Event{Kind: Start, Begin: &Begin{}})
	if len(h.fx.Tasks) != 1 { // deep, but one at a time
		t.Fatalf("%d tasks", len(h.fx.Tasks))
	}
	h.run.next = MaxSteps
	h.batch(Event{Kind: Done, Idx: h.fx.Tasks[0].Idx, Epoch: 1})
	if f := h.run.Failure(); f == nil || f.Code != stepwell.CodeLimit {
		t.Errorf("%v %+v", h.run.Status(), f)
	}
}

func TestRefusedEvents(t *testing.T) {
	p := compile(t, "name: t\nsteps: [{id: a, action: work}]")
	var fx Effects
	for _, ev := range []Event{{Kind: Done}, {Kind: Start}, {Kind: Start, Begin: &Begin{Params: json.RawMessage(`{`)}}} {
		r := New(p, 1, "r")
		if changed, err := r.Apply(&ev, &fx); changed || err == nil {
			t.Errorf("%d: %v %v", ev.Kind, changed, err)
		}
	}
	r := New(p, 1, "r")
	if _, err := r.PreviewRestart("a", false); err == nil {
		t.Error("a restart before the start")
	}
	if _, err := r.Seeds(""); err == nil {
		t.Error("seeds before the start")
	}
	for _, ev := range []Event{{Kind: Start, Begin: &Begin{}}, {Kind: 99}, {Kind: Waiting, Idx: 0, Epoch: 1}} {
		_, err := r.Apply(&ev, &fx)
		r.Settle(0, &fx)
		if (err == nil) != (ev.Kind == Start) {
			t.Errorf("%d: %v", ev.Kind, err)
		}
	}
	if r.Plan() != p || r.Ended() != 0 || r.Status() != stepwell.ExecutionRunning {
		t.Error(r.Status())
	}
}

// TestScope: the values templates read, and the errors for missing ones.
func TestScope(t *testing.T) {
	h := begun(t, `name: t
steps:
  - {id: a, action: work}
  - id: loop
    depends_on: [a]
    for_each: {items: [{n: 1}], as: thing}
    action: work
    params: {x: "{{ [steps.a.status, steps.a.outputs, thing, item, index, execution] }}"}`, `{"p": 1}`)
	h.batch(Event{Kind: Done, Idx: 0, Epoch: 1})
	scope := h.fx.Tasks[0].Scope
	for _, c := range []struct{ template, want string }{
		{"{{ [thing.n, item.n, index, params.p] }}", "[1,1,0,1]"},
		{"{{ execution }}", `{"id":"run-1","pipeline":"t","started_at":"2026-01-01T00:00:00Z","step":"loop[0]"}`},
		{"{{ steps.a }}", `{"attempt":1,"error":null,"outputs":{},"status":"completed"}`},
		{"{{ steps | list }}", `["a"]`},
		{"{{ thin }}", "did you mean thing"}, {"{{ execution.idd }}", "did you mean id"}, {"{{ steps.aa }}", "did you mean a"}, {"{{ steps.a.output }}", "did you mean outputs"},
	} {
		tmpl, err := expr.Parse(c.template)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if v, err := tmpl.Eval(scope, expr.Limits{}); err != nil {
			got = err.Error()
		} else {
			got = value(v)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.template, got, c.want)
		}
	}
}
