package fakeai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stepwell/stepwell"
)

// Bounds of an invented value.
const (
	maxDepth   = 32
	maxValues  = 10_000
	shallow    = 5 // below this depth optional members are left out
	maxLetters = 10_000
)

// fitting is JSON that fits a schema, always the same for one schema and hash. A schema for which it finds none is
// refused.
func fitting(schema any, hash string) (string, error) {
	if schema == nil {
		schema = true
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return "", invalid("the schema is not JSON")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return "", invalid("the schema is not JSON")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nobody{})
	const uri = "urn:stepwell:schema"
	if err = c.AddResource(uri, doc); err == nil {
		var compiled *jsonschema.Schema
		if compiled, err = c.Compile(uri); err == nil {
			return invent(schema, compiled, hash)
		}
	}
	return "", invalid("the schema is not a JSON Schema: %s", stepwell.Head(err.Error(), 500))
}

// nobody loads no other schemas.
type nobody struct{}

// Load implements jsonschema.URLLoader.
func (nobody) Load(string) (any, error) {
	return nil, errors.New("a schema may refer to its own parts only")
}

func invent(schema any, compiled *jsonschema.Schema, hash string) (string, error) {
	v, err := (&inventor{root: schema, hash: hash}).value(schema, "value", 0)
	if err == nil {
		err = compiled.Validate(v)
	}
	if err != nil {
		return "", invalid("this stand-in finds no answer that fits the schema: %s", stepwell.Head(err.Error(), 500))
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}

// inventor makes up values for the parts of a schema. It knows the keywords that schemas of answers use; the result is
// held against the whole schema.
type inventor struct {
	root   any
	hash   string
	values int
}

func (g *inventor) value(schema any, name string, depth int) (any, error) {
	if g.values++; g.values > maxValues || depth > maxDepth {
		return nil, errors.New("the schema asks for too much")
	}
	s, ok := schema.(map[string]any)
	if !ok && schema == false {
		return nil, errors.New("nothing fits false")
	}
	if !ok {
		return g.hash, nil
	}
	if v, known := s["const"]; known {
		return v, nil
	}
	if list, _ := s["enum"].([]any); len(list) > 0 {
		return list[0], nil
	}
	if ref, _ := s["$ref"].(string); ref != "" {
		part, err := g.part(ref)
		if err != nil {
			return nil, err
		}
		return g.value(part, name, depth+1)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, _ := s[keyword].([]any); len(list) > 0 {
			return g.first(s, keyword, list, name, depth)
		}
	}
	if list, _ := s["allOf"].([]any); len(list) > 0 {
		return g.value(merged(without(s, "allOf"), list...), name, depth+1)
	}
	return g.typed(s, name, depth)
}

// first is a value of the first alternative that has one.
func (g *inventor) first(s map[string]any, keyword string, list []any, name string, depth int) (v any, err error) {
	err = errors.New("nothing fits false")
	for _, alternative := range list {
		if alternative == false {
			continue
		}
		if v, err = g.value(merged(without(s, keyword), alternative), name, depth+1); err == nil {
			return v, nil
		}
	}
	return nil, err
}

func without(s map[string]any, keyword string) map[string]any {
	out := maps.Clone(s)
	delete(out, keyword)
	return out
}

// merged is a schema with the keywords of others added. Members of objects are put together.
func merged(s map[string]any, others ...any) map[string]any {
	for _, other := range others {
		o, _ := other.(map[string]any)
		for keyword, v := range o {
			old, both := s[keyword]
			switch new := v.(type) {
			case map[string]any:
				if members, ok := old.(map[string]any); both && ok {
					v = maps.Clone(members)
					maps.Copy(v.(map[string]any), new)
				}
			case []any:
				if list, ok := old.([]any); both && ok && keyword == "required" {
					v = slices.Concat(list, new)
				}
			}
			s[keyword] = v
		}
	}
	return s
}

// part finds "#/$defs/name".
func (g *inventor) part(ref string) (any, error) {
	path, own := strings.CutPrefix(ref, "#")
	at := g.root
	if !own {
		return nil, fmt.Errorf("$ref %s is another schema", ref)
	}
	for _, token := range strings.Split(path, "/")[1:] {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			at = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil, fmt.Errorf("$ref %s leads nowhere", ref)
			}
			at = v[i]
		}
	}
	return at, nil
}

func (g *inventor) typed(s map[string]any, name string, depth int) (any, error) {
	switch typeOf(s) {
	case "object":
		return g.object(s, depth)
	case "array":
		return g.array(s, name, depth)
	case "integer", "number":
		return numberFor(s), nil
	case "boolean":
		return true, nil
	case "null":
		return nil, nil
	}
	return g.text(s, name)
}

// typeOf is the type that a schema names, or that its keywords speak of.
func typeOf(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if text, _ := one.(string); text != "" && text != "null" {
				return text
			}
		}
	}
	for _, hint := range []struct{ keyword, is string }{{"properties", "object"}, {"required", "object"}, {"items", "array"}, {"prefixItems", "array"},
		{"minItems", "array"}, {"minimum", "number"}, {"maximum", "number"}, {"multipleOf", "number"}} {
		if _, ok := s[hint.keyword]; ok {
			return hint.is
		}
	}
	return "string"
}

func (g *inventor) object(s map[string]any, depth int) (any, error) {
	members, _ := s["properties"].(map[string]any)
	required := map[string]bool{}
	list, _ := s["required"].([]any)
	for _, name := range list {
		if text, ok := name.(string); ok {
			required[text] = true
		}
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if depth >= shallow && !required[name] {
			continue
		}
		v, err := g.value(members[name], name, depth+1)
		if err != nil && required[name] {
			return nil, err
		}
		if err == nil {
			out[name] = v
		}
	}
	for name := range required {
		if _, ok := members[name]; !ok {
			out[name] = g.hash
		}
	}
	return out, nil
}

func (g *inventor) array(s map[string]any, name string, depth int) (any, error) {
	n := 2
	if least, ok := numberAt(s, "minItems"); ok {
		n = max(n, int(min(least, maxValues)))
	}
	if most, ok := numberAt(s, "maxItems"); ok {
		n = min(n, int(most))
	}
	out := []any{}
	prefix, _ := s["prefixItems"].([]any)
	if len(prefix) > 0 && s["items"] == false {
		n = len(prefix)
	}
	for i := range n {
		items := s["items"]
		if i < len(prefix) {
			items = prefix[i]
		}
		if items == nil {
			items = true
		}
		v, err := g.value(items, name+" "+strconv.Itoa(i+1), depth+1)
		if err != nil {
			if least, _ := numberAt(s, "minItems"); float64(len(out)) >= least {
				return out, nil
			}
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func numberAt(s map[string]any, keyword string) (float64, bool) {
	f, ok := s[keyword].(float64)
	return f, ok
}

// numberFor is 1, or the number next to it that the bounds allow.
func numberFor(s map[string]any) any {
	v := 1.0
	step := 1.0
	if m, ok := numberAt(s, "multipleOf"); ok && m > 0 {
		v, step = m, m
	}
	if low, ok := numberAt(s, "minimum"); ok && v < low {
		v = math.Ceil(low/step) * step
	}
	if low, ok := numberAt(s, "exclusiveMinimum"); ok && v <= low {
		v = (math.Floor(low/step) + 1) * step
	}
	if high, ok := numberAt(s, "maximum"); ok && v > high {
		v = math.Floor(high/step) * step
	}
	if high, ok := numberAt(s, "exclusiveMaximum"); ok && v >= high {
		v = (math.Ceil(high/step) - 1) * step
	}
	low, hasLow := numberAt(s, "minimum")
	if hasLow && v < low { // between two steps
		v = low
	}
	return v
}

// formats are texts of the formats that schemas name.
var formats = map[string]string{"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "time": "03:04:05Z", "duration": "PT5M", "email": "ada@example.com",
	"hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/fake", "uuid": "00000000-0000-4000-8000-000000000000"}

func (g *inventor) text(s map[string]any, name string) (any, error) {
	text := name + " " + g.hash
	if format, _ := s["format"].(string); formats[format] != "" {
		return formats[format], nil
	}
	if pattern, _ := s["pattern"].(string); pattern != "" {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return nil, err
		}
		var b strings.Builder
		err = matching(&b, re.Simplify())
		return b.String(), err
	}
	if least, ok := numberAt(s, "minLength"); ok && len(text) < int(min(least, maxLetters)) {
		text += strings.Repeat(".", int(min(least, maxLetters))-len(text))
	}
	if most, ok := numberAt(s, "maxLength"); ok && len(text) > int(min(most, maxLetters)) {
		text = text[:int(min(most, maxLetters))]
	}
	return text, nil
}

// matching writes a short text that a regular expression matches.
func matching(b *strings.Builder, re *syntax.Regexp) error {
	if b.Len() > maxLetters {
		return errors.New("the pattern asks for too much")
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		if len(re.Rune) > 0 {
			b.WriteRune(re.Rune[0])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
	case syntax.OpAlternate:
		return matching(b, re.Sub[0])
	case syntax.OpCapture, syntax.OpConcat, syntax.OpPlus:
		for _, sub := range re.Sub {
			if err := matching(b, sub); err != nil {
				return err
			}
		}
	}
	return nil
}
