package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// groupDepth is how many levels of groups a document may have.
const groupDepth = 10

// maxText is the length of a condition.
const maxText = 100_000

// pipeline reads the whole document.
func (d *decoder) pipeline(n *spec.Node) *Definition {
	n = d.unwrap(n)
	doc := document{Definition: Definition{Pos: n.Pos, At: map[string]Pos{}}}
	def := &doc.Definition
	d.Places = &spec.Places{At: def.At}
	d.Struct(n, "", documentShape, &doc, func(e spec.Entry) bool {
		switch e.Key {
		case "parameters":
			def.Parameters = d.parameters(e)
		case "settings":
			if !e.Value.IsNull() {
				def.Settings = d.settings(e.Value)
			}
		case "steps":
			def.Steps = d.steps(e, "", 1)
		case "outputs":
			def.Outputs = d.outputs(e)
		case "finally":
			def.Finally = d.steps(e, "", 1)
		case "on_failure":
			def.OnFailure = d.steps(e, "", 1)
		case "strategy": // see matrix
			d.Struct(e.Value, "strategy", strategyShape, &doc.Strategy, func(spec.Entry) bool { return true })
		case "resume_from_checkpoint", "processing":
		default:
			return false
		}
		return true
	})
	if e := n.Entry("resume_from_checkpoint"); e.Value != nil { // stac-manager's documents have it here, or in the settings
		def.Settings.Streams.NoResume = !e.Value.IsNull() && !d.Boolean(e, "")
	}
	if e := n.Entry("processing"); !e.Value.IsNull() {
		d.Struct(e.Value, "processing", requestsShape, &def.Settings.Requests, nil)
	}
	def.loose = d.Places.Loose
	if n.Kind == spec.MapNode {
		d.required(n, def)
	}
	return def
}

// unwrap accepts stac-manager's older form: the pipeline is under `workflow:`, with logging, processing and strategy
// next to it.
func (d *decoder) unwrap(n *spec.Node) *spec.Node {
	inner := n.Lookup("workflow")
	if inner == nil || inner.Kind != spec.MapNode || n.Lookup("steps") != nil {
		return n
	}
	out := *inner
	out.Entries = slices.Clone(inner.Entries)
	for _, e := range n.Entries {
		switch {
		case e.Key == "workflow":
		case slices.Contains([]string{"processing", "strategy", "input_secrets", "resume_from_checkpoint"}, e.Key) && inner.Lookup(e.Key) == nil:
			out.Entries = append(out.Entries, e)
		default:
			d.Unknown(e, "", documentShape)
		}
	}
	return &out
}

func (d *decoder) required(n *spec.Node, def *Definition) {
	if n.Lookup("name").IsNull() {
		d.Fail(n.Pos, "name", "the pipeline has no name", "write name: my-pipeline")
	}
	if n.Lookup("steps").IsNull() || def.Steps != nil && len(def.Steps) == 0 {
		pos := n.Pos
		if e := n.Entry("steps"); e.Value != nil {
			pos = e.Pos
		}
		d.Fail(pos, "steps", "the pipeline has no steps", "a step is written - id: first, with action: and params: below it")
	}
}

func (d *decoder) parameters(e spec.Entry) []Parameter {
	if e.Value.IsNull() {
		return nil
	}
	if e.Value.Kind != spec.ListNode {
		d.Fail(e.At(), e.Key, "parameters must be a list, not "+e.Value.Describe(), "write - name: my_parameter, with type: below it")
		return nil
	}
	list := make([]Parameter, 0, len(e.Value.Items))
	first := map[string]Pos{}
	for i, item := range e.Value.Items {
		path := spec.ElementPath(e.Key, i)
		p := d.parameter(item, path)
		if p.Name == "" {
			continue
		}
		if at, twice := first[p.Name]; twice {
			d.Fail(item.Pos, path, fmt.Sprintf("the parameter %q is declared twice", p.Name), "the first one is in line "+itoa(at.Line))
			continue
		}
		first[p.Name] = item.Pos
		list = append(list, p)
	}
	return list
}

func (d *decoder) parameter(n *spec.Node, path string) Parameter {
	p := Parameter{Pos: n.Pos, Type: spec.Any}
	places := d.Places
	d.Places = nil
	d.Struct(n, path, parameterShape, &p, func(e spec.Entry) bool {
		switch e.Key {
		case "name":
			p.Name = d.parameterName(e, path)
		case "type":
			p.Type = d.parameterType(e, path)
			p.Credential = e.Value.Text == "credential_ref"
		case "default":
			p.HasDefault = true
			return false
		default:
			return false
		}
		return true
	})
	d.Places = places
	if n.Kind == spec.MapNode && n.Lookup("name").IsNull() {
		d.Fail(n.Pos, path, "the parameter has no name", "")
	}
	if n.Lookup("required").IsNull() {
		p.Required = !p.HasDefault
	}
	if p.Enum != nil && p.Type != spec.String && p.Type != spec.Ref {
		d.Fail(n.Entry("enum").Pos, spec.MemberPath(path, "enum"), "enum is for parameters of type string, this one is "+string(p.Type), "")
		p.Enum = nil
	}
	d.fallback(&p, n.Entry("default"), path)
	return p
}

// fallback checks a parameter's default against its type. A text that YAML read as a number or
// boolean is taken as it is written where text is wanted.
func (d *decoder) fallback(p *Parameter, e spec.Entry, path string) {
	if !p.HasDefault || p.Default == nil {
		return
	}
	if (p.Type == spec.String || p.Type == spec.Ref) && e.Value.Kind == spec.ScalarNode {
		d.AsText(e.Value, spec.MemberPath(path, e.Key), e.Key)
		p.Default = e.Value.Text
	}
	f := p.Field()
	f.Default = nil
	for _, m := range spec.Check([]spec.Field{f}, false, map[string]any{p.Name: p.Default}) {
		d.Fail(e.At(), spec.MemberPath(path, e.Key), "the default does not fit: "+m.Message, m.Hint)
	}
	if p.Secret && p.Default != "" {
		d.Warn(e.At(), spec.MemberPath(path, e.Key), "the default of a secret parameter is not a secret: it stands in the document, and documents are shown and stored as they are",
			"keep it in the vault (stepwell secrets set), and read {{ secrets.NAME }}")
	}
	if s, ok := p.Default.(string); ok && strings.Contains(s, "{{") {
		d.Warn(e.At(), spec.MemberPath(path, e.Key), "the default contains {{, but defaults are not evaluated", "")
	}
}

func (d *decoder) parameterName(e spec.Entry, path string) string {
	name := d.Text(e, path, 100)
	if name != "" && !variableName(name) {
		d.Fail(e.At(), spec.MemberPath(path, e.Key), fmt.Sprintf("the parameter name %s is not possible", spec.Quote(name)), "begin with a letter or _, continue with letters, digits and _")
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

func (d *decoder) parameterType(e spec.Entry, path string) spec.Type {
	if hint, ok := typeHints[strings.ToLower(e.Value.Text)]; ok {
		d.Fail(e.At(), spec.MemberPath(path, e.Key), fmt.Sprintf("unknown type %q", e.Value.Text), hint)
		return spec.Any
	}
	name := d.Choice(e, path, typeNames...)
	if name == "" {
		return spec.Any
	}
	return parameterTypes[name]
}

// outputs reads the pipeline's outputs: names with values that may hold templates.
func (d *decoder) outputs(e spec.Entry) []Output {
	if e.Value.IsNull() {
		return nil
	}
	if e.Value.Kind != spec.MapNode {
		d.Fail(e.At(), e.Key, "outputs must be a mapping of names to values, not "+e.Value.Describe(), `write result: "{{ steps.last.outputs.result }}"`)
		return nil
	}
	list := make([]Output, 0, len(e.Value.Entries))
	for _, out := range e.Value.Entries {
		at := spec.Below(e.Key, out.Key)
		d.Places.Record(at, out.Value, out.At())
		value := d.Value(out.Value, spec.MemberPath(e.Key, out.Key), at)
		list = append(list, Output{Name: out.Key, Value: value, Pos: out.At()})
	}
	return list
}
