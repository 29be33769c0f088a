package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// course starts the runs of the rig's lessons, one at a time, and gives the one that has begun and those that wait. Their order in the
// queue need not be that of their turns: they were asked for at once.
func (r *lessonRig) course(began func()) (first string, others []string) {
	r.t.Helper()
	code, out := r.send("POST", "/api/v1/pipeline-runs", fmt.Sprintf(`{"project_id":"course","pipeline_version_id":%q,"window":1}`, r.version), nil)
	if code != http.StatusCreated {
		r.t.Fatalf("%d %v", code, out)
	}
	began()
	_, out = r.request("GET", "/api/v1/pipeline-runs/queue?limit=200")
	for _, x := range out["data"].([]any) {
		x := x.(map[string]any)
		if held, _ := x["state"].(map[string]any)["held"].(string); held == "" {
			first += x["id"].(string)
		} else {
			others = append(others, x["id"].(string))
		}
	}
	return first, others
}

// change asks for a change of a run, which is answered with statuses.
func (r *lessonRig) change(id, change, body, want string) *run {
	r.t.Helper()
	code, x := r.do("POST", "/"+id+"/"+change, body)
	if code != http.StatusOK || x.statuses() != want {
		r.t.Fatalf("%s: %d %s %+v, want %s", change, code, x.statuses(), x.State, want)
	}
	return x
}

// A run that waits for its turn can be paused, stopped, started, restarted and cancelled. Paused it lets the others pass.
func TestQueuedRunPauseStopStartRestart(t *testing.T) {
	const queued, paused, done = "queued: pending pending pending", "paused: pending pending pending", "done: done done done"
	s := serveLessons(t, t.TempDir()+"/d.db", 5, nil)
	defer s.stop()
	g := s.gate("outline")
	first, others := s.course(func() { <-g.began })
	second, third, fourth, fifth := others[0], others[1], others[2], others[3]
	for range 2 {
		if x := s.change(second, "pause", "{}", paused); x.State.Held != "nothing of it has run: it was paused before its turn" {
			t.Errorf("paused: %+v", x.State)
		}
	}
	s.change(third, "stop", "{}", paused)
	_, out := s.request("GET", "/api/v1/pipeline-runs/queue")
	if list := out["data"].([]any); len(list) != 3 {
		t.Errorf("the queue has %d runs", len(list))
	}
	if x := s.change(third, "restart", fmt.Sprintf(`{"step_id":"%s:2"}`, third), queued); x.State.Held != "nothing of it has run: it waits for its turn" {
		t.Errorf("restarted: %+v", x.State)
	}
	s.change(third, "restart", fmt.Sprintf(`{"step_id":"%s:1"}`, third), queued)
	if code, _ := s.do("POST", "/"+third+"/restart", fmt.Sprintf(`{"step_id":"%s:4"}`, third)); code != http.StatusUnprocessableEntity {
		t.Errorf("restart at a step that it has not: %d", code)
	}
	s.change(fourth, "pause", "{}", paused)
	if code, _ := s.request("POST", "/api/v1/executions/"+fourth+"/cancel"); code != http.StatusOK {
		t.Errorf("cancelled: %d", code)
	}
	s.shows(fourth, "failed: pending pending pending")
	s.shows(second, paused)
	s.shows(first, "running: done running pending")
	g.end <- "outline"
	s.shows(first, done)
	<-g.began // the third or the fifth
	s.shows(second, paused)
	g.end <- "outline"
	<-g.began // the other one
	s.shows(second, paused)
	s.change(second, "start", "{}", queued)
	s.change(second, "start", "{}", queued)
	g.end <- "outline"
	<-g.began
	g.end <- "outline"
	for _, id := range []string{second, third, fifth} {
		s.shows(id, done)
	}
	for _, id := range []string{second, third, fifth} {
		if n := s.steps.calls(id, "transcribe"); n != 1 {
			t.Errorf("transcribe of %s ran %d times", id, n)
		}
	}
	_, p := s.request("GET", "/api/v1/projects/course/progress")
	if text := fmt.Sprint(p["status"], p["done"], p["errors"]); !strings.HasPrefix(text, "DONE5") {
		t.Errorf("progress: %v", p)
	}
}
