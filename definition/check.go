package definition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// Catalog knows the actions that steps may name; action.Registry is one. A catalog that also has
//
//	Validate(name string, params map[string]any) []error
//
// is asked about the parameters of every step that contain no template. Where none contains one,
//
//	ValidateWhole(name string, params map[string]any) []error
//
// is asked instead, if the catalog has it: what is missing is known then. One that also has
//
//	IsSpread() bool
//
// says whether its workers are on several machines: a stream that writes to a local folder needs a queue then.
type Catalog interface {
	Spec(name string) (*spec.Spec, bool)
	Names() []string
}

type validator interface {
	Validate(name string, params map[string]any) []error
}

type wholeValidator interface {
	ValidateWhole(name string, params map[string]any) []error
}

// Check finds everything that is wrong with a definition as a whole: ids, dependencies and cycles, actions and their
// parameters, templates and their references. Problems carry file as their file name. Other pipelines (`pipeline:`
// steps) are looked up in d.Pipelines, and only entries of a matrix are checked themselves. The time is linear in the
// size of the document, apart from references to distant ancestors, whose verification is bounded. Check does not
// change d.
func Check(d *Definition, cat Catalog, file string) Problems {
	c := newChecker(fanOutAll(d, cat), cat, file)
	c.mixed(d)
	if len(d.Matrix) == 0 {
		return c.run()
	}
	for _, name := range d.Matrix { // the entries are this document's own
		if d.Pipelines[name] == nil {
			continue
		}
		entry := *d.Pipelines[name]
		entry.Pipelines = d.Pipelines
		inner := newChecker(fanOutAll(&entry, cat), cat, file)
		inner.mixed(&entry)
		inner.run()
		c.Merge(inner.Report)
		for _, w := range inner.written {
			w.entry = name
			c.written = append(c.written, w)
		}
	}
	c.places() // of different entries
	c.written = nil
	return c.run()
}

func newChecker(d *Definition, cat Catalog, file string) *checker {
	return &checker{Report: &spec.Report{File: file}, def: d, cat: cat, ids: map[string]located{}, actions: map[string]*actionCheck{},
		templates: map[string]*parsed{}, declared: map[string]bool{}, suggestions: 100, visits: 100_000_000}
}

func (c *checker) run() Problems {
	d := c.def
	for _, p := range d.Parameters {
		c.params = append(c.params, p.Name)
		c.declared[p.Name] = true
	}
	main := c.scope(d.Steps, "steps", nil, 0)
	after := &scope{outer: main, at: -1} // sees every step of the pipeline
	failure := c.scope(d.OnFailure, "on_failure", after, -1)
	finally := c.scope(d.Finally, "finally", after, -1)
	c.tops = []*scope{main, failure, finally}
	for _, s := range c.tops {
		c.graph(s)
		c.steps(s, loops{})
	}
	c.places()
	c.outputs(after)
	c.settings(after)
	c.partition()
	c.progress()
	c.pipelineCycles()
	if c.unverified > 0 {
		c.Warn(d.Pos, "", fmt.Sprintf("%d references to far-away steps were not verified", c.unverified), "the document is too tangled; a reference to a step that has not ended is undefined")
	}
	return c.Problems()
}

type checker struct {
	*spec.Report
	def       *Definition
	cat       Catalog
	params    []string // declared names, in order
	declared  map[string]bool
	ids       map[string]located // every step of the document
	actions   map[string]*actionCheck
	templates map[string]*parsed
	noted     map[string]bool // warnings given once per document
	suggestions
	visits     int // steps that ancestor searches may still look at
	unverified int
	joinWork   int // steps and paths looked at for joins
	written    []written
	tops       []*scope
	used       func(ref *expr.Ref, src *source, at string) // told of every reference, if not nil
	visit      func(*Template)                             // told of every template, if not nil
	silent     bool                                        // nobody reads the problems
}

// scope is a list of steps that can depend on each other: those of the pipeline, of a group, of a
// handler.
type scope struct {
	list   []Step
	path   string // "steps", "steps[2].steps"
	outer  *scope
	at     int // index of the group in outer; -1: everything in outer has ended
	index  map[string]int
	groups map[int]*scope // the scopes of steps that are groups
	// spawned maps the names of spawned steps to their possible spawners.
	spawned map[string][]int32
	part    []int // by step, its segment; nil: not looked at yet
	order
}

// located is where a step stands.
type located struct {
	scope *scope
	index int
}

func (l located) step() *Step  { return &l.scope.list[l.index] }
func (l located) path() string { return spec.ElementPath(l.scope.path, l.index) }

// scope indexes steps and the groups among them. An id is unique in the whole document.
func (c *checker) scope(list []Step, path string, outer *scope, at int) *scope {
	s := &scope{list: list, path: path, outer: outer, at: at, index: make(map[string]int, len(list))}
	for i := range list {
		step := &list[i]
		if step.ID != "" {
			c.register(s, i)
		}
		if len(step.Steps) > 0 {
			if s.groups == nil {
				s.groups = map[int]*scope{}
			}
			s.groups[i] = c.scope(step.Steps, spec.ElementPath(path, i)+".steps", s, i)
		}
	}
	return s
}

func (c *checker) register(s *scope, i int) {
	id := s.list[i].ID
	if first, twice := c.ids[id]; twice {
		hint := "ids are unique in the whole document"
		if line := first.step().Pos.Line; line > 0 {
			hint = "the first one is in line " + itoa(line) + "; " + hint
		}
		c.Fail(posOf(&s.list[i], "id"), spec.ElementPath(s.path, i)+".id", fmt.Sprintf("the id %q appears twice", id), hint)
		return
	}
	c.ids[id] = located{s, i}
	s.index[id] = i
}

// posOf is the place of something inside a step, the step's own when it is unknown.
func posOf(s *Step, path string) Pos {
	if pos, ok := s.At[path]; ok {
		return pos
	}
	return s.Pos
}

// steps checks every step of a scope and of the groups inside.
func (c *checker) steps(s *scope, in loops) {
	for i := range s.list {
		here := located{s, i}
		inside := c.loop(here, in)
		c.step(here, inside)
		if inner := s.groups[i]; inner != nil {
			c.graph(inner)
			c.steps(inner, inside)
		}
	}
}

func (c *checker) step(here located, inside loops) {
	step, path := here.step(), here.path()
	switch {
	case step.Module != "":
		c.module(here, inside)
	case step.Action != "":
		c.action(here, inside)
	case step.Pipeline != "":
		c.subPipeline(here, inside)
	}
	if step.Condition != "" {
		c.condition(here, inside)
	}
	if step.Queue != "" && step.Pipeline != "" {
		c.Warn(posOf(step, "queue"), path+".queue", "a step that runs a pipeline has no use for a queue", "name the queue at the steps of that pipeline")
	}
}

// once reports whether a warning of the kind is the first one.
func (c *checker) once(kind string) bool {
	if c.noted[kind] {
		return false
	}
	if c.noted == nil {
		c.noted = map[string]bool{}
	}
	c.noted[kind] = true
	return true
}

// suggestions counts the did-you-means that may still be computed: comparing names is the only thing that costs more
// than linear time.
type suggestions int

func (s *suggestions) didYouMean(name string, among []string, otherwise string) string {
	if *s == 0 {
		return otherwise
	}
	*s--
	return cmp.Or(spec.DidYouMean(name, among), otherwise)
}

func idsOf(list []Step) []string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	return ids
}

// visibleIDs are the ids that a step in the scope could mean, nearest first.
func (s *scope) visibleIDs() []string {
	var ids []string
	for ; s != nil; s = s.outer {
		ids = append(append(ids, idsOf(s.list)...), slices.Sorted(maps.Keys(s.spawned))...)
	}
	return ids
}

func (c *checker) outputs(after *scope) {
	for i := range c.def.Outputs {
		out := &c.def.Outputs[i]
		src := source{at: c.def.At, loose: c.def.loose, pos: out.Pos, scope: after, index: -1, site: InOutputs}
		c.value(out.Value, nil, spec.Below("outputs", out.Name), &src)
	}
}

func (c *checker) settings(after *scope) {
	limit := c.def.Settings.Concurrency
	if limit == nil {
		return
	}
	const at = "settings/concurrency/key"
	pos, ok := c.def.At["settings/concurrency"]
	if !ok {
		pos = c.def.Pos
	}
	src := source{at: c.def.At, loose: c.def.loose, pos: pos, scope: &scope{}, index: -1, early: true, site: InKey}
	c.value(limit.Key, nil, at, &src)
}

// progress reports a step whose items cannot be counted.
func (c *checker) progress() {
	p := c.def.Progress
	if p == nil || p.Items == "" {
		return
	}
	pos, ok := c.def.At["progress"]
	if !ok {
		pos = c.def.Pos
	}
	i := slices.IndexFunc(c.def.Steps, func(s Step) bool { return s.ID == p.Items })
	switch {
	case len(c.def.Matrix) > 0:
		c.Fail(pos, "progress.items", "a pipeline with strategy.matrix has no steps whose items count", "leave progress out: each execution counts as one item")
	case i < 0:
		c.Fail(pos, "progress.items", fmt.Sprintf("there is no step %s at the top level", spec.Quote(p.Items)), spec.DidYouMean(p.Items, idsOf(c.def.Steps)))
	case c.def.Steps[i].ForEach == nil && c.def.Steps[i].Module == "":
		c.Fail(pos, "progress.items", fmt.Sprintf("the step %s has no items", spec.Quote(p.Items)), "name a step with for_each, or a stream step")
	}
}

// pipelineCycles reports pipelines that run each other for ever.
func (c *checker) pipelineCycles() {
	state := map[string]int{} // 1: being followed, 2: done
	var trail []string
	var visit func(step *Step)
	visit = func(step *Step) {
		name := step.Pipeline
		sub := c.def.Pipelines[name]
		if sub == nil || state[name] == 2 {
			return
		}
		if state[name] == 1 {
			from := slices.Index(trail, name)
			c.Fail(step.Pos, "", "pipelines run each other for ever: "+strings.Join(append(slices.Clone(trail[from:]), name), " → "), "")
			return
		}
		state[name] = 1
		trail = append(trail, name)
		everyStep(visit, sub.Steps, sub.Finally, sub.OnFailure)
		trail = trail[:len(trail)-1]
		state[name] = 2
	}
	everyStep(visit, c.def.Steps, c.def.Finally, c.def.OnFailure)
}
