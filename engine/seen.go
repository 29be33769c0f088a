package engine

import (
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
)

// given are params of which some that the pipeline knows are missing.
type given struct {
	params   map[string]any
	optional []string
}

// withAbsent makes params that distinguish absent from undefined, if any is optional.
func (r *Run) withAbsent(params map[string]any, optional []string) any {
	if r.revision > 1 && slices.ContainsFunc(optional, func(name string) bool { _, there := params[name]; return !there }) {
		return &given{params, optional}
	}
	return params
}

// Attr implements expr.Object.
func (g *given) Attr(name string) (any, bool) {
	if v, ok := g.params[name]; ok {
		return v, true
	}
	if !slices.Contains(g.optional, name) {
		return nil, false
	}
	return &expr.Absent{Why: "the execution was started without the parameter " + name}, true
}

// Keys are the names of the present values.
func (g *given) Keys() []string {
	keys := make([]string, 0, len(g.params))
	for name := range g.params {
		keys = append(keys, name)
	}
	return keys
}

// views are the steps by id; the inner scope's come first.
type views []view

type view struct {
	id      string
	status  stepwell.StepStatus
	attempt uint16
	old     bool // by the rules of revision 1, in which outputs that a step did not give are undefined
	gives   *plan.Gives
	output  []byte
	err     *Failure
	family  *family // the steps of a name that others have spawned; nothing else counts then
}

// Attr implements expr.Object.
func (v views) Attr(name string) (any, bool) {
	for i := range v {
		if v[i].id == name && v[i].family != nil {
			return v[i].family, true
		}
		if v[i].id == name {
			return &v[i], true
		}
	}
	return nil, false
}

// Keys are the ids, for templates that go over all steps.
func (v views) Keys() []string {
	keys := make([]string, len(v))
	for i := range v {
		keys[i] = v[i].id
	}
	return keys
}

// Keys are a step's members.
func (v *view) Keys() []string {
	if len(v.output) == 0 && v.status != stepwell.StepCompleted {
		return []string{"attempt", "error", "status"}
	}
	return []string{"attempt", "error", "outputs", "status"}
}

// Attr implements expr.Object: outputs, status, error, attempt (semantics §2). Outputs are absent if the step ended
// without completing, undefined if it has not ended; a for_each that failed has its counts.
func (v *view) Attr(name string) (any, bool) {
	switch name {
	case "outputs":
		switch {
		case len(v.output) > 0:
			return expr.Raw(v.output), true
		case v.status == stepwell.StepCompleted:
			return expr.Raw("{}"), true
		case v.old || !v.status.Terminal():
			return nil, false
		}
		return &expr.Absent{Why: "the step " + v.id + " " + ending[v.status]}, true
	case "status":
		return v.status.String(), true
	case "attempt":
		return int64(v.attempt), true
	case "error":
		return describe(v.err), true
	}
	return nil, false
}

// Lacks implements expr.Partial: an output that the action declares, and this step did not give.
func (v *view) Lacks(attribute, member string) *expr.Absent {
	if attribute != "outputs" || v.old || v.gives == nil || !v.status.Terminal() || !slices.Contains(v.gives.Names, member) {
		return nil
	}
	return &expr.Absent{Why: "the step " + v.id + " did not give it"}
}

// ending words the end of a step that did not complete.
var ending = map[stepwell.StepStatus]string{stepwell.StepFailed: "failed", stepwell.StepSkipped: "was skipped",
	stepwell.StepCancelled: "was cancelled", stepwell.StepTimedOut: "timed out"}
