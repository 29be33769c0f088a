package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
)

// A sink that cannot write ends its branch; the others come to their ends, and the execution has failed with that step's
// error (stac-manager §9.2). The next attempt of the segment runs only the branch that failed.
func TestBranchFails(t *testing.T) {
	const doc = `
name: two-sinks
settings: {fail_fast: @FAILFAST@}
steps:
  - {id: read, module: stream.read, config: {path: in.ndjson}}
  - {id: mark, module: stream.map, depends_on: [read], config: {set: {mark: 1}}}
  - {id: bad, module: stream.write, depends_on: [mark], config: {path: blocked/out.ndjson}}
  - {id: good, module: stream.write, depends_on: [read], config: {path: out.ndjson}}
  - {id: after_good, action: util.log, depends_on: [good], params: {message: "{{ steps.good.outputs.items_in }} items"}}
  - {id: after_bad, action: util.log, depends_on: [bad], params: {message: "never"}}
`
	for failFast, good := range map[string]stepwell.StepStatus{"false": stepwell.StepCompleted, "true": stepwell.StepCompleted, "cancel": stepwell.StepSkipped} {
		t.Run(failFast, func(t *testing.T) {
			r := newStreamRig(t)
			r.items("in.ndjson", sound(500))
			r.file("blocked", "a file where a directory should be")
			var id string
			r.with(func(a *app.App) {
				id = r.start(a, fill(doc, "FAILFAST", failFast))
				x, steps := r.end(a, id)
				if x.Status != stepwell.ExecutionFailed || x.Failure == nil || x.Failure.Step != "bad" {
					t.Errorf("%v, %+v", x.Status, x.Failure)
				}
				want := map[string]stepwell.StepStatus{"bad": stepwell.StepFailed, "mark": stepwell.StepSkipped, "good": good, "after_bad": stepwell.StepSkipped}
				if failFast == "false" {
					want["after_good"] = stepwell.StepCompleted
				}
				for step, status := range want {
					if steps[step].Status != status {
						t.Errorf("%s is %v, want %v: %+v", step, steps[step].Status, status, steps[step].Error)
					}
				}
			})
			if failFast == "cancel" {
				if _, err := os.Stat(filepath.Join(r.dir, "out.ndjson")); err == nil {
					t.Error("fail_fast: cancel lets the other branch finish")
				}
				return
			}
			if n := len(r.lines("out.ndjson")); n != 500 {
				t.Fatalf("%d items", n)
			}
			if err := os.Remove(filepath.Join(r.dir, "blocked")); err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(filepath.Join(r.dir, "out.ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			r.with(func(a *app.App) {
				again, err := a.Conductor.Retry(t.Context(), id, "")
				if err != nil {
					t.Fatal(err)
				}
				x, steps := r.end(a, again)
				if x.Status != stepwell.ExecutionCompleted || steps["good"].Status != stepwell.StepCompleted || !strings.Contains(string(steps["good"].Output), `"items_in":500`) {
					t.Errorf("retry: %v, %+v, good: %v %s", x.Status, x.Failure, steps["good"].Status, steps["good"].Output)
				}
			})
			if n := len(r.lines("blocked/out.ndjson")); n != 500 {
				t.Errorf("%d items behind the retry", n)
			}
			if after, err := os.Stat(filepath.Join(r.dir, "out.ndjson")); err != nil || !after.ModTime().Equal(before.ModTime()) {
				t.Errorf("the branch that completed was written again: %v", err)
			}
		})
	}
}

// One source that finds nothing ends only itself.
func TestOneSourceIsEmpty(t *testing.T) {
	r := newStreamRig(t)
	r.items("in.ndjson", sound(20))
	o := r.run(`
name: two-sources
steps:
  - {id: none, module: stream.read, config: {path: "missing/*.ndjson"}}
  - {id: some, module: stream.read, config: {path: in.ndjson}}
  - {id: write, module: stream.write, depends_on: [none, some], config: {path: out.ndjson}}
`)
	if o.status != stepwell.ExecutionFailed || o.failure == nil || o.failure.Step != "none" || o.steps["some"].Status != stepwell.StepCompleted || o.steps["write"].Status != stepwell.StepCompleted {
		t.Errorf("%v %+v: %v, %v", o.status, o.failure, o.steps["some"].Status, o.steps["write"].Status)
	}
	if n := len(r.lines("out.ndjson")); n != 20 {
		t.Errorf("%d items", n)
	}
}
