package conductor_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/spec"
)

// aLesson is what an execution for a lesson is about.
const aLesson = `{"project":{"id":"p1","name":"Biology","tags":"school"},"lesson":{"id":"l1","name":"Cells","tag":"w1",
	"media":{"path":"media:sha256-1/cells.mp4","url":"http://here/media","type":"video/mp4","bytes":12}}}`

// startAbout starts a pipeline for a lesson.
func (r *rig) startAbout(text, about string) (string, error) {
	r.t.Helper()
	return r.Start(r.t.Context(), conductor.Request{Pipeline: r.register(pipeline(r.t, text)), About: json.RawMessage(about)})
}

// TestAboutIsRead: templates read the project and the lesson, as they were at the start; a retry keeps them.
func TestAboutIsRead(t *testing.T) {
	f := &faults{}
	f.below.Store(1)
	r := newRig(t, build{actions: []action.Action{f.action()}})
	id, err := r.startAbout(`name: p
steps:
  - {id: a, action: t.faulty, params: {n: 0}, condition: "lesson.tag == 'w1'"}
outputs: {title: "{{ project.name }}: {{ lesson.name }} ({{ lesson.media.bytes }})"}
`, aLesson)
	if err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionFailed)
	f.below.Store(0)
	if id, err = r.Retry(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if x := r.end(id, stepwell.ExecutionCompleted); string(x.Outputs) != `{"title":"Biology: Cells (12)"}` {
		t.Errorf("outputs: %s", x.Outputs)
	}
}

// TestAboutIsMissing: a pipeline that needs a lesson is not started without one.
func TestAboutIsMissing(t *testing.T) {
	r := newRig(t, build{actions: []action.Action{{Spec: spec.Spec{Name: "t.take", Summary: "For tests.", OpenParams: true},
		Handler: action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return nil, nil })}}})
	for _, c := range []struct{ name, steps, about, want string }{
		{"params", `{id: a, action: t.take, params: {x: "{{ lesson.name }}"}}`, "", "needs a lesson: the step a uses it"},
		{"condition", `{id: a, action: t.take, condition: "lesson.tag == 'x'"}`, "", "needs a lesson: the step a uses it"},
		{"for_each", `{id: a, action: t.take, for_each: "{{ lesson.parts }}"}`, "", "needs a lesson: the step a uses it"},
		{"project", `{id: a, action: t.take, params: {x: "{{ project.name }}"}}`, `{"lesson":{"id":"l"}}`, "needs a project: the step a uses it"},
		{"guarded", `{id: a, action: t.take, params: {x: "{{ lesson.name | default('none') }}"}, condition: "lesson is not defined"}`, "", ""},
		{"not an object", `{id: a, action: t.take}`, `["l1"]`, "not an object"},
		{"large", `{id: a, action: t.take}`, `{"lesson":{"name":"` + strings.Repeat("x", 64<<10) + `"}}`, "the limit is 64 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, err := r.startAbout("name: p\nsteps:\n  - "+c.steps+"\n", c.about)
			if c.want == "" && err == nil {
				r.end(id, stepwell.ExecutionCompleted)
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error: %v, want %q", err, c.want)
			}
			if x, ok := errors.AsType[*stepwell.Error](err); strings.Contains(c.want, "needs") && (!ok || x.Code != stepwell.CodeInvalid || x.Hint == "") {
				t.Errorf("error: %#v", err)
			}
		})
	}
}

// TestAboutIsRequested: a start that another process asks for is about the same lesson.
func TestAboutIsRequested(t *testing.T) {
	r := newRig(t, build{})
	req, err := r.StartRequest(conductor.Request{Pipeline: r.register(pipeline(t, one("t.echo")+"outputs: {name: \"{{ lesson.name }}\"}\n")),
		About: json.RawMessage(aLesson)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.PutRequest(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	r.TakeRequests(t.Context())
	if x := r.end(req.Execution, stepwell.ExecutionCompleted); string(x.Outputs) != `{"name":"Cells"}` {
		t.Errorf("outputs: %s", x.Outputs)
	}
}

// A step of an execution with a lesson is recorded as running soon after it has begun; any other one only after a while.
func TestLessonStepIsSeenRunning(t *testing.T) {
	g := newGate()
	r := newRig(t, build{actions: actions(g)}) // where others are recorded after an hour
	p := gated(t, r, "")
	other := r.start(p, 0, nil)
	<-g.begun
	id, err := r.Start(t.Context(), conductor.Request{Pipeline: p, About: []byte(`{"lesson": {"id": "l"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	<-g.begun
	status := func(id string) stepwell.StepStatus {
		x, err := r.store.Execution(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return r.steps(x.No)["a"].Status
	}
	r.until("the step to be seen running", func() bool { return status(id) == stepwell.StepRunning })
	if now := status(other); now == stepwell.StepRunning {
		t.Errorf("the other one is %s", now)
	}
	close(g.open)
	r.end(id, stepwell.ExecutionCompleted)
	r.end(other, stepwell.ExecutionCompleted)
}
