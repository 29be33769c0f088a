package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// echoes is a pipeline that gives its parameter back.
const echoes = "name: echoes\nparameters: [{name: text, type: string}]\nsteps: [{id: s, action: util.noop}]\noutputs: {text: \"{{ params.text }}\"}\n"

// TestValuesOfSidecars: values of up to 3 MiB go through Dapr's own sidecar both ways, also those that JSON may write longer; larger ones
// fail the workflow, those of more than 4 MiB are refused by the sidecar, and later workflows run.
func TestValuesOfSidecars(t *testing.T) {
	h := newHouse(t)
	h.hostStepwell()
	if _, err := h.server.Pipelines().Create(t.Context(), pipelineDraft(t, echoes)); err != nil {
		t.Fatal(err)
	}
	order := func(text string) map[string]any {
		return map[string]any{"pipeline": "echoes", "params": map[string]any{"text": text}}
	}
	for name, text := range map[string]string{"letters": strings.Repeat("a", 200<<10), "angles": strings.Repeat("<", 200<<10)} {
		h.begin(h.stepwell, PipelineWorkflow, name, order(text))
		if got := h.end(h.stepwell, name, "COMPLETED"); len(got) != len(text)+len(`{"text":""}`) {
			t.Errorf("%s: a result of %d bytes", name, len(got))
		}
	}
	h.begin(h.stepwell, PipelineWorkflow, "large-input", order(strings.Repeat("a", maxValue)))
	if got := h.end(h.stepwell, "large-input", "FAILED"); !strings.Contains(got, "bytes, and a workflow takes at most") {
		t.Errorf("a large input: %q", got)
	}
	if status, said := h.dapr(h.stepwell, http.MethodPost, PipelineWorkflow+"/start?instanceID=larger", order(strings.Repeat("a", 4<<20))); status == http.StatusAccepted {
		t.Errorf("the sidecar takes more than 4 MiB: %v", said)
	}
	large := "name: large\nparameters: [{name: text, type: string}]\nsteps: [{id: s, action: util.noop}]\noutputs:\n"
	for i := range maxValue>>10/200 + 1 {
		large += fmt.Sprintf("  o%d: \"{{ params.text }}\"\n", i)
	}
	h.begin(h.stepwell, DefinitionWorkflow, "large-result", map[string]any{"definition": large, "params": map[string]any{"text": strings.Repeat("a", 200<<10)}})
	if got := h.end(h.stepwell, "large-result", "FAILED"); !strings.Contains(got, "a workflow returns at most") {
		t.Errorf("a large result: %q", got)
	}
	h.begin(h.stepwell, PipelineWorkflow, "after", order("well"))
	if got := h.end(h.stepwell, "after", "COMPLETED"); got != `{"text":"well"}` {
		t.Errorf("afterwards: %q", got)
	}
}

// TestTokenOfTheSidecar: a program and steps with another DAPR_API_TOKEN than the sidecar's get nothing, and go on once they have it.
func TestTokenOfTheSidecar(t *testing.T) {
	t.Setenv("DAPR_API_TOKEN", "of-the-sidecar")
	h := newHouse(t)
	t.Setenv("DAPR_API_TOKEN", "another")
	kill := h.startProgram()
	h.killServer()
	h.serve()
	id := h.start("asks", `{name: stepwell.definition, instance_id: asked, input: {definition: {name: inner, steps: [{id: s, action: util.noop}]}}}`)
	if x := h.ended(id); x.Status != "failed" || !strings.Contains(x.Error.Message, "does not accept the token of DAPR_API_TOKEN") {
		t.Errorf("a step without the token: %s %+v", x.Status, x.Error)
	}
	workers := func() (n int) {
		resp, err := h.stepwell.Do(http.MethodGet, "/v1.0/metadata", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var said struct {
			Workflows struct {
				Workers int `json:"connectedWorkers"`
			} `json:"workflows"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
			t.Fatal(err)
		}
		return said.Workflows.Workers
	}
	if workers() != 0 {
		t.Error("a program without the token is connected")
	}
	kill()
	t.Setenv("DAPR_API_TOKEN", "of-the-sidecar")
	h.startProgram()
	h.until("the program is connected", func() bool { return workers() == 1 })
	h.begin(h.stepwell, DefinitionWorkflow, "late", map[string]any{"definition": gate("late")})
	h.executionIs("late", "running")
	h.killServer()
	h.serve()
	if x := h.ended(h.start("asks-again", `{name: stepwell.definition, instance_id: asked, input: {definition: {name: inner, steps: [{id: s, action: util.noop}]}}}`)); x.Status != "completed" {
		t.Errorf("with the token: %s %+v", x.Status, x.Error)
	}
}
