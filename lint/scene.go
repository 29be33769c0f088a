package lint

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// scene is one definition with what the rules look up.
type scene struct {
	*spec.Report
	def      *definition.Definition
	cat      definition.Catalog
	facts    Facts
	lists    []definition.List
	byPath   map[string]int  // lists by their path
	byID     map[string]spot // steps
	texts    []text
	used     map[string]bool // parameters that something reads
	usedAll  bool
	params   *expr.Type
	outputs  map[string]*expr.Type // of steps, once they are known
	pending  map[string]bool       // outputs that are being inferred
	elements map[string]*expr.Type // of loops, by the id of the step
}

// spot is where a step stands.
type spot struct{ list, index int }

// text is a template with what it refers to.
type text struct {
	*definition.Template
	parsed *expr.Template
	refs   []expr.Ref
	at     spot // of its step; list −1: outside of steps
}

func newScene(d *definition.Definition, cat definition.Catalog, report *spec.Report, facts Facts) *scene {
	s := &scene{Report: report, def: d, cat: cat, facts: facts, byPath: map[string]int{}, byID: map[string]spot{}, used: map[string]bool{},
		outputs: map[string]*expr.Type{}, pending: map[string]bool{}, elements: map[string]*expr.Type{}}
	var found []*definition.Template
	if facts.Survey.Covers(d) {
		s.lists, found = facts.Survey.Outline.Lists, facts.Survey.Templates
	} else {
		s.lists = definition.Survey(d, cat, nil, func(t *definition.Template) { found = append(found, t) }).Lists
	}
	for i := range s.lists {
		l := &s.lists[i]
		s.byPath[l.Path] = i
		for j := range l.Steps {
			s.byID[l.Steps[j].ID] = spot{i, j}
		}
	}
	s.params = paramsType(d.Parameters)
	for _, t := range found {
		s.learn(t)
	}
	return s
}

// learn takes in a template. One with a mistake is reported by Check.
func (s *scene) learn(t *definition.Template) {
	if t.Parsed == nil {
		return
	}
	x := text{Template: t, parsed: t.Parsed, refs: t.Parsed.Refs(), at: spot{-1, -1}}
	if l, ok := s.byPath[t.List]; ok && t.List != "" {
		x.at = spot{l, t.Index}
	}
	for i := range x.refs {
		switch path := x.refs[i].Path; {
		case path[0] != "params" && path[0] != "credentials":
		case len(path) > 1:
			s.used[path[1]] = true
		default:
			s.usedAll = true
		}
	}
	s.texts = append(s.texts, x)
}

func (s *scene) find() {
	for i := range s.texts {
		of := s.types(&s.texts[i])
		s.condition(&s.texts[i])
		if of.Secret {
			s.secret(&s.texts[i])
		}
	}
	s.unused()
	for l := range s.lists {
		for i := range s.lists[l].Steps {
			at := spot{l, i}
			if s.step(at).Pos.Line == 0 {
				continue // made by Expand, not written
			}
			s.reachable(at)
			s.effects(at)
			s.loop(at)
		}
	}
	s.races()
	s.timing()
	s.limits()
}

func (s *scene) step(at spot) *definition.Step { return &s.lists[at.list].Steps[at.index] }

// path is the place of a step in the document.
func (s *scene) path(at spot) string { return spec.ElementPath(s.lists[at.list].Path, at.index) }

// posOf is the place of something in a step, else the step's.
func posOf(step *definition.Step, at string) definition.Pos {
	if pos, ok := step.At[at]; ok {
		return pos
	}
	return step.Pos
}

// report adds a problem at a place within a step. Whether it is an error is the rule's.
func (s *scene) report(code string, at spot, inside, message, hint string) {
	path := s.path(at)
	if inside != "" {
		path = spec.PlainPath(path, inside)
	}
	s.add(code, posOf(s.step(at), inside), path, message, hint, false)
}

// add adds a problem; an error only if its rule has errors and it is certain.
func (s *scene) add(code string, pos definition.Pos, path, message, hint string, maybe bool) {
	rule, _ := RuleOf(code)
	before := len(s.Found)
	s.Add(pos, path, message, hint, maybe || !rule.Error)
	if len(s.Found) > before {
		s.Found[before].Code = code
	}
}

// around are the steps around a step, itself first, the outermost last.
func (s *scene) around(at spot) []spot {
	out := []spot{at}
	for l := &s.lists[at.list]; l.Up >= 0 && l.At >= 0; l = &s.lists[l.Up] {
		out = append(out, spot{l.Up, l.At})
	}
	return out
}

// handler reports whether a step belongs to finally or on_failure.
func (s *scene) handler(at spot) bool { return !strings.HasPrefix(s.lists[at.list].Path, "steps") }

// maxVisits bounds the steps that are looked at for one question about the order of two steps.
const maxVisits = 20_000

// waits reports whether step a of a list ends before step b starts; true when the answer takes too long.
func (s *scene) waits(list, b, a int) bool {
	deps := s.lists[list].Deps
	seen, queue := map[int]bool{b: true}, []int{b}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if at >= len(deps) {
			continue
		}
		for _, dep := range deps[at] {
			if int(dep) == a {
				return true
			}
			if !seen[int(dep)] {
				if len(seen) > maxVisits {
					return true
				}
				seen[int(dep)] = true
				queue = append(queue, int(dep))
			}
		}
	}
	return false
}

// ordered reports whether of two steps one ends before the other starts.
func (s *scene) ordered(a, b spot) bool {
	as, bs := s.around(a), s.around(b)
	for _, x := range as {
		for _, y := range bs {
			if x.list == y.list {
				return x == y || s.waits(x.list, y.index, x.index) || s.waits(x.list, x.index, y.index)
			}
		}
	}
	return true // a handler and the pipeline's steps
}

// action is the description of a step's action or module, nil when it is unknown.
func (s *scene) action(step *definition.Step) *spec.Spec {
	name := step.Action + step.Module
	if name == "" {
		return nil
	}
	about, ok := s.cat.Spec(name)
	if !ok {
		return nil
	}
	return about
}

// is reports whether the step has the action.
func (s *scene) is(step *definition.Step, names ...string) bool {
	about := s.action(step)
	return about != nil && slices.Contains(names, about.Name)
}
