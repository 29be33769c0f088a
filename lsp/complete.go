package lsp

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// completer gathers what may stand at one place.
type completer struct {
	s     *server
	d     *document
	t     *text
	good  *analysis // nil: nothing could be read yet
	c     *cursor
	step  map[string]entry // the keys of the step around the place, nil outside of steps
	under []string         // the path within that step
	to    int              // the cursor
	items []completionItem
}

// maxItems bounds one answer.
const maxItems = 2000

func (s *server) complete(d *document, p *placeParams) (any, error) {
	if d.isTest() && s.o.TestSchema != nil {
		x := s.completeTest(d, d.text.offset(p.Position))
		return completionList{len(x.items) == maxItems, append([]completionItem{}, x.items...)}, nil
	}
	if !d.isPipeline() {
		return nil, nil
	}
	x := s.at(d, d.text.offset(p.Position))
	switch start, code := x.tag(); {
	case start >= 0:
		x.expression(code)
	case x.c.scalar:
	default:
		x.fields()
	}
	return completionList{len(x.items) == maxItems, append([]completionItem{}, x.items...)}, nil
}

// at locates a place. Only a document that could never be read is looked at first: typing waits for no check.
func (s *server) at(d *document, offset int) *completer {
	if d.good == nil {
		s.analyse(d)
	}
	x := &completer{s: s, d: d, t: d.text, good: d.good, c: d.text.locate(offset), to: offset}
	for i := len(x.c.path); i > 1; i-- {
		if !x.c.isStep(i) {
			continue
		}
		x.under = x.c.path[i:]
		for _, f := range x.c.frames {
			if f.depth == i {
				x.step = x.t.entries(f)
			}
		}
		break
	}
	return x
}

// get is the text of a key of the step.
func (x *completer) get(key string) string { return plain(x.step[key].value) }

func (x *completer) add(kind int, label, detail, doc, insert string) {
	if len(x.items) == maxItems {
		return
	}
	x.items = append(x.items, completionItem{Label: label, Kind: kind, Detail: detail, Documentation: markdown(doc), SortText: fmt.Sprintf("%04d", len(x.items)),
		FilterText: label, Edit: textEdit{x.t.span(x.c.from, x.to), insert}})
}

// fields completes keys and values by the schema of the place.
func (x *completer) fields() {
	schema := x.schemaAt(x.c.path)
	if !x.c.value {
		if keys := properties(schema); len(keys) > 0 {
			x.keys(schema)
			return
		}
		x.values(schema, x.c.path)
		return
	}
	x.values(x.member(schema, x.c.key), append(slices.Clone(x.c.path), x.c.key))
}

// keys completes a key of a mapping.
func (x *completer) keys(schema map[string]any) {
	present := map[string]entry{}
	if x.c.inFlow {
		for _, key := range x.c.flow {
			present[key] = entry{}
		}
	} else {
		present = x.t.entries(x.c.frames[0])
	}
	required := texts(schema["required"])
	props := properties(schema)
	names := slices.SortedFunc(maps.Keys(props), func(a, b string) int {
		if ra, rb := slices.Contains(required, a), slices.Contains(required, b); ra != rb {
			if ra {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		about := props[name]
		if _, given := present[name]; given || about["deprecated"] == true {
			continue
		}
		insert := name + ": "
		if x.c.inFlow && strings.ContainsAny(name, "[]{},") {
			insert = fmt.Sprintf("%q: ", name)
		}
		switch kind, _ := about["type"].(string); {
		case x.c.inFlow:
		case kind == "object" || kind == "array" && about["items"] != nil && properties(x.resolve(about["items"])) != nil:
			insert = name + ":"
		}
		x.add(kindProperty, name, detail(about, slices.Contains(required, name)), describe(about), insert)
	}
}

// detail is the type of a value in one line.
func detail(about map[string]any, required bool) string {
	out, _ := about["type"].(string)
	if required {
		out += ", required"
	}
	if v, ok := about["default"]; ok {
		out += fmt.Sprintf(", default %v", v)
	}
	return strings.TrimPrefix(out, ", ")
}

func describe(about map[string]any) string {
	doc, _ := about["description"].(string)
	if words := texts(about["enum"]); len(words) > 0 {
		doc += "\n\nOne of `" + strings.Join(words, "`, `") + "`."
	}
	return strings.TrimSpace(doc)
}

// values completes a value.
func (x *completer) values(about map[string]any, path []string) {
	under := path[max(0, len(path)-len(x.underOf(path))):]
	if x.step != nil {
		switch strings.Join(under, "/") {
		case "action":
			x.specs(func(s *spec.Spec) bool { return s.Stream == nil })
			return
		case "module":
			x.specs(func(s *spec.Spec) bool { return s.Stream != nil })
			return
		case "pipeline":
			x.pipelines()
			return
		case "depends_on", "depends_on/[]":
			x.siblings()
			return
		case "source":
			x.add(kindValue, "media", "", "The file of the lesson.", "media")
			x.siblings()
			return
		}
	}
	for _, word := range choicesOf(x, about, 0) {
		x.add(kindValue, word, "", "", word)
	}
}

// underOf is the part of a path that lies within the step.
func (x *completer) underOf(path []string) []string {
	return path[len(x.c.path)-len(x.under):]
}

// choicesOf are the values that a schema lists.
func choicesOf(x *completer, about map[string]any, depth int) (words []string) {
	if depth > 4 {
		return nil
	}
	if about["type"] == "boolean" {
		words = append(words, "true", "false")
	}
	words = append(words, texts(about["enum"])...)
	if v, ok := about["default"]; ok {
		if text := fmt.Sprint(v); !slices.Contains(words, text) && !strings.ContainsAny(text, "\n{[") {
			words = append(words, text)
		}
	}
	for _, of := range alternatives(about) {
		words = append(words, choicesOf(x, x.resolve(of), depth+1)...)
	}
	return words
}

func (x *completer) specs(want func(*spec.Spec) bool) {
	for i := range x.s.o.Specs {
		if about := &x.s.o.Specs[i]; want(about) && !about.Internal {
			x.add(kindFunction, about.Name, "", about.Summary, about.Name)
		}
	}
}

// maxFiles bounds the files of a folder that are offered.
const maxFiles = 1000

// pipelines completes the name of a sub-pipeline: those beside the document.
func (x *completer) pipelines() {
	entries, err := os.ReadDir(filepath.Dir(x.d.file))
	if err != nil {
		return // an unsaved document has no folder
	}
	for _, e := range entries[:min(len(entries), maxFiles)] {
		name, ext := e.Name(), filepath.Ext(e.Name())
		if e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, ext) || endsIn(name, testSuffixes) || name == filepath.Base(x.d.file) {
			continue
		}
		x.add(kindFile, strings.TrimSuffix(name, ext), name, "", strings.TrimSuffix(name, ext))
	}
}

// siblings completes the id of a step that this one may wait for: one beside it that does not wait for this one.
func (x *completer) siblings() {
	if x.good == nil {
		return
	}
	given := x.t.words(x.step["depends_on"])
	if x.c.typed != "" {
		given = slices.DeleteFunc(given, func(id string) bool { return id == x.c.typed })
	}
	list, self := x.around(x.get("id"))
	if list == nil {
		list, self = x.listOf(given), -1
	}
	if list == nil {
		return
	}
	waiting := waitingFor(list, self)
	for i := range list.Steps {
		step := &list.Steps[i]
		if i != self && !waiting[i] && step.Pos.Line > 0 && !slices.Contains(given, step.ID) {
			x.add(kindReference, step.ID, step.Action+step.Module+step.Pipeline, step.Name, step.ID)
		}
	}
}

// around is the list in which a step stands.
func (x *completer) around(id string) (*definition.List, int) {
	o := x.s.uses(x.good)
	if o == nil {
		return nil, -1
	}
	if x.good.byID == nil {
		x.good.byID = map[string][2]int{}
		for l := range o.Lists {
			for i := range o.Lists[l].Steps {
				x.good.byID[o.Lists[l].Steps[i].ID] = [2]int{l, i}
			}
		}
	}
	at, ok := x.good.byID[id]
	if !ok {
		return nil, -1
	}
	return &o.Lists[at[0]], at[1]
}

// listOf is the list of a step that is not in the definition yet: that of what it waits for, else that of the place.
func (x *completer) listOf(given []string) *definition.List {
	for _, id := range given {
		if list, _ := x.around(id); list != nil {
			return list
		}
	}
	o := x.s.uses(x.good)
	group := -1 // the list of the innermost group around the place that is known
	for _, f := range x.c.frames[1:] {
		if !x.c.isStep(f.depth) {
			continue
		}
		if list, i := x.around(plain(x.t.entries(f)["id"].value)); list != nil && len(list.Steps[i].Steps) > 0 {
			for l := range o.Lists {
				if up := o.Lists[l].Up; up >= 0 && &o.Lists[up] == list && o.Lists[l].At == i {
					group = l
				}
			}
			break
		}
	}
	if group >= 0 {
		return &o.Lists[group]
	}
	for l := range o.Lists {
		if len(x.c.path) > 0 && o.Lists[l].Path == x.c.path[0] {
			return &o.Lists[l]
		}
	}
	return nil
}

// waitingFor are the steps of a list that wait for one, at any distance.
func waitingFor(list *definition.List, self int) map[int]bool {
	waiting := map[int]bool{}
	if self < 0 {
		return waiting
	}
	next := make([][]int, len(list.Steps))
	for i, deps := range list.Deps {
		for _, dep := range deps {
			next[dep] = append(next[dep], i)
		}
	}
	for queue := []int{self}; len(queue) > 0; queue = queue[1:] {
		for _, i := range next[queue[0]] {
			if !waiting[i] {
				waiting[i] = true
				queue = append(queue, i)
			}
		}
	}
	return waiting
}

// ancestors are the steps that the one at the place waits for, at any distance: what it depends on as the text stands, else as it
// stood. Steps of groups also see what the group waits for.
func (x *completer) ancestors() (ids []string) {
	seen := map[string]bool{}
	visit := func(list *definition.List, i int) {
		for queue := []int{i}; len(queue) > 0; queue = queue[1:] {
			step := &list.Steps[queue[0]]
			if seen[step.ID] {
				continue
			}
			seen[step.ID] = true
			ids = append(ids, step.ID)
			for _, dep := range list.Deps[queue[0]] {
				queue = append(queue, int(dep))
			}
		}
	}
	o := x.s.uses(x.good)
	for _, f := range x.c.frames {
		if !x.c.isStep(f.depth) {
			continue
		}
		keys := x.t.entries(f)
		id := plain(keys["id"].value)
		if id == "" {
			continue
		}
		for _, dep := range x.t.words(keys["depends_on"]) {
			if list, i := x.around(dep); list != nil {
				visit(list, i)
			}
		}
		if list, i := x.around(id); list != nil {
			for _, dep := range list.Deps[i] {
				visit(list, int(dep))
			}
		}
	}
	if x.step == nil && o != nil { // the outputs of the pipeline, on_failure and finally read all
		for l := range o.Lists {
			for i := range o.Lists[l].Steps {
				visit(&o.Lists[l], i)
			}
		}
	} else if len(x.c.path) > 0 && (x.c.path[0] == "finally" || x.c.path[0] == "on_failure") && o != nil {
		for l := range o.Lists {
			if o.Lists[l].Path == "steps" {
				for i := range o.Lists[l].Steps {
					visit(&o.Lists[l], i)
				}
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// tag finds the template that the cursor is in: where its code begins, and the code up to the cursor. A condition is code without braces.
func (x *completer) tag() (int, string) {
	line := x.t.position(x.to).Line
	from := x.t.lines[line]
	if x.c.scalar {
		from = x.t.lines[max(0, line-20)]
	}
	src := x.t.src[from:x.to]
	open := max(strings.LastIndex(src, "{{"), strings.LastIndex(src, "{%"))
	if open >= 0 && open > max(strings.LastIndex(src, "}}"), strings.LastIndex(src, "%}")) {
		return from + open + 2, src[open+2:]
	}
	if x.c.key == "condition" && x.c.value && x.step != nil && !strings.Contains(x.c.typed, "{{") {
		return x.c.from, x.c.typed
	}
	return -1, ""
}

var (
	pathBefore = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_-]*|\[\s*(?:"[^"]*"|'[^']*'|\d+)\s*\])*$`)
	filterNext = regexp.MustCompile(`\|\s*([a-z_]*)$`)
	testNext   = regexp.MustCompile(`\bis\s+(?:not\s+)?([a-z_]*)$`)
	members    = regexp.MustCompile(`[A-Za-z0-9_-]+`)
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// expression completes a name in a template.
func (x *completer) expression(code string) {
	if m := filterNext.FindStringSubmatch(code); m != nil {
		x.c.from = x.to - len(m[1])
		for _, name := range expr.Filters() {
			x.add(kindFunction, name, "filter", "", name)
		}
		return
	}
	if m := testNext.FindStringSubmatch(code); m != nil {
		x.c.from = x.to - len(m[1])
		for _, name := range expr.Tests() {
			x.add(kindFunction, name, "test", "", name)
		}
		return
	}
	path := pathBefore.FindString(code)
	dot := strings.LastIndexByte(path, '.')
	x.c.from = x.to - len(path) + dot + 1
	if dot < 0 {
		x.roots()
		return
	}
	x.memberOf(members.FindAllString(path[:dot], -1))
}

// roots completes the first name.
func (x *completer) roots() {
	for _, name := range []string{"params", "steps", "secrets", "execution"} {
		x.add(kindVariable, name, "", "", name)
	}
	if x.good == nil || x.step == nil {
		return
	}
	loops := x.s.typesOf(x.good).Loops(x.get("id"))
	if _, loop := x.step["for_each"]; loop && len(loops) == 0 {
		loops = map[string]*expr.Type{"item": expr.Unknown, "index": expr.Unknown}
	}
	for _, name := range slices.Sorted(maps.Keys(loops)) {
		x.add(kindVariable, name, typeText(loops[name]), "", name)
	}
}

// memberOf completes a member of a value.
func (x *completer) memberOf(path []string) {
	if x.good == nil || len(path) == 0 {
		return
	}
	if len(path) == 1 && path[0] == "steps" {
		for _, id := range x.ancestors() {
			about := ""
			if list, i := x.around(id); list != nil {
				about = list.Steps[i].Action + list.Steps[i].Module + list.Steps[i].Pipeline
			}
			x.member1(kindReference, id, about, "")
		}
		return
	}
	of := x.s.typesOf(x.good).Of(x.get("id"), path)
	if of == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(of.Members)) {
		doc := ""
		if len(path) == 1 && path[0] == "params" {
			for i := range x.good.pipeline.Definition.Parameters {
				if p := &x.good.pipeline.Definition.Parameters[i]; p.Name == name {
					doc = p.Description
				}
			}
		}
		x.member1(kindField, name, typeText(of.Members[name]), doc)
	}
}

// member1 adds a member; a name that is no word stands in brackets instead of behind the dot.
func (x *completer) member1(kind int, name, detail, doc string) {
	x.add(kind, name, detail, doc, name)
	if identifier.MatchString(name) || len(x.items) == 0 {
		return
	}
	quote := `"`
	if x.c.quote == '"' {
		quote = "'"
	}
	last := &x.items[len(x.items)-1]
	last.Edit.NewText = "[" + quote + name + quote + "]"
	last.Edit.Range = x.t.span(x.c.from-1, x.to)
	last.FilterText = "." + name
}

// typeText is a type in one line.
func typeText(t *expr.Type) string {
	if t == nil || t.Kinds == expr.AnyKind {
		return "any value"
	}
	if len(t.Words) > 0 && len(t.Words) <= 12 {
		return strings.Join(t.Words, " | ")
	}
	return t.Kinds.String()
}
