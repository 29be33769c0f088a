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
			Effect:  spec.NoEffect,
			Aliases: []string{"approval"},
			Summary: "Waits until a person approves or rejects.",
			Doc: "The wait holds no worker and survives restarts of Stepwell. The first decision counts. Without `timeout_seconds` only the step's " +
				"own timeout ends the wait.",
			Params: spec.FieldsOf[approvalParams](),
			Outputs: []spec.Field{
				{Name: "approved", Type: spec.Boolean, Doc: "The decision."},
				{Name: "by", Type: spec.String, Doc: "Who decided; empty if no person did."},
				{Name: "comment", Type: spec.String, Doc: "The approver's comment."},
				{Name: "decided_at", Type: spec.Time, Doc: "When."},
				{Name: "automatic", Type: spec.Boolean, Doc: "Whether the default was taken because no decision came in time."},
			},
			Examples: []spec.Example{{Title: "before it goes public", YAML: "id: release\naction: util.approval\ndepends_on: [build]\nparams:\n" +
				"  message: \"Publish version {{ params.version }}?\"\n  approvers: [anna, ben]\n  timeout_seconds: 86400\n  default: reject"}},
		},
		Handler: approvalHandler{now},
	}
}

type approvalHandler struct{ now func() time.Time }

func (approvalHandler) waits() {}

// question is the awaited decision, for viewers and for the default decision.
type question struct {
	Message      string    `json:"message" required:"true" minLength:"1" maxLength:"10000" doc:"The question to the approver."`
	Approvers    []string  `json:"approvers,omitempty" minLength:"1" maxItems:"1000" doc:"Names of those who may decide; everyone with the role, if none is given."`
	Default      string    `json:"default,omitempty" enum:"approve,reject" doc:"The decision when none came in time; without it the step fails then."`
	AllowComment bool      `json:"allow_comment" default:"true" doc:"Whether a decision may come with a comment."`
	Reject       string    `json:"reject" default:"fails" enum:"fails,continues" doc:"What a rejection does: it fails the step, or completes it with ´approved: false´."`
	Asked        time.Time `json:"asked" key:"-"`
}

type approvalParams struct {
	question
	Timeout float64 `json:"timeout_seconds" minimum:"0.001" maximum:"31536000" doc:"How long to wait for a decision at most."`
}

// Run implements action.Handler: it asks.
func (h approvalHandler) Run(_ context.Context, call *action.Call) (any, error) {
	now := h.now().Round(0)
	p := approvalParams{question: question{Asked: now.UTC()}}
	if err := call.Bind(&p); err != nil {
		return nil, err
	}
	q := p.question
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

// Poll implements action.Poller: the decision is overdue.
func (h approvalHandler) Poll(_ context.Context, call *action.Call) (any, error) {
	var q question
	if err := json.Unmarshal(call.State, &q); err != nil {
		return nil, action.Fail(fmt.Errorf("state of the wait: %w", err))
	}
	approved := q.Default == "approve"
	if !approved && q.Reject != "continues" {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: "rejected, because no decision came in time"})
	}
	return map[string]any{"approved": approved, "by": "", "comment": "", "decided_at": h.now().UTC().Format(stamp), "automatic": true}, nil
}
