package mcpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/rehearsal"
)

// Confirming is the token of the second call.
type Confirming struct {
	Confirm string `json:"confirm,omitempty" maxLength:"100" doc:"The token that the first call with these arguments has given. Leave it out to see what would happen."`
}

// would is what a start would run.
type would struct {
	Pipeline string            `json:"pipeline"`
	Version  int               `json:"version,omitempty"`
	Steps    []string          `json:"would_run"`
	Effects  map[string]string `json:"effects"`
	Estimate *api.PlanEstimate `json:"estimate,omitempty"`
}

// foresee says what a definition would run. CodeInvalid: it cannot be run with these parameters.
func (k *call) foresee(ctx context.Context, text string, params map[string]any) (*would, error) {
	if params == nil {
		params = map[string]any{}
	}
	p, err := k.PlanPipeline(ctx, api.Document(text), params)
	if err != nil {
		return nil, err
	}
	if !p.Valid || p.Graph == nil {
		var wrong []string
		for _, d := range p.Problems {
			if !d.Warning {
				wrong = append(wrong, strings.TrimPrefix(d.Path+": "+d.Message, ": "))
			}
		}
		return nil, stepwell.Invalid("validate tells all that is wrong", "it cannot be started: %s", stepwell.Clip(strings.Join(wrong, "; "), 1000))
	}
	actions, err := k.Actions(ctx)
	if err != nil {
		return nil, err
	}
	twice := map[string]bool{}
	for _, a := range actions.Actions {
		for _, name := range append(a.Aliases, a.Type) {
			twice[name] = a.Idempotent
		}
	}
	out := &would{Pipeline: p.Name, Steps: []string{}, Effects: map[string]string{}, Estimate: p.Estimate}
	for _, n := range p.Graph.Nodes {
		id := n.ID
		if n.Kind == "for_each" {
			id += "[*]"
		}
		out.Steps = append(out.Steps, id)
		if may, known := twice[n.Action]; known && !may {
			out.Effects[n.ID] = "must not run twice"
		}
	}
	return out, nil
}

type startArgs struct {
	Subject
	Params api.Object `json:"params,omitempty" doc:"Values of the pipeline's parameters."`
	Confirming
}

func (k *call) start(ctx context.Context, a *startArgs) (*reply, error) {
	who, err := k.permitted(ctx)
	if err != nil {
		return nil, err
	}
	request, bound, err := k.startOf(ctx, a)
	if err != nil {
		return nil, err
	}
	shown, err := k.foresee(ctx, bound.document, a.Params)
	if err != nil {
		return nil, err
	}
	others, err := k.together(ctx, bound.document)
	if err != nil {
		return nil, err
	}
	shown.Version = request.Version
	return k.decide(ctx, who, a.Confirm, []any{a.Subject, a.Params}, &intent{shown: shown, bound: []any{request.Workflow, bound.tag, bound.version, shown.Steps, shown.Effects, others},
		title: fmt.Sprintf("an execution of %s version %d with %s", shown.Pipeline, shown.Version, openParams(bound.document, a.Params)),
		act:   func(ctx context.Context, token string) (any, error) { return k.Execute(ctx, *request, token) }})
}

// openParams are params for a person to read, without those that are secret.
func openParams(document string, params api.Object) string {
	shown := make(map[string]any, len(params))
	d, _ := definition.Parse([]byte(document), definition.ParseOptions{Sent: true})
	for name, v := range params {
		shown[name] = "***"
		if d != nil && slices.ContainsFunc(d.Parameters, func(p definition.Parameter) bool { return p.Name == name && !p.Secret }) {
			shown[name] = v
		}
	}
	return stepwell.Clip(string(raw(shown)), 1000)
}

// startOf is the request of a start, of a version that stays the one, and what it is about.
func (k *call) startOf(ctx context.Context, a *startArgs) (*api.ExecuteRequest, *stored, error) {
	text, err := k.text(ctx, a.Subject)
	if err != nil {
		return nil, nil, err
	}
	if a.Document != "" {
		return &api.ExecuteRequest{Params: a.Params, Definition: api.Document(text)}, &stored{document: text}, k.allowed(ctx, text, true)
	}
	s, err := k.stored(ctx, a.Pipeline, a.Version)
	if err != nil {
		return nil, nil, err
	}
	return &api.ExecuteRequest{Params: a.Params, Workflow: s.ID, Version: s.version}, s, nil
}

// allowed refuses a definition that an agent has written for the actions that it uses: of what is run at once (inline) all must be
// listed in mcp.actions; of what is stored, those that only an admin's steps may use.
func (k *call) allowed(ctx context.Context, text string, inline bool) error {
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{Sent: true})
	if d == nil || problems.Err() != nil {
		return stepwell.Invalid("validate tells all that is wrong", "the definition cannot be read")
	}
	if inline && len(k.o.Actions) == 0 {
		return stepwell.Errorf(stepwell.CodeForbidden, "store it with write_pipeline; an admin may list actions under mcp.actions", "definitions that are not stored are not run here")
	}
	for _, name := range pipeline.Uses(d) {
		if strings.Contains(name, "{{") { // it would be known only when it runs
			return stepwell.Errorf(stepwell.CodeForbidden, "name the action", "agents write no steps whose action a template gives: %s", stepwell.Clip(name, 100))
		}
		about, err := k.Action(ctx, name)
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			about, err = k.Module(ctx, name)
		}
		if stepwell.CodeOf(err) == stepwell.CodeNotFound && !inline {
			continue // a draft; it cannot run
		}
		if err != nil {
			return err
		}
		reserved := about.Reserved || about.Type == "util.exec"
		if (inline || reserved) && !k.listed(about.Type, reserved) {
			return stepwell.Errorf(stepwell.CodeForbidden, "leave the step out; an admin may list the action under mcp.actions", "agents write no steps of %s here", about.Type)
		}
	}
	return nil
}

// listed reports whether mcp.actions has an action; reserved ones only by their whole name.
func (k *call) listed(name string, reserved bool) bool {
	for _, one := range k.o.Actions {
		beginning, open := strings.CutSuffix(one, "*")
		if one == name || open && !reserved && strings.HasPrefix(name, beginning) {
			return true
		}
	}
	return false
}

type retryArgs struct {
	Execution string `json:"execution" minLength:"1" maxLength:"36" doc:"Its id, or the beginning of it."`
	From      string `json:"from,omitempty" maxLength:"300" doc:"A step at top level that is repeated whole, with all after it, besides what did not complete."`
	Confirming
}

func (k *call) retry(ctx context.Context, a *retryArgs) (*reply, error) {
	who, err := k.permitted(ctx)
	if err != nil {
		return nil, err
	}
	x, err := k.Execution(ctx, a.Execution)
	if err != nil {
		return nil, err
	}
	preview, err := k.PreviewRetry(ctx, x.ID, a.From)
	if err != nil {
		return nil, err
	}
	return k.decide(ctx, who, a.Confirm, []any{x.ID, a.From}, &intent{shown: onExecution{x.ID, x.Pipeline, x.Status, preview}, bound: []any{x.Status, preview}, title: "a retry of the execution " + x.ID + " of " + x.Pipeline + strings.TrimSuffix(" from the step "+a.From, " from the step "),
		act: func(ctx context.Context, token string) (any, error) { return k.Retry(ctx, x.ID, a.From, token) }})
}

// onExecution is what would happen to an execution.
type onExecution struct {
	ID       string             `json:"execution_id"`
	Pipeline string             `json:"pipeline"`
	Status   string             `json:"status"`
	Preview  *api.PreviewAnswer `json:"would_run,omitempty"`
}

type restartArgs struct {
	Execution  string `json:"execution" minLength:"1" maxLength:"36" doc:"Its id, or the beginning of it."`
	Step       string `json:"step" minLength:"1" maxLength:"300" doc:"The step that runs again, with all after it."`
	FailedOnly bool   `json:"failed_only,omitempty" doc:"Repeats only what did not complete inside the step."`
	Confirming
}

func (k *call) restart(ctx context.Context, a *restartArgs) (*reply, error) {
	who, err := k.permitted(ctx)
	if err != nil {
		return nil, err
	}
	x, err := k.Execution(ctx, a.Execution)
	if err != nil {
		return nil, err
	}
	request := api.RestartRequest{Step: a.Step, FailedOnly: a.FailedOnly}
	preview, err := k.PreviewRestart(ctx, x.ID, request)
	if err != nil {
		return nil, err
	}
	return k.decide(ctx, who, a.Confirm, []any{x.ID, request}, &intent{shown: onExecution{x.ID, x.Pipeline, x.Status, preview}, bound: []any{x.Status, preview}, title: "a restart of the step " + a.Step + " of the execution " + x.ID,
		act: func(ctx context.Context, _ string) (any, error) { return k.Restart(ctx, x.ID, request) }})
}

type cancelArgs struct {
	Execution string `json:"execution" minLength:"1" maxLength:"36" doc:"Its id, or the beginning of it."`
	Reason    string `json:"reason,omitempty" maxLength:"1000" doc:"Goes into the record."`
	Confirming
}

func (k *call) cancel(ctx context.Context, a *cancelArgs) (*reply, error) {
	who, err := k.permitted(ctx)
	if err != nil {
		return nil, err
	}
	x, err := k.Execution(ctx, a.Execution)
	if err != nil {
		return nil, err
	}
	var status stepwell.ExecutionStatus
	if err := status.UnmarshalText([]byte(x.Status)); err == nil && status.Terminal() {
		return nil, stepwell.Errorf(stepwell.CodeConflict, "", "the execution has ended: %s", x.Status)
	}
	return k.decide(ctx, who, a.Confirm, []any{x.ID, a.Reason}, &intent{shown: onExecution{x.ID, x.Pipeline, x.Status, nil}, bound: x.Status, title: "the end of the execution " + x.ID + " of " + x.Pipeline,
		act: func(ctx context.Context, _ string) (any, error) {
			status, err := k.Cancel(ctx, x.ID, a.Reason)
			return onExecution{x.ID, x.Pipeline, status, nil}, err
		}})
}

type writeArgs struct {
	Document string `json:"document" minLength:"1" maxLength:"1000000" doc:"The pipeline, in YAML or JSON. It is stored under the name that it gives."`
	Tests    string `json:"tests,omitempty" maxLength:"1000000" doc:"The text of a test file, as the tool test takes it. They must pass; they are not stored."`
	Note     string `json:"note,omitempty" maxLength:"500" doc:"Why, for the list of versions."`
	Activate *bool  `json:"activate,omitempty" doc:"false leaves the version active that is. Not for a new pipeline."`
	Confirming
}

// maxDiff bounds a difference, as JSON, that is confirmed: all of it is shown.
const maxDiff = 40 << 10

// drafted is what would be stored.
type drafted struct {
	*checked
	New   bool   `json:"new"`
	Diff  string `json:"diff"`
	Tests any    `json:"tests,omitempty"`
}

func (k *call) write(ctx context.Context, a *writeArgs) (*reply, error) {
	who, err := k.permitted(ctx)
	if err != nil {
		return nil, err
	}
	if err := k.allowed(ctx, a.Document, false); err != nil {
		return nil, err
	}
	now, out, err := k.draft(ctx, a)
	if err != nil {
		return nil, err
	}
	if !out.Valid {
		return &reply{data: out, plain: map[string]any{"done": false, "refused": "the pipeline has problems"}}, nil
	}
	if r, ok := out.Tests.(*rehearsal.Answer); ok && (r.Test == nil || r.Test.Failed > 0) {
		return &reply{data: out, plain: map[string]any{"done": false, "refused": "the tests do not pass"}}, nil
	}
	if a.Confirm == "" && len(raw(out.Diff)) > maxDiff {
		return &reply{data: out, plain: map[string]any{"done": false, "refused": "the change is larger than can be shown: a person stores it, or store it in several steps"}}, nil
	}
	note := strings.TrimSuffix("by an agent: "+a.Note, ": ")
	return k.decide(ctx, who, a.Confirm, []any{a.Document, a.Tests, a.Note, a.Activate}, &intent{shown: out, bound: []any{out.New, now.tag}, title: fmt.Sprintf("a version of the pipeline %s with the SHA-256 %x", out.Name, sha256.Sum256([]byte(a.Document))),
		act: func(ctx context.Context, _ string) (any, error) {
			draft := api.NewPipeline{Document: api.Document(a.Document), Note: note}
			if out.New {
				return summary(k.Pipelines().Create(ctx, draft))
			}
			draft.Activate = a.Activate
			return summary(k.Pipelines().Update(ctx, now.ID, draft, now.tag))
		}})
}

// summary is a stored pipeline without its text.
func summary(p *api.Pipeline, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	p.Document = ""
	return p, nil
}

// draft checks what would be stored, and compares it with what is.
func (k *call) draft(ctx context.Context, a *writeArgs) (*stored, *drafted, error) {
	ctx, leave, err := k.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	found, err := k.check(ctx, a.Document)
	if err != nil {
		return nil, nil, err
	}
	out, now := &drafted{checked: found}, &stored{Pipeline: &api.Pipeline{}}
	if !found.Valid {
		return now, out, nil
	}
	if now.Pipeline, now.tag, err = k.Pipelines().Get(ctx, found.Name); stepwell.CodeOf(err) == stepwell.CodeNotFound {
		now.Pipeline, now.tag, out.New = &api.Pipeline{}, "", true
	} else if err != nil {
		return nil, nil, err
	}
	if out.New && a.Activate != nil {
		return nil, nil, stepwell.Invalid("leave it out", "activate is for pipelines that are stored already")
	}
	out.Diff = udiff.Unified("stored", "draft", now.Document, a.Document)
	if a.Tests == "" {
		return now, out, nil
	}
	tests, err := k.rehearse(ctx, &rehearsal.Request{Kind: rehearsal.Test, Document: a.Document, Tests: a.Tests})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the tests"), err)
	}
	out.Tests = tests
	return now, out, nil
}
