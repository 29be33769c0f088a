package definition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// loops are the names that the loops around a place define.
type loops struct {
	names []string // of elements, outermost first
}

func (l loops) inside() bool { return len(l.names) > 0 }
func (l loops) defines(name string) bool {
	return l.inside() && (name == "item" || name == "index" || slices.Contains(l.names, name))
}

// source is the place of possible templates, and their scope.
type source struct {
	at    map[string]Pos
	loose map[string]bool
	pos   Pos    // when at knows nothing better
	base  string // path of the step, "" outside of steps
	scope *scope
	index int // of the step in the scope; -1: after all of them
	in    loops
	raw   bool     // rendered by the handler, which may define more names:
	names []string // these, nil: unknown ones
	early bool     // rendered before any step runs
	whole bool     // a condition: expression or template
	site  Site
}

// isTemplate reports whether a value is a text that contains a tag.
func isTemplate(v any) bool {
	text, ok := v.(string)
	return ok && spec.Templated(text)
}

// parsed is a template's references, or why it has none.
type parsed struct {
	template *expr.Template // nil: it has a mistake
	refs     []expr.Ref
	err      error
}

// Repeated templates are parsed once; the memory for that is bounded.
const (
	mostCached    = 4096
	longestCached = 1024
)

func (c *checker) parse(text string, condition bool) *parsed {
	key := text
	if condition {
		key = "?" + text
	}
	if p, ok := c.templates[key]; ok {
		return p
	}
	parse := expr.Parse
	if condition {
		parse = expr.ParseCondition
	}
	p := &parsed{}
	t, err := parse(text)
	if p.template = t; err != nil {
		p.template, p.err = nil, err
	} else if !t.Static() {
		p.refs = t.Refs()
	}
	if len(c.templates) < mostCached && len(text) <= longestCached {
		c.templates[key] = p
	}
	return p
}

// members checks the templates in a mapping described by fields.
func (c *checker) members(values map[string]any, fields []spec.Field, at string, src *source) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		f, _ := spec.FieldNamed(fields, name)
		c.value(values[name], f, spec.Below(at, name), src)
	}
}

func (c *checker) value(v any, f *spec.Field, at string, src *source) {
	if f != nil && f.Raw && !src.raw {
		raw := *src
		raw.raw, raw.names = true, f.Names
		src = &raw
	}
	switch v := v.(type) {
	case string:
		switch {
		case isTemplate(v):
			c.show(v, f, at, src)
			c.text(v, at, src)
		case src.raw && f != nil && f.Bare:
			c.show(v, f, at, src)
			c.bare(v, at, src)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			c.value(v[name], f.Member(name), spec.Below(at, name), src)
		}
	case []any:
		for i, item := range v {
			c.value(item, f.Element(), spec.Below(at, itoa(i)), src)
		}
	}
}

// bare checks the references of an expression without braces. Its handler decides whether it is one.
func (c *checker) bare(text, at string, src *source) {
	if p := c.parse(text, true); p.err == nil {
		c.refs(p, at, src)
	}
}

// text checks one template.
func (c *checker) text(text, at string, src *source) {
	p := c.parse(text, src.whole)
	if p.err != nil {
		c.syntax(p.err, at, src)
		return
	}
	c.refs(p, at, src)
}

func (c *checker) refs(p *parsed, at string, src *source) {
	for i := range p.refs {
		ref := &p.refs[i]
		if c.used != nil {
			c.used(ref, src, at)
		}
		message, hint, warning := c.ref(ref, src)
		if message != "" {
			pos := src.place(at, ref.Line, ref.Column)
			c.Add(pos, spec.PlainPath(src.base, at), message, hint, warning)
		}
	}
}

func (c *checker) syntax(err error, at string, src *source) {
	pos, message := src.place(at, 1, 1), err.Error()
	if e, ok := errors.AsType[*expr.Error](err); ok {
		pos, message = src.place(at, e.Line, e.Column), e.Message
	}
	c.Fail(pos, spec.PlainPath(src.base, at), "template: "+message, hintOf(err))
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*expr.Error](err); ok {
		return e.Hint
	}
	return stepwell.HintOf(err)
}

// place is the position of a line and column inside the text at a path.
func (src *source) place(at string, line, column int) Pos {
	pos, ok := src.at[at]
	switch {
	case !ok:
		return src.pos
	case src.loose[at] || line < 1:
		return pos
	case column > 1:
		return Pos{Line: pos.Line + line - 1, Column: pos.Column + column - 1}
	}
	return Pos{Line: pos.Line + line - 1, Column: pos.Column}
}

// condition checks a step's condition. In a loop it may look at the element: then it is decided for
// each one, otherwise once for the whole step.
func (c *checker) condition(here located, inside loops) {
	step := here.step()
	src := source{at: step.At, loose: step.loose, pos: step.Pos, base: here.path(), scope: here.scope, index: here.index, in: inside, whole: true, site: InCondition}
	text := step.Condition
	if own := step.written; own != nil && c.used != nil {
		text, src.at, src.loose = own.text, map[string]Pos{"condition": own.at}, map[string]bool{"condition": own.loose}
	}
	c.show(text, nil, "condition", &src)
	c.text(text, "condition", &src)
}

// loop checks a step's for_each and gives the loops that its inside is in.
func (c *checker) loop(here located, in loops) loops {
	step := here.step()
	if step.ForEach == nil {
		return in
	}
	at := "for_each"
	if _, long := step.At["for_each/items"]; long {
		at = "for_each/items"
	}
	src := source{at: step.At, loose: step.loose, pos: step.Pos, base: here.path(), scope: here.scope, index: here.index, in: in, site: InLoop}
	c.value(step.ForEach.Items, nil, at, &src)
	name := step.ForEach.As
	if name == "" {
		name = "item"
	}
	return loops{append(slices.Clip(in.names), name)}
}

// ref checks a reference; an empty message: no problem.
func (c *checker) ref(ref *expr.Ref, src *source) (message, hint string, warning bool) {
	root := ref.Path[0]
	if src.in.defines(root) {
		return "", "", false
	}
	if src.site == InKey {
		if message, hint, warning = c.keyRef(ref); message != "" {
			return message, hint, warning
		}
	}
	switch root {
	case "secrets":
		return c.secretRef(ref, src)
	case "credentials":
		return c.credentialRef(ref, src)
	case "callback":
		return callbackRef(ref, src)
	case "params":
		return c.paramRef(ref)
	case "steps":
		return c.stepRef(ref, src)
	case "execution":
		return c.executionRef(ref, src)
	case "project", "lesson":
		return c.aboutRef(ref, root, ref.Path[1:])
	}
	switch {
	case src.raw && (src.names == nil || slices.Contains(src.names, root)): // the handler's own
		return "", "", false
	case root == "source":
		return c.sourceRef(ref, src)
	case root == "settings":
		return c.settingRef(ref, src)
	}
	return c.unknownRoot(ref, src)
}

// paramRef warns of undeclared parameters, once each: a manual start may give them. A near misspelling of a declared
// one is a mistake.
func (c *checker) paramRef(ref *expr.Ref) (message, hint string, warning bool) {
	if len(ref.Path) < 2 || FromTriggers(ref.Path[1]) || c.declared[ref.Path[1]] {
		return "", "", false
	}
	name := ref.Path[1]
	message = fmt.Sprintf("the parameter %q is not declared", name)
	if hint := c.didYouMean(name, c.params, ""); hint != "" {
		return message, hint, ref.Guarded
	}
	if !c.once("params." + name) {
		return "", "", false
	}
	return message, "declare it under parameters: it is checked then when the pipeline is started, and data from outside reaches it", true
}

// stepFields are a step's fields for templates.
var stepFields = []string{"outputs", "status", "error", "attempt"}

func (c *checker) stepRef(ref *expr.Ref, src *source) (message, hint string, warning bool) {
	if len(ref.Path) < 2 {
		return "", "", false
	}
	id := ref.Path[1]
	target, ok := c.ids[id]
	if !ok {
		if message, hint, warning, ok := c.familyRef(ref, src); ok {
			return message, hint, warning
		}
		return fmt.Sprintf("there is no step %q", id), c.stepHint(id, src), false
	}
	if len(ref.Path) > 2 && !slices.Contains(stepFields, ref.Path[2]) {
		field := ref.Path[2]
		hint := "write " + stepPath(id) + ".outputs." + field
		if close := spec.Closest(field, stepFields); close != "" {
			hint = "did you mean " + stepPath(id) + "." + close + "?"
		}
		return fmt.Sprintf("a step has outputs, status, error and attempt, but no %q", field), hint, false
	}
	message, hint, warning = c.reachable(target, ref, src)
	if message == "" && len(ref.Path) > 3 && ref.Path[2] == "outputs" {
		return c.outputRef(target.step(), ref)
	}
	return message, hint, warning
}

// stepPath is how an expression names a step.
func stepPath(id string) string {
	if variableName(id) {
		return "steps." + id
	}
	return fmt.Sprintf("steps[%q]", id)
}

// stepHint helps with an unknown step; a dash in an id is a minus in an expression.
func (c *checker) stepHint(id string, src *source) string {
	if c.suggestions == 0 {
		return ""
	}
	ids := src.scope.visibleIDs()
	for _, known := range ids {
		if len(known) > len(id)+1 && strings.HasPrefix(known, id) && (known[len(id)] == '-' || known[len(id)] == '.') {
			c.suggestions--
			return "an id with - or . is written " + stepPath(known)
		}
	}
	return c.didYouMean(id, ids, "")
}

// reachable checks that the step a reference means has ended when the template is rendered.
func (c *checker) reachable(target located, ref *expr.Ref, src *source) (message, hint string, warning bool) {
	id := ref.Path[1]
	at := src.index
	for s := src.scope; s != nil; at, s = s.at, s.outer {
		if s != target.scope {
			continue
		}
		switch {
		case at < 0:
			return "", "", false
		case at == target.index && s == src.scope:
			return fmt.Sprintf("the step %q refers to itself", id), "", ref.Guarded
		case at == target.index:
			return fmt.Sprintf("the group %q has not ended while its steps run", id), "refer to a step of the group", ref.Guarded
		case c.ancestor(s, target.index, at):
			return "", "", false
		}
		return c.notAncestor(target, s.list[at].ID, ref)
	}
	if src.early {
		return "steps have no outputs before the execution starts", "use params", false
	}
	if target.scope.outer != nil && target.scope.at >= 0 {
		group := target.scope.outer.list[target.scope.at].ID
		return fmt.Sprintf("the step %q is inside the group %q", id, group), "outside of it refer to the group: " + stepPath(group) + ".outputs", false
	}
	return fmt.Sprintf("the step %q runs only after this one", id), "", ref.Guarded
}

func (c *checker) notAncestor(target located, from string, ref *expr.Ref) (message, hint string, warning bool) {
	id := ref.Path[1]
	message = fmt.Sprintf("the step %q does not wait for %q, so it may not have ended", from, id)
	if ref.Guarded {
		return message, fmt.Sprintf("the value is what is known when %s starts; to be sure, add %s to its depends_on", from, id), true
	}
	return message, fmt.Sprintf("add %s to depends_on of %s, or guard it: | default(…)", id, from), false
}

// instead maps other systems' names to ours.
var instead = map[string]string{
	"inputs": "write params", "parameters": "write params", "input": "write params", "param": "write params", "args": "write params",
	"event": "write params.event", "trigger": "write params._trigger", "_trigger": "write params._trigger",
	"env": "write ${NAME} outside of {{ }}; it is put in when the file is loaded", "vars": "write ${NAME} outside of {{ }}",
	"matrix": "write ${NAME} outside of {{ }}", "workflow": "write execution", "pipeline": "write execution", "run": "write execution",
	"outputs": "write steps.<id>.outputs", "step": "write steps.<id>", "tasks": "write steps", "jobs": "write steps", "needs": "write steps",
	"loop": "write index for the number of the element", "secret": "write secrets", "callback_url": "write callback.url", "result": "write steps.<id>.outputs",
}

func (c *checker) unknownRoot(ref *expr.Ref, src *source) (message, hint string, warning bool) {
	root := ref.Path[0]
	message = fmt.Sprintf("%q is unknown", root)
	switch _, isStep := c.ids[root]; {
	case root == "item" || root == "index":
		return fmt.Sprintf("%q is known only inside of for_each", root), "", false
	case instead[root] != "":
		return message, instead[root], false
	case c.declared[root]:
		return message, "write params." + root, false
	case root == "settings":
		return message, settingsHint(src), false
	case root == "source":
		return message, sourceHint(src), false
	case isStep:
		return message, "write " + stepPath(root) + ".outputs", false
	}
	known := slices.Concat([]string{"params", "steps", "execution", "project", "lesson", "secrets"}, src.in.names, src.names)
	return message, c.didYouMean(root, known, "known are "+strings.Join(known, ", ")), false
}
