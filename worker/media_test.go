package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/worker"
)

const ownToken, otherToken = "media:own/cells.mp4", "media:other/secret.mp4"

// mediaRig runs the action t.take, which remembers its call.
type mediaRig struct {
	*worker.Runner
	t       *testing.T
	fetched int
	call    *action.Call
	during  func(c *action.Call) (any, error)
}

func newMediaRig(t *testing.T, touch func(string) error) *mediaRig {
	r := &mediaRig{t: t}
	actions := &action.Registry{}
	err := actions.Add(action.Action{Spec: spec.Spec{Name: "t.take", Summary: "For tests.", OpenParams: true}, Handler: action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) {
		if r.call = c; r.during != nil {
			return r.during(c)
		}
		return nil, nil
	})})
	if err == nil {
		r.Runner, err = worker.NewRunner(worker.Options{Actions: actions, Reporter: refusing{}, Records: nothing{}, Blobs: noBlobs{}, Touch: touch,
			Media: func(_ context.Context, ref, name string) (string, error) {
				if r.fetched++; ref != "own" || name != "cells.mp4" {
					return "", errors.New("another file")
				}
				return "/cache/own/cells.mp4", nil
			}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// take runs t.take with params and settings, for an execution about a lesson.
func (r *mediaRig) take(params, settings map[string]any, values map[string]any) (worker.Prepared, engine.Event) {
	r.t.Helper()
	step := &plan.Step{ID: "s", Action: "t.take", Policy: &plan.Policy{}}
	for from, to := range map[*map[string]any]**plan.Value{&params: &step.Params, &settings: &step.Settings} {
		if v, err := plan.CompileValue(*from); err != nil {
			r.t.Fatal(err)
		} else if *from != nil {
			*to = v
		}
	}
	about := plan.About{"lesson": map[string]any{"media": map[string]any{"path": ownToken}}}
	p := r.Prepare(r.t.Context(), &engine.Task{Run: 1, Idx: 3, Epoch: 2, Attempt: 1, Key: "s", Step: step, Scope: engine.NewScope(values), About: about})
	return p, r.Run(r.t.Context(), p)
}

// TestMediaToken: the handler gets the path of a local file wherever its params have the token of the lesson's own file, and
// what is recorded keeps the token. The token of another file opens nothing, whoever wrote it.
func TestMediaToken(t *testing.T) {
	r := newMediaRig(t, nil)
	p, ev := r.take(map[string]any{
		"file": "{{ source.path }}", "command": []any{"ffmpeg", "-i", "'{{ source.path }}' out"}, "nested": map[string]any{"file": ownToken, "n": int64(1)},
		"other": otherToken, "outside": "{{ outside }}", "near": "media:own/cells.mp3"},
		nil, map[string]any{"source": map[string]any{"path": ownToken}, "outside": []any{otherToken, "media:/etc/passwd"}})
	want := map[string]any{"file": "/cache/own/cells.mp4", "command": []any{"ffmpeg", "-i", "'/cache/own/cells.mp4' out"},
		"nested": map[string]any{"file": "/cache/own/cells.mp4", "n": int64(1)}, "other": otherToken, "outside": []any{otherToken, "media:/etc/passwd"}, "near": "media:own/cells.mp3"}
	if ev.Kind != engine.Done || !reflect.DeepEqual(r.call.Params, want) || r.fetched != 1 {
		t.Errorf("%+v %+v after %d fetches: params %v", ev, ev.Failure, r.fetched, r.call.Params)
	}
	var recorded map[string]any
	if err := json.Unmarshal(p.Input, &recorded); err != nil || recorded["file"] != ownToken {
		t.Errorf("recorded %s", p.Input)
	}
	if _, ev = r.take(map[string]any{"other": otherToken}, nil, nil); ev.Kind != engine.Done || r.fetched != 1 || r.call.Params["other"] != otherToken {
		t.Errorf("without the token: %+v, %d fetches", ev, r.fetched)
	}
}

// TestMediaIsTouched: a step may touch the lesson's file where the worker keeps it, and nothing beside it.
func TestMediaIsTouched(t *testing.T) {
	denied := stepwell.Errorf(stepwell.CodeDenied, "", "no")
	r := newMediaRig(t, func(string) error { return denied })
	r.during = func(c *action.Call) (any, error) {
		for path, want := range map[string]error{"/cache/own/cells.mp4": nil, "/cache/own/./cells.mp4": nil, "/cache/own": denied,
			"/cache/own/cells.mp4/../other": denied, "/cache/other/secret.mp4": denied} {
			if got := c.Touch(path); got != want {
				t.Errorf("%s: %v, want %v", path, got, want)
			}
		}
		v, err := c.Host.Eval("{{ token }}", map[string]any{"token": ownToken})
		if v != "/cache/own/cells.mp4" || err != nil {
			t.Errorf("a template of the handler's own: %v, %v", v, err)
		}
		return nil, nil
	}
	if _, ev := r.take(map[string]any{"file": ownToken}, nil, nil); ev.Kind != engine.Done {
		t.Errorf("%+v %+v", ev, ev.Failure)
	}
}

// TestMediaIsAway: a file that cannot be fetched fails the attempt, which its retry policy repeats.
func TestMediaIsAway(t *testing.T) {
	r := newMediaRig(t, nil)
	about := plan.About{"lesson": map[string]any{"media": map[string]any{"path": otherToken}}}
	params, _ := plan.CompileValue(map[string]any{"file": otherToken})
	task := &engine.Task{Run: 1, Epoch: 1, Attempt: 1, Key: "s", Step: &plan.Step{ID: "s", Action: "t.take", Params: params, Policy: &plan.Policy{}}, About: about}
	if ev := r.Run(t.Context(), r.Prepare(t.Context(), task)); ev.Kind != engine.Failed || ev.Permanent || r.call != nil {
		t.Errorf("%+v %+v", ev, ev.Failure)
	}
}

// TestSettings: the settings of a step are rendered before its params, and are data: a template in a text that a setting has
// read is never evaluated.
func TestSettings(t *testing.T) {
	r := newMediaRig(t, nil)
	p, ev := r.take(map[string]any{"model": "{{ settings.model }}", "prompt": "{{ settings.prompt }}!", "all": "{{ settings }}"},
		map[string]any{"model": "small", "prompt": "Sum up: {{ source }}", "n": int64(2)},
		map[string]any{"source": "{{ secrets.KEY }} {{ 1 + 1 }}"})
	text := "Sum up: {{ secrets.KEY }} {{ 1 + 1 }}"
	want := map[string]any{"model": "small", "prompt": text + "!", "all": map[string]any{"model": "small", "prompt": text, "n": int64(2)}}
	if ev.Kind != engine.Done || !reflect.DeepEqual(r.call.Params, want) {
		t.Errorf("%+v %+v %+v: params %v", p.Err, ev, ev.Failure, r.call)
	}
	r.during = func(c *action.Call) (any, error) {
		v, err := c.Host.Eval("{{ settings.model }}", nil)
		if v != "small" || err != nil {
			t.Errorf("a template of the handler's own: %v, %v", v, err)
		}
		return nil, nil
	}
	r.take(map[string]any{"x": "{{ settings.model }}"}, map[string]any{"model": "small"}, nil)
	if _, ev = r.take(map[string]any{"x": "{{ settings.model }}"}, map[string]any{"model": "{{ nobody }}"}, nil); ev.Kind != engine.Failed || ev.Failure.Code != stepwell.CodeInvalid ||
		ev.Failure.Message != `params: settings: model: 1:4: nobody is undefined` {
		t.Errorf("%+v %+v", ev, ev.Failure)
	}
}
