package definition

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// Bounds that documents promise to keep.
const (
	maxName    = 255
	maxText    = 100_000
	oneYear    = 365 * 24 * 3600
	mostSteps  = 100_000 // running at the same time
	groupDepth = 10
)

var (
	timeoutBounds = bounds{0, oneYear, true, " (one year)"}
	parallel      = bounds{1, mostSteps, false, ""}
)

// pipeline reads the whole document.
func (d *decoder) pipeline(n *node) *Definition {
	n = d.unwrap(n)
	def := &Definition{Pos: n.pos, At: map[string]Pos{}}
	p := &places{at: def.At}
	var resume, processing entry
	d.fields(n, "", &rootKeys, func(e entry) {
		def.At[e.key] = e.pos
		switch e.key {
		case "name":
			def.Name = d.text(e, "", maxName)
		case "version":
			def.Version = d.text(e, "", maxName)
		case "description":
			def.Description = d.text(e, "", maxText)
		case "parameters":
			def.Parameters = d.parameters(e)
		case "settings":
			if !e.value.isNull() {
				def.Settings = d.settings(e.value, p)
			}
		case "steps":
			def.Steps = d.steps(e, "", 1)
		case "outputs":
			def.Outputs = d.outputs(e, p)
		case "finally":
			def.Finally = d.steps(e, "", 1)
		case "on_failure":
			def.OnFailure = d.steps(e, "", 1)
		case "resume_from_checkpoint":
			resume = e
		case "processing":
			processing = e
		case "input_secrets":
			d.secrets(e, "")
		case "strategy": // see matrix
			d.fields(e.value, "strategy", &strategyKeys, func(entry) {})
		}
	})
	if resume.value != nil { // stac-manager's documents have it here, or in the settings
		def.Settings.Streams.NoResume = !resume.value.isNull() && !d.boolean(resume, "")
	}
	if processing.value != nil {
		d.requests(processing, "", &def.Settings.Requests)
	}
	def.loose = p.loose
	if n.kind == mapKind {
		d.required(n, def)
	}
	return def
}

// unwrap accepts stac-manager's older form, in which the pipeline stands under `workflow:`, and its logging,
// processing and strategy may stand beside it.
func (d *decoder) unwrap(n *node) *node {
	inner := n.lookup("workflow")
	if inner == nil || inner.kind != mapKind || n.lookup("steps") != nil {
		return n
	}
	out := *inner
	out.entries = slices.Clone(inner.entries)
	for _, e := range n.entries {
		switch {
		case e.key == "workflow":
		case slices.Contains([]string{"processing", "strategy", "input_secrets", "resume_from_checkpoint"}, e.key) && inner.lookup(e.key) == nil:
			out.entries = append(out.entries, e)
		default:
			d.unknown(e, "", &rootKeys)
		}
	}
	return &out
}

func (d *decoder) required(n *node, def *Definition) {
	if n.lookup("name").isNull() {
		d.fail(n.pos, "name", "the pipeline has no name", "write name: my-pipeline")
	}
	if n.lookup("steps").isNull() || def.Steps != nil && len(def.Steps) == 0 {
		pos := n.pos
		if at, ok := def.At["steps"]; ok {
			pos = at
		}
		d.fail(pos, "steps", "the pipeline has no steps", "a step is written - id: first, with action: and params: below it")
	}
}

func (d *decoder) parameters(e entry) []Parameter {
	if e.value.isNull() {
		return nil
	}
	if e.value.kind != listKind {
		d.fail(e.at(), e.key, "parameters must be a list, not "+e.value.describe(), "write - name: my_parameter, with type: below it")
		return nil
	}
	list := make([]Parameter, 0, len(e.value.items))
	first := map[string]Pos{}
	for i, item := range e.value.items {
		path := element(e.key, i)
		p := d.parameter(item, path)
		if p.Name == "" {
			continue
		}
		if at, twice := first[p.Name]; twice {
			d.fail(item.pos, path, fmt.Sprintf("the parameter %q is declared twice", p.Name), "the first one is in line "+itoa(at.Line))
			continue
		}
		first[p.Name] = item.pos
		list = append(list, p)
	}
	return list
}

func (d *decoder) parameter(n *node, path string) Parameter {
	p := Parameter{Pos: n.pos, Type: spec.Any}
	var requiredGiven bool
	var enum, fallback entry
	d.fields(n, path, &parameterKeys, func(e entry) {
		switch e.key {
		case "name":
			p.Name = d.parameterName(e, path)
		case "type":
			p.Type = d.parameterType(e, path)
		case "description":
			p.Description = d.text(e, path, maxText)
		case "required":
			requiredGiven = !e.value.isNull()
			p.Required = d.boolean(e, path)
		case "default":
			fallback, p.HasDefault = e, true
			p.Default = d.value(e.value, member(path, e.key), "", nil)
		case "enum":
			enum = e
			p.Enum = d.words(e, path, nil)
		case "secret":
			p.Secret = d.boolean(e, path)
		}
	})
	if n.kind == mapKind && n.lookup("name").isNull() {
		d.fail(n.pos, path, "the parameter has no name", "")
	}
	if !requiredGiven {
		p.Required = !p.HasDefault
	}
	if p.Enum != nil && p.Type != spec.String && p.Type != spec.Ref {
		d.fail(enum.pos, member(path, "enum"), "enum is for parameters of type string, this one is "+string(p.Type), "")
		p.Enum = nil
	}
	d.fallback(&p, fallback, path)
	return p
}

// fallback checks a parameter's default against its type. A text that YAML read as a number or
// boolean is taken as it is written where text is wanted.
func (d *decoder) fallback(p *Parameter, e entry, path string) {
	if !p.HasDefault || p.Default == nil {
		return
	}
	if (p.Type == spec.String || p.Type == spec.Ref) && e.value.kind == scalarKind {
		d.readAsText(e.value, member(path, e.key), e.key)
		p.Default = e.value.text
	}
	f := p.Field()
	f.Default = nil
	for _, m := range spec.Check([]spec.Field{f}, false, map[string]any{p.Name: p.Default}) {
		d.fail(e.at(), member(path, e.key), "the default does not fit: "+m.Message, m.Hint)
	}
	if p.Secret && p.Default != "" {
		d.warn(e.at(), member(path, e.key), "the default of a secret parameter is no secret: it stands in the document, and documents are shown and stored as they are",
			"keep it in the vault (stepwell secrets set), and read {{ secrets.NAME }}")
	}
	if s, ok := p.Default.(string); ok && strings.Contains(s, "{{") {
		d.warn(e.at(), member(path, e.key), "the default contains {{, but defaults are not evaluated", "")
	}
}

func (d *decoder) parameterName(e entry, path string) string {
	name := d.text(e, path, 100)
	if name != "" && !variableName(name) {
		d.fail(e.at(), member(path, e.key), fmt.Sprintf("the parameter name %s is not possible", quoteShort(name)), "begin with a letter or _, go on with letters, digits and _")
		return ""
	}
	return name
}

// parameterTypes are the words of documents for the types of parameters (budpipeline §3.2).
var parameterTypes = map[string]spec.Type{
	"string": spec.String, "integer": spec.Integer, "float": spec.Number, "number": spec.Number, "boolean": spec.Boolean,
	"array": spec.Array, "object": spec.Object, "duration": spec.Duration, "time": spec.Time, "any": spec.Any, "ref": spec.Ref,
	"cluster_ref": spec.Ref, "model_ref": spec.Ref, "endpoint_ref": spec.Ref, "project_ref": spec.Ref, "credential_ref": spec.Ref,
}

var typeNames = []string{"string", "integer", "number", "float", "boolean", "array", "object", "duration", "time", "any", "ref",
	"cluster_ref", "model_ref", "endpoint_ref", "project_ref", "credential_ref"}

var typeHints = map[string]string{"str": "write string", "text": "write string", "int": "write integer", "double": "write number",
	"bool": "write boolean", "list": "write array", "dict": "write object", "map": "write object", "json": "write object or any",
	"datetime": "write time", "date": "write time", "enum": "write type: string and enum: […]", "select": "write type: string and enum: […]"}

func (d *decoder) parameterType(e entry, path string) spec.Type {
	if hint, ok := typeHints[strings.ToLower(e.value.text)]; ok {
		d.fail(e.at(), member(path, e.key), fmt.Sprintf("unknown type %q", e.value.text), hint)
		return spec.Any
	}
	name := d.choice(e, path, typeNames...)
	if name == "" {
		return spec.Any
	}
	return parameterTypes[name]
}

// outputs reads the pipeline's outputs: names with values that may hold templates.
func (d *decoder) outputs(e entry, p *places) []Output {
	if e.value.isNull() {
		return nil
	}
	if e.value.kind != mapKind {
		d.fail(e.at(), e.key, "outputs must be a mapping of names to values, not "+e.value.describe(), `write result: "{{ steps.last.outputs.result }}"`)
		return nil
	}
	list := make([]Output, 0, len(e.value.entries))
	for _, out := range e.value.entries {
		at := below(e.key, out.key)
		p.record(at, out.value, out.at())
		value := d.value(out.value, member(e.key, out.key), at, p)
		list = append(list, Output{Name: out.key, Value: value, Pos: out.at()})
	}
	return list
}

// wholeBounds are those of an int.
func wholeBounds(low, high int) bounds {
	return bounds{float64(low), math.Min(float64(high), 1e15), false, ""}
}
