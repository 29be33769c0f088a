package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
	"pgregory.net/rapid"
)

// drawer makes random pipelines: everything that the definition can say, in small.
type drawer struct {
	t  *rapid.T
	n  int // steps so far, for ids
	of *definition.Definition
	// labels of stream steps say which may be joined; steps that wait for one have the label "after".
	labels map[string]string
}

func (d *drawer) chance(percent int, what string) bool {
	return rapid.IntRange(1, 100).Draw(d.t, what) <= percent
}

func oneOf[T any](d *drawer, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(d.t, what)
}

func drawPlan(t *rapid.T) *plan.Plan {
	d := &drawer{t: t, labels: map[string]string{}}
	def := &definition.Definition{Name: "random"}
	d.of = def
	d.pipelines(def)
	d.settings(def)
	def.Steps = d.steps(rapid.IntRange(1, 7).Draw(t, "steps"), 0, true)
	if d.chance(25, "finally") {
		def.Finally = d.steps(2, 1, false)
	}
	if d.chance(25, "on_failure") {
		def.OnFailure = d.steps(2, 1, false)
	}
	for i := range def.Steps {
		if d.chance(30, "output") {
			id := def.Steps[i].ID
			def.Outputs = append(def.Outputs, definition.Output{Name: id, Value: "{{ steps." + id + ".outputs.x }}"})
		}
	}
	p, err := plan.Compile(def, catalog{})
	if err != nil {
		t.Fatalf("%v\n%s", err, canonical(def))
	}
	return p
}

func (d *drawer) settings(def *definition.Definition) {
	def.Settings.FailFast = oneOf(d, "fail_fast", definition.FailFastDrain, definition.FailFastOff, definition.FailFastCancel, "")
	if d.chance(30, "limit") {
		def.Settings.MaxParallelSteps = rapid.IntRange(1, 3).Draw(d.t, "max_parallel")
	}
	if d.chance(20, "limited") {
		def.Settings.TimeoutSeconds = 20
	}
	if d.chance(20, "sla") {
		def.Settings.SLA = &definition.SLA{ExpectedSeconds: 2, MaxSeconds: oneOf(d, "max", 0.0, 5)}
	}
}

// pipelines adds one or two that others may run.
func (d *drawer) pipelines(def *definition.Definition) {
	if !d.chance(40, "pipelines") {
		return
	}
	sub := &definition.Definition{Name: "sub"}
	d.settings(sub)
	sub.Steps = d.steps(rapid.IntRange(1, 3).Draw(d.t, "sub steps"), 1, true)
	if d.chance(40, "sub finally") {
		sub.Finally = d.steps(1, 2, false)
	}
	if d.chance(40, "sub on_failure") {
		sub.OnFailure = d.steps(1, 2, false)
	}
	sub.Outputs = []definition.Output{{Name: "x", Value: "{{ steps." + sub.Steps[0].ID + ".outputs.x }}"}}
	def.Pipelines = map[string]*definition.Definition{"sub": sub}
}

func (d *drawer) steps(n, depth int, spawns bool) []definition.Step {
	steps := make([]definition.Step, n)
	scans := false
	for i := range steps {
		d.n++
		s := &steps[i]
		s.ID = fmt.Sprintf("s%d", d.n)
		for j := range i {
			if d.chance(40, "edge") {
				s.DependsOn = append(s.DependsOn, steps[j].ID)
			}
		}
		d.kind(s, depth, spawns)
		if d.chance(20, "stream") {
			d.stream(s, steps[:i])
			continue
		}
		for _, dep := range s.DependsOn {
			if d.labels[dep] != "" {
				d.labels[s.ID] = "after"
			}
		}
		scans = scans || s.Action == "scan"
		d.manners(s, steps[:i])
	}
	if last := &steps[n-1]; scans && last.Module == "" && len(last.Steps) == 0 && last.Action != "scan" && d.chance(60, "names") {
		name := oneOf(d, "name", "extract", "copy", "extract:1")
		last.DependsOn = append(last.DependsOn, name)
		if reads := oneOf(d, "reads", "", "outputs", "failures", "count"); reads != "" && name != "extract:1" && slices.ContainsFunc(steps, func(s definition.Step) bool { return s.Action == "scan" && s.ForEach == nil }) {
			last.Condition = "{{ (steps." + name + "." + reads + " | string) != 'nothing' }}"
		}
	}
	return steps
}

// stream makes a stream step of one: part of the segment of another that it depends on, if it does on one.
func (d *drawer) stream(s *definition.Step, before []definition.Step) {
	deps := s.DependsOn
	*s = definition.Step{ID: s.ID, Module: "source", OnFailure: oneOf(d, "on_failure", "", "", "continue")}
	from := ""
	for i := range before {
		b := &before[i]
		if !slices.Contains(deps, b.ID) || b.Module == "sink" {
			continue
		}
		label := d.labels[b.ID]
		switch {
		case b.Module == "" && label == "": // nothing that waits for a stream
			s.DependsOn = append(s.DependsOn, b.ID)
		case b.Module != "" && (from == "" || from == label && b.Module != "discovery" && !strings.HasPrefix(from, "d:")):
			from = label
			s.DependsOn = append(s.DependsOn, b.ID)
		}
	}
	if from != "" {
		s.Module = oneOf(d, "role", "source", "modifier", "modifier", "sink")
	} else {
		s.Module = oneOf(d, "role", "source", "source", "discovery")
	}
	switch {
	case s.Module == "discovery":
		from = "d:" + s.ID
	case from == "":
		from = "p"
	case strings.HasPrefix(from, "d:") && s.Module == "source":
		from = "g:" + s.ID
	case strings.HasPrefix(from, "d:"):
		from = "m:" + from
	}
	d.labels[s.ID] = from
	if d.chance(30, "retry") {
		s.Retry = &definition.Retry{MaxAttempts: 2, BackoffSeconds: 1}
	}
	if len(before) > 0 && d.chance(30, "config") {
		dep := oneOf(d, "source", before...)
		if dep.Module == "" && d.labels[dep.ID] == "" && slices.Contains(s.DependsOn, dep.ID) {
			s.Config = map[string]any{"in": "{{ steps." + dep.ID + ".outputs | default({}) }}"}
		}
	}
}

func (d *drawer) kind(s *definition.Step, depth int, spawns bool) {
	s.Action = "work"
	kind := rapid.IntRange(0, 11).Draw(d.t, "kind")
	switch {
	case kind == 0 && spawns:
		s.Action = "scan"
	case kind == 1:
		s.Action = "deploy.once"
	case kind <= 3 && depth < 2:
		s.Action, s.Steps = "", d.steps(rapid.IntRange(1, 3).Draw(d.t, "inside"), depth+1, spawns)
	case kind == 4 && d.of.Pipelines["sub"] != nil:
		s.Action, s.Pipeline = "", "sub"
	}
	if d.chance(25, "loop") {
		s.ForEach = &definition.ForEach{Items: oneOf[any](d, "items", int64(0), int64(3), []any{"a", "b"}, map[string]any{"k": int64(1)}, "{{ [1, 2, 3, 4] }}", "text")}
		if d.chance(40, "window") {
			s.ForEach.MaxConcurrency = 1
		}
		s.ForEach.MaxFailures = oneOf(d, "max_failures", "", "1", "50%")
	}
}

func (d *drawer) manners(s *definition.Step, before []definition.Step) {
	s.TriggerRule = oneOf(d, "rule", "", "", "", "all_done", "one_success", "one_failed", "none_failed")
	s.OnFailure = oneOf(d, "on_failure", "", "", "continue")
	if d.chance(30, "retry") {
		s.Retry = &definition.Retry{MaxAttempts: rapid.IntRange(1, 3).Draw(d.t, "attempts"), BackoffSeconds: 1}
	}
	if len(s.Steps) > 0 && d.chance(30, "timeout") || s.Pipeline != "" && d.chance(30, "timeout") {
		s.TimeoutSeconds = 5
	}
	s.Weight = oneOf(d, "weight", 0, 0, 0, 0, 0.5, 3)
	s.Priority = oneOf(d, "priority", 0, 0, 0, 5)
	switch {
	case d.chance(80, "plain"):
	case len(before) > 0:
		dep := oneOf(d, "of", before...).ID
		s.Condition = oneOf(d, "condition", "{{ steps."+dep+".status == 'completed' }}", "{{ steps."+dep+".outputs.x == 1 }}", "{{ 1 // 0 }}", "false", "{{ steps | length > 0 }}")
	default:
		s.Condition = oneOf(d, "constant", "true", "false")
	}
	if len(before) > 0 && s.Action != "" && d.chance(30, "params") {
		s.Params = map[string]any{"in": "{{ steps." + oneOf(d, "source", before...).ID + ".outputs | default({}) }}"}
	}
}
