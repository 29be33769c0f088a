package trigger

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/resource"
)

// The types of targets.
const (
	TargetWorkflow = "workflow"
	TargetAction   = "action"
)

// Target is the pipeline or action that a trigger starts; budpipeline §4.2 calls it callback, and so does JSON.
type Target struct {
	Type     string          `json:"type,omitempty" enum:"workflow,action" doc:"Defaults to the one whose field is given."`
	Workflow string          `json:"workflow_id,omitempty" maxLength:"255" doc:"A stored pipeline, by id or name."`
	Version  *int            `json:"workflow_version,omitempty" minimum:"0" maximum:"1000000" doc:"Defaults to the one that is active when it fires, which 0 stands for too."`
	Action   string          `json:"action_type,omitempty" maxLength:"200" example:"util.log"`
	Params   resource.Object `json:"params,omitzero" doc:"Data from outside does not replace them. Those of an action may hold templates, in which {{ event }} is the data from outside."`
	// Overridable is for pipelines.
	Overridable []string `json:"overridable,omitzero" nullable:"false" maxItems:"100" maxLength:"255" doc:"Names of params of a pipeline that data from outside may replace."`
	Priority    *int     `json:"priority,omitempty" minimum:"-1000" maximum:"1000" doc:"Defaults to 0."`
	Project     *string  `json:"project,omitempty" maxLength:"1000" doc:"A project whose processed items the executions count. May be a template, in which {{ event }} is the data from outside; one that gives nothing stands for none. Defaults to none, which an empty text stands for too."`
	Authored
}

// Authored is the last author and their role: the role decides what actions may do. It is stored with a target and not
// shown.
type Authored struct {
	Role   string `json:"author_role,omitempty" hidden:"true"`
	Author string `json:"author,omitempty" hidden:"true"`
}

// Changed returns the target that replaces was; nil when none is given. Omitted fields keep their values while it starts
// the same; a target that starts another must give params, if there were any. CodeInvalid.
func (t *Target) Changed(was *Target, by Authored) (*Target, error) {
	if t == nil {
		return nil, nil
	}
	if was == nil {
		was = &Target{}
	}
	out := *was
	out.Authored = Authored{LowerRole(by.Role, was.Role), by.Author}
	if !t.startsAs(was) {
		if t.Params == nil && len(was.Params) > 0 {
			return nil, stepwell.Invalid("give the params of what it starts now, {} for none", "callback.params: those that are there are for something else")
		}
		out = Target{Type: t.Type, Workflow: t.Workflow, Action: t.Action, Authored: by}
	}
	if t.Params != nil {
		out.Params, out.Role = t.Params, by.Role
	}
	if t.Overridable != nil {
		out.Overridable = t.Overridable
	}
	if t.Version != nil {
		out.Version = t.Version
	}
	if t.Priority != nil {
		out.Priority = t.Priority
	}
	if t.Project != nil {
		out.Project = t.Project
	}
	return &out, nil
}

// startsAs reports whether it starts the same as another: it names the same, or nothing.
func (t *Target) startsAs(was *Target) bool {
	if t.Type != "" && t.Type != was.Type {
		return false
	}
	return t.Workflow == "" && t.Action == "" || t.Workflow == was.Workflow && t.Action == was.Action
}

// Check fills in Type and validates what the tags do not say (resource.Check): CodeInvalid. A missing pipeline is an error only when it fires.
func (t *Target) Check() error {
	if t.Type == "" {
		switch {
		case t.Workflow != "" && t.Action == "":
			t.Type = TargetWorkflow
		case t.Action != "" && t.Workflow == "":
			t.Type = TargetAction
		}
	}
	switch {
	case t.Type == TargetWorkflow && t.Workflow != "" && t.Action == "":
	case t.Type == TargetAction && t.Action != "" && t.Workflow == "":
	default:
		return stepwell.Invalid("give workflow_id for type workflow, or action_type for type action", "the callback does not say what to start")
	}
	t.Version, t.Priority, t.Project = orNil(t.Version), orNil(t.Priority), orNil(t.Project)
	if t.Project != nil {
		if err := pipeline.CheckProject(*t.Project); err != nil {
			return err
		}
	}
	if t.Version != nil && t.Type == TargetAction {
		return stepwell.Invalid("leave it out for the active version", "callback.workflow_version is not a version of a pipeline")
	}
	if err := t.checkOverridable(); err != nil {
		return err
	}
	return checkParams(t.Params)
}

// orNil is nil for 0 or "", which say nothing more.
func orNil[T comparable](n *T) *T {
	if n != nil && *n == *new(T) {
		return nil
	}
	return n
}

func (t *Target) checkOverridable() error {
	if len(t.Overridable) > 0 && t.Type == TargetAction {
		return stepwell.Invalid("leave it out, and refer to the data from outside in params: {{ event.name }}", "callback.overridable is for pipelines")
	}
	for _, name := range t.Overridable {
		if name == "" || strings.HasPrefix(name, "_") {
			return stepwell.Invalid("such as region", "callback.overridable: %q is not the name of a parameter", stepwell.Clip(name, 80))
		}
	}
	return nil
}

// Launch completes a launch with the target's settings. Values in in.Written, which a webhook's author wrote with the
// launch's Role, count as the target's own and replace those of the same name; then the lower one of both roles counts.
func (t *Target) Launch(in pipeline.Launch) pipeline.Launch {
	role := t.Role
	if len(in.Written) > 0 { // writing into another author's trigger grants no more than the writer's own role
		role = LowerRole(role, in.Role)
	}
	written := make(map[string]any, len(t.Params)+len(in.Written))
	maps.Copy(written, t.Params)
	maps.Copy(written, in.Written)
	in.Workflow, in.Action, in.Written, in.Role = t.Workflow, t.Action, written, role
	if t.Version != nil {
		in.Version = *t.Version
	}
	if t.Priority != nil && in.Priority == 0 {
		in.Priority = *t.Priority
	}
	if t.Project != nil {
		in.WrittenProject = *t.Project
	}
	var outside pipeline.Outside
	if in.Outside != nil {
		outside = *in.Outside
	}
	outside.Overridable, in.Outside = t.Overridable, &outside
	triggers := in.Authors
	in.Authors = nil
	in = in.WrittenBy(t.Author)
	for _, author := range triggers {
		in = in.WrittenBy(author)
	}
	return in
}

// Head is the user-written part of every trigger that is not a job itself: its name and its target.
type Head struct {
	Name        string       `json:"name" required:"false" shown:"always" maxLength:"255"`
	Description string       `json:"description" required:"false" shown:"always" maxLength:"4000"`
	Job         resource.Ref `json:"job_id" required:"false" shown:"always" maxLength:"255" doc:"The job that it starts, or else callback says what."`
	Target      *Target      `json:"callback,omitempty" doc:"What it starts, or else job_id says what. What a change leaves out stays as it was while it starts the same."`
	Enabled     *bool        `json:"enabled,omitempty" shown:"always" doc:"Defaults to true."`
}

// Starts gives access to the head's target or job, for changes.
func (h *Head) Starts() (target **Target, job *resource.Ref) { return &h.Target, &h.Job }

// On reports whether the trigger is enabled.
func (h *Head) On() bool { return h.Enabled == nil || *h.Enabled }

// Check completes a head and validates what the tags do not say (resource.Check): the job that it names is found by id or name. CodeInvalid, CodeNotFound.
func (h *Head) Check(noun string, params resource.Object, jobs Jobs) error {
	if err := checkParams(params); err != nil {
		return err
	}
	if (h.Job == "") == (h.Target == nil) {
		return stepwell.Invalid("give either job_id or callback", "the %s does not say what to start", noun)
	}
	on := h.On()
	h.Enabled = &on
	if h.Target != nil {
		return h.Target.Check()
	}
	job, err := jobs.Job(string(h.Job))
	if err == nil {
		h.Job = resource.Ref(job.ID)
	}
	return err
}

// CheckID reports whether an id can be that of a trigger: CodeInvalid.
func CheckID(param, id string) error {
	if !ValidID(id) {
		return stepwell.Invalid("1 to 128 letters, digits and . _ : -, beginning with a letter or digit", "%s %q cannot be an id", param, stepwell.Clip(id, 80))
	}
	return nil
}

// maxParams bounds the params of a target, in bytes of JSON.
const maxParams = 256 << 10

func checkParams(params resource.Object) error {
	if raw, err := json.Marshal(params); err != nil || len(raw) > maxParams {
		return stepwell.Invalid("at most 256 KiB as JSON", "params are too large, or no JSON")
	}
	return nil
}

// Counted are the counts and the last outcome of a trigger.
type Counted struct {
	Count         int           `json:"trigger_count"`
	LastTriggered resource.Time `json:"last_triggered_at"`
	LastExecution resource.Ref  `json:"last_execution_id"`
	LastError     resource.Ref  `json:"last_error"` // why the latest event or genuine delivery started nothing
	CreatedBy     resource.Ref  `json:"created_by"`
	resource.Meta
}

// Errors gives access to the error's text, to hide secrets in it.
func (c *Counted) Errors() *resource.Ref { return &c.LastError }

// CountedOf builds the Counted of a trigger.
func CountedOf(n resource.Count, by string, m resource.Meta) Counted {
	return Counted{Count: n.Runs, LastTriggered: resource.At(n.Last), LastExecution: resource.Ref(n.Execution), LastError: resource.Ref(n.Failed),
		CreatedBy: resource.Ref(by), Meta: m}
}

// Jobs are the jobs that triggers may start; implemented by Schedules.
type Jobs interface {
	Job(idOrName string) (*Status, error)
	Trigger(ctx context.Context, idOrName string, in pipeline.Launch) (*pipeline.Launched, error)
}

// Start starts the job or target of a head.
func (h *Head) Start(ctx context.Context, in pipeline.Launch, jobs Jobs, launcher Launcher) (*pipeline.Launched, error) {
	if h.Job != "" {
		return jobs.Trigger(ctx, string(h.Job), in)
	}
	return launcher.Launch(ctx, h.Target.Launch(in))
}
