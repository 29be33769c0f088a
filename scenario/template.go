package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// fill puts the values of a row into a copy of a node: into texts whose templates read nothing but row. The others are rendered when
// their values are known.
func (d *decoder) fill(n *spec.Node, path string, row map[string]any) *spec.Node {
	out := *n
	switch n.Kind {
	case spec.ListNode:
		out.Items = make([]*spec.Node, len(n.Items))
		for i, item := range n.Items {
			out.Items[i] = d.fill(item, spec.ElementPath(path, i), row)
		}
	case spec.MapNode:
		out.Entries = slices.Clone(n.Entries)
		for i, e := range n.Entries {
			if e.Key == "table" {
				continue
			}
			out.Entries[i].Value = d.fill(e.Value, spec.MemberPath(path, e.Key), row)
			key := d.fill(&spec.Node{Pos: e.Pos, Text: e.Key, Literal: true}, path, row)
			if out.Entries[i].Key = key.Text; key.Text != e.Key && n.Lookup(key.Text) != nil {
				d.Fail(e.Pos, path, fmt.Sprintf("the key %q appears twice in this mapping", key.Text), "another one is written out")
			}
		}
	default:
		if !strings.Contains(n.Text, "{{") {
			return n
		}
		t := d.template(n, path)
		if t == nil || !readsOnly(t, "row") {
			return n
		}
		v, err := t.Eval(expr.Vars{"row": row}, expr.Limits{})
		if err != nil {
			d.wrong(n, path, err)
			return n
		}
		return nodeOf(v, n.Pos)
	}
	return &out
}

// template parses a text with templates. It reports what is wrong with it.
func (d *decoder) template(n *spec.Node, path string) *expr.Template {
	t, err := expr.Parse(n.Text)
	if err != nil {
		d.wrong(n, path, err)
		return nil
	}
	return t
}

// condition parses an expression with or without {{ }}.
func (d *decoder) condition(n *spec.Node, path string) *expr.Template {
	t, err := expr.ParseCondition(n.Text)
	if err != nil {
		d.wrong(n, path, err)
		return nil
	}
	return t
}

func (d *decoder) wrong(n *spec.Node, path string, err error) {
	message, hint := err.Error(), ""
	if e, ok := errors.AsType[*expr.Error](err); ok {
		message, hint = e.Message, e.Hint
	}
	d.Fail(n.Pos, path, message, hint)
}

// templates checks the templates in all texts of a node.
func (d *decoder) templates(n *spec.Node, path string) {
	switch n.Kind {
	case spec.ListNode:
		for i, item := range n.Items {
			d.templates(item, spec.ElementPath(path, i))
		}
	case spec.MapNode:
		for _, e := range n.Entries {
			d.templates(e.Value, spec.MemberPath(path, e.Key))
		}
	default:
		if strings.Contains(n.Text, "{{") {
			d.template(n, path)
		}
	}
}

// readsOnly reports whether a template reads a name and no other one.
func readsOnly(t *expr.Template, name string) bool {
	refs := t.Refs()
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(r expr.Ref) bool { return r.Path[0] != name })
}

// nodeOf is a value as a node at a place.
func nodeOf(v any, pos spec.Pos) *spec.Node {
	n := &spec.Node{Pos: pos}
	switch v := v.(type) {
	case nil:
		n.Text = "null"
	case string:
		n.Text, n.Literal = v, true
	case bool:
		n.Text = strconv.FormatBool(v)
	case []any:
		n.Kind = spec.ListNode
		for _, item := range v {
			n.Items = append(n.Items, nodeOf(item, pos))
		}
	case map[string]any:
		n.Kind = spec.MapNode
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Entries = append(n.Entries, spec.Entry{Key: key, Pos: pos, Value: nodeOf(v[key], pos)})
		}
	default:
		n.Text = fmt.Sprint(v)
	}
	n.Measure()
	return n
}

// valueOf is a node's value with its templates rendered. at is the place of the text that cannot be.
func valueOf(n *spec.Node, scope expr.Scope) (v any, at spec.Pos, err error) {
	switch n.Kind {
	case spec.ListNode:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			if list[i], at, err = valueOf(item, scope); err != nil {
				return nil, at, err
			}
		}
		return list, n.Pos, nil
	case spec.MapNode:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			if m[e.Key], at, err = valueOf(e.Value, scope); err != nil {
				return nil, at, err
			}
		}
		return m, n.Pos, nil
	}
	if scope != nil && strings.Contains(n.Text, "{{") {
		t, err := expr.Parse(n.Text)
		if err == nil {
			v, err = t.Eval(scope, expr.Limits{})
		}
		return v, n.Pos, err
	}
	v, _ = n.Scalar()
	return v, n.Pos, nil
}
