package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
)

// condition reports one that always or never holds.
func (s *scene) condition(t *text) {
	if t.Site != definition.InCondition || t.at.list < 0 || strings.TrimSpace(t.Text) == "" || s.alreadyNever(t) {
		return
	}
	step := s.step(t.at)
	switch s.decide(t, false) {
	case expr.AlwaysFalse:
		s.add("SW201", t.Place(1, 1), t.Path, fmt.Sprintf("the condition of %q never holds", step.ID), "the step never runs", false)
		return
	case expr.AlwaysTrue:
		s.add("SW201", t.Place(1, 1), t.Path, fmt.Sprintf("the condition of %q always holds", step.ID), "leave it out", false)
		return
	}
	if s.decide(t, true) == expr.AlwaysFalse {
		s.add("SW204", t.Place(1, 1), t.Path, fmt.Sprintf("the condition of %q never holds: when a step that it asks about fails, this one does not start", step.ID),
			"let that step have on_failure: continue, or move this one to the pipeline's on_failure: or finally:", false)
	}
}

// alreadyNever reports whether a comparison of the template has been reported: the condition follows from it.
func (s *scene) alreadyNever(t *text) bool {
	return slices.ContainsFunc(s.Found, func(p definition.Problem) bool { return p.Code == "SW202" && p.Path == t.Path })
}

// Limits of trying all values that the names of a condition may have.
const (
	maxDomains = 6
	maxCases   = 512
)

// domain is a reference with finitely many values.
type domain struct {
	path   []string
	values []any
}

// decide tries a condition with all values of the names in it, if they are finitely many. With stops, the status of a step
// whose failure keeps this one from starting is never a failure.
func (s *scene) decide(t *text, stops bool) expr.Fixed {
	var domains []domain
	cases := 1
	for i := range t.refs {
		ref := &t.refs[i]
		if ref.Dynamic {
			return expr.Varies
		}
		d := domain{ref.Path, s.values(t, ref, stops)}
		if d.values == nil {
			return expr.Varies
		}
		if slices.ContainsFunc(domains, func(o domain) bool { return slices.Equal(o.path, d.path) }) {
			continue
		}
		domains = append(domains, d)
		if cases *= len(d.values); len(domains) > maxDomains || cases > maxCases {
			return expr.Varies
		}
	}
	return try(t.parsed, domains, cases)
}

// try evaluates a condition in all cases.
func try(condition *expr.Template, domains []domain, cases int) expr.Fixed {
	yes, no := false, false
	for n := range cases {
		vars := expr.Vars{}
		rest := n
		for _, d := range domains {
			put(vars, d.path, d.values[rest%len(d.values)])
			rest /= len(d.values)
		}
		holds, err := condition.EvalBool(vars, expr.Limits{})
		if err != nil {
			return expr.Varies
		}
		yes, no = yes || holds, no || !holds
		if yes && no {
			return expr.Varies
		}
	}
	if yes {
		return expr.AlwaysTrue
	}
	return expr.AlwaysFalse
}

// put sets a value at a path.
func put(vars map[string]any, path []string, v any) {
	for _, key := range path[:len(path)-1] {
		inner, ok := vars[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			vars[key] = inner
		}
		vars = inner
	}
	vars[path[len(path)-1]] = v
}

// values are all values that a reference may have; nil: they are not known.
func (s *scene) values(t *text, ref *expr.Ref, stops bool) []any {
	path := ref.Path
	switch {
	case path[0] == "params" && len(path) == 2:
		p := s.params.Members[path[1]]
		if p == nil || s.loopsAround(t)["params"] != nil {
			return nil
		}
		if p.Kinds == expr.BoolKind {
			return []any{true, false}
		}
		if p.Kinds == expr.TextKind && p.Words != nil {
			return texts(p.Words)
		}
	case path[0] == "steps" && len(path) == 3 && path[2] == "status":
		from, ok := s.byID[path[1]]
		if !ok {
			return nil
		}
		if stops && s.stopped(t.at, from) {
			return texts([]string{"completed", "skipped"})
		}
		return texts([]string{"completed", "failed", "skipped", "cancelled", "timed_out"})
	}
	return nil
}

func texts(words []string) []any {
	out := make([]any, len(words))
	for i, word := range words {
		out[i] = word
	}
	return out
}

// stopped reports whether a step does not start once another, that it waits for, has failed.
func (s *scene) stopped(at, by spot) bool {
	if at.list != by.list || s.handler(at) || s.step(by).OnFailure == "continue" || !s.waits(at.list, at.index, by.index) {
		return false
	}
	if s.failFast() {
		return true
	}
	return s.step(at).TriggerRule == "" && slices.Contains(s.lists[at.list].Deps[at.index], int32(by.index))
}

// failFast reports whether nothing starts once a step has failed.
func (s *scene) failFast() bool { return s.def.Settings.FailFast != definition.FailFastOff }

// reachable reports a step that can never run.
func (s *scene) reachable(at spot) {
	step := s.step(at)
	if !s.handler(at) && s.ruledOut(at) {
		return
	}
	if s.facts.Idle[step.ID] {
		s.report("SW203", at, "", fmt.Sprintf("%q never ran in %d simulated runs: no failure of one or two steps, and no condition, starts it", step.ID, s.facts.Runs),
			"look at its trigger_rule and depends_on, and at those of the steps before it")
	}
}

// ruledOut reports a step whose own trigger rule cannot be met, or only where nothing fails.
func (s *scene) ruledOut(at spot) bool {
	step := s.step(at)
	deps := s.lists[at.list].Deps
	if at.index >= len(deps) {
		return false
	}
	own := deps[at.index]
	switch step.TriggerRule {
	case "one_failed":
		if len(own) == 0 {
			s.report("SW203", at, "trigger_rule", fmt.Sprintf("%q waits for no step that could fail, so it never runs", step.ID), "name that step in depends_on")
			return true
		}
		if s.failFast() && !s.tolerates(at.list, own) {
			s.report("SW203", at, "trigger_rule", fmt.Sprintf("%q never runs: when %s fails, fail_fast keeps everything from starting", step.ID, s.names(at.list, own)),
				"write on_failure: continue at that step, settings: {fail_fast: false}, or move this one to the pipeline's on_failure:")
			return true
		}
	case "all_done":
		if len(own) > 0 && s.failFast() && !s.tolerates(at.list, own) {
			s.report("SW204", at, "trigger_rule", fmt.Sprintf("%q runs only when nothing fails: when %s fails, fail_fast keeps everything from starting", step.ID, s.names(at.list, own)),
				"move it to the pipeline's finally:, or write on_failure: continue at that step")
			return true
		}
	}
	return false
}

// tolerates reports whether the execution goes on after a failure of one of the steps.
func (s *scene) tolerates(list int, of []int32) bool {
	return slices.ContainsFunc(of, func(i int32) bool {
		return s.lists[list].Steps[i].OnFailure == "continue" || s.lists[list].Steps[i].Pos.Line == 0
	})
}

func (s *scene) names(list int, of []int32) string {
	var ids []string
	for _, i := range of[:min(len(of), 5)] {
		ids = append(ids, s.lists[list].Steps[i].ID)
	}
	return strings.Join(ids, " or ")
}
