package api

import (
	"cmp"
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/trigger"
)

// ExecuteRequest asks for an execution (budpipeline §4.1): of exactly one of job_id, workflow_id, workflow_definition and
// action_type.
type ExecuteRequest struct {
	Job        string   `json:"job_id,omitempty" maxLength:"128" doc:"A schedule's job: what it starts is started now."`
	Workflow   string   `json:"workflow_id,omitempty" maxLength:"255" doc:"A stored pipeline, by id or name."`
	Version    int      `json:"workflow_version,omitempty" minimum:"0" maximum:"1000000" doc:"A version of the stored pipeline. Defaults to the active one."`
	Definition Document `json:"workflow_definition,omitempty"`
	Action     string   `json:"action_type,omitempty" maxLength:"200" doc:"A single action: the execution has this one step." example:"util.log"`
	Params     Object   `json:"params,omitempty" doc:"Values of the pipeline's parameters, or of the action's. With job_id only of those that the job does not set itself, or lists as overridable."`
	By         string   `json:"triggered_by,omitempty" maxLength:"200" doc:"On behalf of whom. Defaults to who asks."`
	Trigger    string   `json:"trigger_type,omitempty" enum:"manual,scheduled,webhook,event" doc:"Defaults to manual."`
	Project    string   `json:"project,omitempty" maxLength:"200" doc:"A project whose processed items the execution counts: itself, or what the pipeline's progress.items names."`
	Until      string   `json:"until,omitempty" maxLength:"300" doc:"A step at the top level of the pipeline: it runs with the steps before it, those of the same stream and the handlers. All other steps are skipped: not asked for. Not with job_id."`
	Seed       *Seed    `json:"seed,omitempty"`
	Priority   int      `json:"priority,omitempty" minimum:"-1000" maximum:"1000" doc:"Higher ones come first."`
}

// Seed names an execution whose results a new one begins with.
type Seed struct {
	Execution string `json:"execution_id" minLength:"1" maxLength:"36" doc:"One that has ended. What completed in it is taken over by the id of the step, also where the step or its parameters are others now; with until only for the steps before that one. Not with job_id."`
}

// Started is a started execution.
type Started struct {
	ID      string `json:"execution_id"`
	Status  string `json:"status"`
	Started Time   `json:"started_at"`
	// Ignored is shown to callers who may see jobs, not to callers of webhooks.
	Ignored []string `json:"ignored_params,omitempty" nullable:"false" doc:"Names among params that reached nothing: the pipeline does not declare them, or the job sets them."`
}

type executeInput struct {
	Key  string `header:"Idempotency-Key" maxLength:"257" doc:"Makes it happen once: a repetition with the same key is answered with what the first one started, another request with the key is 409."`
	Body ExecuteRequest
}

// execute starts an execution.
func (s *server) execute(ctx context.Context, in *executeInput) (*made[Started], error) {
	key, hash, err := s.once(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	b, who := &in.Body, access.Of(ctx)
	by := cmp.Or(b.Trigger, trigger.TypeManual)
	if b.Definition != nil || b.Action != "" { // the caller is the author of an inline definition; a stored pipeline has its own
		if err := who.Need(access.Editor); err != nil {
			return nil, err
		}
	}
	if err := s.fits(b.Definition); err != nil {
		return nil, err
	}
	actor := b.By
	if actor == "" {
		actor = who.Actor()
	} else {
		callOf(ctx).note("triggered_by", s.text("", actor))
	}
	launch := pipeline.Launch{Workflow: b.Workflow, Version: b.Version, Document: b.Definition, Action: b.Action, Role: who.Role.String()}
	launch.Trigger, launch.Actor, launch.Key, launch.KeyHash, launch.Priority = by, actor, key, hash, b.Priority
	launch.Project, launch.Until = b.Project, b.Until
	if b.Seed != nil {
		launch.Given = b.Seed.Execution
	}
	if b.Job == "" {
		launch.Params = b.Params
		return s.started(ctx)(s.o.Pipelines.Launch(ctx, launch))
	}
	if b.Version != 0 {
		return nil, stepwell.Invalid("leave it out, or give workflow_id", "workflow_version goes with workflow_id: what a job starts is the job's matter")
	}
	if b.Until != "" || b.Seed != nil {
		return nil, stepwell.Invalid("start what the job starts by workflow_id", "until and seed do not go with job_id")
	}
	if b.Workflow != "" || b.Definition != nil || b.Action != "" {
		return nil, stepwell.Invalid("give exactly one of job_id, workflow_id, workflow_definition and action_type", "the request says more than one thing to run")
	}
	launch.Outside = &pipeline.Outside{Values: b.Params}
	return s.started(ctx)(s.o.Schedules.Trigger(ctx, b.Job, launch))
}

// once reads the Idempotency-Key of a request.
func (s *server) once(ctx context.Context, header string) (key string, hash []byte, err error) {
	if key, err = idempotencyKey(header); err != nil {
		return "", nil, err
	}
	c := callOf(ctx)
	p := access.Of(ctx)
	key, hash = startKey(p.Kind+":"+p.KeyID+":"+p.Name, key, c.request.Method, c.request.URL.Path, c.body)
	return key, hash, nil
}

// started makes the answer to a launch.
func (s *server) started(ctx context.Context) func(*pipeline.Launched, error) (*made[Started], error) {
	return func(l *pipeline.Launched, err error) (*made[Started], error) {
		if err != nil {
			return nil, err
		}
		callOf(ctx).object = l.Execution
		if l.Job != "" {
			callOf(ctx).note("trigger", l.Job)
		}
		if len(l.Authors) > 0 {
			callOf(ctx).note("written_by", l.Authors)
		}
		if l.Fresh {
			s.link(ctx, l.Execution)
		}
		at := l.Started
		if at.IsZero() {
			at = l.Created
		}
		return &made[Started]{Status: statusOf(l.Fresh), Location: prefix + "/executions/" + l.Execution, Body: Started{l.Execution, l.Status.String(), resource.At(at), l.Ignored}}, nil
	}
}
