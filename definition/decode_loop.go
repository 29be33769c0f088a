package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// maxRange is the largest n of `for_each: n`.
const maxRange = 10_000_000

// forEach reads `for_each`: a template, a list, a number n (0 to n-1), an object to go over, or the long
// form, which is a mapping with the key `items`.
func (d *decoder) forEach(e spec.Entry, path string) *ForEach {
	n := e.Value
	if n.IsNull() {
		d.Fail(e.Pos, spec.MemberPath(path, e.Key), "for_each is empty", "give it a list, a number or a template")
		return nil
	}
	f := &ForEach{}
	if n.Kind != spec.MapNode || n.Lookup("items") == nil && !loopOnly(n) {
		f.Items = d.loopItems(e, path)
		return f
	}
	path = spec.MemberPath(path, e.Key)
	d.Struct(n, path, forEachShape, f, func(inner spec.Entry) bool {
		if inner.Key == "items" {
			f.Items = d.loopItems(inner, path)
			return true
		}
		return d.loopKey(inner, path, f)
	})
	if n.Lookup("items").IsNull() {
		d.Fail(e.Pos, path, "for_each has no items", `write items: "{{ … }}"`)
	}
	return f
}

// loopOnly reports whether a mapping has nothing but keys of the long form, so that its items were
// forgotten.
func loopOnly(n *spec.Node) bool {
	for _, e := range n.Entries {
		if !forEachShape.Has(e.Key) {
			return false
		}
	}
	return len(n.Entries) > 0
}

func (d *decoder) loopItems(e spec.Entry, path string) any {
	n := e.Value
	path = spec.MemberPath(path, e.Key)
	v := d.Value(n, path, d.Places.Prefix)
	switch v := v.(type) {
	case string:
		if !strings.Contains(v, "{{") {
			d.Fail(e.At(), path, "for_each goes over a list, an object or a number, not the text "+spec.Quote(v), `a template is written "{{ … }}"`)
			return nil
		}
	case int64:
		if v < 0 || v > maxRange {
			d.Fail(e.At(), path, fmt.Sprintf("for_each can count up to %d, not %d", maxRange, v), "")
			return nil
		}
	case bool, float64:
		d.Fail(e.At(), path, "for_each goes over a list, an object or a whole number, not "+n.Describe(), "")
		return nil
	}
	return v
}

// loopKey reads those of the keys that say how a loop runs which are no plain values.
func (d *decoder) loopKey(e spec.Entry, path string, f *ForEach) bool {
	switch e.Key {
	case "as":
		f.As = d.loopName(e, path)
	case "max_failures":
		f.MaxFailures = d.maxFailures(e, path)
	default:
		return false
	}
	return true
}

// reserved are the names that templates know anyway.
var reserved = []string{"params", "steps", "index", "execution", "project", "lesson", "secrets", "credentials", "true", "false", "none", "null", "and", "or",
	"not", "in", "is", "if", "else", "loop"}

func (d *decoder) loopName(e spec.Entry, path string) string {
	name := d.Text(e, path, 100)
	if name == "" {
		return ""
	}
	if !variableName(name) {
		d.Fail(e.At(), spec.MemberPath(path, e.Key), "the name "+spec.Quote(name)+" is not possible in templates", "begin with a letter or _, continue with letters, digits and _")
		return ""
	}
	if slices.Contains(reserved, name) {
		d.Fail(e.At(), spec.MemberPath(path, e.Key), "the name "+name+" has a meaning of its own in templates", "take another one")
		return ""
	}
	return name
}

// maxFailures reads a count or a share: 3 or "10%".
func (d *decoder) maxFailures(e spec.Entry, path string) string {
	n := e.Value
	if n.IsNull() {
		return ""
	}
	if n.Kind == spec.ScalarNode {
		if share, ok := strings.CutSuffix(n.Text, "%"); ok {
			if v, err := strconv.ParseFloat(share, 64); err == nil && v >= 0 && v <= 100 {
				return strconv.FormatFloat(v, 'f', -1, 64) + "%"
			}
			d.Fail(e.At(), spec.MemberPath(path, e.Key), "max_failures must be a share from 0% to 100%, not "+spec.Quote(n.Text), "")
			return ""
		}
		if v, err := strconv.ParseInt(n.Text, 10, 64); err == nil && v >= 0 {
			return strconv.FormatInt(v, 10)
		}
	}
	d.Fail(e.At(), spec.MemberPath(path, e.Key), "max_failures must be a count or a share, not "+n.Describe(), `write 3 or "10%"`)
	return ""
}

// joinLoop moves keys next to for_each into it.
func (d *decoder) joinLoop(n *spec.Node, s *Step, beside ForEach, path string) {
	for _, key := range []string{"as", "max_concurrency", "max_failures"} {
		e := n.Lookup(key)
		if e == nil {
			continue
		}
		if s.ForEach == nil {
			if n.Lookup("for_each") == nil {
				hint := ""
				if repeats(n) {
					hint = "write it into the params of for_each"
				}
				d.Fail(s.At[key], spec.MemberPath(path, key), key+" has a meaning only together with for_each", hint)
			}
			continue
		}
		taken := map[string]bool{"as": s.ForEach.As != "", "max_concurrency": s.ForEach.MaxConcurrency != 0, "max_failures": s.ForEach.MaxFailures != ""}
		if taken[key] {
			d.Fail(s.At[key], spec.MemberPath(path, key), key+" stands both in for_each and beside it", "keep one of them")
		}
	}
	if f := s.ForEach; f != nil {
		f.As, f.MaxConcurrency, f.MaxFailures = cmp.Or(beside.As, f.As), cmp.Or(beside.MaxConcurrency, f.MaxConcurrency), cmp.Or(beside.MaxFailures, f.MaxFailures)
	}
}
