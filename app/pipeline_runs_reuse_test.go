package app_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/project"
)

// lessonsAgain is a newer version: its third step is another.
var lessonsAgain = strings.Replace(lessonPipeline, "id: quiz, action: test.lesson", "id: quiz, action: test.lesson, timeout_seconds: 90", 1)

// reusing is a client that starts runs with reuse.
func reusing(t *testing.T, r *lessonRig) (c *client.Client, ended func(*api.PipelineRun, error) *api.PipelineRun) {
	t.Helper()
	c, err := client.New(client.Options{URL: r.URL()})
	if err != nil {
		t.Fatal(err)
	}
	return c, func(x *api.PipelineRun, err error) *api.PipelineRun {
		t.Helper()
		if err == nil {
			_, err = c.Wait(t.Context(), x.ID)
		}
		if err == nil {
			x, err = c.Run(t.Context(), x.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// origins are the statuses of a run's steps, with the runs that gave their results.
func origins(x *api.PipelineRun, names map[string]string) string {
	list := []string{x.Status + ":"}
	for i := range x.Steps {
		text := x.Steps[i].Status
		if from := string(x.Steps[i].Reused); from != "" {
			text += "(" + names[from] + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// TestPipelineRunReuse: a newer version takes over what an earlier run gave that has failed: it is shown as that run's, costs nothing
// again, and is told beforehand. It survives a server with another address.
func TestPipelineRunReuse(t *testing.T) {
	db := filepath.Join(t.TempDir(), "stepwell.db")
	r := serveLessons(t, db, 1, nil)
	c, ended := reusing(t, r)
	r.steps.on("transcribe", func(context.Context, int) (any, error) {
		return map[string]any{"result": "spoken", "usage": map[string]any{"input_tokens": 100, "output_tokens": 10}}, nil
	})
	r.steps.on("quiz", func(context.Context, int) (any, error) { return nil, action.Fail(errors.New("no quiz")) })
	first := ended(c.StartRun(t.Context(), api.StartPipelineRun{Lesson: "l0000", Version: r.version}, ""))
	if first.InputTokens != 100 || origins(first, nil) != "failed: done done failed" {
		t.Fatalf("the first run: %d tokens, %s", first.InputTokens, origins(first, nil))
	}
	r.steps.on("quiz", nil)
	names := map[string]string{first.ID: "first"}
	again := api.StartPipelineRun{Lesson: "l0000", Version: r.store(lessonsAgain), Reuse: true}
	told, err := c.PreviewRuns(t.Context(), again, 0, "")
	if err != nil || len(told.Data) != 1 || told.Next != "" {
		t.Fatalf("told beforehand: %+v, %v", told, err)
	}
	if p := told.Data[0]; string(p.From) != first.ID || p.Version != again.Version || len(p.Steps) != 3 || !p.Steps[0].Reused || !p.Steps[1].Reused || p.Steps[2].Reused ||
		p.Steps[2].Because != "its retry or timeout changed" || p.Steps[0].Name != "Transcribe" || p.Steps[0].Because != "" || p.Steps[2].Type != "test.lesson" {
		t.Errorf("told beforehand: %+v", p)
	}
	r.stop()

	steps := r.steps
	r = &lessonRig{serverRig: serve(t, db, newGate(), func(o *app.ServerOptions) { o.Register = steps.register }), steps: steps}
	defer r.stop()
	c, ended = reusing(t, r)
	second := ended(c.StartRun(t.Context(), again, "key"))
	names[second.ID] = "second"
	if got := origins(second, names); got != "done: done(first) done(first) done" {
		t.Errorf("the second run: %s", got)
	}
	if x := second.Steps[0]; second.InputTokens != 0 || x.InputTokens != 0 || x.Attempts != 0 || !x.Started.IsZero() || x.Ended.IsZero() || string(*x.Result) != `"spoken"` {
		t.Errorf("a step that was taken over: %+v, %s", x, *x.Result)
	}
	if n := steps.calls(second.ID, "transcribe") + steps.calls(second.ID, "outline"); n != 0 || steps.calls(second.ID, "quiz") != 1 {
		t.Errorf("calls: %v", steps.n)
	}
	if x, err := c.StartRun(t.Context(), again, "key"); err != nil || x.ID != second.ID {
		t.Errorf("started once more under its key: %v, %v", x, err)
	}
	list, err := c.Runs(t.Context(), api.ListPipelineRuns{})
	if err != nil || len(list.Data) != 2 || list.Data[0].Steps[0].Reused != "" {
		t.Errorf("the list: %+v, %v", list, err)
	}

	// A reused step can be restarted, and its result can be reused again.
	_, err = c.RestartRun(t.Context(), second.ID, second.ID+":2")
	if second = ended(second, err); origins(second, names) != "done: done(first) done done" || steps.calls(second.ID, "outline") != 1 {
		t.Errorf("restarted: %s", origins(second, names))
	}
	third := ended(c.StartRun(t.Context(), again, ""))
	if got := origins(third, names); got != "done: done(second) done(second) done(second)" || steps.calls(third.ID, "quiz") != 0 {
		t.Errorf("the third run: %s", got)
	}
	again.Reuse = false
	if x := ended(c.StartRun(t.Context(), again, "")); origins(x, names) != "done: done done done" || steps.calls(x.ID, "transcribe") != 1 {
		t.Errorf("without reuse: %s", origins(x, names))
	}

	// Another file is another lesson.
	again.Reuse = true
	r.lessons = project.NewLessons(project.LessonOptions{Objects: r.Store, Projects: project.New(r.Store, nil)})
	if _, err = r.lessons.SetMedia(t.Context(), "l0000", &project.Media{File: project.File{Name: "a.mp4", Type: "video/mp4", Bytes: 3, SHA256: "01"}, Ref: "@other"}); err != nil {
		t.Fatal(err)
	}
	if x := ended(c.StartRun(t.Context(), again, "")); origins(x, names) != "done: done done done" || steps.calls(x.ID, "transcribe") != 1 {
		t.Errorf("with another file: %s", origins(x, names))
	}
	for _, bad := range []api.StartPipelineRun{{Version: again.Version}, {Lesson: "nobody", Version: again.Version}, {Project: "nothing", Version: again.Version}, {Lesson: "l0000", Version: "x"}} {
		if _, err := c.PreviewRuns(t.Context(), bad, 0, ""); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("preview of %+v: %v", bad, err)
		}
	}
}

// TestPipelineRunReuseOfAProject: each lesson of a project takes over what its own earlier run gave; the project is counted as ever.
func TestPipelineRunReuseOfAProject(t *testing.T) {
	r := serveLessons(t, filepath.Join(t.TempDir(), "stepwell.db"), 5, nil)
	defer r.stop()
	c, ended := reusing(t, r)
	r.lesson("l9999", false) // without a file
	names := map[string]string{}
	for i := range 3 {
		x := ended(c.StartRun(t.Context(), api.StartPipelineRun{Lesson: fmt.Sprintf("l%04d", i), Version: r.version}, ""))
		names[x.ID] = x.Lesson.ID
	}
	all := api.StartPipelineRun{Project: "course", Version: r.store(lessonsAgain), Reuse: true}
	told, cursor := "", ""
	for {
		page, err := c.PreviewRuns(t.Context(), all, 2, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.Data {
			told += p.Lesson + " " + names[string(p.From)]
			if p.Refused != "" {
				told += "refused"
			}
			told += "; "
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if told != "l0000 l0000; l0001 l0001; l0002 l0002; l0003 ; l0004 ; l9999 refused; " {
		t.Errorf("told beforehand: %s", told)
	}
	b, err := c.StartRuns(t.Context(), all, "autumn")
	if err != nil || b.Started != 5 || b.Refused != 1 {
		t.Fatalf("started %+v, %v", b, err)
	}
	r.until("the project is done", func() bool {
		_, p := r.request("GET", "/api/v1/projects/course/progress")
		return p["status"] == "DONE" && p["done"] == float64(5)
	})
	list, err := c.Runs(t.Context(), api.ListPipelineRuns{Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Data[:5] {
		x := ended(&list.Data[i], nil)
		want := "done: done done done"
		if x.Lesson.ID < "l0003" {
			want = fmt.Sprintf("done: done(%[1]s) done(%[1]s) done", x.Lesson.ID)
		}
		if got := origins(x, names); got != want {
			t.Errorf("%s: %s, want %s", x.Lesson.ID, got, want)
		}
	}
	if b, err = c.StartRuns(t.Context(), all, "autumn"); err != nil || b.Started != 0 || b.Before != 5 {
		t.Errorf("once more: %+v, %v", b, err)
	}

}
