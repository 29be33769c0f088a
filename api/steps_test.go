package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

func ids(l *api.StepList) string {
	var out []string
	for _, s := range l.Steps {
		out = append(out, s.ID)
	}
	return strings.Join(out, " ")
}

func TestStepsAreSelected(t *testing.T) {
	r := newRig(t)
	x := r.finished(shapes)
	c, ctx := r.client("viewer"), t.Context()
	list := func(f api.ListSteps) *api.StepList {
		t.Helper()
		f.ExecutionPath = api.ExecutionPath{ID: x.ID}
		l, err := c.Steps(ctx, f)
		good(t, err)
		return l
	}
	all := list(api.ListSteps{Limit: 1000})
	by := map[string]api.Step{}
	for _, s := range all.Steps {
		by[s.ID] = s
	}
	for id, want := range map[string]string{
		"first":        "step  [] 1",
		"each":         "for_each  [first] 0",
		"each[7]":      "step each [] 1",
		"group":        "group  [first] 0",
		"group.b":      "step group [group.a] 1",
		"loop[1].d":    "step loop[1] [loop[1].c] 1",
		"never":        "step  [broken loop] 1",
		"finally.last": "step  [] 1",
	} {
		s := by[id]
		deps := slices.Sorted(slices.Values(s.DependsOn))
		if got := fmt.Sprintf("%s %s %v %d", s.Kind, s.Parent, deps, s.Attempts); got != want || s.Action == "" && s.Kind == "step" {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	// Every selection agrees with the whole list.
	for what, q := range map[string]struct {
		f  api.ListSteps
		of func(s *api.Step) bool
	}{
		"completed":           {api.ListSteps{Status: []string{"completed"}}, func(s *api.Step) bool { return s.Status == "completed" }},
		"failed or completed": {api.ListSteps{Status: []string{"completed", "failed"}}, func(s *api.Step) bool { return s.Status == "completed" || s.Status == "failed" }},
		"failed":              {api.ListSteps{Status: []string{"failed"}}, func(s *api.Step) bool { return s.Status == "failed" }},
		"inside":              {api.ListSteps{Parent: "loop"}, func(s *api.Step) bool { return s.Parent == "loop" }},
		"inside nothing":      {api.ListSteps{Parent: "first"}, func(*api.Step) bool { return false }},
		"prefix":              {api.ListSteps{Prefix: "loop[1]"}, func(s *api.Step) bool { return strings.HasPrefix(s.ID, "loop[1]") }},
		"text of a key":       {api.ListSteps{Query: "ROUP."}, func(s *api.Step) bool { return strings.Contains(s.ID, "roup.") }},
		"text of an action":   {api.ListSteps{Query: "util.fail"}, func(s *api.Step) bool { return s.ID == "broken" }},
		"indexes":             {api.ListSteps{Index: []int{int(by["never"].Index), 3, int(by["group.a"].Index), 900}}, func(s *api.Step) bool { return s.Index == 3 || s.ID == "never" || s.ID == "group.a" }},
		"no index":            {api.ListSteps{Index: []int{900}}, func(*api.Step) bool { return false }},
		"together":            {api.ListSteps{Parent: "each", Query: "[1", Status: []string{"completed"}}, func(s *api.Step) bool { return strings.HasPrefix(s.ID, "each[1") }},
	} {
		for _, limit := range []int{1000, 4} {
			var got []api.Step
			for f := q.f; ; {
				f.Limit = limit
				l := list(f)
				got = append(got, l.Steps...)
				if f.Cursor = l.Next; f.Cursor == "" {
					break
				}
			}
			var want []api.Step
			for i := range all.Steps {
				if q.of(&all.Steps[i]) {
					want = append(want, all.Steps[i])
				}
			}
			if fmt.Sprintf("%+v", shown(got)) != fmt.Sprintf("%+v", shown(want)) {
				t.Errorf("%s, by %d: got %.300v\nwant %.300v", what, limit, fmt.Sprint(shown(got)), fmt.Sprint(shown(want)))
			}
		}
	}
	for _, q := range []struct {
		sort string
		of   func(a, b *api.Step) int
	}{
		{"started", func(a, b *api.Step) int { return a.Started.Compare(b.Started.Time) }},
		{"duration", func(a, b *api.Step) int { return int(length(a) - length(b)) }},
	} {
		for _, order := range []string{"asc", "desc"} {
			var got []api.Step
			for f := (api.ListSteps{Sort: q.sort, Order: order, Limit: 9}); ; {
				l := list(f)
				got = append(got, l.Steps...)
				if f.Cursor = l.Next; f.Cursor == "" {
					break
				}
			}
			if len(got) != len(all.Steps) {
				t.Errorf("by %s %s: %d of %d steps", q.sort, order, len(got), len(all.Steps))
			}
			for i := 1; i < len(got); i++ {
				c := q.of(&got[i-1], &got[i])
				if order == "desc" {
					c = -c
				}
				if c > 1 { // the columns are in ms
					t.Errorf("by %s %s: %s comes before %s", q.sort, order, got[i-1].ID, got[i].ID)
				}
			}
		}
	}
	for _, bad := range []api.ListSteps{{Step: "first", Parent: "loop"}, {Sort: "colour"}, {Sort: "started", Cursor: all.Next + "x"}} {
		bad.ExecutionPath = api.ExecutionPath{ID: x.ID}
		_, err := c.Steps(ctx, bad)
		want(t, err, stepwell.CodeInvalid)
	}
}

func length(s *api.Step) int64 {
	if s.DurationMS == nil {
		return 0
	}
	return *s.DurationMS
}

// shown is a step without what differs by pointer.
func shown(list []api.Step) (out []string) {
	for _, s := range list {
		out = append(out, fmt.Sprint(s.ID, s.Index, s.Name, s.Action, s.Kind, s.Parent, s.DependsOn, s.Status, s.Attempt, s.Attempts, s.Worker, s.Started, s.Completed, length(&s), s.Error))
	}
	return out
}

// TestStepsOfARunningExecution: steps that wait, and those that have not begun, are selected by what they are now.
func TestStepsOfARunningExecution(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	id := api.ExecutionPath{ID: r.begin("name: asks\nsteps:\n  - {id: ask, action: util.approval, params: {message: go on?}}\n  - {id: then, action: util.noop, depends_on: [ask]}\n", nil)}
	r.until("the step waits", func() bool {
		l, err := c.Steps(ctx, api.ListSteps{ExecutionPath: id, Status: []string{"waiting"}})
		good(t, err)
		return ids(l) == "ask"
	})
	l, err := c.Steps(ctx, api.ListSteps{ExecutionPath: id, Status: []string{"pending"}})
	good(t, err)
	if ids(l) != "then" || l.Steps[0].Action != "util.noop" {
		t.Errorf("pending: %+v", l.Steps)
	}
	l, err = c.Steps(ctx, api.ListSteps{ExecutionPath: id, Sort: "duration", Order: "desc"})
	good(t, err)
	if ids(l) != "ask then" {
		t.Errorf("the longest first: %s", ids(l))
	}
}
