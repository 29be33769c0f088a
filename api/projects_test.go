package api_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// TestProjectOverTheClient walks through a project's life as a program does, by the typed client.
func TestProjectOverTheClient(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("admin"), t.Context()
	made, err := c.Projects().Create(ctx, api.NewProject{ID: "p"})
	good(t, err)
	if made.ID != "p" || made.By == "" {
		t.Errorf("made %+v", made)
	}
	_, err = c.Projects().Create(ctx, api.NewProject{ID: "p"})
	want(t, err, stepwell.CodeConflict)
	_, err = c.SetProjectStatus(ctx, "p", "CRAWLING")
	good(t, err)
	_, err = c.SetProjectTotal(ctx, "p", 2)
	good(t, err)
	n, err := c.CountItems(ctx, "p", api.ProcessedItems{Items: []api.ProcessedItem{{Key: "a"}, {Key: "b", Failed: true}, {Key: "a"}}})
	good(t, err)
	if n.Finished || n.Repeats != 1 || n.Done != 2 || n.Errors != 1 || n.Status != "CRAWLING" {
		t.Errorf("counted %+v", n)
	}
	p, err := c.FinishDiscovery(ctx, "p", 3)
	good(t, err)
	if p.Status != "PROCESSING" || p.Percent != 66.66 {
		t.Errorf("discovered %+v", p)
	}
	n, err = c.CountItems(ctx, "p", api.ProcessedItems{Done: 5})
	good(t, err)
	if !n.Finished || n.Percent != 100 || n.Done != 7 {
		t.Errorf("finished %+v", n)
	}
	stream := string(r.do("viewer", "GET", "/api/v1/projects/p/events", nil).is(200).body)
	if !strings.Contains(stream, "event: progress\ndata: {") || !strings.Contains(stream, "event: job.completed\ndata: {\"event_id\":\"") || !strings.Contains(stream, `"payload":{"project_id":"p","total":3,"done":7,"errors":1}`) {
		t.Errorf("the stream is %s", stream)
	}
	_, id, _ := strings.Cut(stream, "\nid: ")
	id, _, _ = strings.Cut(id, "\n")
	r.do("viewer", "GET", "/api/v1/projects/p/events", nil, "Last-Event-ID", id).is(204)
	_, err = c.CountItems(ctx, "p", api.ProcessedItems{Done: 1, Items: []api.ProcessedItem{{Key: "c"}}})
	want(t, err, stepwell.CodeInvalid)
	p, err = c.ResetProject(ctx, "p")
	good(t, err)
	if p.Status != "INITIALIZING" || p.Done != 0 {
		t.Errorf("reset %+v", p)
	}
	list, err := c.Projects().List(ctx, api.ListProjects{})
	good(t, err)
	if len(list.Items) != 1 {
		t.Errorf("list %+v", list)
	}
	good(t, c.Projects().Delete(ctx, "p", ""))
	for range 2 { // a question creates nothing
		_, err = c.ProjectProgress(ctx, "p")
		want(t, err, stepwell.CodeNotFound)
	}
	_, _, err = c.Projects().Get(ctx, "p")
	want(t, err, stepwell.CodeNotFound)
	r.do("operator", "POST", "/api/v1/execute", map[string]any{"workflow_id": "none", "project": "p"}).problem(404, stepwell.CodeNotFound)
}
