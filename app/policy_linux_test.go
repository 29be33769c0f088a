package app_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/app"
)

// allow sets the policy as an admin.
func (s *closedServer) policy(policy map[string]any) {
	s.t.Helper()
	if code, out := s.as("admin", "PUT", "/policy", policy); code != 200 {
		s.t.Fatal(code, out)
	}
}

// stored stores a pipeline as somebody of a role.
func (s *closedServer) stored(role string, document map[string]any) string {
	s.t.Helper()
	code, out := s.as(role, "POST", "/pipelines", map[string]any{"document": document})
	if code != 201 {
		s.t.Fatal(code, out)
	}
	return fmt.Sprint(out["pipeline_id"])
}

// touching is a pipeline whose only step makes a file, by which it is seen to have run.
func touching(name, file string) map[string]any {
	return map[string]any{"name": name, "steps": []any{map[string]any{"id": "touch", "action": "util.exec", "params": map[string]any{"command": []any{"touch", "free/" + file}}}}}
}

var noCommands = map[string]any{"roles": map[string]any{"editor": map[string]any{"deny": []any{"util.exec"}}}}

func touched(file string) bool {
	_, err := os.Stat("free/" + file)
	return err == nil
}

// newPolicyServer is one where commands can make files in the folder free.
func newPolicyServer(t *testing.T, change func(*app.ServerOptions)) *closedServer {
	t.Helper()
	if _, err := (&app.Options{Data: t.TempDir()}).Sandbox(); err != nil {
		t.Skipf("commands are refused here: %v", err)
	}
	s := serveClosed(t, change)
	if err := os.Mkdir("free", 0o777); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPolicyHoldsThroughEverything: what an editor stored before the policy changed does not run afterwards, whoever
// starts it and however; what an admin stored does.
func TestPolicyHoldsThroughEverything(t *testing.T) {
	s := newPolicyServer(t, nil)
	mine := s.stored("editor", touching("mine", "mine"))
	s.stored("editor", map[string]any{"name": "outer", "steps": []any{map[string]any{"id": "in", "pipeline": "mine"}}})
	s.stored("admin", map[string]any{"name": "lent", "steps": []any{map[string]any{"id": "in", "pipeline": "mine"}}})
	s.stored("admin", touching("chief", "chief"))
	s.stored("editor", map[string]any{"name": "borrower", "steps": []any{map[string]any{"id": "in", "pipeline": "chief"}}})
	s.stored("editor", map[string]any{"name": "looped", "steps": []any{map[string]any{"id": "l", "action": "while", "params": map[string]any{
		"action": "util.exec", "action_params": map[string]any{"command": []any{"touch", "free/looped"}}, "condition": "{{ false }}", "max_iterations": 1}}}})
	s.stored("editor", map[string]any{"name": "gated", "steps": []any{
		map[string]any{"id": "first", "action": "util.exec", "params": map[string]any{"command": []any{"test", "-e", "free/go"}}},
		map[string]any{"id": "touch", "action": "util.exec", "depends_on": []any{"first"}, "params": map[string]any{"command": []any{"touch", "free/gated"}}}}})
	for _, made := range []struct {
		path string
		body map[string]any
	}{
		{"/scheduler/jobs", map[string]any{"job_id": "by-job", "name": "by-job", "schedule": map[string]any{"type": "manual"}, "callback": map[string]any{"workflow_id": "mine"}}},
		{"/scheduler/jobs", map[string]any{"job_id": "alone", "name": "alone", "schedule": map[string]any{"type": "manual"},
			"callback": map[string]any{"action_type": "util.exec", "params": map[string]any{"command": []any{"touch", "free/alone"}}}}},
		{"/webhooks", map[string]any{"webhook_id": "hook", "name": "hook", "secret": "correct-horse-battery", "callback": map[string]any{"action_type": "util.exec", "params": map[string]any{"command": []any{"touch", "free/hook"}}}}},
		{"/event-triggers", map[string]any{"trigger_id": "on", "name": "on", "event_type": "go", "callback": map[string]any{"workflow_id": "mine"}}},
	} {
		if code, out := s.as("editor", "POST", made.path, made.body); code > 299 {
			t.Fatal(made, code, out)
		}
	}
	_, failed := s.as("editor", "POST", "/execute", map[string]any{"workflow_id": "gated"})
	before := fmt.Sprint(failed["execution_id"])
	if status, seen := s.result(before); status != "failed" {
		t.Fatal(status, seen)
	}
	s.policy(noCommands)

	refused := func(what string, code int, out map[string]any) {
		t.Helper()
		if code != http.StatusForbidden || out["code"] != "denied" || !strings.Contains(fmt.Sprint(out["message"]), `roles.editor.deny "util.exec"`) {
			t.Errorf("%s: %d %v", what, code, out)
		}
	}
	for _, name := range []string{"mine", "outer", "lent", "looped"} {
		for _, role := range []string{"operator", "admin"} {
			code, out := s.as(role, "POST", "/execute", map[string]any{"workflow_id": name})
			refused(name+" by "+role, code, out)
		}
	}
	code, out := s.as("operator", "POST", "/execute", map[string]any{"workflow_id": mine, "workflow_version": 1})
	refused("a version", code, out)
	for _, job := range []string{"by-job", "alone"} {
		code, out := s.as("operator", "POST", "/scheduler/jobs/"+job+"/trigger", map[string]any{})
		refused(job, code, out)
	}
	code, out = s.as("editor", "POST", "/execute", map[string]any{"action_type": "util.exec", "params": map[string]any{"command": "id"}})
	refused("an action", code, out)
	code, out = s.as("editor", "POST", "/execute", map[string]any{"workflow_definition": touching("inline", "inline")})
	refused("a definition", code, out)
	code, out = s.as("editor", "POST", "/pipelines", map[string]any{"document": touching("new", "new")})
	refused("storing", code, out)
	code, out = s.as("editor", "POST", "/scheduler/jobs", map[string]any{"job_id": "late", "name": "late", "schedule": map[string]any{"type": "manual"}, "callback": map[string]any{"action_type": "util.exec", "params": map[string]any{"command": "id"}}})
	refused("scheduling", code, out)
	code, out = s.send("POST", "/api/v1/webhooks/hook/trigger", "{}", http.Header{"X-Webhook-Secret": {"correct-horse-battery"}})
	if code < 400 {
		t.Errorf("the webhook: %d %v", code, out)
	}
	s.as("operator", "POST", "/events", map[string]any{"type": "go", "id": "1"})

	// A retry runs what was written then, on the authority of then, under the policy of now.
	if err := os.WriteFile("free/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out = s.as("admin", "POST", "/executions/"+before+"/retry", map[string]any{})
	if code != http.StatusCreated {
		t.Fatal(code, out)
	}
	if status, seen := s.result(fmt.Sprint(out["execution_id"])); status != "failed" || !strings.Contains(seen, `roles.editor.deny "util.exec"`) {
		t.Errorf("the retry: %s %s", status, seen)
	}
	for _, name := range []string{"chief", "borrower"} { // an admin's pipeline may, also when an editor's calls it
		if status, seen := s.run("operator", map[string]any{"workflow_id": name}); status != "completed" {
			t.Errorf("%s: %s %s", name, status, seen)
		}
	}
	if !touched("chief") {
		t.Error("the admin's command has not run")
	}
	for _, file := range []string{"mine", "looped", "gated", "alone", "hook", "inline", "new"} {
		if touched(file) {
			t.Errorf("%s has run", file)
		}
	}
	_, audit := s.as("admin", "GET", "/audit?action=policy.set", nil)
	if entries, _ := audit["entries"].([]any); len(entries) != 1 || !strings.Contains(fmt.Sprint(entries[0]), "actor:admin") {
		t.Errorf("the audit log says %v", audit)
	}
}

// TestPolicyStopsWhatWaits: a step that was allowed when its execution began is refused when its turn comes.
func TestPolicyStopsWhatWaits(t *testing.T) {
	s := newPolicyServer(t, nil)
	s.stored("editor", map[string]any{"name": "waiting", "steps": []any{
		map[string]any{"id": "ask", "action": "util.approval", "params": map[string]any{"message": "continue?"}},
		map[string]any{"id": "touch", "action": "util.exec", "depends_on": []any{"ask"}, "params": map[string]any{"command": []any{"touch", "free/waited"}}}}})
	_, out := s.as("operator", "POST", "/execute", map[string]any{"workflow_id": "waiting"})
	id, question := fmt.Sprint(out["execution_id"]), ""
	s.until("the question", func() bool {
		_, list := s.as("viewer", "GET", "/approvals", nil)
		if waiting, _ := list["approvals"].([]any); len(waiting) > 0 {
			question = fmt.Sprint(waiting[0].(map[string]any)["approval_id"])
		}
		return question != ""
	})
	s.policy(noCommands)
	if code, out := s.as("operator", "POST", "/approvals/"+question+"/approve", map[string]any{}); code > 299 {
		t.Fatal(code, out)
	}
	status, seen := s.result(id)
	if status != "failed" || !strings.Contains(seen, "denied") || !strings.Contains(seen, `roles.editor.deny "util.exec"`) || touched("waited") {
		t.Errorf("%s %s", status, seen)
	}
}

// TestPolicyOfSettings: what the settings do not allow, no admin can allow.
func TestPolicyOfSettings(t *testing.T) {
	s := newPolicyServer(t, func(o *app.ServerOptions) {
		o.Access.Policy = access.Policy{Actions: access.Rule{Deny: []string{"util.exec"}}}
	})
	s.policy(map[string]any{"actions": map[string]any{"allow": []any{"*"}}})
	code, out := s.as("admin", "POST", "/execute", map[string]any{"action_type": "util.exec", "params": map[string]any{"command": "id"}})
	if code != http.StatusForbidden || !strings.Contains(fmt.Sprint(out), `actions.deny`) {
		t.Errorf("%d %v", code, out)
	}
	for role, want := range map[string]int{"editor": 403, "operator": 403, "viewer": 403} {
		if code, _ := s.as(role, "PUT", "/policy", map[string]any{}); code != want {
			t.Errorf("%s may change the policy: %d", role, code)
		}
	}
	if code, out := s.as("admin", "PUT", "/policy", map[string]any{"roles": map[string]any{"operator": map[string]any{}}}); code != 400 {
		t.Errorf("%d %v", code, out)
	}
}
