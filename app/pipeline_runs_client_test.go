package app_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
)

// TestRunsByTheClient: the client of Go programs starts, shows, changes and lists runs.
func TestRunsByTheClient(t *testing.T) {
	r := serveLessons(t, filepath.Join(t.TempDir(), "stepwell.db"), 2, nil)
	defer r.stop()
	c, err := client.New(client.Options{URL: r.URL()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var calls atomic.Int32
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ended := func(id, status string) *api.PipelineRun {
		t.Helper()
		_, err := c.Wait(ctx, id)
		must(err)
		x, err := c.Run(ctx, id)
		must(err)
		if x.Status != status {
			t.Fatalf("the run is %+v, want %s", x, status)
		}
		return x
	}
	r.steps.on("outline", func(context.Context, int) (any, error) {
		if calls.Add(1) == 1 {
			return nil, errors.New("out of ink")
		}
		return map[string]any{"result": "better"}, nil
	})
	x, err := c.StartRun(ctx, api.StartPipelineRun{Lesson: "l0000", Version: r.version}, "one")
	must(err)
	again, err := c.StartRun(ctx, api.StartPipelineRun{Lesson: "l0000", Version: r.version}, "one")
	must(err)
	if again.ID != x.ID || x.Version.ID != r.version || len(x.Steps) != 3 {
		t.Errorf("started %+v, and again %+v", x, again)
	}
	if x = ended(x.ID, "failed"); x.Steps[1].Error == nil || x.Steps[1].Error.Message != "out of ink" {
		t.Errorf("failed: %+v", x.Steps[1])
	}
	_, err = c.ResumeRun(ctx, x.ID)
	must(err)
	if x = ended(x.ID, "done"); string(*x.Steps[1].Result) != `"better"` {
		t.Errorf("done: %+v", x.Steps[1])
	}
	_, err = c.RestartRun(ctx, x.ID, x.Steps[2].ID)
	must(err)
	ended(x.ID, "done")
	if _, err = c.RestartRun(ctx, x.ID, "another:1"); err == nil {
		t.Error("the step of another run was restarted")
	}
	all, err := c.StartRuns(ctx, api.StartPipelineRun{Project: "course", Version: r.version}, "all")
	must(err)
	if all.Started != 2 {
		t.Errorf("started %+v", all)
	}
	list, err := c.Runs(ctx, api.ListPipelineRuns{Limit: 2})
	must(err)
	if len(list.Data) != 2 || list.Next == "" {
		t.Errorf("listed %+v", list)
	}
	for _, one := range list.Data {
		ended(one.ID, "done")
	}
	if queue, err := c.RunQueue(ctx, 10, ""); err != nil || len(queue.Data) != 0 {
		t.Errorf("queued: %+v, %v", queue, err)
	}
	for _, change := range []func(context.Context, string) (*api.PipelineRun, error){c.PauseRun, c.StopRun, c.Run} {
		if _, err := change(ctx, "01890a5d-ac96-774b-bcce-b302099a8057"); stepwell.CodeOf(err) != stepwell.CodeNotFound {
			t.Errorf("error %v", err)
		}
	}
}
