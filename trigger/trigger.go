// Package trigger starts executions when it is time: jobs with a schedule, jobs that follow others, and jobs that are
// started by hand, by a webhook or by an event (budpipeline §3.1 and §4.2, docs/semantics §4).
//
// The guarantee is that a firing happens once, whatever crashes when. What a job is to fire is written down before it is
// started (schedule_state), every start carries a key made of the job and the time it stands for, and a start whose key
// has been used finds the execution that there is. So after a crash what was written down is started again, and
// nothing runs twice. Clocks, zones and the policy for missed firings are those of package schedule.
//
// A Schedules holds all jobs in memory and is the only one to write them; its loop is Run. A Relay hands what the store's
// outbox holds to those who wait for the ends of executions. Webhooks are in package webhook, events in package event.
// Stability: experimental until version 1.
package trigger

import (
	"context"
	"maps"
	"strings"
	"time"
	_ "time/tzdata" // schedules mean the same on every machine

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
)

// Launcher starts executions; a pipeline.Library is one.
type Launcher interface {
	Launch(ctx context.Context, in pipeline.Launch) (*pipeline.Launched, error)
}

// Executions finds executions; a store is one.
type Executions interface {
	Execution(ctx context.Context, id string) (*store.Execution, error)
}

// Canceler stops executions; a conductor.Conductor is one.
type Canceler interface {
	Cancel(ctx context.Context, id, reason string) error
}

// Keys finds what was started under a key; a store is one.
type Keys interface {
	StartKey(ctx context.Context, key string) (*store.StartKey, error)
}

// The kinds of callbacks.
const (
	CallbackWorkflow = "workflow"
	CallbackAction   = "action"
)

// Callback says what a trigger starts (budpipeline §4.2).
type Callback struct {
	Type     string `json:"type,omitempty"`             // workflow or action. Defaults to the one whose field is given
	Workflow string `json:"workflow_id,omitempty"`      // id or name of a stored pipeline
	Version  int    `json:"workflow_version,omitempty"` // Defaults to the newest when it fires
	Action   string `json:"action_type,omitempty"`
	// Params are the pipeline's parameters, or the action's, in which templates are allowed. Data from outside does not
	// replace them.
	Params Values `json:"params,omitempty"`
	// Overridable are the names of params of a pipeline that data from outside may replace. Defaults to none.
	Overridable []string `json:"overridable,omitempty"`
	Priority    int      `json:"priority,omitempty"`
	// Role is that of whoever wrote the callback, when they did: what an action may do goes by it.
	Role string `json:"author_role,omitempty"`
	// Author is who wrote the callback last. Defaults to nobody knowing.
	Author string `json:"author,omitempty"`
}

// Values are parameters as JSON. Whole numbers stay whole numbers.
type Values map[string]any

// UnmarshalJSON reads an object.
func (v *Values) UnmarshalJSON(raw []byte) error {
	decoded, err := expr.Decode(raw)
	if err != nil {
		return err
	}
	object, ok := decoded.(map[string]any)
	if !ok && decoded != nil {
		return stepwell.Invalid("write {name: value}", "the values are no object")
	}
	*v = object
	return nil
}

// MarshalJSON writes an object; what was a fraction stays one.
func (v Values) MarshalJSON() ([]byte, error) { return expr.Marshal(map[string]any(v)) }

// Check fills in Type and reports what is wrong, as CodeInvalid. Whether the pipeline exists is seen when it fires.
func (c *Callback) Check() error {
	if c.Type == "" {
		switch {
		case c.Workflow != "" && c.Action == "":
			c.Type = CallbackWorkflow
		case c.Action != "" && c.Workflow == "":
			c.Type = CallbackAction
		}
	}
	switch {
	case c.Type == CallbackWorkflow && c.Workflow != "" && c.Action == "":
	case c.Type == CallbackAction && c.Action != "" && c.Workflow == "":
	case c.Type != "" && c.Type != CallbackWorkflow && c.Type != CallbackAction:
		return stepwell.Invalid("one of workflow and action", "callback.type %q is not known", stepwell.Clip(c.Type, 80))
	default:
		return stepwell.Invalid("give workflow_id for type workflow, or action_type for type action", "the callback does not say what to start")
	}
	if c.Version < 0 || c.Version > 0 && c.Type == CallbackAction {
		return stepwell.Invalid("leave it out for the newest version", "callback.workflow_version is not a version of a pipeline")
	}
	return c.checkOverridable()
}

// Bounds of what a callback may declare as overridable.
const (
	maxOverridable = 100
	maxParamName   = 255 // bytes
)

func (c *Callback) checkOverridable() error {
	if len(c.Overridable) > 0 && c.Type == CallbackAction {
		return stepwell.Invalid("leave it out, and refer to the data from outside in params: {{ event.name }}", "callback.overridable is for pipelines")
	}
	if len(c.Overridable) > maxOverridable {
		return stepwell.Invalid("at most 100", "callback.overridable names too many parameters")
	}
	for _, name := range c.Overridable {
		if name == "" || len(name) > maxParamName || strings.HasPrefix(name, "_") {
			return stepwell.Invalid("such as region", "callback.overridable: %q is not the name of a parameter", stepwell.Clip(name, 80))
		}
	}
	return nil
}

// Launch is the request for what the callback names. Values that a webhook's author wrote count as the callback's own and
// replace those of the same name.
func (c *Callback) Launch(written Values, outside pipeline.Outside) pipeline.Launch {
	all := make(map[string]any, len(c.Params)+len(written))
	maps.Copy(all, c.Params)
	maps.Copy(all, written)
	outside.Overridable = c.Overridable
	in := pipeline.Launch{Workflow: c.Workflow, Version: c.Version, Action: c.Action, Written: all, Outside: &outside, Priority: c.Priority, Role: c.Role}
	return in.WrittenBy(c.Author)
}

// Permanent reports whether starting again later would fail in the same way.
func Permanent(err error) bool {
	switch stepwell.CodeOf(err) {
	case stepwell.CodeInvalid, stepwell.CodeNotFound, stepwell.CodeConflict, stepwell.CodeForbidden, stepwell.CodeDenied:
		return true
	}
	return false
}

// stamp is how times are written into parameters: UTC with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// LowerRole is the lower one of two roles of authors; what is not known is an editor's.
func LowerRole(a, b string) string {
	if a == "admin" {
		return b
	}
	return a
}
