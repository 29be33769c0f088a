package app_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/app"
)

// executions are those that a job or trigger has started, that have ended.
func (s *serverRig) executions(job string, n int) (ids []string) {
	s.t.Helper()
	s.until(fmt.Sprintf("execution %d of %s", n, job), func() bool {
		_, page := s.request("GET", "/api/v1/executions?status=completed,failed&job_id="+job)
		list, _ := page["executions"].([]any)
		ids = ids[:0]
		for _, x := range list {
			ids = append(ids, fmt.Sprint(x.(map[string]any)["execution_id"]))
		}
		return len(ids) >= n
	})
	return ids
}

// said are the lines that an execution has logged, joined.
func (s *serverRig) said(id string) (text string) {
	s.t.Helper()
	s.until("what "+id+" says", func() bool {
		_, page := s.request("GET", "/api/v1/executions/"+id+"/logs")
		list, _ := page["logs"].([]any)
		var lines []string
		for _, l := range list {
			lines = append(lines, fmt.Sprint(l.(map[string]any)["message"]))
		}
		text = strings.Join(lines, "\n")
		return strings.Contains(text, "told:")
	})
	return text
}

// An execution that takes longer than its pipeline promises says so, is counted, and starts what waits for that.
func TestServerTellsOfBrokenPromises(t *testing.T) {
	for promise, key := range map[string]string{"expected": "expected_seconds", "maximum": "max_seconds"} {
		g := newGate()
		s := serve(t, filepath.Join(t.TempDir(), "a.db"), g, nil)
		const tell = `"callback": {"type": "action", "action_type": "util.log", "params": {"message": "told: {{ params.event.type }} {{ params.event.data.breached }} {{ params.event.data.status }}"}}`
		s.post("/event-triggers", `{"trigger_id": "late", "event_type": "execution.breached", "filters": {"pipeline": "slow"}, `+tell+`}`)
		s.post("/event-triggers", `{"trigger_id": "over", "event_type": "execution.ended", "filters": {"pipeline": "slow", "status": ["completed"]}, `+tell+`}`)
		id := fmt.Sprint(s.post("/execute", `{"workflow_definition": {"name": "slow", "settings": {"sla": {"`+key+`": 0.05}}, "steps": [{"id": "a", "action": "test.gate"}]}}`)["execution_id"])
		s.until("the breach", func() bool {
			_, x := s.request("GET", "/api/v1/executions/"+id)
			return x["breached"] == promise && x["status"] == "running"
		})
		late := s.executions("late", 1)
		close(g.open)
		if x := s.settled(id); x["status"] != "completed" || x["breached"] != promise {
			t.Errorf("it ended as %v, breached %v", x["status"], x["breached"])
		}
		if got, want := s.said(late[0]), "told: execution.breached "+promise+" running"; got != want {
			t.Errorf("the trigger said %q, want %q", got, want)
		}
		if got, want := s.said(s.executions("over", 1)[0]), "told: execution.ended "+promise+" completed"; got != want {
			t.Errorf("the trigger said %q, want %q", got, want)
		}
		if n := s.prometheus(`stepwell_executions_breached_total{pipeline="slow",promise="` + promise + `"}`); n != "1" {
			t.Errorf("it was counted %q times", n)
		}
		s.Drain()
		s.ended()
	}
}

// A step that waits for an event ends with one that came before, and with one that comes after. While it waits, its
// execution has a place among those that have begun.
func TestServerPassesEventsOn(t *testing.T) {
	g := newGate()
	s := serve(t, filepath.Join(t.TempDir(), "a.db"), g, func(o *app.ServerOptions) { o.MaxExecutions = 1 })
	const wait = `{"workflow_definition": {"name": "waits", "steps": [{"id": "w", "action": "util.wait_for", "params": {"event": %q}}], "outputs": {"n": "{{ steps.w.outputs.n }}"}}}`

	if got := s.post("/events", `{"id": "e1", "type": "it.came", "key": "early", "data": {"n": 1}}`); got["signal"] != "kept" {
		t.Errorf("an event that nobody waits for: %v", got)
	}
	early := s.settled(fmt.Sprint(s.post("/execute", fmt.Sprintf(wait, "early"))["execution_id"]))
	if early["status"] != "completed" || fmt.Sprint(early["result"]) != "map[n:1]" {
		t.Errorf("the early event: %v %v %v", early["status"], early["result"], early["error"])
	}

	late := fmt.Sprint(s.post("/execute", fmt.Sprintf(wait, "late"))["execution_id"])
	s.until("the wait", func() bool {
		_, page := s.request("GET", "/api/v1/executions/"+late+"/steps?status=waiting")
		list, _ := page["steps"].([]any)
		return len(list) == 1
	})
	held := s.post("/execute", `{"action_type": "util.log", "params": {"message": "told: at last"}}`)
	if held["status"] != "pending" {
		t.Errorf("one execution may run and waits; another one is %v", held["status"])
	}
	if got := s.post("/events", `{"id": "e2", "type": "it.came", "key": "late", "data": {"n": 2}}`); got["signal"] != "delivered" {
		t.Errorf("an event that somebody waits for: %v", got)
	}
	if got := s.post("/events", `{"id": "e2", "type": "it.came", "key": "late", "data": {"n": 2}}`); got["signal"] != "repeated" {
		t.Errorf("the same event again: %v", got)
	}
	if x := s.settled(late); x["status"] != "completed" || fmt.Sprint(x["result"]) != "map[n:2]" {
		t.Errorf("the late event: %v %v %v", x["status"], x["result"], x["error"])
	}
	if x := s.settled(fmt.Sprint(held["execution_id"])); x["status"] != "completed" {
		t.Errorf("what was held: %v", x["status"])
	}
	s.Drain()
	s.ended()
}
