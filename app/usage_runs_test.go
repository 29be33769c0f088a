package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The usage of runs' steps is summed for the lesson, the project and the version, and stays when the run is restarted.
func TestUsageOfRuns(t *testing.T) {
	s := serveLessons(t, t.TempDir()+"/d.db", 2, nil)
	defer s.stop()
	s.steps.on("outline", func(context.Context, int) (any, error) {
		return map[string]any{"result": "x", "usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 10}}, nil
	})
	first, second := s.start("l0000"), s.start("l0001")
	s.shows(first.ID, "done: done done done")
	s.shows(second.ID, "done: done done done")
	if code, _ := s.do("POST", "/"+first.ID+"/restart", fmt.Sprintf(`{"step_id":"%s:2"}`, first.ID)); code != http.StatusOK {
		t.Fatal(code)
	}
	s.shows(first.ID, "done: done done done")
	pipeline, version, _ := strings.Cut(s.version, ":")
	for path, want := range map[string]string{"/projects/course": "300 30", "/lessons/l0000": "200 20", "/lessons/l0001": "100 10", "/pipelines/" + pipeline + "/versions/" + version: "300 30"} {
		s.until("the usage of "+path, func() bool {
			code, out := s.request("GET", "/api/v1"+path+"/usage")
			return code == http.StatusOK && fmt.Sprint(out["input_tokens"], " ", out["output_tokens"]) == want
		})
	}
	for _, path := range []string{"/projects/none", "/lessons/none", "/pipelines/" + pipeline + "/versions/9"} {
		if code, _ := s.request("GET", "/api/v1"+path+"/usage"); code != http.StatusNotFound {
			t.Errorf("the usage of %s: %d", path, code)
		}
	}
}
