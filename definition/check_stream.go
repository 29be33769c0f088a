package definition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// module checks a stream step.
func (c *checker) module(here located, in loops) {
	step, path := here.step(), here.path()
	src := source{at: step.At, loose: step.loose, pos: step.Pos, base: path, scope: here.scope, index: here.index, in: in, site: InConfig}
	a, err := c.actionNamed(step.Module)
	switch {
	case err != nil:
		c.Fail(posOf(step, "module"), path+".module", fmt.Sprintf("the module %q is described wrongly: %v", step.Module, err), "this is a mistake in the module, not in the document")
	case a == nil:
		hint := "list the known ones with: stepwell modules"
		if strings.Contains(step.Module, "{{") {
			hint = "the module cannot be a template"
		}
		c.Fail(posOf(step, "module"), path+".module", fmt.Sprintf("unknown module %q", step.Module), c.didYouMean(step.Module, c.modules(), hint))
	case a.spec.Stream == nil:
		c.Fail(posOf(step, "module"), path+".module", fmt.Sprintf("%q is an action, not a stream module", step.Module), "write action: and params:")
	default:
		config := ModuleConfig(c.def, step, a.spec)
		c.mismatches(here, a.checker.CheckTemplated(config), false)
		c.validate(here, step.Module, config)
		c.members(step.Config, a.spec.Params, "config", &src)
		c.moduleKeys(here)
		c.moduleInput(here, a.spec.Stream)
		c.joins(here)
		c.writes(here, a.spec)
		c.localOutput(here, a.spec)
		c.sameTime(here, a.spec.Params)
		return
	}
	c.members(step.Config, nil, "config", &src)
}

// modules are the names of all stream modules, aliases left out.
func (c *checker) modules() []string {
	var names []string
	for _, name := range c.cat.Names() {
		if s, ok := c.cat.Spec(name); ok && s.Stream != nil {
			names = append(append(names, name), s.Aliases...)
		}
	}
	return names
}

// moduleKeys refuses keys that a single step of a stream cannot have: its steps run as one.
func (c *checker) moduleKeys(here located) {
	step, path := here.step(), here.path()
	const hint = "the steps of a stream run as one; put them into a group (steps:) that has it"
	if step.Condition != "" {
		c.Fail(posOf(step, "condition"), path+".condition", "a stream step has no condition", hint+", or drop items with stream.filter")
	}
	if step.ForEach != nil {
		c.Fail(posOf(step, "for_each"), path+".for_each", "a stream step has no for_each", hint)
	}
	if step.TriggerRule != "" && step.TriggerRule != "all_success" {
		c.Fail(posOf(step, "trigger_rule"), path+".trigger_rule", "a stream step has no trigger_rule", hint)
	}
}

// moduleInput checks that items can reach the step.
func (c *checker) moduleInput(here located, s *spec.Stream) {
	step, path := here.step(), here.path()
	if s.Role == spec.Source || s.AlsoSource {
		return
	}
	if len(StreamInputs(here.scope.list, here.index, c.cat, here.scope.index)) > 0 {
		return
	}
	hint := "depends_on a step that gives items, such as a stac.ingest or stream.read"
	for _, id := range step.DependsOn {
		if j, ok := here.scope.index[id]; ok {
			if from := streamOf(&here.scope.list[j], c.cat); from != nil && from.Role == spec.Sink {
				hint = fmt.Sprintf("%s only writes items; depend on the step before it", id)
			}
		}
	}
	c.Fail(posOf(step, "depends_on"), path+".depends_on", fmt.Sprintf("no items reach the stream step %q", step.ID), hint)
}

// sameTime refuses templates that read steps of the same segment: they run at the same time.
func (c *checker) sameTime(here located, fields []spec.Field) {
	step := here.step()
	var reads []string
	var visit func(v any, f *spec.Field)
	visit = func(v any, f *spec.Field) {
		switch v := v.(type) {
		case string:
			bare := !isTemplate(v)
			if bare && (f == nil || !f.Bare) {
				return
			}
			for _, ref := range c.parse(v, bare).refs {
				if ref.Path[0] == "steps" && len(ref.Path) > 1 {
					reads = append(reads, ref.Path[1])
				}
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				visit(v[key], f.Member(key))
			}
		case []any:
			for _, e := range v {
				visit(e, f.Element())
			}
		}
	}
	visit(step.Config, &spec.Field{Fields: fields})
	if len(reads) == 0 {
		return
	}
	part := here.scope.segments(c.cat)
	for _, id := range reads {
		if j, ok := here.scope.index[id]; ok && part[j] == part[here.index] {
			c.Fail(posOf(step, "config"), here.path()+".config", fmt.Sprintf("%q and %q run at the same time, so that neither can read the other's outputs", step.ID, id),
				"let a step after the stream read them")
			return
		}
	}
}

// Segments says which stream steps of a list run as one: for each step the first step of its segment, or
// itself (semantics §6).
func Segments(list []Step, cat Specs) []int {
	index := indexOf(list)
	part := make([]int, len(list))
	for i := range part {
		part[i] = i
	}
	root := func(i int) int {
		for part[i] != i {
			part[i] = part[part[i]]
			i = part[i]
		}
		return i
	}
	for i := range list {
		for _, j := range StreamInputs(list, i, cat, index) {
			a, b := root(i), root(j)
			part[max(a, b)] = min(a, b)
		}
	}
	for i := range part {
		part[i] = root(i)
	}
	return part
}

func (s *scope) segments(cat Specs) []int {
	if s.part == nil {
		s.part = Segments(s.list, cat)
	}
	return s.part
}

// mixed refuses streams that join items of steps run once for each found element with other items: the latter would
// belong to no element.
func (c *checker) mixed(d *Definition) {
	var visit func(list []Step)
	visit = func(list []Step) {
		index := indexOf(list)
		for from := range list {
			visit(list[from].Steps)
			s := streamOf(&list[from], c.cat)
			if s == nil || s.FansOut == nil {
				continue
			}
			inside := behind(list, from, c.cat)
			for _, i := range inside {
				for _, j := range StreamInputs(list, i, c.cat, index) {
					if !slices.Contains(inside, j) {
						c.Fail(posOf(&list[i], "depends_on"), "", fmt.Sprintf("%q takes items of %q, but runs once for each %s of %q", list[i].ID, list[j].ID, s.FansOut.As, list[from].ID),
							"write the "+s.FansOut.Output+" first, and join them in a stream of its own")
					}
				}
			}
		}
	}
	visit(d.Steps)
}

// streams checks that the segments of a scope can run as one: no step of a segment may wait for the end of
// another, be it directly or by a step between them.
func (c *checker) streams(s *scope) {
	if !slices.ContainsFunc(s.list, func(x Step) bool { return x.Module != "" }) {
		return
	}
	part := s.segments(c.cat)
	before := make([][]int, len(s.list)) // dependencies of a segment, by segments
	for i := range s.list {
		in := StreamInputs(s.list, i, c.cat, s.index)
		for _, dep := range s.deps[i] {
			if !slices.Contains(in, int(dep)) {
				before[part[i]] = append(before[part[i]], int(dep))
			}
		}
	}
	state := make([]uint8, len(s.list))
	for i := range s.list {
		if part[i] == i {
			if path := follow(i, before, part, state, nil); path != nil {
				c.tangled(s, path)
				return
			}
		}
	}
}

// follow looks for a way from a segment back to itself, and returns the steps on it. The depth of the search
// is that of the graph, which a list of at most 100,000 steps bounds.
func follow(at int, before [][]int, part []int, state []uint8, trail []int) []int {
	const open, done = 1, 2
	if state[at] != 0 {
		return nil
	}
	state[at] = open
	for _, dep := range before[at] {
		next := part[dep]
		here := append(slices.Clip(trail), dep)
		if state[next] == open {
			return here
		}
		if path := follow(next, before, part, state, here); path != nil {
			return path
		}
	}
	state[at] = done
	return nil
}

func (c *checker) tangled(s *scope, path []int) {
	last := &s.list[path[len(path)-1]]
	var ids []string
	for _, i := range path {
		ids = append(ids, s.list[i].ID)
	}
	c.Fail(posOf(last, "id"), s.path, fmt.Sprintf("the stream that %q is part of waits for itself: its steps run at the same time, but one of them waits for the end of %s", last.ID, strings.Join(ids, ", which waits for ")),
		"let what has to wait read what was written, in a stream of its own")
}
