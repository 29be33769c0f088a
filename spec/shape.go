package spec

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Keys describes the keys of a struct in documents beyond its tags.
type Keys struct {
	Of      any               // a value of the struct
	What    string            // names it in messages: "a step"
	Idle    string            // keys that are accepted without effect, separated by spaces
	Instead map[string]string // the same, with the replacement, or the reason
	Hints   map[string]string // unknown keys with a clear intention; the aka tag has wrong names of a key
	List    string            // hint for a list that stands in its place
}

// Shape is a struct that documents are decoded into, with the structs inside. Prepare it at the program's start: it
// never changes. Besides the tags of FieldsOf it reads aka, wrong names of a key that a hint corrects, and in spec
// zero (a written 0 is the smallest number above it, distinct from a missing value), not (the struct has the opposite
// of the document) and before=key, where the key is listed.
type Shape struct {
	what, list  string
	fields      []shapeField
	names       []string
	idle, hints map[string]string
}

type shapeField struct {
	Field
	index     []int
	zero, not bool
	dates     bool // plain dates and years are meant as the texts that they are
	pattern   *regexp.Regexp
	nested    *Shape // of a struct, or of the structs in a list or map
}

// Shapes prepares the shapes of structs that have structs in common: each is prepared once.
type Shapes struct {
	keys   []Keys
	fields described
	done   map[shapeOf]*Shape
}

// shapeOf names a shape. Messages name a struct without Keys by the key that it stands under.
type shapeOf struct {
	t    reflect.Type
	name string
}

// NewShapes prepares nothing yet. The result is used where the program starts, by one goroutine.
func NewShapes(keys []Keys) *Shapes {
	return &Shapes{keys: keys, fields: described{}, done: map[shapeOf]*Shape{}}
}

// NewShape prepares a struct. It panics on a struct that no document can fill.
func NewShape(of any, keys []Keys) *Shape { return NewShapes(keys).Of(of) }

// Of prepares a struct, as NewShape does.
func (p *Shapes) Of(v any) *Shape { return p.shape(reflect.TypeOf(v), "") }

func (p *Shapes) shape(t reflect.Type, name string) *Shape {
	s := &Shape{what: name, idle: map[string]string{}, hints: map[string]string{}}
	if s.learn(t, p.keys) {
		name = ""
	}
	if done := p.done[shapeOf{t, name}]; done != nil {
		return done
	}
	p.done[shapeOf{t, name}] = s
	var fields []shapeField
	members(t, nil, func(key string, f *reflect.StructField, index []int) {
		m := shapeField{Field: p.fields.field(key, f), index: index}
		if m.Pattern != "" {
			m.pattern = regexp.MustCompile(m.Pattern)
		}
		if t := structIn(f.Type); t != nil {
			if m.nested = p.shape(t, key); m.nested.fields == nil { // the struct is inside itself
				m.Fields = nil
			}
		}
		at := len(fields)
		for word := range strings.SplitSeq(f.Tag.Get("spec"), ",") {
			m.zero, m.not = m.zero || word == "zero", m.not || word == "not"
			m.dates = m.dates || word == "dates"
			if before, ok := strings.CutPrefix(word, "before="); ok {
				at = max(0, slices.Index(s.names, before))
			}
		}
		fields, s.names = slices.Insert(fields, at, m), slices.Insert(s.names, at, key)
		for wrong := range strings.FieldsFuncSeq(f.Tag.Get("aka"), func(r rune) bool { return r == ',' }) {
			s.hints[wrong] = "write " + key
		}
	})
	s.fields = fields
	for wrong := range s.hints {
		if _, idle := s.idle[wrong]; idle || slices.Contains(s.names, wrong) {
			panic(fmt.Sprintf("spec: the hint for %s in %s is never shown", wrong, s.what))
		}
	}
	return s
}

// Has reports whether the struct has the key.
func (s *Shape) Has(key string) bool { return slices.Contains(s.names, key) }

// Leaf is a value that a struct has at some depth.
type Leaf struct {
	Path []string
	Type Type
}

// Leaves are the values in the struct and in the structs inside it, not in lists and maps.
func (s *Shape) Leaves() (leaves []Leaf) {
	for i := range s.fields {
		f := &s.fields[i]
		if f.Type != Object {
			leaves = append(leaves, Leaf{[]string{f.Name}, f.Type})
		} else if f.Fields != nil {
			for _, below := range f.nested.Leaves() {
				leaves = append(leaves, Leaf{append([]string{f.Name}, below.Path...), below.Type})
			}
		}
	}
	return leaves
}

// learn collects the Keys of a type, and of the types that it embeds. It reports whether there are any.
func (s *Shape) learn(t reflect.Type, keys []Keys) (found bool) {
	for i := range keys {
		k := &keys[i]
		if of := reflect.TypeOf(k.Of); of != t && !(t.NumField() > 0 && t.Field(0).Anonymous && t.Field(0).Type == of) {
			continue
		}
		found, s.what, s.list = true, k.What, k.List
		for key := range strings.FieldsSeq(k.Idle) {
			s.idle[key] = ""
		}
		for key, why := range k.Instead {
			s.idle[key] = why
		}
		for key, hint := range k.Hints {
			s.hints[key] = hint
		}
	}
	return found
}

// structIn is the struct that a field's type is, points to, or has as elements; nil when there is none to decode key by key.
func structIn(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == timeType || reflect.PointerTo(t).Implements(textType) {
		return nil
	}
	return t
}

// JSONSchema describes the struct as a JSON Schema (draft 2020-12) object. Own has the schemas of keys that their
// fields cannot describe.
func (s *Shape) JSONSchema(doc string, own map[string]any) map[string]any {
	fields := make([]Field, len(s.fields))
	for i := range s.fields {
		fields[i] = s.fields[i].Field
	}
	schema := JSONSchema(fields, false)
	schema["description"] = doc
	properties := schema["properties"].(map[string]any)
	for i := range s.fields {
		f := &s.fields[i]
		if v, ok := own[f.Name]; ok {
			properties[f.Name] = v
		} else if f.nested != nil && f.Fields != nil {
			properties[f.Name] = f.nested.JSONSchema(f.Doc, nil)
		}
	}
	for key, why := range s.idle {
		description := "Accepted without effect."
		if why != "" {
			description = "Accepted without effect: " + why + "."
		}
		properties[key] = map[string]any{"description": description, "deprecated": true}
	}
	return schema
}
