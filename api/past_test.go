package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/columns"
)

// TestStepsOfThePast asks at every version for steps, graph and columns: they agree with each other, with the history up to there,
// and at the last version with those of now.
func TestStepsOfThePast(t *testing.T) {
	r := newRig(t)
	x := r.finished(shapes)
	path := "/api/v1/executions/" + x.ID
	var history api.HistoryList
	r.do("viewer", "GET", path+"/history?limit=1000", nil).is(200).into(&history)
	last := history.Events[len(history.Events)-1].Version
	steps := func(query string) (out api.StepList) {
		t.Helper()
		r.do("viewer", "GET", path+"/steps?limit=1000&"+query, nil).is(200).into(&out)
		return out
	}
	ended := map[string]string{} // by the history
	events := history.Events
	for v := int64(1); v <= last; v++ {
		for len(events) > 0 && events[0].Version <= v {
			switch e := events[0]; e.Type {
			case "completed", "failed", "skipped":
				ended[string(e.Step)] = e.Type
			}
			events = events[1:]
		}
		list := steps(fmt.Sprint("version=", v))
		if list.As == nil || list.As.Version != v || (v < last) == (list.As.Status == x.Status) {
			t.Fatalf("version %d: as of %+v", v, list.As)
		}
		counts := map[string]int{}
		for i := range list.Steps {
			s := &list.Steps[i]
			counts[s.Status]++
			if want := ended[s.ID]; want != "" && s.Status != want || want == "" && !s.Completed.IsZero() {
				t.Errorf("version %d: %s is %s, in the history %q", v, s.ID, s.Status, want)
			}
		}
		r.agree(t, path, v, counts)
	}
	now, then := steps(""), steps(fmt.Sprint("version=", last))
	if len(now.Steps) != len(then.Steps) {
		t.Fatalf("%d steps now, %d at the last version", len(now.Steps), len(then.Steps))
	}
	for i := range now.Steps {
		if a, b := fmt.Sprintf("%+v", clear(now.Steps[i])), fmt.Sprintf("%+v", clear(then.Steps[i])); a != b {
			t.Fatalf("now  %s\nthen %s", a, b)
		}
	}
	if at := steps("at=" + url.QueryEscape(time.Now().UTC().Format(time.RFC3339Nano))); at.As.Version != last {
		t.Errorf("now is version %d, want %d", at.As.Version, last)
	}
}

// clear takes pointers out, so that steps can be compared as texts.
func clear(s api.Step) api.Step {
	s.DurationMS, s.Error, s.Until, s.Items = nil, nil, nil, nil
	return s
}

// agree checks graph and columns of a version against the counts of its steps.
func (r *rig) agree(t *testing.T, path string, v int64, counts map[string]int) {
	t.Helper()
	raw := r.do("viewer", "GET", fmt.Sprintf("%s/field?columns=status&version=%d", path, v), nil).is(200).body
	table, err := columns.Decode(raw)
	good(t, err)
	drawn := map[string]int{}
	for _, s := range table.Column("status") {
		if name := table.States[s]; name != "absent" {
			drawn[name]++
		}
	}
	if fmt.Sprint(drawn) != fmt.Sprint(counts) || table.Version != v || table.At == 0 {
		t.Errorf("version %d: columns %v of version %d at %d, steps %v", v, drawn, table.Version, table.At, counts)
	}
	var g api.Graph
	r.do("viewer", "GET", fmt.Sprintf("%s/graph?version=%d", path, v), nil).is(200).into(&g)
	failed := 0
	for i := range g.Nodes {
		failed += g.Nodes[i].States["failed"]
	}
	if g.Version != v || g.As == nil || g.As.Version != v || failed != counts["failed"] {
		t.Errorf("version %d: the graph is of version %d, %d failed, want %d", v, g.Version, failed, counts["failed"])
	}
}

// TestStepsOfThePastSelected pages, filters and refuses.
func TestStepsOfThePastSelected(t *testing.T) {
	r := newRig(t)
	x := r.finished(shapes)
	c, ctx := r.client("viewer"), t.Context()
	last := x.Progress.Total // any version from the first to the last will do
	list := api.ListSteps{ExecutionPath: api.ExecutionPath{ID: x.ID}, Limit: 7}
	list.Version = 3
	var keys []string
	for {
		page, err := c.Steps(ctx, list)
		good(t, err)
		for i := range page.Steps {
			keys = append(keys, page.Steps[i].ID)
		}
		if list.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	if seen := strings.Join(keys, " "); !strings.HasPrefix(seen, "first each group loop broken never") || strings.Count(seen, "first") != 1 {
		t.Errorf("pages: %s", seen)
	}
	one, err := c.Steps(ctx, api.ListSteps{ExecutionPath: api.ExecutionPath{ID: x.ID}, Step: "never", Moment: api.Moment{Version: 1}, Limit: 5})
	good(t, err)
	if len(one.Steps) != 1 || one.Steps[0].ID != "never" || one.Steps[0].Status != "pending" || one.Steps[0].Action != "util.log" {
		t.Errorf("one: %+v", one.Steps)
	}
	path := "/api/v1/executions/" + x.ID
	for _, of := range []string{"steps", "graph", "field"} {
		r.do("viewer", "GET", fmt.Sprintf("%s/%s?version=%d", path, of, 1000*last), nil).problem(http.StatusBadRequest, stepwell.CodeInvalid)
		r.do("viewer", "GET", path+"/"+of+"?at=2001-01-01T00:00:00Z", nil).problem(http.StatusBadRequest, stepwell.CodeInvalid)
	}
	r.do("viewer", "GET", path+"/steps?version=1&outputs=true", nil).problem(http.StatusBadRequest, stepwell.CodeInvalid)
}
