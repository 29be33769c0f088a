package engine

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
)

// Scope holds the values templates of one step read: params, the named steps as of the step's start, item and index,
// execution. It is immutable and safe for concurrent use.
type Scope struct {
	params    any
	steps     views
	about     plan.About
	vars      []binding
	execution execution
}

type binding struct {
	name  string
	value any
}

// NewScope is a Scope of these values alone.
func NewScope(values map[string]any) *Scope {
	s := &Scope{}
	for name, v := range values {
		s.vars = append(s.vars, binding{name, v})
	}
	return s
}

// Lookup implements expr.Scope.
func (s *Scope) Lookup(name string) (any, bool) {
	for i := range s.vars { // innermost first: it shadows
		if s.vars[i].name == name {
			return s.vars[i].value, true
		}
	}
	switch name {
	case "params":
		return s.params, true
	case "steps":
		return s.steps, true
	case "execution":
		return &s.execution, true
	case "project", "lesson":
		if v := s.about[name]; v != nil {
			return v, true
		}
		return &expr.Absent{Why: "the execution has no " + name}, true
	}
	return nil, false
}

// Keys lists the names, for hints in errors.
func (s *Scope) Keys() []string {
	keys := []string{"execution", "params", "steps"}
	for i := range s.vars {
		keys = append(keys, s.vars[i].name)
	}
	return keys
}

// execution describes the execution; handlers also see how the pipeline went.
type execution struct {
	id, pipeline, step string
	created            int64
	over               bool
	status             stepwell.ExecutionStatus
	err                *Failure
}

// Keys are the execution's members.
func (e *execution) Keys() []string {
	if e.over {
		return []string{"error", "id", "pipeline", "started_at", "status", "step"}
	}
	return []string{"id", "pipeline", "started_at", "step"}
}

// Attr implements expr.Object.
func (e *execution) Attr(name string) (any, bool) {
	switch name {
	case "id":
		return e.id, true
	case "pipeline":
		return e.pipeline, true
	case "step":
		return e.step, true
	case "started_at":
		return time.UnixMicro(e.created).UTC().Format(time.RFC3339Nano), true
	case "status":
		return e.status.String(), e.over
	case "error":
		return describe(e.err), e.over
	}
	return nil, false
}

func describe(f *Failure) any {
	if f == nil {
		return nil
	}
	return map[string]any{"code": string(f.Code), "message": f.Message, "step": f.Step}
}

// outer is the enclosing scope with visible steps: none beyond a sub-pipeline.
func (s *scope) outer() *scope {
	if s.body != nil && s.body.Pipeline != "" {
		return nil
	}
	return s.up()
}

// scope collects the values that a step's templates read.
func (r *Run) scope(p place, reads []plan.Read) *Scope {
	out := &Scope{params: r.given, about: r.about, execution: execution{id: r.ID, pipeline: r.plan.Name, created: r.began}}
	if int(p.i) < len(p.s.nodes) {
		out.execution.step = p.key()
	}
	for at := p.s; at != nil; at = at.outer() {
		if at.body != nil && at.body.Pipeline != "" {
			out.params = at.given
		}
		if at.above != nil {
			r.describeOutcome(at.above, &out.execution)
		}
		if at.iter >= 0 {
			as := at.owner.step().ForEach.As
			out.vars = append(out.vars, binding{as, at.item}, binding{"index", int64(at.iter)})
			if as != "item" {
				out.vars = append(out.vars, binding{"item", at.item})
			}
		}
	}
	all := false
	for _, read := range reads {
		at := p.s
		for up := read.Up; up > 0 && at != nil; up-- {
			at = at.outer()
		}
		switch {
		case read.Source:
			out.vars = append(out.vars, binding{"source", r.source(at, read)})
		case read.Up == plan.ReadAll:
			out.steps, all = r.allViews(p.s), true
		case all || at == nil:
		case read.Step < 0:
			out.steps = append(out.steps, at.family(at.graph.Families[^read.Step].Name))
		default:
			out.steps = append(out.steps, r.view(at, read.Step))
		}
	}
	return out
}

// source is the result that a step works on: a step's output result where it gave one, else its outputs.
func (r *Run) source(at *scope, read plan.Read) any {
	if read.Up == plan.ReadMedia {
		if media := r.about.Media(); media != nil {
			return media
		}
		return &expr.Absent{Why: "the execution has no lesson with a file"}
	}
	v := r.view(at, read.Step)
	outputs, known := v.Attr("outputs")
	if !known {
		return &expr.Absent{Why: "the step " + v.id + " has not ended"}
	}
	if raw, ok := outputs.(expr.Raw); ok {
		if result := raw.Member("result"); result != nil {
			return result
		}
	}
	return outputs
}

// describeOutcome gives handlers the outcome of their pipeline.
func (r *Run) describeOutcome(s *scope, e *execution) {
	e.over, e.status, e.err = true, stepwell.ExecutionCompleted, s.err
	switch {
	case s.stop.cause == stepwell.StepTimedOut:
		e.status = stepwell.ExecutionTimedOut
	case s.stop.cause == stepwell.StepCancelled:
		e.status = stepwell.ExecutionCancelled
	case s.err != nil:
		e.status = stepwell.ExecutionFailed
	case r.withFailures(s):
		e.status = stepwell.ExecutionCompletedWithFailures
	}
	if e.err == nil && r.cause != 0 {
		e.err = r.failure
	}
}

func (r *Run) view(s *scope, i int32) view {
	n := &s.nodes[i]
	v := view{status: n.status, attempt: n.attempt, id: s.step(i).ID, old: r.revision == 1, gives: s.step(i).Gives}
	if n.info != nil {
		v.output, v.err = n.info.output, n.info.err
	}
	return v
}

func (r *Run) allViews(s *scope) views {
	var out views
	for at := s; at != nil; at = at.outer() {
		if at.body != nil && at.body.Single {
			continue
		}
		for i := range at.nodes {
			out = append(out, r.view(at, int32(i)))
		}
	}
	return out
}

// bodyResult is the outputs of a completed step from its inside, nil when no template reads them.
func (r *Run) bodyResult(s *scope) ([]byte, *Failure) {
	if s.body.Pipeline != "" {
		return r.renderOutputs(s, s.body.Outputs)
	}
	if !s.owner.step().Keep {
		return nil, nil
	}
	all := map[string]any{}
	for i := range s.graph.Steps {
		n, id := &s.nodes[i], s.graph.Steps[i].ID
		switch {
		case n.info != nil && n.info.output != nil:
			all[id] = json.RawMessage(n.info.output)
		case r.revision == 1:
		case n.status == stepwell.StepCompleted:
			all[id] = struct{}{}
		default:
			all[id] = nil // its output is absent
		}
	}
	return canonical(all), nil
}

// renderOutputs evaluates declared outputs. Absent values (their step was skipped) are null, and so are undefined
// ones, which would fail an execution whose work is all done; any other fault is a failure.
func (r *Run) renderOutputs(s *scope, v *plan.Outputs) ([]byte, *Failure) {
	if v == nil {
		return nil, nil
	}
	if f := s.tooLarge(v.Reads); f != nil {
		return nil, f
	}
	sc := r.scope(place{s, int32(len(s.nodes))}, v.Reads)
	out := map[string]any{}
	for i, name := range v.Names {
		x, err := v.Values[i].Render(sc, r.limits())
		if e, ok := errors.AsType[*expr.Error](err); ok && e.Code == expr.CodeUndefined {
			x, err = nil, nil
		}
		if err != nil {
			return nil, evalFailure("outputs."+name, err)
		}
		out[name] = x
	}
	raw, err := expr.Marshal(out)
	if err != nil {
		return nil, evalFailure("outputs", err)
	}
	return raw, nil
}
