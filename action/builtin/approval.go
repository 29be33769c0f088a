package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// approval is long because it is a table.
func approval(now func() time.Time) action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.approval",
			Aliases: []string{"approval"},
			Summary: "Waits until somebody approves or rejects.",
			Doc: "The wait holds no worker and goes on over restarts of Stepwell. The first decision counts. Without `timeout_seconds` only the step's " +
				"own timeout ends the wait.",
			Params: []spec.Field{
				{Name: "message", Type: spec.String, Required: true, Min: ptr(1), Max: ptr(10_000), Doc: "What is asked."},
				{Name: "approvers", Type: spec.Array, Max: ptr(1000), Items: &spec.Field{Type: spec.String, Min: ptr(1)}, Doc: "Names of those who may decide; everybody with the right to, if none is given."},
				{Name: "timeout_seconds", Type: spec.Number, Min: ptr(0.001), Max: ptr(maxWait.Seconds()), Doc: "How long to wait for a decision at most."},
				{Name: "default", Type: spec.String, Enum: []string{"approve", "reject"}, Doc: "The decision when none came in time; without it the step fails then."},
				{Name: "allow_comment", Type: spec.Boolean, Default: true, Doc: "Whether a decision may come with a comment."},
				{Name: "reject", Type: spec.String, Default: "fails", Enum: []string{"fails", "continues"}, Doc: "What a rejection does: it fails the step, or completes it with `approved: false`."},
			},
			Outputs: []spec.Field{
				{Name: "approved", Type: spec.Boolean, Doc: "The decision."},
				{Name: "by", Type: spec.String, Doc: "Who decided; empty when nobody did."},
				{Name: "comment", Type: spec.String, Doc: "What they said."},
				{Name: "decided_at", Type: spec.Time, Doc: "When."},
				{Name: "automatic", Type: spec.Boolean, Doc: "Whether it is the default, because nobody decided in time."},
			},
			Examples: []spec.Example{{Title: "before it goes public", YAML: "id: release\naction: util.approval\ndepends_on: [build]\nparams:\n" +
				"  message: \"Publish version {{ params.version }}?\"\n  approvers: [anna, ben]\n  timeout_seconds: 86400\n  default: reject"}},
		},
		Handler: approvalHandler{now},
	}
}

type approvalHandler struct{ now func() time.Time }

func (approvalHandler) waits() {}

// question is what is awaited, for those who show it and for the default decision.
type question struct {
	Message      string    `json:"message"`
	Approvers    []any     `json:"approvers,omitempty"`
	AllowComment bool      `json:"allow_comment"`
	Reject       string    `json:"reject"`
	Default      string    `json:"default,omitempty"`
	Asked        time.Time `json:"asked"`
}

// Run implements action.Handler: it asks.
func (h approvalHandler) Run(_ context.Context, call *action.Call) (any, error) {
	now := h.now().Round(0)
	q := question{Asked: now.UTC()}
	q.Message, _ = call.Params["message"].(string)
	q.Approvers, _ = call.Params["approvers"].([]any)
	q.AllowComment, _ = call.Params["allow_comment"].(bool)
	q.Reject, _ = call.Params["reject"].(string)
	q.Default, _ = call.Params["default"].(string)
	state, err := json.Marshal(q)
	if err != nil {
		return nil, action.Fail(err)
	}
	wait := &action.WaitError{Until: within(now, call.Params["timeout_seconds"]), Await: true, ExternalID: approvalKey(call), State: state}
	wait.Resume = q.Default != "" && !wait.Until.IsZero()
	if q.Reject != "continues" {
		wait.Require = "approved"
	}
	return nil, wait
}

// Poll implements action.Poller: nobody has decided in time.
func (h approvalHandler) Poll(_ context.Context, call *action.Call) (any, error) {
	var q question
	if err := json.Unmarshal(call.State, &q); err != nil {
		return nil, action.Fail(fmt.Errorf("state of the wait: %w", err))
	}
	approved := q.Default == "approve"
	if !approved && q.Reject != "continues" {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: "rejected, because nobody decided in time"})
	}
	return map[string]any{"approved": approved, "by": "", "comment": "", "decided_at": h.now().UTC().Format(stamp), "automatic": true}, nil
}
