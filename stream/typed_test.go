package stream_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

type typedConfig struct {
	Path  string   `json:"path" required:"true" doc:"Where."`
	Sizes []int    `json:"sizes"`
	Names []string `json:"names" doc:"Replaced."`

	seen bool
}

// A module of a struct publishes its tags, hands Check what holds no template, and Open what Check has prepared.
func TestTyped(t *testing.T) {
	checked := errors.New("checked")
	var early stream.Config
	m := stream.Typed[typedConfig]{
		Spec: spec.Spec{Name: "x", Params: []spec.Field{{Name: "names", Type: spec.Array, Doc: "Given."}}},
		Check: func(c *typedConfig, given stream.Config) []error {
			if c.seen = true; given.Early {
				early = given
			}
			if c.Path == "bad" {
				return []error{checked}
			}
			return nil
		},
		Open: func(_ context.Context, _ *stream.Env, c *typedConfig) (any, error) { return c, nil },
		Pure: true,
	}.Module()
	if p := m.Spec.Params; len(p) != 3 || p[0].Doc != "Where." || p[2].Doc != "Given." {
		t.Errorf("%+v", p)
	}
	if problems := m.Check(map[string]any{"path": "{{ params.x }}", "sizes": []any{int64(1)}}); len(problems) != 0 || !early.Has("path") || early.Has("names") || !early.Pending() {
		t.Errorf("%v, %+v", problems, early)
	}
	if m.Check(map[string]any{"path": "{item_id}"}); early.Pending() {
		t.Error("a pattern is not a template")
	}
	got, err := m.Open(t.Context(), &stream.Env{}, map[string]any{"path": "p", "sizes": []any{int64(1), int64(2)}})
	if c, ok := got.(*typedConfig); err != nil || !ok || c.Path != "p" || len(c.Sizes) != 2 || !c.seen {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := m.Open(t.Context(), &stream.Env{}, map[string]any{"path": "bad"}); !errors.Is(err, checked) {
		t.Errorf("%v", err)
	}
	if problems := m.Try(t.Context(), &stream.Env{}, map[string]any{"path": "bad"}); len(problems) != 1 {
		t.Errorf("%v", problems)
	}
}
