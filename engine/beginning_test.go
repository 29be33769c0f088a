package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stepwell/stepwell"
)

// TestBeginning: the results of the first steps are the seeds of an execution with another plan: nothing of them runs, is counted or
// paid again; the beginning ends before the first step that did not complete whole.
func TestBeginning(t *testing.T) {
	const text = `name: p
settings: {sequential: true}
steps:
  - {id: a, action: work}
  - {id: never, action: work, condition: "false"}
  - {id: loop, for_each: "{{ [1, 2] }}", action: work, params: {x: "{{ steps.a.outputs.n }}"}}
  - {id: b, action: work, params: {x: "{{ source }}"}}
  - {id: c, action: work}
`
	h := newHarness(t, compile(t, text))
	h.batch(Event{Kind: Start, Begin: &Begin{Revision: Revision}})
	end := func(kind Kind) {
		t.Helper()
		for _, task := range slices.Clone(h.fx.Tasks) {
			ev := Event{Kind: kind, Idx: task.Idx, Epoch: task.Epoch}
			if kind == Done {
				ev.Output, ev.Cost = []byte(`{"n":1}`), 5
			} else {
				ev.Failure, ev.Permanent = &Failure{Code: stepwell.CodeFailed, Message: "no"}, true
			}
			h.batch(ev)
		}
	}
	for range 3 { // a, both iterations, b
		end(Done)
	}
	if h.run.Status().Terminal() {
		t.Fatal("it has ended")
	}
	end(Failed)
	seeds := h.rebuilt(false).Beginning()
	keys := ""
	for i := range seeds {
		keys += fmt.Sprint(seeds[i].Key, " ", seeds[i].Status, " ")
	}
	if keys != "a completed never skipped loop completed b completed " {
		t.Fatalf("the beginning is %q", keys)
	}
	h.outputs(seeds)

	for _, n := range []int{4, 5} { // with a step to run after them, and without
		p := compile(t, text)
		if n == 4 {
			p = compile(t, text[:len(text)-len("  - {id: c, action: work}\n")])
		}
		next := newHarness(t, p)
		next.no, next.blobs = 2, h.blobs
		next.run = New(p, 2, "run-2")
		next.batch(Event{Kind: Start, Begin: &Begin{Revision: Revision, Seeds: seeds, Reused: "run-1"}})
		left := next.fx.Tasks
		if done := len(left) == 0 && next.run.Status() == stepwell.ExecutionCompleted; done != (n == 4) || n == 5 && (len(left) != 1 || left[0].Key != "c") {
			t.Errorf("of %d steps: %d are left, it is %s", n, len(left), next.run.Status())
		}
		if x := next.run.Progress(); x.Cost != 0 || x.Completed < 4 {
			t.Errorf("of %d steps: %+v", n, x)
		}
		next.sameAfterReplay()
	}
}
