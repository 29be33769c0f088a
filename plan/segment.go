package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// SegmentAction is the action that runs the stream steps of a segment (docs/semantics §6).
const SegmentAction = "stream.segment"

// unlimited is the timeout of a stream that says none: items may come for as long as they like.
const unlimited = 10 * 365 * 24 * time.Hour

// Member is one of the steps that a segment's lead stands for.
type Member struct {
	Step     int32 // in the same graph
	ID       string
	LogLevel string
	Module   string
}

// segments joins the stream steps that items connect into segments: the lead, the first source in the order of the
// document, waits for the dependencies of all and is dispatched for all; the others wait for it (semantics §6: one
// unit of dispatch).
func (c *compiler) segments(l *level, steps []definition.Step, d *definition.Definition) error {
	g := l.graph
	if !slices.ContainsFunc(steps, func(s definition.Step) bool { return s.Module != "" }) {
		return nil
	}
	index := make(map[string]int, len(steps))
	for i := range steps {
		index[steps[i].ID] = i
	}
	part := definition.Segments(steps, c.cat)
	for i := range steps {
		for _, j := range definition.StreamInputs(steps, i, c.cat, index) {
			g.Steps[i].Stream.Inputs = append(g.Steps[i].Stream.Inputs, int32(j))
		}
	}
	members := map[int][]int{}
	var order []int
	for i := range steps {
		if steps[i].Module == "" {
			continue
		}
		first := part[i]
		if members[first] == nil {
			order = append(order, first)
		}
		members[first] = append(members[first], i)
	}
	for _, first := range order {
		if err := c.segment(l, steps, members[first], d); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) segment(l *level, steps []definition.Step, members []int, d *definition.Definition) error {
	g := l.graph
	lead := members[0]
	for _, i := range members {
		if about, ok := c.cat.Spec(steps[i].Module); ok && about.Stream != nil && (about.Stream.Role == spec.Source || about.Stream.AlsoSource && len(g.Steps[i].Inputs()) == 0) {
			lead = i
			break
		}
	}
	policy := *g.Steps[lead].Policy
	policy.Retry, policy.Timeout, policy.Within = stepwell.Retry{MaxAttempts: 1}, unlimited, 0
	var deps []int32
	for _, i := range members {
		out := &g.Steps[i]
		if own := out.Policy; own.Retry.MaxAttempts > policy.Retry.MaxAttempts {
			policy.Retry = own.Retry
		}
		if t := steps[i].TimeoutSeconds; t > 0 {
			policy.Timeout = min(policy.Timeout, seconds(t))
		}
		policy.Queue = cmp.Or(policy.Queue, out.Policy.Queue)
		policy.Priority = max(policy.Priority, out.Policy.Priority)
		for _, dep := range out.Deps {
			if !slices.Contains(members, int(dep)) {
				deps = append(deps, dep)
			} else if !slices.Contains(out.Stream.Inputs, dep) {
				return stepwell.Invalid("", "step %s waits for the end of %s, which is part of the same stream", out.ID, g.Steps[dep].ID)
			}
		}
		g.Steps[lead].Names = append(g.Steps[lead].Names, out.Names...)
		g.Steps[lead].Stream.Members = append(g.Steps[lead].Stream.Members, Member{Step: int32(i), ID: out.ID, LogLevel: out.Policy.LogLevel, Module: out.Stream.Module})
		if i != lead {
			out.Stream.Lead, out.Deps, out.Names = int32(lead)+1, []int32{int32(lead)}, nil
		}
	}
	at := &g.Steps[lead]
	slices.Sort(deps)
	slices.Sort(at.Names)
	at.Deps, at.Names = slices.Compact(deps), slices.Compact(at.Names)
	at.Policy = c.intern(policy)
	at.Action = SegmentAction
	var err error
	if at.Params, err = c.segmentParams(l, steps, members, d); err != nil {
		return err
	}
	c.place = at.ID
	at.Reads = c.reads(l, nil, at.Params)
	at.Params.Templates(at.needsFor)
	at.Scoped = true // map and filter read the step's scope
	return nil
}

// segmentParams are the params of the segment's action: the steps with their configs, with templates rendered like
// any action's.
func (c *compiler) segmentParams(l *level, steps []definition.Step, members []int, d *definition.Definition) (*Value, error) {
	var list []*Value
	for _, i := range members {
		about, ok := c.cat.Spec(steps[i].Module)
		if !ok {
			return nil, stepwell.Invalid("", "unknown module %q", steps[i].Module)
		}
		config, err := params(definition.ModuleConfig(d, &steps[i], about), about.Params)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", steps[i].ID, err)
		}
		if config == nil {
			config = &Value{static: map[string]any{}}
		}
		inputs := []any{}
		for _, j := range l.graph.Steps[i].Inputs() {
			inputs = append(inputs, steps[j].ID)
		}
		step := map[string]*Value{"id": fixed(steps[i].ID), "module": fixed(about.Name), "config": config, "inputs": fixed(inputs)}
		if steps[i].Merge != "" {
			step["merge"] = fixed(steps[i].Merge)
		}
		list = append(list, object(step))
	}
	var element any
	if l.each != "" {
		element = "{{ " + l.each + " }}"
	}
	each, err := CompileValue(element)
	if err != nil {
		return nil, err
	}
	return object(map[string]*Value{"workflow": fixed(d.Name), "entry": fixed(d.Entry), "each": each,
		"settings": fixed(streamSettings(d)), "steps": {parts: &parts{list: list}}}), nil
}

func streamSettings(d *definition.Definition) map[string]any {
	s := &d.Settings.Streams
	out := map[string]any{"ordered": !s.Unordered, "workers": int64(s.Workers), "batch": int64(s.BatchSize), "max_failures": s.MaxFailures,
		"strict": s.Strict, "resume": !s.NoResume, "checkpoint": !s.NoCheckpoint, "checkpoint_interval": s.CheckpointInterval}
	if d.Settings.FailFast == definition.FailFastCancel {
		out["stop_all"] = true
	}
	return out
}

func fixed(v any) *Value { return &Value{static: v} }

// object puts values together.
func object(members map[string]*Value) *Value {
	out := &parts{}
	for key := range members {
		out.keys = append(out.keys, key)
	}
	slices.Sort(out.keys)
	for _, key := range out.keys {
		out.list = append(out.list, members[key])
	}
	return &Value{parts: out}
}
