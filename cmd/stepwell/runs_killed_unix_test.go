//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stepwell/stepwell/api"
)

const finishDocument = `name: finish
parameters: [{name: service, type: string}]
steps:
  - {id: call, action: util.http, params: {url: "{{ params.service }}/{{ project.id }}"}, retry: {max_attempts: 9, backoff_seconds: 0.1}}
`

// TestProjectFinishedOnceThoughKilled kills the server while the last run of a project ends, at another moment for each project: before,
// in and behind the commit that brings the project over its finish line. Each project is finished once, as an event trigger has it.
func TestProjectFinishedOnceThoughKilled(t *testing.T) {
	const projects, lessons = 8, 3
	c := newCrashRig(t)
	c.start()
	asked := make(chan string, 1000)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path[1:] }))
	t.Cleanup(service.Close)
	call := func(method, path string, in, out any) {
		t.Helper()
		must(t, c.client.Call(t.Context(), method, "/api/v1/"+path, nil, in, out))
	}
	call("POST", "pipelines", object{"document": finishDocument}, nil)
	call("POST", "pipelines", object{"document": "name: finished\nparameters: [{name: project_id, type: string}]\nsteps: [{id: s, action: util.noop}]\n"}, nil)
	call("POST", "event-triggers", object{"name": "t", "event_type": "job.completed", "callback": object{"type": "workflow", "workflow_id": "finished"}}, nil)
	name := func(n int) string { return fmt.Sprint("p", n) }
	for n := range projects {
		call("POST", "projects", object{"id": name(n)}, nil)
		for l := range lessons {
			call("POST", "lessons", object{"project_id": name(n), "id": fmt.Sprint(name(n), "l", l), "name": "A lesson"}, nil)
		}
	}
	for n := range projects {
		_, err := c.client.StartRuns(t.Context(), api.StartPipelineRun{Project: name(n), Pipeline: "finish", Params: api.Object{"service": service.URL}}, "all")
		must(t, err)
		for range lessons {
			for <-asked != name(n) { // a run of the project before, again
			}
		}
		if n < projects-1 { // the last one shows that what was to come has come
			time.Sleep(time.Duration(n) * 2 * time.Millisecond)
			c.kill()
			c.start()
		}
		c.until("the end of "+name(n), func() bool {
			var p struct{ Status string }
			call("GET", "projects/"+name(n)+"/progress", nil, &p)
			return p.Status == "DONE"
		})
	}
	var finished map[string]int
	c.until("job.completed of the last project", func() bool {
		var list struct {
			Executions []struct {
				ID string `json:"execution_id"`
			}
		}
		must(t, c.client.Call(t.Context(), "GET", "/api/v1/executions", url.Values{"pipeline": {"finished"}}, nil, &list))
		finished = map[string]int{}
		for _, x := range list.Executions {
			var one struct {
				Params struct {
					Project string `json:"project_id"`
				}
			}
			call("GET", "executions/"+x.ID, nil, &one)
			finished[one.Params.Project]++
		}
		return finished[name(projects-1)] > 0
	})
	for n := range projects {
		if finished[name(n)] != 1 {
			t.Errorf("job.completed of %s has started %d executions", name(n), finished[name(n)])
		}
	}
}
