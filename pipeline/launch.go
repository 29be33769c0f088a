package pipeline

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

// Launch starts exactly one of Workflow, Document and Action. It is one value from the trigger to the conductor: each
// on the way adds its fields, and the conductor starts the Request in it.
type Launch struct {
	Workflow string // id or name of a stored pipeline
	Version  int    // of it; 0: the active one
	Document []byte // a pipeline document of its own
	Action   string // a single action: the execution has this one step
	// Written are parameters as the author of a trigger wrote them; data from outside does not replace them. For an action
	// they may contain templates, in which event is the data from outside.
	Written map[string]any
	// WrittenProject is the project as the author of a trigger wrote it: an id, or a template that may name event. The Request's
	// own comes first. Defaults to none.
	WrittenProject string
	// Outside is a trigger's data from outside. Defaults to none: there is no trigger behind the launch.
	Outside *Outside
	Authors []string // the authors of the target, and of the triggers on the way, by name; for the audit log
	From    string   // id of the execution whose end is the reason
	// Nominal is the time that a schedule meant: params of a partition (settings.partition) that nobody gives are the newest there are then.
	// Defaults to none.
	Nominal time.Time
	Role    string // of the author of a document or action: decides what its steps may do. Defaults to editor

	// Request is the conductor's: Trigger is manual (default), scheduled, webhook or event, Job the id of the schedule,
	// webhook or event trigger, Actor the caller, Key the idempotency key. Params are the caller's values: a template
	// in them is never evaluated. Dir defaults to the library's. The Library fills in Pipeline unless Resolve has, and Workflow with the
	// id of the stored pipeline.
	conductor.Request
}

// WrittenBy is the launch with another author.
func (in Launch) WrittenBy(author string) Launch {
	if author != "" && !slices.Contains(in.Authors, author) {
		in.Authors = append(slices.Clone(in.Authors), author)
	}
	return in
}

// maxParams limits the parameters of a request. Trigger data may have more members: undeclared ones cost next to
// nothing.
const maxParams = 10_000

// Launched is a started execution.
type Launched struct {
	Execution string                   `json:"execution_id"`
	Status    stepwell.ExecutionStatus `json:"status"`
	Fresh     bool                     `json:"-"` // false: the key found an earlier one
	Created   time.Time                `json:"created_at"`
	Started   time.Time                `json:"started_at,omitzero"`
	// Ignored are names of outside values that reached no parameter: the first of them, in order.
	Ignored []string `json:"-"`
	// Job and Authors are those of the Launch.
	Job     string   `json:"-"`
	Authors []string `json:"-"`
}

// Launch starts an execution and returns when it is durable. CodeNotFound: there is no such pipeline or version;
// CodeInvalid: the document, the parameters or the request are wrong; CodeConflict: the pipeline or the version is archived, the key
// belongs to another request, or the pipeline's concurrency leaves no room and says skip; CodeLimit: too many
// executions wait.
func (l *Library) Launch(ctx context.Context, in Launch) (*Launched, error) {
	if in.Dir == "" {
		in.Dir = l.o.Dir
	}
	var ignored []string
	var err error
	if in.Pipeline == nil {
		ignored, err = l.target(ctx, &in)
	}
	if err == nil {
		err = in.countFor()
	}
	if err != nil {
		return nil, err
	}
	x := &store.Execution{}
	in.Row = x
	id, fresh, err := l.o.Runner.StartOnce(ctx, in.Request)
	if err != nil {
		return nil, err
	}
	if !fresh { // an earlier one, which may be long gone from memory, and from the store
		if x, err = l.o.Executions.Execution(ctx, id); err != nil {
			l.o.Log.WarnContext(ctx, "a started execution was not found", "execution", id, "error", err)
			x = &store.Execution{Created: time.Now()}
		}
	}
	out := &Launched{Execution: id, Status: x.Status, Fresh: fresh, Created: x.Created, Started: x.Started, Ignored: ignored, Job: in.Job, Authors: in.Authors}
	if fresh && in.Job != "" && l.o.Triggered != nil {
		l.o.Triggered(ctx, in, out)
	}
	return out, nil
}

// Resolve finds the pipeline that a launch runs, for many launches of it: Launch takes it as it is. Errors as with Launch.
func (l *Library) Resolve(ctx context.Context, in Launch) (Launch, error) {
	_, err := l.target(ctx, &in)
	return in, err
}

// target finds the pipeline to run, and its values. It returns the names of unused outside values.
func (l *Library) target(ctx context.Context, in *Launch) (ignored []string, err error) {
	if len(in.Params) > maxParams {
		return nil, stepwell.Invalid("put them into one object", "the request gives %d params, more than %d", len(in.Params), maxParams)
	}
	given := 0
	for _, yes := range []bool{in.Workflow != "", len(in.Document) > 0, in.Action != ""} {
		if yes {
			given++
		}
	}
	if given != 1 {
		return nil, stepwell.Invalid("give exactly one of job_id, workflow_id, workflow_definition and action_type", "the request does not say what to run")
	}
	if in.Action != "" {
		return nil, l.action(ctx, in)
	}
	params := make(map[string]any, len(in.Written)+len(in.Params))
	maps.Copy(params, in.Written)
	maps.Copy(params, in.Params)
	if in.Params = params; in.Workflow != "" {
		return l.workflow(ctx, in)
	}
	in.Pipeline, err = l.document(ctx, in.Document, in.Role)
	return nil, err
}

func (l *Library) workflow(ctx context.Context, in *Launch) (ignored []string, err error) {
	p, h, err := l.stored(ctx, in.Workflow, in.Version)
	if err != nil {
		return nil, err
	}
	if h.Archived {
		return nil, archived(p.def.Name)
	}
	if h.retired(p.version) {
		return nil, versionArchived(p.def.Name, p.version)
	}
	in.Request.Workflow, in.WorkflowVersion = p.id, p.version
	ignored = in.Outside.reach(p.def.Parameters, in.Written, in.Params)
	if setting := p.def.Settings.Partition; setting != nil && !in.Nominal.IsZero() {
		for name, newest := range setting.Newest(in.Nominal) {
			if _, given := in.Params[name]; !given {
				in.Params[name] = newest
			}
		}
	}
	in.Pipeline, err = l.prepared(ctx, p)
	return ignored, err
}

func (l *Library) document(ctx context.Context, text []byte, role string) (*conductor.Pipeline, error) {
	if len(text) > l.o.MaxDocument {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: "the document is too large"}
	}
	p := &parsed{}
	if p.def, p.problems = definition.Parse(text, definition.ParseOptions{Sent: true}); p.def == nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the document cannot be read", Err: p.problems.Err()}
	}
	p.def.Author = author(role, p.def.Name)
	p.def.Keep(text)
	return l.prepared(ctx, p)
}
