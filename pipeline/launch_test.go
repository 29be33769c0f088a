package pipeline_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
)

func TestLaunchKinds(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	p := r.create(doc("p", "'{{ params.x }}'"))
	x := r.run(pipeline.Launch{Workflow: "p", Request: conductor.Request{Params: map[string]any{"x": int64(7)}, Trigger: "webhook", Origin: store.Origin{Job: "j", Actor: "me"}}})
	if got := <-r.calls; got["n"] != int64(7) {
		t.Errorf("the stored pipeline said %v", got)
	}
	if x.Workflow != p.ID || x.WorkflowVersion != 1 || x.Trigger != "webhook" || x.Job != "j" || x.Actor != "me" || x.Pipeline != "p" {
		t.Errorf("the execution is %+v", x)
	}
	r.run(pipeline.Launch{Document: []byte(doc("own", "3"))})
	if got := <-r.calls; got["n"] != int64(3) {
		t.Errorf("the document said %v", got)
	}
	raw, err := json.Marshal(map[string]any{"name": "json", "steps": []any{map[string]any{"id": "a", "action": "t.echo", "params": map[string]any{"n": 4}}}})
	if err != nil {
		t.Fatal(err)
	}
	r.run(pipeline.Launch{Document: raw})
	if got := <-r.calls; got["n"] != int64(4) {
		t.Errorf("the JSON document said %v", got)
	}
	x = r.run(pipeline.Launch{Action: "t.echo", Request: conductor.Request{Params: map[string]any{"n": int64(5)}}})
	if got := <-r.calls; got["n"] != int64(5) || x.Pipeline != "t.echo" {
		t.Errorf("the action said %v", got)
	}
	for name, in := range map[string]pipeline.Launch{"nothing": {}, "two": {Workflow: "p", Action: "t.echo"}, "type": {Workflow: "p", Request: conductor.Request{Params: map[string]any{"x": "y"}}},
		"no action": {Action: "t.eco"}, "unknown parameter": {Action: "t.echo", Request: conductor.Request{Params: map[string]any{"m": 1}}}, "action's type": {Action: "t.echo", Request: conductor.Request{Params: map[string]any{"n": "x"}}},
		"document": {Document: []byte("name: x\nsteps: [{id: a, action: nothing}]")}} {
		_, err := r.Launch(t.Context(), in)
		if stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = r.Launch(t.Context(), pipeline.Launch{Workflow: "absent"})
	wantCode(t, err, stepwell.CodeNotFound)
}

// Values are never templates, whatever is in them and in their names; what the author has written is one.
func TestValuesAreData(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	nasty := "{{ params }} {% for x in y %} {# no #} \\ \" ' \u0000 ü \U0001f600"
	payload := map[string]any{"any": map[string]any{nasty: []any{nasty, nil, 1.5, int64(7), true}}, nasty: 1, "unknown": nasty}
	r.run(pipeline.Launch{Action: "t.echo", Written: map[string]any{"text": "{{ params._trigger.type }}", "any": "{{ event.any }}"},
		Outside: &pipeline.Outside{Values: payload, Event: payload, About: map[string]any{"type": "webhook"}}})
	got := <-r.calls
	want := map[string]any{"text": "webhook", "any": map[string]any{nasty: []any{nasty, nil, 1.5, int64(7), true}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the action was given %#v, want %#v", got, want)
	}
	// An action that takes anything gets names of any kind.
	x := r.run(pipeline.Launch{Action: "util.set_output", Request: conductor.Request{Params: map[string]any{"outputs": map[string]any{nasty: nasty}}}})
	if !strings.Contains(string(x.Params), "params") {
		t.Errorf("the parameters are %s", x.Params)
	}
}

func TestLaunchOnce(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	r.create(doc("p", "1"))
	var wg sync.WaitGroup
	ids := make([]*pipeline.Launched, 20)
	for i := range ids {
		wg.Go(func() {
			var err error
			if ids[i], err = r.Launch(t.Context(), pipeline.Launch{Workflow: "p", Request: conductor.Request{Origin: store.Origin{Key: "k", KeyHash: []byte("h")}}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fresh := 0
	for _, l := range ids {
		if l.Execution != ids[0].Execution || l.Created.IsZero() {
			t.Errorf("%+v and %+v", l, ids[0])
		}
		if l.Fresh {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d of them are fresh", fresh)
	}
	_, err := r.Launch(t.Context(), pipeline.Launch{Workflow: "p", Request: conductor.Request{Origin: store.Origin{Key: "k", KeyHash: []byte("other")}}})
	wantCode(t, err, stepwell.CodeConflict)
}

// A step that runs another stored pipeline runs its newest version, also when the caller is old.
func TestSubPipelines(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	caller := "name: caller\nsteps:\n  - id: a\n    pipeline: called\n"
	_, err := r.Create(t.Context(), &pipeline.Draft{Document: []byte(caller)}, "")
	wantCode(t, err, stepwell.CodeInvalid)
	if !strings.Contains(err.Error(), "called") {
		t.Errorf("problems: %v", err)
	}
	r.create(doc("called", "1"))
	r.create(caller)
	for n := 1; n <= 3; n++ {
		r.run(pipeline.Launch{Workflow: "caller"})
		if got := <-r.calls; got["n"] != int64(n) {
			t.Errorf("the called pipeline said %v, want %d", got["n"], n)
		}
		r.update("called", doc("called", fmt.Sprint(n+1)))
	}
	_, err = r.Update(t.Context(), "called", store.AnyRevision, with("name: called\nsteps: [{id: a, pipeline: caller}]"))
	wantCode(t, err, stepwell.CodeInvalid)
}

func TestDefaults(t *testing.T) {
	r := newRig(t, pipeline.Options{Defaults: pipeline.Defaults{Timeout: 2 * time.Hour, MaxParallelSteps: 10, RetryAttempts: 3, RetryBackoff: time.Minute}})
	snapshot := func(x []byte) *definition.Definition {
		t.Helper()
		body, err := r.store.Definition(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		d, err := definition.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := snapshot(r.run(pipeline.Launch{Document: []byte(doc("p", "1"))}).Definition)
	if d.Settings.TimeoutSeconds != 7200 || d.Settings.MaxParallelSteps != 10 || d.Steps[0].Retry == nil || d.Steps[0].Retry.MaxAttempts != 3 || d.Steps[0].Retry.BackoffSeconds != 60 {
		t.Errorf("the snapshot has %+v and %+v", d.Settings, d.Steps[0].Retry)
	}
	d = snapshot(r.run(pipeline.Launch{Document: []byte("settings: {timeout_seconds: 5, max_parallel_steps: 2, retry_policy: {max_attempts: 1}}\n" + doc("p", "1"))}).Definition)
	if d.Settings.TimeoutSeconds != 5 || d.Settings.MaxParallelSteps != 2 || d.Steps[0].Retry != nil {
		t.Errorf("the pipeline's own say is lost: %+v and %+v", d.Settings, d.Steps[0].Retry)
	}
}

// A launch answers with the committed row; nothing is read back that was just written.
func TestALaunchReadsNothingBack(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	r.create(doc("p", "1"))
	first, err := r.Launch(t.Context(), pipeline.Launch{Workflow: "p", Request: conductor.Request{Origin: store.Origin{Key: "k"}}})
	if err != nil {
		t.Fatal(err)
	}
	if first.Created.IsZero() || first.Started.IsZero() || first.Status != stepwell.ExecutionRunning || r.reads.n.Load() != 0 {
		t.Errorf("launched %+v, with %d reads", first, r.reads.n.Load())
	}
	again, err := r.Launch(t.Context(), pipeline.Launch{Workflow: "p", Request: conductor.Request{Origin: store.Origin{Key: "k"}}})
	if err != nil || again.Fresh || !again.Created.Equal(first.Created.Truncate(time.Microsecond)) {
		t.Errorf("again: %+v, %v; first %+v", again, err, first)
	}
}
