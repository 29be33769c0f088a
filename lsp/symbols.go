package lsp

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lint"
	"github.com/stepwell/stepwell/spec"
)

// name is a step or a parameter with all places that name it.
type name struct {
	id    string
	param bool
	at    definition.Pos // of its declaration
	uses  []definition.Use
}

// named finds the step or the parameter whose name stands at a place.
func (s *server) named(d *document, p position) (*name, span) {
	a := s.analyse(d)
	o := s.uses(a)
	if o == nil {
		return nil, span{}
	}
	offset := a.text.offset(p)
	hit := func(u *definition.Use) bool {
		from := a.text.at(u.At)
		return u.Exact && from <= offset && offset <= from+len(u.Step)
	}
	for i := range o.Uses {
		if u := &o.Uses[i]; hit(u) {
			from := a.text.at(u.At)
			return s.step(o, u.Step), a.text.span(from, from+len(u.Step))
		}
	}
	declared := a.parameters()
	for _, uses := range [][]definition.Use{declared, o.Params} {
		for i := range uses {
			if u := &uses[i]; hit(u) {
				from := a.text.at(u.At)
				return parameter(o, declared, u.Step), a.text.span(from, from+len(u.Step))
			}
		}
	}
	return nil, span{}
}

func (s *server) step(o *definition.Outline, id string) *name {
	n := &name{id: id}
	for _, u := range o.Uses {
		if u.Step == id {
			n.uses = append(n.uses, u)
			if strings.HasSuffix(u.Path, ".id") {
				n.at = u.At
			}
		}
	}
	return n
}

func parameter(o *definition.Outline, declared []definition.Use, id string) *name {
	n := &name{id: id, param: true}
	for _, u := range slices.Concat(declared, o.Params) {
		if u.Step == id {
			n.uses = append(n.uses, u)
		}
	}
	if len(n.uses) > 0 && strings.HasPrefix(n.uses[0].Path, "parameters[") {
		n.at = n.uses[0].At
	}
	return n
}

// parameters are the places that declare parameters.
func (a *analysis) parameters() (uses []definition.Use) {
	root, _ := definition.Nodes("", []byte(a.text.src))
	list := root.Lookup("parameters")
	if list == nil {
		return nil
	}
	for i, item := range list.Items {
		if n := item.Lookup("name"); n != nil && n.Kind == spec.ScalarNode {
			exact := !n.Loose && strings.HasPrefix(a.text.src[a.text.at(n.Pos):], n.Text)
			uses = append(uses, definition.Use{Step: n.Text, Path: spec.ElementPath("parameters", i) + ".name", At: n.Pos, Exact: exact})
		}
	}
	return uses
}

func (s *server) definition(d *document, p *placeParams) (any, error) {
	if n, _ := s.named(d, p.Position); n != nil {
		if n.at.Line == 0 {
			return nil, nil
		}
		from := d.text.at(n.at)
		return location{d.uri, d.text.span(from, from+len(n.id))}, nil
	}
	if file := s.fileAt(d, p.Position); file != "" {
		return location{s.uriOf(file), span{}}, nil
	}
	return nil, nil
}

// fileAt is the file of the sub-pipeline that a step names at a place.
func (s *server) fileAt(d *document, p position) (file string) {
	a := s.analyse(d)
	if a.pipeline == nil {
		return ""
	}
	offset := a.text.offset(p)
	a.pipeline.each(func(step *definition.Step) {
		if from := a.text.at(placeIn(step, "pipeline")); step.Pipeline != "" && from <= offset && offset <= from+len(step.Pipeline) {
			file = a.pipeline.Files[step.Pipeline]
		}
	})
	return file
}

// uriOf is the URI by which the editor knows a file.
func (s *server) uriOf(file string) string {
	for _, d := range s.documents {
		if d.file == file {
			return d.uri
		}
	}
	return uriOf(file)
}

func (s *server) references(d *document, p *placeParams) (any, error) {
	n, _ := s.named(d, p.Position)
	if n == nil {
		return []location{}, nil
	}
	out := []location{}
	for _, u := range n.uses {
		if u.At == n.at && !p.Context.IncludeDeclaration {
			continue
		}
		from := d.text.at(u.At)
		to := d.text.word(from)
		if u.Exact {
			to = from + len(u.Step)
		}
		out = append(out, location{d.uri, d.text.span(from, to)})
	}
	return out, nil
}

func (s *server) symbols(d *document, _ *placeParams) (any, error) {
	a := s.analyse(d)
	if a.pipeline == nil {
		a = d.good
	}
	out := []symbol{}
	if a == nil {
		return out, nil
	}
	def := a.pipeline.Definition
	for i := range def.Parameters {
		p := &def.Parameters[i]
		out = append(out, a.symbol(p.Name, string(p.Type), symbolParameter, p.Pos, nil))
	}
	for _, list := range [][]definition.Step{def.Steps, def.OnFailure, def.Finally} {
		out = append(out, a.steps(list)...)
	}
	for _, o := range def.Outputs {
		if pos, ok := def.At["outputs/"+o.Name]; ok {
			out = append(out, a.symbol(o.Name, "output", symbolOutput, pos, nil))
		}
	}
	return out, nil
}

func (a *analysis) steps(list []definition.Step) (out []symbol) {
	for i := range list {
		step := &list[i]
		kind := symbolStep
		if len(step.Steps) > 0 {
			kind = symbolGroup
		}
		out = append(out, a.symbol(step.ID, step.Action+step.Module+step.Pipeline, kind, placeIn(step, "id"), a.steps(step.Steps)))
	}
	return out
}

// symbol has the line of its name, and what is inside of it.
func (a *analysis) symbol(title, detail string, kind int, pos definition.Pos, children []symbol) symbol {
	from := a.text.at(pos)
	line := a.text.position(from).Line
	s := symbol{Name: cmp.Or(title, "?"), Detail: detail, Kind: kind, Children: children, Selection: a.text.span(from, a.text.word(from))}
	s.Range = span{position{line, 0}, position{line, units(a.text.line(line))}}
	for i := range children {
		if end := children[i].Range.End; end.Line > s.Range.End.Line {
			s.Range.End = end
		}
	}
	return s
}

var (
	stepID    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	paramName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (s *server) prepareRename(d *document, p *placeParams) (any, error) {
	n, at := s.named(d, p.Position)
	if n == nil {
		return nil, nil
	}
	if err := s.renamable(d, n); err != nil {
		return nil, err
	}
	return map[string]any{"range": at, "placeholder": n.id}, nil
}

// renamable says why a name cannot be changed everywhere.
func (s *server) renamable(d *document, n *name) error {
	a := s.analyse(d)
	for _, p := range a.problems {
		if p.Code == lint.CodeInvalid && !p.Warning && p.Line > 0 && (p.File == "" || p.File == d.file) {
			return refuse("%d:%d: %s: rename needs a valid definition", p.Line, p.Column, p.Message)
		}
	}
	o := s.uses(a)
	switch {
	case o.Truncated:
		return refuse("the document names steps in too many places")
	case !n.param && o.AnyStep:
		return refuse("a template reads steps by names that are known only while it runs")
	case n.param && o.AnyParam:
		return refuse("a template reads parameters by names that are known only while it runs")
	case n.at.Line == 0:
		return refuse("%q is not declared in this document", n.id)
	}
	for _, u := range n.uses {
		if !u.Exact {
			return refuse("line %d: %s names %q in a text that is folded, escaped or comes from a variable: change it by hand", u.At.Line, u.Path, n.id)
		}
	}
	return nil
}

func (s *server) rename(d *document, p *placeParams) (any, error) {
	n, _ := s.named(d, p.Position)
	if n == nil {
		return nil, refuse("there is neither a step nor a parameter here")
	}
	if err := s.renamable(d, n); err != nil {
		return nil, err
	}
	if err := s.free(d, n, p.NewName); err != nil {
		return nil, err
	}
	var edits []textEdit
	seen := map[int]bool{}
	for _, u := range n.uses {
		if from := d.text.at(u.At); !seen[from] {
			seen[from] = true
			edits = append(edits, textEdit{d.text.span(from, from+len(n.id)), p.NewName})
		}
	}
	changed := apply(d.text, edits)
	if a := s.analysisOf(d, newText(changed)); a.problemCount() != s.analyse(d).problemCount() {
		return nil, refuse("with %q for %q the definition has other problems than before: its new name means something else, or the old one is used in a way that is not seen", p.NewName, n.id)
	}
	out := workspaceEdit{Changes: map[string][]textEdit{d.uri: edits}}
	return out, s.renameTests(d, n, p.NewName, &out)
}

func (a *analysis) problemCount() int {
	if a.pipeline == nil {
		return -1
	}
	return len(a.problems)
}

// apply changes a text.
func apply(t *text, edits []textEdit) string {
	sorted := slices.Clone(edits)
	slices.SortFunc(sorted, func(a, b textEdit) int { return cmp.Compare(t.offset(b.Range.Start), t.offset(a.Range.Start)) })
	src := t.src
	for _, e := range sorted {
		src = src[:t.offset(e.Range.Start)] + e.NewText + src[t.offset(e.Range.End):]
	}
	return src
}

// free says why a name cannot be taken.
func (s *server) free(d *document, n *name, to string) error {
	if n.param {
		if !paramName.MatchString(to) || len(to) > 100 {
			return refuse("%q is no name of a parameter: letters, digits and _, no digit first, at most 100", to)
		}
		for _, p := range s.analyse(d).pipeline.Definition.Parameters {
			if p.Name == to {
				return refuse("there is a parameter %q already", to)
			}
		}
		return nil
	}
	if !stepID.MatchString(to) || len(to) > 100 {
		return refuse("%q is no id of a step: letters, digits, _, - and ., at most 100", to)
	}
	inTemplate := slices.ContainsFunc(n.uses, func(u definition.Use) bool {
		return strings.Contains(d.text.src[max(0, d.text.at(u.At)-6):d.text.at(u.At)], "steps.")
	})
	if inTemplate && !paramName.MatchString(to) {
		return refuse("templates read %q behind a dot, which %q cannot stand behind: choose letters, digits and _", n.id, to)
	}
	taken := false
	s.analyse(d).pipeline.each(func(step *definition.Step) { taken = taken || step.ID == to })
	if taken {
		return refuse("there is a step %q already", to)
	}
	return nil
}

func (s *server) hover(d *document, p *placeParams) (any, error) {
	if !d.isPipeline() {
		return nil, nil
	}
	offset := d.text.offset(p.Position)
	from, to := offset, offset
	for from > d.text.lines[p.lineIn(d.text)] && isWord(d.text.src[from-1]) {
		from--
	}
	for to < len(d.text.src) && isWord(d.text.src[to]) {
		to++
	}
	if from == to {
		return nil, nil
	}
	x := s.at(d, to)
	if start, code := x.tag(); start >= 0 {
		return x.hoverName(code, from, to, offset)
	}
	doc := ""
	switch word := d.text.src[from:to]; {
	case !x.c.value && to < len(d.text.src) && (d.text.src[to] == ':' || strings.HasPrefix(d.text.src[to:], `":`)):
		if about := properties(x.schemaAt(x.c.path))[word]; about != nil {
			doc = fmt.Sprintf("**%s** %s\n\n%s", word, detail(about, false), describe(about))
		}
	case x.c.value && (x.c.key == "action" || x.c.key == "module"):
		if about, ok := s.o.Catalog.Spec(word); ok {
			doc = specText(about)
		}
	}
	if doc == "" {
		return nil, nil
	}
	return hover{markdown(doc), d.text.span(from, to)}, nil
}

func (p *placeParams) lineIn(t *text) int { return max(0, min(p.Position.Line, len(t.lines)-1)) }

// hoverName says of what type a name in a template is, up to the member at the cursor.
func (x *completer) hoverName(code string, from, to, offset int) (any, error) {
	path := pathBefore.FindString(code)
	if path == "" || x.good == nil {
		return nil, nil
	}
	begin := to - len(path)
	end := offset
	for end < to && x.t.src[end] != '.' {
		end++
	}
	if end <= begin {
		return nil, nil
	}
	names := members.FindAllString(x.t.src[begin:end], -1)
	of := x.s.typesOf(x.good).Of(x.get("id"), names)
	if of == nil {
		return nil, nil
	}
	doc := fmt.Sprintf("`%s`: %s", x.t.src[begin:end], typeText(of))
	if of.Secret {
		doc += ", from a secret"
	}
	return hover{markdown(doc), x.t.span(max(from, begin), end)}, nil
}

// specText describes an action or a module.
func specText(about *spec.Spec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**: %s\n", about.Name, about.Summary)
	if about.Doc != "" {
		b.WriteString("\n" + about.Doc + "\n")
	}
	for _, group := range []struct {
		title  string
		fields []spec.Field
	}{{"Parameters", about.Params}, {"Outputs", about.Outputs}} {
		if len(group.fields) > 0 {
			b.WriteString("\n" + group.title + ":\n\n")
		}
		for i := range group.fields {
			f := &group.fields[i]
			required := ""
			if f.Required {
				required = ", required"
			}
			fmt.Fprintf(&b, "- `%s` (%s%s): %s\n", f.Name, f.Type, required, f.Doc)
		}
	}
	return b.String()
}
