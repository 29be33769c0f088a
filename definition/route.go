package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// routers are the actions whose branches may name a target step, and the params with these names (budpipeline's
// conditional and switch).
var routers = map[string][]string{
	"conditional": {"branches"}, "util.condition": {"branches"},
	"switch": {"cases", "default"}, "util.switch": {"cases", "default"},
}

// router writes target_step out as plain dependencies and conditions: a step that is the target of a
// branch waits for the step that chooses, and is skipped unless a branch that leads to it is taken.
type router struct {
	*spec.Report
	suggestions
}

// target is one mention of a step as the target of a branch.
type target struct {
	from *Step
	pos  Pos
}

func (r *router) pipeline(d *Definition) {
	r.steps(d.Steps, "steps")
	r.steps(d.OnFailure, "on_failure")
	r.steps(d.Finally, "finally")
}

func (r *router) steps(list []Step, path string) {
	var index map[string]int
	targets := map[int][]target{}
	for i := range list {
		s := &list[i]
		r.steps(s.Steps, spec.ElementPath(path, i)+".steps")
		for _, at := range mentions(s) {
			if index == nil {
				index = indexOf(list)
			}
			if to, ok := r.target(list, index, i, at, spec.ElementPath(path, i)); ok {
				targets[to] = append(targets[to], target{s, posOf(s, at.at)})
			}
		}
	}
	for i := range list {
		if from := targets[i]; from != nil {
			r.lead(&list[i], from, spec.ElementPath(path, i))
		}
	}
}

// mention is a literal target_step in a step's params.
type mention struct{ id, at string }

func mentions(s *Step) []mention {
	var found []mention
	add := func(members map[string]any, at string) {
		if id, ok := members["target_step"].(string); ok && id != "" && !isTemplate(id) {
			found = append(found, mention{id, spec.Below(at, "target_step")})
		}
	}
	for _, name := range routers[s.Action] {
		at := spec.Below("params", name)
		list, _ := s.Params[name].([]any)
		for i, element := range list {
			members, _ := element.(map[string]any)
			add(members, spec.Below(at, itoa(i)))
		}
		if members, _ := s.Params[name].(map[string]any); name == "default" && isCase(members) {
			add(members, at)
		}
	}
	return found
}

// isCase reports whether a switch's default is written like a case; otherwise it is a result.
func isCase(members map[string]any) bool {
	for key := range members {
		if key != "result" && key != "target_step" {
			return false
		}
	}
	return true
}

// target finds the step that is meant.
func (r *router) target(list []Step, index map[string]int, from int, m mention, path string) (to int, ok bool) {
	s := &list[from]
	pos, path := posOf(s, m.at), spec.PlainPath(path, m.at)
	to, ok = index[m.id]
	switch {
	case s.ForEach != nil:
		r.Fail(pos, path, fmt.Sprintf("the step %q chooses once for each element, so it cannot lead to the step %q", s.ID, m.id), "put it into a group with for_each, beside the steps that it chooses from")
	case !ok:
		hint := "target_step is the id of a step in the same list"
		r.Fail(pos, path, fmt.Sprintf("target_step names the step %q, which does not exist beside this one", m.id), r.didYouMean(m.id, idsOf(list), hint))
	case to == from:
		r.Fail(pos, path, fmt.Sprintf("the step %q cannot be its own target_step", s.ID), "")
	default:
		return to, true
	}
	return 0, false
}

// lead makes a step wait for the steps that choose it, and run only when one of them does.
func (r *router) lead(s *Step, from []target, path string) {
	var chosen []string
	depends, seen := make(map[string]bool, len(s.DependsOn)), make(map[string]bool, len(from))
	for _, id := range s.DependsOn {
		depends[id] = true
	}
	for _, t := range from {
		id := t.from.ID
		if seen[id] {
			continue
		}
		seen[id] = true
		s.chosenBy = append(s.chosenBy, id)
		chosen = append(chosen, fmt.Sprintf(`steps[%q].outputs.target_step | default("") == %q`, id, s.ID))
		if !depends[id] {
			s.record(spec.Below("depends_on", itoa(len(s.DependsOn))), t.pos)
			s.DependsOn = append(s.DependsOn, id)
		}
	}
	own, err := expr.ParseCondition(s.Condition)
	if err != nil {
		return // Check reports it at its place
	}
	if s.ForEach != nil && PerElement(own, s.ForEach.As) {
		r.Fail(posOf(s, "condition"), path+".condition", fmt.Sprintf("the condition of %q is for each element, but as the target of %s the step is chosen as a whole", s.ID, strings.Join(s.chosenBy, " and ")),
			"make it a group with for_each, and put the condition on the step inside")
		return
	}
	s.written = &writtenCondition{s.Condition, posOf(s, "condition"), s.loose["condition"]}
	s.Condition = both(strings.Join(chosen, " or "), s.Condition)
	s.record("condition", from[0].pos)
	if s.loose == nil {
		s.loose = map[string]bool{}
	}
	s.loose["condition"] = true
}

// PerElement reports whether the condition of a step with for_each is decided for each element.
func PerElement(condition *expr.Template, as string) bool {
	return slices.ContainsFunc(condition.Refs(), func(ref expr.Ref) bool {
		return ref.Path[0] == "item" || ref.Path[0] == "index" || ref.Path[0] == as
	})
}

// record notes the place of something unless it is known.
func (s *Step) record(at string, pos Pos) {
	if s.At == nil {
		s.At = map[string]Pos{}
	}
	if _, known := s.At[at]; !known {
		s.At[at] = pos
	}
}

// both is the condition that holds when an expression does and a step's own condition too. The own one
// stays as it is written, within a block: its text is judged by the same rules as before.
func both(expression, own string) string {
	word := strings.TrimSpace(own)
	switch strings.ToLower(word) {
	case "", "true", "yes":
		return "{{ " + expression + " }}"
	case "false", "no", "none", "null":
		return own
	}
	if !isTemplate(own) {
		own = "{{ " + own + " }}"
	}
	return "{% if " + expression + " %}" + own + "{% endif %}"
}
