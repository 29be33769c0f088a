package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

func (r *rig) search(text string) (found string, result api.SearchResult) {
	r.t.Helper()
	r.do("viewer", "GET", "/api/v1/search?q="+url.QueryEscape(text), nil).is(200).into(&result)
	var names []string
	for _, h := range result.Hits {
		names = append(names, h.Kind+" "+h.Name+" "+strings.TrimSpace(h.ID))
	}
	return strings.Join(names, "\n"), result
}

func TestSearch(t *testing.T) {
	r := newRig(t)
	store := func(document string) string {
		return r.do("editor", "POST", "/api/v1/pipelines", map[string]any{"document": document}).is(201).object()["pipeline_id"].(string)
	}
	nightly := store("name: landsat-nightly\nsteps:\n  - {id: Fetch-scenes, action: util.noop}\n  - id: both\n    steps: [{id: fetch, action: util.noop}]\n")
	store("name: other\ndescription: takes what Landsat has left\nsteps: [{id: a, action: util.noop}]\n")
	r.do("editor", "POST", "/api/v1/scheduler/jobs", map[string]any{"job_id": "job-1", "name": "Landsat at night", "schedule": map[string]any{"type": "manual"},
		"callback": map[string]any{"workflow_id": nightly}}).is(201)
	r.do("editor", "POST", "/api/v1/projects", map[string]any{"id": "p-1", "name": "Survey", "tags": "landsat, 2026"}).is(201)
	execution := r.run(greeting, map[string]any{"who": "Ann"})

	_, got := r.search("LANDSAT")
	var kinds []string
	for _, h := range got.Hits {
		kinds = append(kinds, h.Kind+":"+h.Name)
	}
	if want := "pipeline:landsat-nightly schedule:Landsat at night pipeline:other project:Survey"; strings.Join(kinds, " ") != want || got.More {
		t.Errorf("found %q, more: %t", kinds, got.More)
	}
	if found, _ := r.search("fetch"); found != "step landsat-nightly fetch\nstep landsat-nightly Fetch-scenes" {
		t.Errorf("steps: %s", found)
	}
	if found, _ := r.search(execution[:13]); found != "execution greeting "+execution {
		t.Errorf("by the beginning of its id: %q", found)
	}
	if found, _ := r.search(strings.ToUpper(execution)); found != "execution greeting "+execution {
		t.Errorf("by its id: %q", found)
	}
	if found, _ := r.search("%"); found != "" {
		t.Errorf("by a wildcard: %q", found)
	}
	r.do("viewer", "GET", "/api/v1/search", nil).problem(400, stepwell.CodeInvalid)
	r.do("", "GET", "/api/v1/search?q=a", nil).problem(401, stepwell.CodeUnauthenticated)
	r.do("editor", "PUT", "/api/v1/pipelines/other", map[string]any{"document": "name: other\nsteps: [{id: fetch-again, action: util.noop}]\n"}).is(200)
	if found, _ := r.search("fetch-a"); found != "step other fetch-again" {
		t.Errorf("a step of the newest version: %q", found)
	}
}

// TestSearchIsBounded has many more things than are shown.
func TestSearchIsBounded(t *testing.T) {
	r := newRig(t)
	var steps strings.Builder
	for i := range 500 {
		fmt.Fprintf(&steps, "  - {id: same-%03d, action: util.noop}\n", i)
	}
	r.do("editor", "POST", "/api/v1/pipelines", map[string]any{"document": "name: many\nsteps:\n" + steps.String()}).is(201)
	r.until("all steps are known", func() bool {
		_, got := r.search("same-4")
		return len(got.Hits) == 20 && got.More
	})
	if found, _ := r.search("same-499"); found != "step many same-499" {
		t.Errorf("the last one: %q", found)
	}
}
