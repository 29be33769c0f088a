package definition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxRange is the largest n of `for_each: n`.
const maxRange = 10_000_000

// forEach reads `for_each`: a template, a list, a number n (0 to n-1), an object to go over, or the long
// form, which is a mapping with the key `items`.
func (d *decoder) forEach(e entry, path string, p *places) *ForEach {
	n := e.value
	if n.isNull() {
		d.fail(e.pos, member(path, e.key), "for_each is empty", "give it a list, a number or a template")
		return nil
	}
	f := &ForEach{}
	if n.kind != mapKind || n.lookup("items") == nil && !loopOnly(n) {
		f.Items = d.loopItems(e, path, "for_each", p)
		return f
	}
	path = member(path, e.key)
	d.fields(n, path, &forEachKeys, func(inner entry) {
		p.record(below(e.key, inner.key), inner.value, inner.at())
		if inner.key == "items" {
			f.Items = d.loopItems(inner, path, "for_each/items", p)
			return
		}
		d.loopKey(inner, path, f)
	})
	if n.lookup("items").isNull() {
		d.fail(e.pos, path, "for_each has no items", `write items: "{{ … }}"`)
	}
	return f
}

// loopOnly reports whether a mapping has nothing but keys of the long form, so that its items were
// forgotten.
func loopOnly(n *node) bool {
	for _, e := range n.entries {
		if !slices.Contains(forEachKeys.known, e.key) {
			return false
		}
	}
	return len(n.entries) > 0
}

func (d *decoder) loopItems(e entry, path, at string, p *places) any {
	n := e.value
	path = member(path, e.key)
	v := d.value(n, path, at, p)
	switch v := v.(type) {
	case string:
		if !strings.Contains(v, "{{") {
			d.fail(e.at(), path, "for_each goes over a list, an object or a number, not the text "+quoteShort(v), `a template is written "{{ … }}"`)
			return nil
		}
	case int64:
		if v < 0 || v > maxRange {
			d.fail(e.at(), path, fmt.Sprintf("for_each can count up to %d, not %d", maxRange, v), "")
			return nil
		}
	case bool, float64:
		d.fail(e.at(), path, "for_each goes over a list, an object or a whole number, not "+n.describe(), "")
		return nil
	}
	return v
}

// loopKey reads one of the keys that say how a loop runs.
func (d *decoder) loopKey(e entry, path string, f *ForEach) {
	switch e.key {
	case "as":
		f.As = d.loopName(e, path)
	case "max_concurrency":
		f.MaxConcurrency = d.integer(e, path, parallel)
	case "max_failures":
		f.MaxFailures = d.maxFailures(e, path)
	}
}

// reserved are the names that templates know anyway.
var reserved = []string{"params", "steps", "index", "execution", "project", "lesson", "secrets", "true", "false", "none", "null", "and", "or",
	"not", "in", "is", "if", "else", "loop"}

func (d *decoder) loopName(e entry, path string) string {
	name := d.text(e, path, 100)
	if name == "" {
		return ""
	}
	if !variableName(name) {
		d.fail(e.at(), member(path, e.key), "the name "+quoteShort(name)+" is not possible in templates", "begin with a letter or _, go on with letters, digits and _")
		return ""
	}
	if slices.Contains(reserved, name) {
		d.fail(e.at(), member(path, e.key), "the name "+name+" has a meaning of its own in templates", "take another one")
		return ""
	}
	return name
}

// maxFailures reads a count or a share: 3 or "10%".
func (d *decoder) maxFailures(e entry, path string) string {
	n := e.value
	if n.isNull() {
		return ""
	}
	if n.kind == scalarKind {
		if share, ok := strings.CutSuffix(n.text, "%"); ok {
			if v, err := strconv.ParseFloat(share, 64); err == nil && v >= 0 && v <= 100 {
				return formatNumber(v) + "%"
			}
			d.fail(e.at(), member(path, e.key), "max_failures must be a share from 0% to 100%, not "+quoteShort(n.text), "")
			return ""
		}
		if v, err := strconv.ParseInt(n.text, 10, 64); err == nil && v >= 0 {
			return strconv.FormatInt(v, 10)
		}
	}
	d.fail(e.at(), member(path, e.key), "max_failures must be a count or a share, not "+n.describe(), `write 3 or "10%"`)
	return ""
}

// joinLoop moves keys that stand beside for_each into it.
func (d *decoder) joinLoop(n *node, s *Step, beside ForEach, path string) {
	for _, key := range []string{"as", "max_concurrency", "max_failures"} {
		e := n.lookup(key)
		if e == nil {
			continue
		}
		if s.ForEach == nil {
			if n.lookup("for_each") == nil {
				hint := ""
				if repeats(n) {
					hint = "write it into the params of for_each"
				}
				d.fail(s.At[key], member(path, key), key+" has a meaning only together with for_each", hint)
			}
			continue
		}
		taken := map[string]bool{"as": s.ForEach.As != "", "max_concurrency": s.ForEach.MaxConcurrency != 0, "max_failures": s.ForEach.MaxFailures != ""}
		if taken[key] {
			d.fail(s.At[key], member(path, key), key+" stands both in for_each and beside it", "keep one of them")
		}
	}
	if s.ForEach == nil {
		return
	}
	if beside.As != "" {
		s.ForEach.As = beside.As
	}
	if beside.MaxConcurrency != 0 {
		s.ForEach.MaxConcurrency = beside.MaxConcurrency
	}
	if beside.MaxFailures != "" {
		s.ForEach.MaxFailures = beside.MaxFailures
	}
}
