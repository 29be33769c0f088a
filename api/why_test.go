package api_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// TestWhyAt asks at every version of a failed execution why the step behind the failed one is as it is.
func TestWhyAt(t *testing.T) {
	r := newRig(t)
	id := r.run(failing, nil)
	path := "/api/v1/executions/" + id
	var history api.HistoryList
	r.do("viewer", "GET", path+"/history", nil).is(200).into(&history)
	last := history.Events[len(history.Events)-1]
	why := func(query string) (code string, version int64) {
		t.Helper()
		var got api.WhyAnswer
		r.do("viewer", "GET", path+"/why?step_id=bad&"+query, nil).is(200).into(&got)
		return got.Reasons[0].Code, got.Version
	}
	var seen []string
	for v := int64(1); v <= last.Version; v++ {
		code, version := why(fmt.Sprint("version=", v))
		if version != v {
			t.Errorf("asked for version %d, got %d", v, version)
		}
		if len(seen) == 0 || seen[len(seen)-1] != code {
			seen = append(seen, code)
		}
	}
	if seen[0] != "dependencies" || seen[len(seen)-1] != "failed" {
		t.Errorf("over time: %v", seen)
	}
	if code, version := why("at=" + url.QueryEscape(time.Now().UTC().Format(time.RFC3339Nano))); code != "failed" || version != last.Version {
		t.Errorf("now: %s, version %d", code, version)
	}
	first := history.Events[0].At.Time
	for at, before := first, int64(1); !at.After(last.At.Time); at = at.Add(last.At.Sub(first)/20 + time.Millisecond) {
		code, version := why("at=" + url.QueryEscape(at.UTC().Format(time.RFC3339Nano)))
		if want, _ := why(fmt.Sprint("version=", version)); code != want || version < before {
			t.Errorf("at %s: %s of version %d after %d, want %s", at, code, version, before, want)
		}
		before = version
	}
	// What is inside of a step that has ended is explained by its row, now and then.
	id = r.run(`{name: inside, steps: [{id: each, for_each: {items: 2, max_failures: 2}, steps: [{id: in, action: util.fail, params: {message: no}, condition: "{{ index > 0 }}"}]}]}`, nil)
	inside := "/api/v1/executions/" + id
	r.do("viewer", "GET", inside+"/history", nil).is(200).into(&history)
	for step, want := range map[string]string{"each[0].in": "condition", "each[1].in": "failed", "each[1]": "failed", "each": "completed"} {
		for _, when := range []string{"", fmt.Sprint("&version=", history.Events[len(history.Events)-1].Version)} {
			var got api.WhyAnswer
			r.do("viewer", "GET", inside+"/why?step_id="+url.QueryEscape(step)+when, nil).is(200).into(&got)
			if len(got.Reasons) == 0 || got.Reasons[0].Code != want {
				t.Errorf("%s%s: %+v, want %s", step, when, got.Reasons, want)
			}
		}
	}
	r.do("viewer", "GET", inside+"/why?step_id=nix", nil).problem(404, stepwell.CodeNotFound)
	r.do("viewer", "GET", path+"/why?at="+url.QueryEscape(first.Add(-time.Hour).Format(time.RFC3339Nano)), nil).problem(400, stepwell.CodeInvalid)
	r.do("viewer", "GET", fmt.Sprintf("%s/why?version=%d", path, last.Version+1), nil).problem(400, stepwell.CodeInvalid)
}
