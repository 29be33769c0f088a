package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// fields are the pipeline's parameters as fields.
func (d *Definition) fields() []spec.Field {
	fields := make([]spec.Field, len(d.Parameters))
	for i := range d.Parameters {
		fields[i] = d.Parameters[i].Field()
	}
	return fields
}

// FromTriggers reports whether triggers give the parameter whether it is declared or not.
func FromTriggers(name string) bool {
	return name == "_trigger" || name == "event" || strings.HasPrefix(name, "header_")
}

// maxSuggested limits the undeclared parameters for which a declared one is suggested.
const maxSuggested = 20

// extra are given parameters that are not declared.
func (d *Definition) extra(given map[string]any) []spec.Mismatch {
	if len(given) == 0 {
		return nil
	}
	declared := make([]string, len(d.Parameters))
	known := make(map[string]bool, len(d.Parameters))
	for i := range d.Parameters {
		declared[i] = d.Parameters[i].Name
		known[declared[i]] = true
	}
	var names []string
	for name := range given {
		if !FromTriggers(name) && !known[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	found := make([]spec.Mismatch, len(names))
	for i, name := range names {
		hint := "the pipeline does not use it"
		if i < maxSuggested {
			hint = cmp.Or(spec.DidYouMean(name, declared), hint)
		}
		found[i] = spec.Mismatch{Path: name, Keys: []string{name}, Message: name + " is not declared by the pipeline", Hint: hint}
	}
	return found
}

// CheckParams checks the parameters of a new execution against the pipeline's declarations and
// gives them completed with the defaults. Missing ones and wrong types are errors, undeclared ones are
// kept with a warning. The map given is not changed.
func CheckParams(d *Definition, given map[string]any) (map[string]any, Problems) {
	return NewParams(d).Check(given)
}

// Params are a pipeline's declared parameters, made ready to check those of many executions. They never change, and may be used by
// many goroutines.
type Params struct {
	declared *Definition
	checker  *spec.Checker
	err      error // why there is no checker
}

// NewParams makes the parameters of a definition ready, of which only those are read, now and later. What is wrong with the
// declarations is found by every Check.
func NewParams(d *Definition) *Params {
	p := &Params{declared: d}
	p.checker, p.err = spec.Compile(d.fields(), true)
	return p
}

// Check is CheckParams.
func (ps *Params) Check(given map[string]any) (map[string]any, Problems) {
	r, d := &spec.Report{}, ps.declared
	if ps.err != nil {
		r.Fail(d.Pos, "parameters", "the parameters are declared wrongly: "+ps.err.Error(), "")
		return given, r.Found
	}
	for _, m := range ps.checker.Check(given) {
		r.Fail(Pos{}, "params."+m.Path, "parameter "+m.Message, m.Hint)
	}
	d.warnUndeclared(r, given)
	complete := make(map[string]any, len(given)+len(d.Parameters))
	for name, v := range ps.checker.Apply(given) {
		complete[name] = v
	}
	for i := range d.Parameters { // a default of null is a default
		p := &d.Parameters[i]
		if _, ok := complete[p.Name]; !ok && p.HasDefault {
			complete[p.Name] = p.Default
		}
	}
	return complete, r.Found
}

// Undeclared are warnings of given parameters that are not declared.
func (d *Definition) Undeclared(given map[string]any) Problems {
	r := &spec.Report{}
	d.warnUndeclared(r, given)
	return r.Found
}

func (d *Definition) warnUndeclared(r *spec.Report, given map[string]any) {
	for _, m := range d.extra(given) {
		r.Warn(Pos{}, "params."+m.Path, "parameter "+m.Message, m.Hint)
	}
}

// ParseParam reads a parameter's value from a text such as the command line has: JSON or YAML for lists
// and objects, the text itself for texts. A p of nil stands for an undeclared parameter, which is read
// as YAML reads a scalar. A text that is no value of the type is CodeInvalid.
func ParseParam(p *Parameter, text string) (any, error) {
	t := spec.Any
	if p != nil {
		t = p.Type
	}
	v, err := parseParam(t, text)
	if err != nil {
		return nil, err
	}
	if p == nil || v == nil {
		return v, nil
	}
	f := p.Field()
	if found := spec.Check([]spec.Field{f}, true, map[string]any{p.Name: v}); len(found) > 0 {
		m := found[0]
		hint := m.Hint
		switch t {
		case spec.Array:
			hint = `write a list, such as '["a", "b"]'`
		case spec.Object:
			hint = `write an object, such as '{"key": "value"}'`
		}
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "parameter " + m.Message, Hint: strings.ReplaceAll(hint, ", without quotes", "")}
	}
	return v, nil
}

func parseParam(t spec.Type, text string) (any, error) {
	switch t {
	case spec.String, spec.Ref, spec.Time:
		return text, nil
	case spec.Duration:
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n, nil
		}
		return text, nil
	case spec.Integer, spec.Number, spec.Boolean:
		v, reason := spec.ParseScalar(strings.TrimSpace(text))
		if reason != "" {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%s: %s", text, reason)}
		}
		if v == nil {
			return text, nil // an empty text is no number
		}
		return v, nil
	}
	return parseData(t, text)
}

// parseData reads JSON, or YAML in one line.
func parseData(t spec.Type, text string) (any, error) {
	if t == spec.Any && !strings.ContainsAny(strings.TrimSpace(text), "{[\"'\n") {
		v, reason := spec.ParseScalar(strings.TrimSpace(text))
		if reason != "" || v == nil && text == "" {
			return text, nil
		}
		return v, nil
	}
	r := &spec.Report{}
	l := &loader{src: []byte(text), report: r}
	n := l.load()
	if n == nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: r.Found.Error()}
	}
	v := newDecoder(r, false).Value(n, "", "")
	if err := r.Found.Err(); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: err.Error()}
	}
	return v, nil
}
