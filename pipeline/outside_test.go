package pipeline_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
)

// takes has one parameter of each kind that data from outside meets.
const takes = `
name: takes
parameters:
  - {name: pinned, type: string, default: none}
  - {name: open, type: string, default: none}
  - {name: loose, type: string, default: none}
  - {name: count, type: integer, default: 0}
steps:
  - {id: a, action: t.echo, params: {text: "{{ params.pinned }} {{ params.open }} {{ params.loose }}", n: "{{ params.count }}", any: "{{ params._trigger.payload }}"}}
`

// Data from outside reaches parameters that the pipeline declares and the trigger's author has not set, unless they are
// overridable. It is a value, never a template. What reaches nothing is named, and is no error.
func TestOutsideReachesDeclaredParameters(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	r.create(takes)
	payload := map[string]any{"pinned": "forged", "open": "{{ secrets.x }}", "loose": "theirs", "count": int64(7), "unknown": 1, "_trigger": "forged"}
	in := pipeline.Launch{Workflow: "takes", Written: map[string]any{"pinned": "ours", "loose": "ours"},
		Outside: &pipeline.Outside{Values: payload, Overridable: []string{"loose", "absent"}, About: map[string]any{"payload": payload}}}
	launched, err := r.Launch(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"_trigger", "pinned", "unknown"}; !reflect.DeepEqual(launched.Ignored, want) {
		t.Errorf("ignored %v, want %v", launched.Ignored, want)
	}
	got := <-r.calls
	if got["text"] != "ours {{ secrets.x }} theirs" || got["n"] != int64(7) {
		t.Errorf("the step got %v", got)
	}
	if all, _ := got["any"].(map[string]any); all["pinned"] != "forged" || all["unknown"] != int64(1) {
		t.Errorf("_trigger.payload is %v", got["any"])
	}
	in.Outside = &pipeline.Outside{Values: map[string]any{"count": "many"}}
	_, err = r.Launch(t.Context(), in)
	wantCode(t, err, stepwell.CodeInvalid)
}

// A single action gets what its author wrote, which may refer to the data from outside; a payload cannot name a command.
func TestOutsideIsAnActionsEvent(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	payload := map[string]any{"text": "forged", "n": int64(9), "size": int64(3), "event": "inner"}
	for _, c := range []struct {
		written map[string]any
		event   any
		want    map[string]any
	}{
		{map[string]any{"text": "pinned"}, payload, map[string]any{"text": "pinned"}},
		{map[string]any{"text": "of {{ event.event }} {{ 'event' }} ü {{event['text']}}\n{% if event.size > 2 %}{{ params.event.n }}{% endif %}", "n": "{{ event.size }}"}, payload,
			map[string]any{"text": "of inner event ü forged\n9", "n": int64(3)}},
		{map[string]any{"any": []any{map[string]any{"deep": "{{ event }}"}}}, []any{int64(1)}, map[string]any{"any": []any{map[string]any{"deep": []any{int64(1)}}}}},
		{map[string]any{"text": "{{ event.who | default('nobody') }}"}, nil, map[string]any{"text": "nobody"}},
		{map[string]any{"text": "{% set event = 'local' %}{{ event }}"}, payload, map[string]any{"text": "local"}},
	} {
		r.run(pipeline.Launch{Action: "t.echo", Written: c.written, Outside: &pipeline.Outside{Values: payload, Event: c.event}})
		if got := <-r.calls; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v gave %#v, want %#v", c.written, got, c.want)
		}
	}
	_, err := r.Launch(t.Context(), pipeline.Launch{Action: "util.exec", Outside: &pipeline.Outside{Values: map[string]any{"command": "id"}, Event: map[string]any{"command": "id"}}})
	wantCode(t, err, stepwell.CodeInvalid)
	if !strings.Contains(stepwell.HintOf(err), "{{ event }}") {
		t.Errorf("the hint is %q", stepwell.HintOf(err))
	}
}
