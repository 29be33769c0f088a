package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// asked are the entries of the audit log about an execution, newest first.
func (s *closedServer) asked(execution string) []map[string]any {
	s.t.Helper()
	_, out := s.as("admin", "GET", "/audit?object="+execution, nil)
	var list []map[string]any
	entries, _ := out["entries"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		list = append(list, entry)
	}
	return list
}

// TestAuditThroughTriggers: whatever starts an execution, its entry in the audit log tells who or what asked, which
// trigger it went through, and who wrote that.
func TestAuditThroughTriggers(t *testing.T) {
	s := serveClosed(t, nil)
	s.stored("admin", map[string]any{"name": "work", "steps": []any{map[string]any{"id": "a", "action": "util.noop"}}})
	for _, made := range []struct {
		role, path string
		body       map[string]any
	}{
		{"editor", "/scheduler/jobs", map[string]any{"job_id": "often", "name": "often", "max_runs": 1, "schedule": map[string]any{"type": "interval", "expression": "1s"}, "callback": map[string]any{"workflow_id": "work"}}},
		{"editor", "/scheduler/jobs", map[string]any{"job_id": "hand", "name": "hand", "schedule": map[string]any{"type": "manual"}, "callback": map[string]any{"workflow_id": "work"}}},
		{"admin", "/scheduler/jobs", map[string]any{"job_id": "next", "name": "next", "schedule": map[string]any{"type": "after", "after": map[string]any{"job_id": "often"}}, "callback": map[string]any{"workflow_id": "work"}}},
		{"admin", "/webhooks", map[string]any{"webhook_id": "hook", "name": "hook", "secret": "correct-horse-battery", "job_id": "hand", "params": map[string]any{"a": 1}}},
		{"editor", "/event-triggers", map[string]any{"trigger_id": "on", "name": "on", "event_type": "go", "callback": map[string]any{"workflow_id": "work"}}},
		{"admin", "/event-triggers", map[string]any{"trigger_id": "over", "name": "over", "event_type": "go", "job_id": "hand"}},
	} {
		if code, out := s.as(made.role, "POST", made.path, made.body); code > 299 {
			t.Fatal(made, code, out)
		}
	}
	want := func(what, execution string, parts ...string) {
		t.Helper()
		if execution == "" || execution == "<nil>" {
			t.Errorf("%s started nothing", what)
			return
		}
		var seen string
		s.until("the entry of "+what, func() bool { seen = fmt.Sprint(s.asked(execution)); return strings.Contains(seen, "actor:") })
		for _, part := range parts {
			if !strings.Contains(seen, part) {
				t.Errorf("%s: the audit log lacks %q: %s", what, part, seen)
			}
		}
		if n := len(s.asked(execution)); n != 1 {
			t.Errorf("%s has %d entries", what, n)
		}
	}
	last := func(job string) string {
		_, out := s.as("viewer", "GET", "/scheduler/jobs/"+job, nil)
		return fmt.Sprint(out["last_execution_id"])
	}

	_, out := s.as("operator", "POST", "/scheduler/jobs/hand/trigger", map[string]any{})
	want("a job by hand", fmt.Sprint(out["execution_id"]), "actor:operator", "trigger:hand", "written_by:[editor]")
	_, out = s.as("operator", "POST", "/execute", map[string]any{"job_id": "hand", "triggered_by": "bob"})
	want("a job by its id", fmt.Sprint(out["execution_id"]), "actor:operator", "triggered_by:bob", "written_by:[editor]")
	_, out = s.send("POST", "/api/v1/webhooks/hook/trigger", "{}", http.Header{"X-Webhook-Secret": {"correct-horse-battery"}})
	want("a webhook", fmt.Sprint(out["execution_id"]), "actor:webhook:hook", "remote:127.0.0.1", "trigger:hand", "written_by:[editor admin]")
	_, out = s.as("operator", "POST", "/events", map[string]any{"type": "go", "id": "1"})
	started, _ := out["started"].([]any)
	if len(started) != 2 {
		t.Fatal(out)
	}
	for _, e := range started {
		x, _ := e.(map[string]any)
		authors := map[string]string{"on": "written_by:[editor]", "over": "written_by:[editor admin]"}[fmt.Sprint(x["trigger_id"])]
		want("an event", fmt.Sprint(x["execution_id"]), "action:execution.start", "actor:event:"+fmt.Sprint(x["trigger_id"]), "asked_by:operator", authors)
	}
	s.until("the schedule", func() bool { return last("next") != "<nil>" })
	want("a schedule", last("often"), "action:execution.start", "actor:schedule:often", "role:", "trigger:often", "written_by:[editor]")
	want("a job after another", last("next"), "actor:schedule:next", "because_of:"+last("often"), "written_by:[admin]")

	// A change of what a trigger starts makes the caller its author; the entry says what it starts.
	if code, out := s.as("admin", "PUT", "/scheduler/jobs/hand", map[string]any{"callback": map[string]any{"action_type": "util.log", "params": map[string]any{"message": "hello"}}}); code > 299 {
		t.Fatal(code, out)
	}
	_, out = s.as("operator", "POST", "/scheduler/jobs/hand/trigger", map[string]any{})
	want("a changed job", fmt.Sprint(out["execution_id"]), "written_by:[admin]")
	s.until("the entry of the change", func() bool {
		_, out = s.as("admin", "GET", "/audit?action=schedule.update", nil)
		return strings.Contains(fmt.Sprint(out), "starts:util.log")
	})
}

// TestAuditOfPolicy: the entry of a change says what the policy has become, what has changed, and of which text the sum is.
func TestAuditOfPolicy(t *testing.T) {
	s := serveClosed(t, nil)
	s.policy(map[string]any{"roles": map[string]any{"editor": map[string]any{"deny": []any{"util.exec", "internal.*"}}}})
	s.policy(map[string]any{"roles": map[string]any{"editor": map[string]any{"deny": []any{"util.exec"}}}, "pipelines": map[string]any{"night-*": map[string]any{"allow": []any{"util.*"}}}})
	entries := func(n int) []any {
		t.Helper()
		var list []any
		s.until("the entries", func() bool {
			_, out := s.as("admin", "GET", "/audit?action=policy.set", nil)
			list, _ = out["entries"].([]any)
			return len(list) == n
		})
		return list
	}
	seen := fmt.Sprint(entries(2)[0])
	for _, part := range []string{"changes:[- roles.editor.deny internal.* + pipelines.night-*.allow util.*]", "policy:map[pipelines:map[night-*:map[allow:[util.*]]] roles:map[editor:map[deny:[util.exec]]]]", "sha256:", "revision:2"} {
		if !strings.Contains(seen, part) {
			t.Errorf("the entry lacks %q: %s", part, seen)
		}
	}
	many := make([]any, 900)
	for i := range many {
		many[i] = fmt.Sprintf("action.%030d", i)
	}
	s.policy(map[string]any{"actions": map[string]any{"deny": many}})
	entry := fmt.Sprint(entries(3)[0])
	if strings.Contains(entry, "policy:map") || !strings.Contains(entry, "more_changes:") || !strings.Contains(entry, "sha256:") || len(entry) > 32<<10 {
		t.Errorf("a large policy: %d bytes: %.300s", len(entry), entry)
	}
}
