package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// kindsOf are the kinds of values of a field's type.
var kindsOf = map[spec.Type]expr.Kinds{
	spec.String: expr.TextKind, spec.Ref: expr.TextKind, spec.Time: expr.TextKind, spec.Integer: expr.IntKind, spec.Number: expr.IntKind | expr.FloatKind,
	spec.Boolean: expr.BoolKind, spec.Array: expr.ListKind, spec.Object: expr.MapKind, spec.Duration: expr.IntKind | expr.FloatKind | expr.TextKind,
}

// typeOf is the type of a described value.
func typeOf(f *spec.Field) *expr.Type {
	t := &expr.Type{Kinds: kindsOf[f.Type], Secret: f.Secret}
	switch f.Type {
	case spec.String:
		t.Words = f.Enum
	case spec.Array:
		if f.Items != nil {
			t.Element = typeOf(f.Items)
		}
	case spec.Object:
		if len(f.Fields) > 0 {
			t.Members = map[string]*expr.Type{}
			for i := range f.Fields {
				t.Members[f.Fields[i].Name] = orNone(typeOf(&f.Fields[i]))
			}
		}
	}
	if t.Kinds == 0 {
		t.Kinds = expr.AnyKind
	}
	return t
}

// orNone is the type of a value that may also be none, as outputs that were not given may be.
func orNone(t *expr.Type) *expr.Type {
	n := *t
	n.Kinds |= expr.NoneKind
	return &n
}

// paramsType is the type of params. Triggers may give more than is declared.
func paramsType(list []definition.Parameter) *expr.Type {
	t := &expr.Type{Kinds: expr.MapKind, Members: map[string]*expr.Type{}}
	for i := range list {
		p := &list[i]
		f := p.Field()
		of := typeOf(&f)
		switch {
		case p.HasDefault && p.Default == nil:
			of = orNone(of)
		case !p.Required && !p.HasDefault:
			of.Kinds, of.Why = of.Kinds|expr.AbsentKind, ": the parameter is optional and has no default"
		}
		t.Members[p.Name] = of
	}
	return t
}

var (
	textType     = &expr.Type{Kinds: expr.TextKind}
	intType      = &expr.Type{Kinds: expr.IntKind}
	secretsType  = &expr.Type{Kinds: expr.MapKind, Secret: true}
	callbackType = &expr.Type{Kinds: expr.MapKind, Members: map[string]*expr.Type{"url": textType}}
	statusWords  = []string{"pending", "queued", "running", "retrying", "waiting", "completed", "failed", "skipped", "cancelled", "timed_out"}
	statusType   = &expr.Type{Kinds: expr.TextKind, Words: statusWords}
	endWords     = []string{"pending", "running", "paused", "cancelling", "completed", "completed_with_failures", "failed", "cancelled", "timed_out"}
	execution    = &expr.Type{Kinds: expr.MapKind, Members: map[string]*expr.Type{"id": textType, "pipeline": textType, "step": textType,
		"status": {Kinds: expr.TextKind, Words: endWords}}}
)

// roots gives the types of the names that a template sees.
func (s *scene) roots(t *text) func(string) *expr.Type {
	loops := s.loopsAround(t)
	return func(name string) *expr.Type {
		if of, ok := loops[name]; ok {
			return of
		}
		switch name {
		case "params":
			return s.params
		case "secrets", "credentials":
			return secretsType
		}
		if t.Raw && (t.Names == nil || slices.Contains(t.Names, name)) {
			return nil
		}
		switch name {
		case "callback":
			return callbackType
		case "execution":
			return execution
		case "steps":
			return s.stepsType(t)
		}
		return nil
	}
}

// loopsAround are the names that the loops around a template define.
func (s *scene) loopsAround(t *text) map[string]*expr.Type {
	names := map[string]*expr.Type{}
	if t.at.list < 0 {
		return names
	}
	around := s.around(t.at)
	slices.Reverse(around) // the innermost last: it hides the others
	for _, at := range around {
		step := s.step(at)
		if step.ForEach == nil || at == t.at && t.Site == definition.InLoop {
			continue
		}
		of := s.elements[step.ID]
		if of == nil {
			of = expr.Unknown
		}
		names["item"], names["index"] = of, intType
		if step.ForEach.As != "" {
			names[step.ForEach.As] = of
		}
	}
	return names
}

// stepsType has the steps that a template names.
func (s *scene) stepsType(t *text) *expr.Type {
	all := &expr.Type{Kinds: expr.MapKind, Members: map[string]*expr.Type{}}
	for i := range t.refs {
		path := t.refs[i].Path
		if path[0] != "steps" || len(path) < 2 || all.Members[path[1]] != nil {
			continue
		}
		if at, ok := s.byID[path[1]]; ok {
			all.Members[path[1]] = &expr.Type{Kinds: expr.MapKind, Members: map[string]*expr.Type{
				"outputs": s.outputsOf(at), "status": statusType, "attempt": intType}}
		}
	}
	return all
}

var eachType = &expr.Type{Kinds: expr.MapKind, Closed: true, Members: map[string]*expr.Type{
	"count": intType, "completed": intType, "failed": intType, "skipped": intType, "results": {Kinds: expr.ListKind}}}

// outputsOf is the type of a step's outputs.
func (s *scene) outputsOf(at spot) *expr.Type {
	step := s.step(at)
	if of := s.outputs[step.ID]; of != nil {
		return of
	}
	if s.pending[step.ID] || len(s.pending) > 500 {
		return expr.Unknown
	}
	s.pending[step.ID] = true
	of := s.inferOutputs(at, step)
	delete(s.pending, step.ID)
	s.outputs[step.ID] = of
	return of
}

func (s *scene) inferOutputs(at spot, step *definition.Step) *expr.Type {
	of := &expr.Type{Kinds: expr.MapKind, Members: map[string]*expr.Type{}}
	about := s.action(step)
	switch {
	case step.ForEach != nil:
		return eachType
	case len(step.Steps) > 0:
		of.Closed = true
		for i := range step.Steps {
			of.Members[step.Steps[i].ID] = expr.Unknown
		}
		return of
	case step.Pipeline != "":
		sub := s.def.Pipelines[step.Pipeline]
		if sub == nil {
			return expr.Unknown
		}
		of.Closed = true
		for i := range sub.Outputs {
			of.Members[sub.Outputs[i].Name] = expr.Unknown
		}
		return of
	case about == nil:
		return expr.Unknown
	case about.Name == "util.set_output":
		return s.setOutput(at, step)
	case len(about.Outputs) == 0:
		return expr.Unknown
	}
	of.Closed = !about.OpenOutputs
	for i := range about.Outputs {
		of.Members[about.Outputs[i].Name] = orNone(typeOf(&about.Outputs[i]))
	}
	for _, name := range step.Outputs {
		if of.Members[name] == nil {
			of.Members[name] = expr.Unknown
		}
	}
	return of
}

// setOutput is the type of the outputs of util.set_output: its parameters'.
func (s *scene) setOutput(at spot, step *definition.Step) *expr.Type {
	values := step.Params
	prefix := "params"
	if inner, ok := values["outputs"].(map[string]any); ok {
		values, prefix = inner, "params/outputs"
	} else if _, given := values["outputs"]; given {
		return expr.Unknown
	}
	of := &expr.Type{Kinds: expr.MapKind, Members: map[string]*expr.Type{}, Closed: true}
	for name, v := range values {
		of.Members[name] = s.valueType(at, v, spec.Below(prefix, name))
	}
	return of
}

// valueType is the type of a value that is a template, or has none in it; else nothing but a secret in it is known.
func (s *scene) valueType(at spot, v any, place string) *expr.Type {
	if !spec.Contains(v, isTemplate) {
		return expr.TypeOf(v)
	}
	secret := false
	for i := range s.texts {
		t := &s.texts[i]
		if t.at != at || t.At != place && !strings.HasPrefix(t.At, place+"/") {
			continue
		}
		of, _ := t.parsed.Type(s.roots(t))
		if t.At == place {
			return of
		}
		secret = secret || of.Secret
	}
	return &expr.Type{Kinds: expr.AnyKind, Secret: secret}
}

func isTemplate(v any) bool {
	text, ok := v.(string)
	return ok && spec.Templated(text)
}

// codes are the rules of the problems that inference finds.
var codes = map[expr.ProblemKind]string{expr.NoMember: "SW101", expr.WrongOperand: "SW103", expr.WrongArgument: "SW104", expr.MayBeAbsent: "SW105", expr.NeverEqual: "SW202"}

// needed are the places where a value must exist.
var needed = []definition.Site{definition.InParams, definition.InConfig, definition.InPipeline, definition.InLoop}

// types reports what cannot work in a template, and a value that does not fit its place.
func (s *scene) types(t *text) *expr.Type {
	of, problems := t.parsed.Type(s.roots(t))
	for _, p := range problems {
		if p.Kind == expr.MayBeAbsent && !slices.Contains(needed, t.Site) {
			continue
		}
		s.add(codes[p.Kind], t.Place(p.Line, p.Column), t.Path, p.Message, p.Hint, p.Maybe)
	}
	if slices.Contains(needed, t.Site) && !t.Raw {
		if of.Kinds&expr.AbsentKind != 0 {
			s.add("SW105", t.Place(1, 1), t.Path, "there may be no value here"+of.Why, "default(…) gives another value", false)
		}
		s.absent(t)
	}
	switch {
	case t.Site == definition.InLoop:
		s.items(t, of)
	case t.Site == definition.InPipeline:
		s.argument(t, of)
	case t.Field != nil && !t.Raw && !t.Field.Raw:
		s.fits(t, of, t.Field, "SW102")
	}
	return of
}

// fits reports a value that the field can never take.
func (s *scene) fits(t *text, of *expr.Type, f *spec.Field, code string) {
	want, known := kindsOf[f.Type]
	have := of.Kinds &^ expr.AbsentKind
	if !known || have == 0 {
		return
	}
	if f.Type == spec.Integer {
		want |= expr.FloatKind // 3.0 is a whole number
	}
	name := f.Name
	if name == "" {
		name = t.Path[strings.LastIndexByte(t.Path, '.')+1:]
	}
	if have&(want|expr.NoneKind) == 0 {
		hint := ""
		switch {
		case f.Type == spec.String || f.Type == spec.Ref:
			hint = "convert it: | string"
		case have == expr.TextKind && want&expr.IntKind != 0:
			hint = "convert it: | int or | float; a value stays a number only where its template stands alone"
		}
		s.add(code, t.Place(1, 1), t.Path, fmt.Sprintf("%s takes %s, and gets %s", name, want, have), hint, false)
		return
	}
	if have == expr.TextKind && of.Words != nil && f.Enum != nil && !slices.ContainsFunc(of.Words, func(w string) bool { return slices.Contains(f.Enum, w) }) {
		s.add(code, t.Place(1, 1), t.Path, fmt.Sprintf("%s is one of %s, and gets %s", name, strings.Join(f.Enum, ", "), strings.Join(of.Words, " or ")), "", false)
	}
}

// argument checks a parameter of a sub-pipeline.
func (s *scene) argument(t *text, of *expr.Type) {
	sub := s.def.Pipelines[s.step(t.at).Pipeline]
	name, ok := strings.CutPrefix(t.At, "params/")
	if sub == nil || !ok {
		return
	}
	for i := range sub.Parameters {
		p := &sub.Parameters[i]
		if p.Name != name {
			continue
		}
		f := p.Field()
		s.fits(t, of, &f, "SW106")
		if of.Secret && !p.Secret && !p.Credential {
			s.add("SW405", t.Place(1, 1), t.Path, fmt.Sprintf("a secret is handed to %s, whose parameter %q is not secret", sub.Name, name), "declare it there with secret: true", false)
		}
	}
}

// items checks the list of a for_each and learns the type of its elements. Loops come before what they repeat.
func (s *scene) items(t *text, of *expr.Type) {
	if t.At != "for_each" && t.At != "for_each/items" {
		return // an element of a written list
	}
	const listed = expr.ListKind | expr.MapKind | expr.IntKind
	if of.Kinds&(listed|expr.AbsentKind|expr.NoneKind) == 0 {
		hint := ""
		if of.Kinds == expr.TextKind {
			hint = "split a text: | split(',')"
		}
		s.add("SW107", t.Place(1, 1), t.Path, "for_each needs a list, an object or a number, not "+of.Kinds.String(), hint, false)
	}
	switch {
	case of.Kinds == expr.IntKind:
		s.elements[s.step(t.at).ID] = intType
	case of.Kinds == expr.ListKind && of.Element != nil:
		element := *of.Element
		element.Words = nil // it may be compared with others
		s.elements[s.step(t.at).ID] = &element
	}
}

// absent reports outputs of a step that may have been skipped, in a step that runs all the same.
func (s *scene) absent(t *text) {
	if t.at.list < 0 || s.guarded(t) {
		return
	}
	for i := range t.refs {
		ref := &t.refs[i]
		if ref.Guarded || ref.Path[0] != "steps" || len(ref.Path) < 4 || ref.Path[2] != "outputs" || s.mentions(t, ref.Path[1], "status") {
			continue
		}
		from, ok := s.byID[ref.Path[1]]
		if !ok || from.list != t.at.list {
			continue
		}
		why := ""
		switch step := s.step(from); {
		case step.ForEach != nil:
		case step.Condition != "":
			why = "its condition may skip it"
		case step.OnFailure == "continue":
			why = "it may fail, and on_failure: continue goes on"
		}
		if why != "" {
			s.add("SW105", t.Place(ref.Line, ref.Column), t.Path, fmt.Sprintf("%s may have no outputs: %s", ref.Path[1], why),
				"give another value with | default(…), or this step a condition", false)
		}
	}
}

// guarded reports whether the step of a template, or a group around it, does not run in every case.
func (s *scene) guarded(t *text) bool {
	return slices.ContainsFunc(s.around(t.at), func(at spot) bool { return s.step(at).Condition != "" || s.step(at).TriggerRule != "" })
}

// mentions reports whether a template reads a field of a step.
func (s *scene) mentions(t *text, id, field string) bool {
	return slices.ContainsFunc(t.refs, func(ref expr.Ref) bool {
		return ref.Path[0] == "steps" && len(ref.Path) > 2 && ref.Path[1] == id && ref.Path[2] == field
	})
}

// unused reports parameters that nothing reads.
func (s *scene) unused() {
	if s.usedAll {
		return
	}
	for i := range s.def.Parameters {
		p := &s.def.Parameters[i]
		if !s.used[p.Name] && p.Pos.Line > 0 {
			s.add("SW108", p.Pos, spec.ElementPath("parameters", i), fmt.Sprintf("the parameter %q is read nowhere", p.Name), "use it as params."+p.Name+", or leave it out", false)
		}
	}
}
