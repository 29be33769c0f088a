package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/api"
)

// executionIs waits until the only execution of a pipeline has a status.
func (h *house) executionIs(pipeline, status string) {
	h.t.Helper()
	h.until("the execution of "+pipeline+" is "+status, func() bool {
		all := h.executions(pipeline)
		return len(all) > 0 && all[0].Status == status
	})
	h.only(pipeline)
}

// TestEnvelopeControl: terminating a workflow cancels the execution, suspending and resuming it pauses and resumes it.
func TestEnvelopeControl(t *testing.T) {
	h := newHouse(t)
	h.hostStepwell()
	h.begin(h.stepwell, DefinitionWorkflow, "stopped", map[string]any{"definition": gate("stopped")})
	h.executionIs("stopped", "running")
	h.dapr(h.stepwell, http.MethodPost, "stopped/terminate", nil)
	h.executionIs("stopped", "cancelled")
	h.end(h.stepwell, "stopped", "TERMINATED")

	h.begin(h.stepwell, DefinitionWorkflow, "held", map[string]any{"definition": gate("held")})
	h.executionIs("held", "running")
	h.dapr(h.stepwell, http.MethodPost, "held/pause", nil)
	h.executionIs("held", "paused")
	h.dapr(h.stepwell, http.MethodPost, "held/resume", nil)
	h.executionIs("held", "running")
	h.open()
	if got := h.end(h.stepwell, "held", "COMPLETED"); got != `{"n":1}` {
		t.Errorf("result %s", got)
	}

	// A workflow of another app that is terminated takes its child with it.
	h.begin(h.shop, "pipeline", "buyer", map[string]any{"definition": gate("bought")})
	h.executionIs("bought", "running")
	h.dapr(h.stepwell, http.MethodPost, "buyer-child/terminate", nil)
	h.executionIs("bought", "cancelled")
	h.end(h.shop, "buyer", "FAILED")
}

// TestEnvelopeCrashes: the program, the server and the sidecar are killed while an execution runs; there is one execution, and the workflow
// ends as it does.
func TestEnvelopeCrashes(t *testing.T) {
	h := newHouse(t)
	kill := h.startProgram()
	h.begin(h.stepwell, DefinitionWorkflow, "long", map[string]any{"definition": gate("long"), "params": map[string]any{"n": 7}})
	h.executionIs("long", "running")

	kill() // the program
	kill = h.startProgram()
	h.killServer()
	h.begin(h.stepwell, DefinitionWorkflow, "early", map[string]any{"definition": gate("early")}) // while the server is away
	h.until("the workflow says that the server is unavailable", func() bool {
		_, is := h.dapr(h.stepwell, http.MethodGet, "early", nil)
		return strings.Contains(fmt.Sprint(is["properties"]), "asking again")
	})
	h.serve()
	h.executionIs("early", "running")
	h.stepwell.Stop()
	kill()
	kill = h.startProgram() // before its sidecar
	h.stepwell.Restart()

	h.open()
	h.open()
	if got := h.end(h.stepwell, "long", "COMPLETED"); got != `{"n":7}` {
		t.Errorf("result %s", got)
	}
	if got := h.end(h.stepwell, "early", "COMPLETED"); got != `{"n":1}` {
		t.Errorf("result %s", got)
	}
	h.only("long")
	h.only("early")
	kill()
}

// start starts a pipeline of one step on the server.
func (h *house) start(name, params string) string {
	h.t.Helper()
	return h.startStep(name, "dapr.workflow", params)
}

func (h *house) startStep(name, action, params string) string {
	h.t.Helper()
	var r api.ExecuteRequest
	raw, err := json.Marshal(map[string]any{"workflow_definition": "name: " + name + "\nsteps:\n  - id: w\n    action: " + action + "\n    params: " + params + "\noutputs: {got: \"{{ steps.w.outputs }}\"}\n"})
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	started, err := h.server.Execute(h.t.Context(), r, "")
	if err != nil {
		h.t.Fatal(err)
	}
	return started.ID
}

// ended waits for the end of an execution.
func (h *house) ended(id string) *api.ExecutionDetail {
	h.t.Helper()
	x, err := h.server.Wait(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return x
}

// TestWorkflowSteps: steps of a pipeline run workflows of another app and raise events for them.
func TestWorkflowSteps(t *testing.T) {
	h := newHouse(t)
	h.hostStepwell()
	if x := h.ended(h.start("asks", `{app_id: shop, name: echo, instance_id: asked, input: {a: [1, "ü"]}}`)); string(x.Result) != `{"got":{"instance_id":"asked","output":{"a":[1,"ü"]}}}` {
		t.Errorf("%s %s %+v", x.Status, x.Result, x.Error)
	}
	if x := h.ended(h.start("asks-again", `{app_id: shop, name: echo, instance_id: asked, input: {a: [1, "ü"]}}`)); x.Status != "completed" { // the one that has ended is not started again
		t.Errorf("%s %+v", x.Status, x.Error)
	}
	if x := h.ended(h.start("fails", `{app_id: shop, name: boom}`)); x.Status != "failed" || !strings.Contains(x.Error.Message, "out of stock") {
		t.Errorf("%s %+v", x.Status, x.Error)
	}

	// The server is killed while the workflow runs, and a step raises the event that it waits for.
	id := h.start("waits", `{app_id: shop, name: waits, instance_id: patient}`)
	running := func(id string) func() bool {
		return func() bool {
			_, is := h.dapr(h.shop, http.MethodGet, id+"-call", nil)
			return is["runtimeStatus"] == "RUNNING"
		}
	}
	h.until("the workflow waits", running("patient"))
	h.killServer()
	h.serve()
	if status, said := h.dapr(h.shop, http.MethodPost, "patient-call/raiseEvent/go", "now"); status != http.StatusAccepted {
		t.Fatal(status, said)
	}
	if x := h.ended(id); string(x.Result) != `{"got":{"instance_id":"patient","output":"now"}}` {
		t.Errorf("%s %s %+v", x.Status, x.Result, x.Error)
	}
	if x := h.ended(h.startStep("late", "dapr.workflow_event", `{instance_id: patient, name: go}`)); x.Status != "failed" || !strings.Contains(x.Error.Message, "has ended") {
		t.Errorf("an event for a workflow that has ended: %s %+v", x.Status, x.Error)
	}
	if x := h.ended(h.startStep("nobody", "dapr.workflow_event", `{instance_id: nobody, name: go}`)); x.Status != "failed" {
		t.Errorf("an event for nobody: %s", x.Status)
	}

	// A cancelled step terminates its workflow.
	id = h.start("given-up", `{app_id: shop, name: waits, instance_id: lonely}`)
	h.until("the workflow waits", running("lonely"))
	if _, err := h.server.Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	h.end(h.stepwell, "lonely", "TERMINATED")
	h.until("the log says that it continues", func() bool {
		l, err := h.server.Logs(t.Context(), api.ListLogs{ExecutionPath: api.ExecutionPath{ID: id}})
		return err == nil && slices.ContainsFunc(l.Logs, func(line api.LogLine) bool { return strings.Contains(line.Message, "lonely-call continues") })
	})

	// One beside the same sidecar is terminated; the program hosts no other such than its own.
	id = h.start("local", `{name: stepwell.definition, instance_id: inner, input: {definition: {name: inner, steps: [{id: gate, action: util.approval, params: {message: go}}]}}}`)
	h.executionIs("inner", "running")
	if _, err := h.server.Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	h.end(h.stepwell, "inner", "TERMINATED")
	h.executionIs("inner", "cancelled")
}
