package dapr_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/dapr"
)

// workflowAPI stands in for the workflow API of a sidecar. plugins/dapr-workflow tests the actions with a real one.
type workflowAPI struct {
	t        *testing.T
	statuses map[string]string // of instances
	said     []string          // METHOD PATH BODY
	down     bool
	registry *action.Registry
	memory   map[string]json.RawMessage
}

func newWorkflowAPI(t *testing.T) *workflowAPI {
	t.Helper()
	w := &workflowAPI{t: t, statuses: map[string]string{}, registry: &action.Registry{}, memory: map[string]json.RawMessage{}}
	if err := dapr.RegisterWorkflows(w.registry, dapr.WorkflowOptions{Port: listen(t, w), Token: "secret"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *workflowAPI) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Dapr-Api-Token") != "secret" {
		out.WriteHeader(http.StatusUnauthorized)
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/v1.0/workflows/dapr/")
	w.said = append(w.said, strings.TrimSpace(r.Method+" "+path+" "+string(body)))
	id, verb, _ := strings.Cut(path, "/")
	switch {
	case w.down:
		out.WriteHeader(http.StatusInternalServerError)
	case verb == "start":
		w.statuses[r.URL.Query().Get("instanceID")] = "RUNNING"
		out.WriteHeader(http.StatusAccepted)
	case w.statuses[id] == "":
		out.WriteHeader(http.StatusNotFound)
		fmt.Fprint(out, `{"errorCode":"ERR_INSTANCE_ID_NOT_FOUND","message":"unable to find workflow"}`)
	case verb == "terminate":
		w.statuses[id] = "TERMINATED"
		out.WriteHeader(http.StatusAccepted)
	case strings.HasPrefix(verb, "raiseEvent/"):
		out.WriteHeader(http.StatusAccepted)
	default:
		fmt.Fprintf(out, `{"instanceID":%q,"workflowName":"w","runtimeStatus":%q,"properties":{"dapr.workflow.output":"[1]","dapr.workflow.failure.error_message":"broken"}}`, id, w.statuses[id])
	}
}

func (w *workflowAPI) run(name string, c actiontest.Call) actiontest.Result {
	w.t.Helper()
	a, ok := w.registry.Lookup(name)
	if !ok {
		w.t.Fatal("no action ", name)
	}
	c.Memory = w.memory
	return actiontest.Run(w.t.Context(), *a, c)
}

// starts counts them.
func (w *workflowAPI) starts() (n int) {
	for _, s := range w.said {
		if strings.Contains(s, "/start") {
			n++
		}
	}
	return n
}

// instance is the id of the work that an attempt has made known.
func instance(t *testing.T, owned json.RawMessage) string {
	t.Helper()
	var s struct {
		ID string `json:"instance_id"`
	}
	if err := json.Unmarshal(owned, &s); err != nil || s.ID == "" {
		t.Fatalf("owned %s: %v", owned, err)
	}
	return s.ID
}

// TestWorkflow: one instance for an attempt, however often it is run, and one for each attempt of which the one before has failed.
func TestWorkflow(t *testing.T) {
	w := newWorkflowAPI(t)
	params := map[string]any{"name": "w", "input": map[string]any{"a": 1}}
	first := w.run("dapr.workflow", actiontest.Call{Params: params})
	if first.Wait == nil || !first.Wait.Resume || w.starts() != 1 {
		t.Fatalf("%+v, said %q", first, w.said)
	}
	id := instance(t, first.Owned)
	if len(id) != len("stepwell-")+32 {
		t.Errorf("the id %q", id)
	}
	again := w.run("dapr.workflow", actiontest.Call{Params: params}) // after a crash
	lost := w.run("dapr.workflow", actiontest.Call{Params: params, Attempt: 2})
	if instance(t, again.Owned) != id || instance(t, lost.Owned) != id || w.starts() != 1 {
		t.Errorf("not taken over: %q", w.said)
	}
	w.statuses[id] = "FAILED"
	failed := w.run("dapr.workflow", actiontest.Call{Params: params, State: first.Wait.State})
	if failed.Err == nil || !strings.Contains(failed.Err.Error(), "broken") || action.IsFail(failed.Err) {
		t.Errorf("failed: %v", failed.Err)
	}
	third := w.run("dapr.workflow", actiontest.Call{Params: params, Attempt: 3})
	other := instance(t, third.Owned)
	if other == id || w.starts() != 2 {
		t.Errorf("the next attempt: %q", w.said)
	}
	w.statuses[other] = "COMPLETED"
	ended := w.run("dapr.workflow", actiontest.Call{Params: params, Attempt: 3, State: third.Wait.State})
	if ended.Err != nil || fmt.Sprint(ended.Outputs["output"]) != "[1]" {
		t.Errorf("ended: %+v", ended)
	}
}

// TestWorkflowPolls: a question that fails is asked again; an instance that is gone fails the step.
func TestWorkflowPolls(t *testing.T) {
	w := newWorkflowAPI(t)
	params := map[string]any{"name": "w", "instance_id": "mine"}
	first := w.run("dapr.workflow", actiontest.Call{Params: params})
	w.down = true
	if r := w.run("dapr.workflow", actiontest.Call{Params: params, State: first.Wait.State}); r.Wait == nil {
		t.Errorf("%+v", r)
	}
	if r := w.run("dapr.workflow", actiontest.Call{Params: params}); r.Err == nil || action.IsFail(r.Err) {
		t.Errorf("a sidecar that is unavailable: %v", r.Err)
	}
	w.down = false
	delete(w.statuses, "mine")
	if r := w.run("dapr.workflow", actiontest.Call{Params: params, State: first.Wait.State}); !action.IsFail(r.Err) {
		t.Errorf("%v", r.Err)
	}
	w.statuses["mine"] = "FAILED" // an id that was given is not started again
	if r := w.run("dapr.workflow", actiontest.Call{Params: params, Attempt: 2}); !action.IsFail(r.Err) || w.starts() != 1 {
		t.Errorf("%v, said %q", r.Err, w.said)
	}
}

// TestWorkflowCancel: cancelling terminates, and bears repetition.
func TestWorkflowCancel(t *testing.T) {
	w := newWorkflowAPI(t)
	a, _ := w.registry.Lookup("dapr.workflow")
	cancel := func(id string) error {
		return actiontest.Cancel(t.Context(), *a, actiontest.Call{Params: map[string]any{"name": "w"}, State: map[string]any{"instance_id": id}})
	}
	w.statuses["mine"] = "RUNNING"
	for range 2 {
		if err := cancel("mine"); err != nil || w.statuses["mine"] != "TERMINATED" {
			t.Errorf("%v, it is %s", err, w.statuses["mine"])
		}
	}
	if err := cancel("nobody"); err != nil {
		t.Error(err)
	}
	w.down = true
	if err := cancel("mine"); err == nil || action.IsFail(err) {
		t.Errorf("a sidecar that is unavailable: %v", err)
	}
	if r := w.run("dapr.workflow_event", actiontest.Call{Params: map[string]any{"instance_id": "mine", "name": "go"}}); r.Err == nil || action.IsFail(r.Err) {
		t.Errorf("an event: %v", r.Err)
	}
}

// TestWorkflowNames: what does not go through a sidecar unchanged is refused.
func TestWorkflowNames(t *testing.T) {
	w := newWorkflowAPI(t)
	for _, name := range []string{"", "a/b", "a?b", "a#b", "%2e", "a b", "ü"} {
		if r := w.run("dapr.workflow", actiontest.Call{Params: map[string]any{"name": name}}); r.Err == nil {
			t.Errorf("the name %q is taken", name)
		}
		if r := w.run("dapr.workflow_event", actiontest.Call{Params: map[string]any{"instance_id": name, "name": "go"}}); r.Err == nil {
			t.Errorf("the instance %q is taken", name)
		}
	}
	if len(w.said) > 0 {
		t.Errorf("sent %q", w.said)
	}
	var none action.Registry
	if err := dapr.RegisterWorkflows(&none, dapr.WorkflowOptions{}); err != nil {
		t.Fatal(err)
	}
	a, _ := none.Lookup("dapr.workflow")
	if r := actiontest.Run(t.Context(), *a, actiontest.Call{Params: map[string]any{"name": "w"}}); !action.IsFail(r.Err) || !strings.Contains(r.Err.Error(), "sidecar") {
		t.Errorf("without a sidecar: %v", r.Err)
	}
}
