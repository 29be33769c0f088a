package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// approvalPrefix begins the signals of decisions; the execution's id, a slash and the step's key follow.
const approvalPrefix = "approval:"

// approvals are the operations on decisions that steps wait for, and on callbacks.
func (s *server) approvals() {
	handle(s, "approval.list", s.listApprovals)
	handle(s, "approval.get", s.getApproval)
	handle(s, "approval.approve", s.approve)
	handle(s, "approval.reject", s.reject)
	s.admits["callback"] = func(r *http.Request) error {
		_, err := s.o.Callbacks.Key(r.PathValue("token"))
		return err
	}
	handle(s, "callback", s.callback, anyBody("What the step ends with: {status: completed, failed or skipped, outputs: {…}, error: …}, or {outputs: {…}}; any other object is the outputs."))
}

// Approval is a decision that a step waits for (util.approval).
type Approval struct {
	ID           string   `json:"approval_id" doc:"The execution's id, a dot and the step's key."`
	Execution    string   `json:"execution_id"`
	Step         string   `json:"step_id"`
	Pipeline     string   `json:"pipeline"`
	Message      string   `json:"message" doc:"The question to the approver."`
	Approvers    []string `json:"approvers" nullable:"false" doc:"Who may decide; everybody with the role when there are none."`
	AllowComment bool     `json:"allow_comment"`
	Reject       string   `json:"reject" doc:"What a rejection does: it fails the step, or the pipeline continues."`
	Default      Ref      `json:"default" doc:"The decision when none comes in time."`
	Asked        Time     `json:"asked_at"`
	Until        Time     `json:"until"`
	epoch        uint32
	key          string
}

// ApprovalList is a page of decisions that are waited for, oldest execution first.
type ApprovalList struct {
	Approvals []Approval `json:"approvals" nullable:"false"`
	Next      string     `json:"next_cursor,omitempty"`
}

// ListApprovals selects decisions.
type ListApprovals struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (s *server) listApprovals(ctx context.Context, in *ListApprovals) (*answer[ApprovalList], error) {
	last, err := cursorOf("approvals", in.Cursor)
	if err != nil {
		return nil, err
	}
	var after *store.WaitingStep
	if last != "" {
		id, idx, _ := strings.Cut(last, "/")
		n, err := strconv.ParseInt(idx, 10, 32)
		if err != nil {
			return nil, stepwell.Invalid("use next_cursor of the previous page unchanged", "the cursor is not one of this list")
		}
		after = &store.WaitingStep{Execution: id, Step: store.Step{StepRow: engine.StepRow{Idx: int32(n)}}}
	}
	rows, err := s.o.Store.WaitingSteps(ctx, approvalPrefix, after, in.Limit+1)
	if err != nil {
		return nil, err
	}
	rows, next := page(rows, in.Limit, func(w *store.WaitingStep) string { return w.Execution + "/" + strconv.Itoa(int(w.Idx)) })
	out := ApprovalList{Approvals: []Approval{}, Next: cursorTo("approvals", next)}
	asked := map[string][]engine.Await{} // by execution
	for i := range rows {
		w := &rows[i]
		if _, known := asked[w.Execution]; !known {
			if asked[w.Execution], err = s.o.Signals.Awaiting(ctx, w.Execution); err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound && stepwell.CodeOf(err) != stepwell.CodeConflict {
				return nil, err
			}
		}
		for j := range asked[w.Execution] {
			if a := &asked[w.Execution][j]; a.Idx == w.Idx && strings.HasPrefix(a.External, approvalPrefix) {
				out.Approvals = append(out.Approvals, s.approvalOf(w.Execution, w.Pipeline, a))
			}
		}
	}
	return reply(out, nil)
}

// approvalOf reads the step's request.
func (s *server) approvalOf(execution, pipeline string, a *engine.Await) Approval {
	var q struct {
		Message      string    `json:"message"`
		Approvers    []string  `json:"approvers"`
		AllowComment bool      `json:"allow_comment"`
		Reject       string    `json:"reject"`
		Default      string    `json:"default"`
		Asked        time.Time `json:"asked"`
	}
	if err := json.Unmarshal(a.State, &q); err != nil { // left by an action of another kind
		q.Message = ""
	}
	v := Approval{ID: execution + "." + a.Key, Execution: execution, Step: a.Key, Pipeline: pipeline, Message: s.text(execution, q.Message), Approvers: q.Approvers,
		AllowComment: q.AllowComment, Reject: q.Reject, Default: Ref(q.Default), Asked: resource.At(q.Asked), Until: micro(a.Until), epoch: a.Epoch, key: a.External}
	if v.Approvers == nil {
		v.Approvers = []string{}
	}
	return v
}

// eventPrefix begins the signals of events (util.wait_for); the key of the event follows.
const eventPrefix = "event:"

// mostAnswered bounds the waiting steps that an answer to why names one by one.
const mostAnswered = 20

// endOfWait returns the reason of a step that waits for an approval or an event, with the command that ends the wait, ""
// for a step that waits for something else.
func endOfWait(execution string, a *engine.Await) string {
	if strings.HasPrefix(a.External, approvalPrefix) {
		return fmt.Sprintf("%s waits for an approval: stepwell approvals approve %s.%s", a.Key, execution, a.Key)
	}
	key, ok := strings.CutPrefix(a.External, eventPrefix)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s waits for the event %s: stepwell events send TYPE --key '%s'", a.Key, key, strings.ReplaceAll(key, "'", `'\''`))
}

// answerable gives steps that wait for an approval or an event a reason of their own, with the command that ends the
// wait. step is the one that was asked about, "" for the execution.
func (s *server) answerable(ctx context.Context, execution, step string, reasons []engine.Reason) ([]engine.Reason, error) {
	at := slices.IndexFunc(reasons, func(r engine.Reason) bool { return r.Code == engine.WhySignal })
	if at < 0 {
		return reasons, nil
	}
	awaits, err := s.o.Signals.Awaiting(ctx, execution)
	switch stepwell.CodeOf(err) {
	case stepwell.CodeNotFound, stepwell.CodeConflict: // it runs elsewhere, or has just ended
		return reasons, nil
	}
	if err != nil {
		return nil, err
	}
	rest := reasons[at].Steps
	var own []engine.Reason
	for i := range awaits {
		key := awaits[i].Key
		k := slices.Index(rest, key)
		message := endOfWait(execution, &awaits[i])
		if message == "" || k < 0 && key != step || len(own) == mostAnswered {
			continue
		}
		if k >= 0 {
			rest = slices.Delete(rest, k, k+1)
		}
		own = append(own, engine.Reason{Code: engine.WhySignal, Steps: []string{key}, Message: message})
	}
	if len(own) > 0 && len(rest) == 0 && step == "" {
		return slices.Replace(reasons, at, at+1, own...), nil
	}
	reasons[at].Steps = rest
	return slices.Insert(reasons, at+1, own...), nil
}

// ApprovalPath is the parameter of operations on one.
type ApprovalPath struct {
	ID string `path:"approval_id" maxLength:"400"`
}

// approval finds a decision that is waited for.
func (s *server) approval(ctx context.Context, id string) (*Approval, error) {
	missing := &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no step is waiting for the decision " + stepwell.Clip(id, 100), Hint: "it may have been made already; `stepwell approvals list` (GET " + prefix + "/approvals) shows those that are open"}
	execution, step, ok := strings.Cut(id, ".")
	if !ok {
		return nil, missing
	}
	x, err := s.find(ctx, execution)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = id
	if x.Status.Terminal() {
		return nil, missing
	}
	awaits, err := s.o.Signals.Awaiting(ctx, x.ID)
	if err != nil {
		return nil, err
	}
	for i := range awaits {
		if a := &awaits[i]; a.Key == step && strings.HasPrefix(a.External, approvalPrefix) {
			v := s.approvalOf(x.ID, x.Pipeline, a)
			return &v, nil
		}
	}
	return nil, missing
}

func (s *server) getApproval(ctx context.Context, in *ApprovalPath) (*answer[Approval], error) {
	a, err := s.approval(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return reply(*a, nil)
}

// DecisionRequest is the body of a decision; it may be left out.
type DecisionRequest struct {
	Comment string `json:"comment,omitempty" maxLength:"4000"`
}

// Decision is a decision that was made.
type Decision struct {
	ID       string `json:"approval_id"`
	Approved bool   `json:"approved"`
	By       string `json:"by"`
	Decided  Time   `json:"decided_at"`
}

type decideInput struct {
	ApprovalPath
	Body *DecisionRequest
}

func (s *server) approve(ctx context.Context, in *decideInput) (*answer[Decision], error) {
	return s.decide(ctx, in, true)
}

func (s *server) reject(ctx context.Context, in *decideInput) (*answer[Decision], error) {
	return s.decide(ctx, in, false)
}

// decide makes a decision. The first one counts: each wait takes one signal, told by the step's epoch.
func (s *server) decide(ctx context.Context, in *decideInput, approved bool) (*answer[Decision], error) {
	a, err := s.approval(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	p := access.Of(ctx)
	if len(a.Approvers) > 0 && p.Kind != access.KindAnonymous && !slices.Contains(a.Approvers, p.Actor()) {
		return nil, &stepwell.Error{Code: stepwell.CodeForbidden, Message: stepwell.Clip(p.Actor(), 100) + " is not among those who decide this", Hint: "they are: " + stepwell.Clip(strings.Join(a.Approvers, ", "), 300)}
	}
	comment := ""
	if in.Body != nil {
		comment = in.Body.Comment
	}
	if comment != "" && !a.AllowComment {
		return nil, stepwell.Invalid("leave the comment out", "the decision takes no comment")
	}
	now := time.Now()
	body, err := expr.Marshal(map[string]any{"status": "completed", "by": p.Actor(), "outputs": map[string]any{"approved": approved, "by": p.Actor(), "comment": comment,
		"decided_at": now.UTC().Format(resource.TimeLayout), "automatic": false}})
	if err != nil {
		return nil, err
	}
	fresh, _, err := s.o.Signals.Signal(ctx, store.Signal{Key: a.key, ID: "decision-" + strconv.FormatUint(uint64(a.epoch), 10), Body: body, At: now})
	if err == nil && !fresh {
		err = &stepwell.Error{Code: stepwell.CodeConflict, Message: "the decision has been made already"}
	}
	if err != nil {
		return nil, err
	}
	return reply(Decision{in.ID, approved, p.Actor(), resource.At(now)}, nil)
}

// CallbackAnswer is the outcome of a callback.
type CallbackAnswer struct {
	Delivered bool `json:"delivered" doc:"A step waited for it; otherwise it is kept for the step."`
	Repeated  bool `json:"repeated" doc:"It has come before."`
}

// CallbackPath is the parameter of a callback.
type CallbackPath struct {
	Token string `path:"token" maxLength:"4096"`
}

// callback ends a step from outside. The token is the authorization; it is valid for that one step.
func (s *server) callback(ctx context.Context, in *CallbackPath) (*answer[CallbackAnswer], error) {
	key, err := s.o.Callbacks.Key(in.Token)
	if err != nil {
		return nil, err
	}
	body, err := callbackBody(callOf(ctx).body)
	if err != nil {
		return nil, err
	}
	fresh, delivered, err := s.o.Signals.Signal(ctx, store.Signal{Key: key, ID: "callback", Body: body, At: time.Now()})
	if err != nil {
		return nil, err
	}
	if fresh { // the token is the caller's only identity
		c := callOf(ctx)
		c.actor = "callback"
		if of, ok := strings.CutPrefix(key, "callback:"); ok {
			execution, step, _ := strings.Cut(of, "/")
			c.object = execution
			c.note("step", stepwell.Clip(step, 300))
		}
	}
	return reply(CallbackAnswer{delivered, !fresh}, nil)
}

// callbackBody makes a signal of the request body: an object with a known status and otherwise only outputs and error,
// or with outputs alone, is taken literally; any other object is the outputs, and any other value the output body. An
// error that is not text becomes text.
func callbackBody(raw []byte) (json.RawMessage, error) {
	var v any = map[string]any{}
	if len(raw) > 0 {
		var err error
		if v, err = expr.Decode(raw); err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the body is not JSON", Err: err}
		}
	}
	object, ok := v.(map[string]any)
	if !ok {
		object = map[string]any{"body": v}
	}
	if !ours(object) {
		return expr.Marshal(map[string]any{"status": "completed", "by": "callback", "outputs": object})
	}
	signal := map[string]any{"status": "completed", "by": "callback"}
	maps.Copy(signal, object)
	if reason, given := object["error"]; given && reason != nil {
		if _, text := reason.(string); !text {
			raw, err := expr.Marshal(reason)
			if err != nil {
				return nil, err
			}
			signal["error"] = string(raw)
		}
	}
	return expr.Marshal(signal)
}

// ours reports whether an object is an answer in the API's terms, not the outputs themselves.
func ours(object map[string]any) bool {
	for name := range object {
		if !slices.Contains([]string{"status", "outputs", "error"}, name) {
			return false
		}
	}
	if _, given := object["outputs"].(map[string]any); given && len(object) == 1 {
		return true
	}
	status, _ := object["status"].(string)
	return slices.Contains([]string{"completed", "failed", "skipped"}, status)
}
