package api_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

func TestExecutionsAreCompared(t *testing.T) {
	r := newRig(t)
	a := r.finished(shapes)
	other := strings.NewReplacer("items: 40", "items: 41", "action: util.fail, depends_on: [first], params: {message: no}", "action: util.log, depends_on: [first], params: {message: yes}",
		"params: {message: c}", "params: {message: other}").Replace(shapes)
	b := r.finished(other)
	c, ctx := r.client("viewer"), t.Context()
	all := func(f api.CompareExecutions) (*api.Comparison, map[string]api.ComparedStep) {
		t.Helper()
		f.ExecutionPath, f.Other = api.ExecutionPath{ID: a.ID}, b.ID
		steps := map[string]api.ComparedStep{}
		for {
			page, err := c.Compare(ctx, f)
			good(t, err)
			for _, s := range page.Steps {
				steps[s.ID] = s
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				return page, steps
			}
		}
	}
	got, steps := all(api.CompareExecutions{})
	if got.A.ID != a.ID || got.B.ID != b.ID || !got.Definitions || got.Totals.OnlyB != 1 || got.Totals.OnlyA != 0 || got.Totals.Status != 2 || got.Totals.Steps < 50 {
		t.Errorf("the comparison is %+v", got)
	}
	if len(steps) != 3 || steps["each[40]"].A != nil || steps["each[40]"].B.Status != "completed" || steps["broken"].A.Status != "failed" || steps["broken"].B.Status != "completed" || !steps["broken"].Definition || steps["never"].A.Status != "skipped" {
		t.Errorf("what differs: %+v", steps)
	}
	for _, order := range []string{"change", "moved", "key"} {
		whole, steps := all(api.CompareExecutions{All: true, Limit: 7, Sort: order})
		if len(steps) != whole.Totals.Steps {
			t.Errorf("by %s: %d of %d steps", order, len(steps), whole.Totals.Steps)
		}
		if s := steps["loop[1].c"]; !s.Definition || s.A.Status != s.B.Status {
			t.Errorf("inside a step that is defined otherwise: %+v", s)
		}
		if s := steps["group.a"]; s.Definition || s.Params || s.Outputs {
			t.Errorf("a step that is the same: %+v", s)
		}
	}
	// Steps in the same state whose outputs differ, in pages of any size.
	for _, limit := range []int{1, 4, 500} {
		_, more := all(api.CompareExecutions{Effects: true, Limit: limit, Sort: "moved"})
		if s, there := more["loop[1].c"]; len(more) < 3 || there != s.Outputs {
			t.Errorf("with effects, %d a page: %+v", limit, more)
		}
		for id, s := range more {
			if same := s.A != nil && s.B != nil && s.A.Status == s.B.Status; same && !s.Outputs && s.MovedMS == 0 {
				t.Errorf("%s is the same: %+v", id, s)
			}
		}
	}
	_, err := c.Compare(ctx, api.CompareExecutions{ExecutionPath: api.ExecutionPath{ID: a.ID}, Other: "00000000-0000"})
	want(t, err, stepwell.CodeNotFound)
	same, err := c.Compare(ctx, api.CompareExecutions{ExecutionPath: api.ExecutionPath{ID: a.ID}, Other: a.ID})
	good(t, err)
	if len(same.Steps) != 0 || same.Definitions || same.Params || same.Totals.MoreMS != 0 {
		t.Errorf("with itself: %+v", same)
	}
}
