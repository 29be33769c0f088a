package definition

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// maxUses bounds the uses of an outline.
const maxUses = 100_000

// Outline is what an editor draws of a document, whether it has errors or not: its lists of steps with what each step waits for, and
// the places that name a step.
type Outline struct {
	Lists     []List // first that of the pipeline
	Uses      []Use
	Params    []Use // places in templates that name a parameter
	AnyStep   bool  // a template reads steps by names that are known only while it runs
	AnyParam  bool  // the same of parameters
	Truncated bool  // there are more than 100,000 uses or params
}

// List is the steps of a pipeline, of a group or of a handler.
type List struct {
	Name  string // "", "on_failure" or "finally"; of a group that of the list around it
	Path  string // in the document, "steps[2].steps"
	Up    int    // place of the list around it in Lists; −1: none
	At    int    // index there of the group that it is inside of; −1: none
	Steps []Step
	Deps  [][]int32 // of a step: the steps of the list that it waits for, spawners of the names that it waits for included
	Items [][]int   // of a stream step: those of them that give it items
	Part  []int     // of a stream step: the first step of its segment
}

// Use is a place that names a step, or a parameter.
type Use struct {
	Step string // its id; of Outline.Params the parameter's name
	Path string // of the value in the document
	At   Pos    // of the first character of the id; else that of the value
	// Exact says that the id stands at At as it is. Otherwise the text is folded, escaped or comes from a variable.
	Exact bool
}

// OutlineOf finds the lists and uses of a definition that Parse has made of src. A step of a group is also named by a template that
// reads it from the outputs of the group. Not found is what only a running template can tell, such as steps[params.name]. The time is
// that of Check.
func OutlineOf(d *Definition, cat Catalog, src []byte) *Outline { return Survey(d, cat, src, nil) }

// Survey is OutlineOf that also visits every template of the definition, in an order that is always the same.
func Survey(d *Definition, cat Catalog, src []byte, visit func(*Template)) *Outline {
	root := d
	if len(d.Matrix) > 0 && d.Pipelines[d.Matrix[0]] != nil { // all entries are the same text
		entry := *d.Pipelines[d.Matrix[0]]
		entry.Pipelines = d.Pipelines
		root = &entry
	}
	c := newChecker(root, cat, "")
	c.silent = true
	o := c.outlined(src, visit)
	c.run()
	o.finish(root)
	if len(d.Matrix) > 0 {
		o.out.Lists = []List{{Path: "steps", Up: -1, At: -1, Steps: d.Steps, Deps: make([][]int32, len(d.Steps)), Items: make([][]int, len(d.Steps)), Part: segmentsAlone(len(d.Steps))}}
	}
	return o.out
}

// outlined has a checker make an outline, which finish completes after it has run.
func (c *checker) outlined(src []byte, visit func(*Template)) *outliner {
	o := &outliner{out: &Outline{}, text: &sourceLines{src: src}, cat: c.cat, c: c}
	c.used, c.visit = o.template, visit
	return o
}

func (o *outliner) finish(root *Definition) {
	for _, s := range o.c.tops {
		name, _, _ := strings.Cut(s.path, "[")
		o.list(s, strings.TrimPrefix(name, "steps"), -1, -1)
	}
	if p := root.Progress; p != nil && p.Items != "" {
		o.literal(p.Items, "progress.items", root.At["progress/items"])
	}
}

// Surveyed is what Survey tells of a definition.
type Surveyed struct {
	Outline   *Outline // its places are not Exact
	Templates []*Template
	of        *Definition
}

// Covers reports whether it tells of a definition: of the one that was surveyed, or of what Expand has made of that.
func (s *Surveyed) Covers(d *Definition) bool {
	same := func(a, b []Step) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
	return s != nil && len(d.Matrix) == 0 && same(d.Steps, s.of.Steps) && same(d.OnFailure, s.of.OnFailure) && same(d.Finally, s.of.Finally)
}

// Inspect is Check and Survey in the time of one. It does not survey definitions whose problems are not those of what Expand makes of
// them: such with streams, or of a matrix; surveyed is nil then.
func Inspect(d *Definition, cat Catalog, file string) (problems Problems, surveyed *Surveyed) {
	if len(d.Matrix) > 0 || fanOutAll(d, cat) != d || withReport(d, cat) != d {
		return Check(d, cat, file), nil
	}
	c := newChecker(d, cat, file)
	c.mixed(d)
	out := &Surveyed{of: d}
	o := c.outlined(nil, func(t *Template) { out.Templates = append(out.Templates, t) })
	problems = c.run()
	o.finish(d)
	out.Outline = o.out
	return problems, out
}

// segmentsAlone puts every step into a segment of its own.
func segmentsAlone(n int) []int {
	part := make([]int, n)
	for i := range part {
		part[i] = i
	}
	return part
}

type outliner struct {
	out  *Outline
	c    *checker
	text *sourceLines
	cat  Catalog
}

// list adds a list and those of the groups in it.
func (o *outliner) list(s *scope, name string, up, at int) {
	if len(s.list) == 0 {
		return
	}
	l := List{Name: name, Path: s.path, Up: up, At: at, Steps: s.list, Deps: s.deps, Items: make([][]int, len(s.list)), Part: s.segments(o.cat)}
	here := len(o.out.Lists)
	for i := range s.list {
		if s.list[i].Module != "" {
			l.Items[i] = StreamInputs(s.list, i, o.cat, s.index)
		}
		o.step(&s.list[i], spec.ElementPath(s.path, i))
	}
	o.out.Lists = append(o.out.Lists, l)
	for i := range s.list {
		if inner := s.groups[i]; inner != nil {
			o.list(inner, name, here, i)
		}
	}
}

// step adds the uses that are no templates.
func (o *outliner) step(s *Step, path string) {
	o.literal(s.ID, path+".id", posOf(s, "id"))
	for k, id := range s.DependsOn {
		pos := posOf(s, "depends_on/"+itoa(k))
		if slices.Contains(s.chosenBy, id) && !o.text.has(pos, id) {
			continue // not in the document: the other step names this one as its target_step
		}
		family, _, _ := strings.Cut(id, ":")
		o.literal(family, spec.ElementPath(path+".depends_on", k), pos)
	}
	if s.Source != "" {
		o.literal(s.Source, path+".source", posOf(s, "source"))
	}
	for _, m := range mentions(s) {
		o.literal(m.id, spec.PlainPath(path, m.at), posOf(s, m.at))
	}
}

// literal adds a use whose value is the id.
func (o *outliner) literal(id, path string, pos Pos) {
	if _, known := o.c.ids[id]; known {
		o.add(&o.out.Uses, Use{Step: id, Path: path, At: pos, Exact: o.text.has(pos, id)})
	}
}

func (o *outliner) add(to *[]Use, u Use) {
	if len(*to) >= maxUses {
		o.out.Truncated = true
		return
	}
	*to = append(*to, u)
}

// parameter adds the parameter that a reference in a template names.
func (o *outliner) parameter(ref *expr.Ref, src *source, at string) {
	if src.in.defines(ref.Path[0]) {
		return
	}
	if len(ref.Path) < 2 {
		o.out.AnyParam = true
		return
	}
	o.add(&o.out.Params, o.named(ref.Path, 1, spec.PlainPath(src.base, at), src.place(at, ref.Line, ref.Column), !src.loose[at]))
}

// template adds the steps that a reference in a template names.
func (o *outliner) template(ref *expr.Ref, src *source, at string) {
	if ref.Path[0] == "params" || ref.Path[0] == "credentials" {
		o.parameter(ref, src, at)
		return
	}
	if ref.Path[0] != "steps" || src.in.defines("steps") {
		return
	}
	if len(ref.Path) < 2 {
		o.out.AnyStep = true
		return
	}
	target, known := o.c.ids[ref.Path[1]]
	if !known {
		return
	}
	pos, path := src.place(at, ref.Line, ref.Column), spec.PlainPath(src.base, at)
	mapped := !src.loose[at]
	o.add(&o.out.Uses, o.named(ref.Path, 1, path, pos, mapped))
	group := target.scope.groups[target.index]
	if group == nil || len(ref.Path) < 4 || ref.Path[2] != "outputs" {
		return
	}
	inner := 3
	if ref.Path[3] == "results" && target.step().ForEach != nil {
		inner = 5 // behind the number of the iteration
	}
	if inner < len(ref.Path) {
		if _, known := group.index[ref.Path[inner]]; known {
			o.add(&o.out.Uses, o.named(ref.Path, inner, path, pos, mapped))
		}
	}
}

// named is the use in the member of a reference's path that is an id or a name.
func (o *outliner) named(path []string, at int, value string, pos Pos, mapped bool) Use {
	use := Use{Step: path[at], Path: value, At: pos}
	if mapped {
		if place, ok := o.text.member(pos, path, at); ok {
			use.At, use.Exact = place, true
		}
	}
	return use
}

// sourceLines finds places in a document. It keeps the last line, so that many places in one long line are cheap.
type sourceLines struct {
	src    []byte
	loader *loader
	number int
	line   []rune
}

func (s *sourceLines) at(line int) []rune {
	if s.loader == nil {
		s.loader = &loader{src: []byte(strings.TrimPrefix(string(s.src), "\xef\xbb\xbf"))}
	}
	if s.number != line || s.line == nil {
		s.number, s.line = line, []rune(s.loader.line(line))
	}
	return s.line
}

// has reports whether a text stands at a place.
func (s *sourceLines) has(pos Pos, text string) bool {
	line := s.at(pos.Line)
	from := pos.Column - 1
	return from >= 0 && from <= len(line) && hasRunes(line[from:], text)
}

func hasRunes(line []rune, text string) bool {
	n := 0
	for _, r := range text {
		if n >= len(line) || line[n] != r {
			return false
		}
		n++
	}
	return true
}

// member is the place of a member of a reference that begins at pos: steps.a.outputs, steps["a"]. It is not found where the
// source is written in another way than the path reads, or in several lines.
func (s *sourceLines) member(pos Pos, path []string, want int) (Pos, bool) {
	line := s.at(pos.Line)
	at := pos.Column - 1
	if at < 0 || at > len(line) || !hasRunes(line[at:], path[0]) {
		return pos, false
	}
	blank := func() {
		for at < len(line) && line[at] == ' ' {
			at++
		}
	}
	at += len([]rune(path[0]))
	for i := 1; i <= want; i++ {
		blank()
		if at >= len(line) || line[at] != '.' && line[at] != '[' {
			return pos, false
		}
		subscript := line[at] == '['
		at++
		blank()
		if subscript && at < len(line) && line[at] == '\\' { // within a text in double quotes
			at++
		}
		if subscript && at < len(line) && (line[at] == '"' || line[at] == '\'') {
			at++
		}
		if !hasRunes(line[min(at, len(line)):], path[i]) {
			return pos, false
		}
		if i == want {
			return Pos{Line: pos.Line, Column: at + 1}, true
		}
		at += len([]rune(path[i]))
		if subscript {
			for at < len(line) && line[at] != ']' {
				at++
			}
			at++
		}
	}
	return pos, false
}
