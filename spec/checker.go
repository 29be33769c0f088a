package spec

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Mismatch is one way in which values do not fit their fields.
type Mismatch struct {
	Path    string   // "headers.accept", "branches[0].id"
	Keys    []string // the same, one key or index per element
	Message string   // begins with the path's field: "url is missing"
	Hint    string   // the remedy, may be empty
	Doc     string   // of the field, may be empty
}

func (m Mismatch) String() string {
	if m.Hint == "" {
		return m.Message
	}
	return m.Message + " (" + m.Hint + ")"
}

// Checker checks values against fields and fills in defaults. It is prepared once, never changes and
// may be used by many goroutines; when nothing is wrong and nothing is missing, a call costs a map
// look-up per field and one small allocation.
type Checker struct {
	root object
}

// object is the members of an object: the parameters themselves, or those of a nested one.
type object struct {
	members []member
	index   map[string]int
	names   []string
	open    bool
	fills   bool // some member has a default or must be converted
}

type member struct {
	Field
	pattern *regexp.Regexp
	items   *member
	fields  *object
	fills   bool
}

// Compile prepares a Checker. Open allows names beyond the fields. A field without a name, twice
// the same name, an unknown type, a bad pattern or a default that does not fit is an error.
func Compile(fields []Field, open bool) (*Checker, error) {
	root, err := compileObject(fields, open, "")
	if err != nil {
		return nil, err
	}
	c := &Checker{root: *root}
	for i := range c.root.members {
		if err := c.root.members[i].checkDefault(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func compileObject(fields []Field, open bool, path string) (*object, error) {
	o := &object{open: open, members: make([]member, len(fields)), index: make(map[string]int, len(fields))}
	for i, f := range fields {
		if f.Name == "" {
			return nil, fmt.Errorf("field %d of %q has no name", i, path)
		}
		if _, twice := o.index[f.Name]; twice {
			return nil, fmt.Errorf("field %s appears twice", join(path, f.Name))
		}
		m, err := compileMember(f, join(path, f.Name))
		if err != nil {
			return nil, err
		}
		o.members[i], o.index[f.Name] = *m, i
		o.names = append(o.names, f.Name)
		o.fills = o.fills || m.fills || f.Default != nil
	}
	return o, nil
}

func compileMember(f Field, path string) (*member, error) {
	m := &member{Field: f}
	switch f.Type {
	case String, Duration, Time, Ref, Any, Boolean:
	case Integer, Number:
		m.fills = true
	case Array:
		if f.Items != nil {
			items, err := compileMember(*f.Items, path+"[]")
			if err != nil {
				return nil, err
			}
			m.items, m.fills = items, items.fills
		}
	case Object:
		if f.Fields != nil {
			fields, err := compileObject(f.Fields, false, path)
			if err != nil {
				return nil, err
			}
			m.fields, m.fills = fields, fields.fills
		}
	default:
		return nil, fmt.Errorf("field %s has the unknown type %q", path, f.Type)
	}
	if f.Pattern != "" {
		re, err := regexp.Compile(f.Pattern)
		if err != nil {
			return nil, fmt.Errorf("pattern of field %s: %w", path, err)
		}
		m.pattern = re
	}
	return m, nil
}

func (m *member) checkDefault() error {
	if m.Default == nil {
		return nil
	}
	c := checking{}
	c.within(m.Name, m, m.Default, false)
	if len(c.found) > 0 {
		return fmt.Errorf("default of field %s", c.found[0].Message)
	}
	return nil
}

// Check reports everything that does not fit, nothing when all fits. A null counts as not given.
func (c *Checker) Check(values map[string]any) []Mismatch {
	run := checking{keys: make([]string, 0, usualDepth)}
	run.object(&c.root, values, false)
	return run.found
}

// CheckTemplated is Check for values that are still to be rendered: a text that contains a tag
// ({{, {% or {#) fits any field.
func (c *Checker) CheckTemplated(values map[string]any) []Mismatch {
	run := checking{templates: true, keys: make([]string, 0, usualDepth)}
	run.object(&c.root, values, false)
	return run.found
}

// Check is Compile and Check in one, for use outside of hot paths. Fields that do not compile are
// reported as a mismatch.
func Check(fields []Field, open bool, values map[string]any) []Mismatch {
	c, err := Compile(fields, open)
	if err != nil {
		return []Mismatch{{Message: err.Error()}}
	}
	return c.Check(values)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// at makes a mismatch's path of its keys.
func at(keys []string) string {
	var b strings.Builder
	for i, key := range keys {
		if _, err := strconv.Atoi(key); err == nil && i > 0 {
			b.WriteString("[" + key + "]")
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(key)
	}
	return b.String()
}
