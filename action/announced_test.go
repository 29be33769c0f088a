package action_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// Actions that workers announce are known like any other, are replaced by later announcements, and never stand for an action of the
// program's own.
func TestAnnounce(t *testing.T) {
	r := &action.Registry{}
	own := action.Action{Spec: spec.Spec{Name: "own", Aliases: []string{"mine"}, Summary: "Ours."}, Handler: action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return nil, nil })}
	if err := r.Add(own); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"own", "mine"} {
		if err := r.Announce(spec.Spec{Name: "far"}, spec.Spec{Name: name}); stepwell.CodeOf(err) != stepwell.CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, known := r.Spec("far"); known {
		t.Error("half of a refused announcement is known")
	}
	if err := r.Announce(spec.Spec{Name: "far", Summary: "one", Params: []spec.Field{{Name: "n", Type: spec.Integer, Required: true}}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Announce(spec.Spec{Name: "far", Summary: "two", Params: []spec.Field{{Name: "n", Type: spec.Integer, Required: true}}}); err != nil {
		t.Fatal(err)
	}
	about, known := r.Spec("far")
	if !known || about.Summary != "two" || !r.Announced("far") || r.Announced("own") || r.Announced("mine") || r.Announced("nobody") {
		t.Errorf("far is %+v", about)
	}
	if got := r.Names(); !slices.Equal(got, []string{"far", "own"}) || len(r.Specs()) != 2 {
		t.Errorf("names %v", got)
	}
	if params, _ := r.Params("far"); len(params.Check(map[string]any{})) == 0 {
		t.Error("its params are not checked")
	}
	a, _ := r.Lookup("far")
	if _, err := a.Handler.Run(t.Context(), &action.Call{}); stepwell.CodeOf(err) != stepwell.CodeUnavailable {
		t.Errorf("run here: %v", err)
	}
}
