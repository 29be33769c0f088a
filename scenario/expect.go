package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// The keys of an expectation, and of one about a step.
var (
	expectKeys = []string{"status", "outputs", "error", "steps", "order", "calls", "logs", "duration", "cost", "breached", "items", "failures"}
	stepKeys   = []string{"status", "attempts", "outputs", "after", "why", "error", "duration", "cost"}
)

var executionStates = func() (names []string) {
	for s := stepwell.ExecutionPending; s <= stepwell.ExecutionTimedOut; s++ {
		names = append(names, s.String())
	}
	return names
}()

// expectation reads what is expected. What it means is known when the test has run; names of keys and statuses are checked now.
func (d *decoder) expectation(e spec.Entry, path string) *expectation {
	path = spec.MemberPath(path, "expect")
	if !d.mapping(e, path, "expect", expectKeys) {
		return nil
	}
	n := e.Value
	if s := n.Entry("status"); s.Value != nil {
		d.Choice(s, path, executionStates...)
	}
	if s := n.Entry("breached"); s.Value != nil {
		d.Choice(s, path, "none", engine.BreachedExpected, engine.BreachedMaximum)
	}
	if s := n.Entry("steps"); s.Value != nil && d.mapping(s, spec.MemberPath(path, "steps"), "steps", nil) {
		for _, step := range s.Value.Entries {
			at := spec.MemberPath(spec.MemberPath(path, "steps"), step.Key)
			status := spec.Entry{Key: step.Key, Pos: step.Pos, Value: step.Value}
			if step.Value.Kind == spec.MapNode {
				d.mapping(step, at, "a step", stepKeys)
				status = step.Value.Entry("status")
			}
			if status.Value != nil {
				d.Choice(status, at, states...)
			}
		}
	}
	d.matchers(n, path)
	return &expectation{n}
}

// mapping reports whether there is a mapping, and keys that it may not have.
func (d *decoder) mapping(e spec.Entry, path, what string, keys []string) bool {
	if e.Value.Kind != spec.MapNode {
		d.Fail(e.At(), path, what+" must be a mapping, not "+e.Value.Describe(), "")
		return false
	}
	for _, inner := range e.Value.Entries {
		if keys != nil && !slices.Contains(keys, inner.Key) {
			hint := spec.DidYouMean(inner.Key, keys)
			if hint == "" {
				hint = what + " may have " + strings.Join(keys, ", ")
			}
			d.Fail(inner.Pos, spec.MemberPath(path, inner.Key), fmt.Sprintf("unknown key %q in %s", inner.Key, what), hint)
		}
	}
	return true
}

var matcherKeys = []string{"$exact", "$match", "$any", "$count", "$contains", "$above", "$below", "$not"}

// matchers checks keys that begin with $.
func (d *decoder) matchers(n *spec.Node, path string) {
	for _, item := range n.Items {
		d.matchers(item, path)
	}
	for _, e := range n.Entries {
		at := spec.MemberPath(path, e.Key)
		if strings.HasPrefix(e.Key, "$") {
			if !slices.Contains(matcherKeys, e.Key) {
				d.Fail(e.Pos, at, "there is no matcher "+e.Key, cmp.Or(spec.DidYouMean(e.Key, matcherKeys), "there are "+strings.Join(matcherKeys, ", ")))
			}
			if _, err := regexp.Compile(e.Value.Text); e.Key == "$match" && err != nil {
				d.Fail(e.At(), at, err.Error(), "")
			}
		}
		d.matchers(e.Value, at)
	}
}

// comparison compares what came with what was expected, and says where they differ.
type comparison struct {
	scope expr.Scope
	fail  func(pos spec.Pos, message string)
}

// value compares one value. Of an object only the expected members count.
func (c *comparison) value(n *spec.Node, path string, got any) {
	switch n.Kind {
	case spec.MapNode:
		if len(n.Entries) > 0 && strings.HasPrefix(n.Entries[0].Key, "$") {
			for _, e := range n.Entries {
				c.match(e, path, got)
			}
			return
		}
		m, ok := got.(map[string]any)
		if !ok {
			c.differ(n.Pos, path, "an object", got)
			return
		}
		for _, e := range n.Entries {
			v, there := m[e.Key]
			if !there && !isNot(e.Value) {
				c.fail(e.Pos, spec.MemberPath(path, e.Key)+": expected "+shown(c.plain(e.Value))+", it is not there"+others(m))
				continue
			}
			c.value(e.Value, spec.MemberPath(path, e.Key), v)
		}
	case spec.ListNode:
		list, ok := got.([]any)
		if !ok || len(list) != len(n.Items) {
			c.differ(n.Pos, path, fmt.Sprintf("a list of %d", len(n.Items)), got)
			return
		}
		for i, item := range n.Items {
			c.value(item, spec.ElementPath(path, i), list[i])
		}
	default:
		if want := c.plain(n); !equal(want, got) {
			c.differ(n.Pos, path, shown(want), got)
		}
	}
}

// isNot reports whether a value that is not there is expected.
func isNot(n *spec.Node) bool { return n.Lookup("$not") != nil }

func others(m map[string]any) string {
	if len(m) == 0 {
		return ", nor is any other member"
	}
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return "; there are " + stepwell.Clip(strings.Join(names, ", "), 200)
}

func (c *comparison) differ(pos spec.Pos, path, want string, got any) {
	c.fail(pos, fmt.Sprintf("%s: expected %s, got %s", path, want, shown(got)))
}

// plain is an expected value, its templates rendered.
func (c *comparison) plain(n *spec.Node) any {
	v, at, err := valueOf(n, c.scope)
	if err != nil {
		c.fail(at, err.Error())
	}
	return v
}

// match compares by a matcher.
func (c *comparison) match(e spec.Entry, path string, got any) {
	want := c.plain(e.Value)
	number, isNumber := asNumber(got)
	limit, _ := asNumber(want)
	ok, what := false, ""
	switch e.Key {
	case "$any":
		ok, what = (got != nil) == (want == true), "anything"
	case "$exact":
		ok, what = equal(want, got), "exactly "+shown(want)
	case "$not":
		ok, what = !equal(want, got), "anything but "+shown(want)
	case "$match":
		text, isText := got.(string)
		if !isText {
			text = shown(got)
		}
		re, err := regexp.Compile(e.Value.Text)
		ok, what = err == nil && re.MatchString(text), "a text that matches "+e.Value.Text
	case "$contains":
		what = "something with " + shown(want)
		switch v := got.(type) {
		case string:
			ok = strings.Contains(v, fmt.Sprint(want))
		case []any:
			ok = slices.ContainsFunc(v, func(x any) bool { return equal(want, x) })
		}
	case "$count":
		n := count(got)
		if ok = equal(want, int64(n)); !ok && n >= 0 {
			c.fail(e.At(), fmt.Sprintf("%s: expected %s of them, got %d", path, shown(want), n))
			return
		}
		what = "a list or an object"
	case "$above":
		ok, what = isNumber && number > limit, "more than "+shown(want)
	case "$below":
		ok, what = isNumber && number < limit, "less than "+shown(want)
	}
	if !ok {
		c.differ(e.At(), path, what, got)
	}
}

// count is the length of a value, -1 where it has none.
func count(v any) int {
	switch v := v.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	case nil:
		return 0
	}
	return -1
}

func asNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// equal compares plain data; numbers are equal by their values.
func equal(a, b any) bool {
	if x, ok := asNumber(a); ok {
		y, ok := asNumber(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, there := b[k]; !there || !equal(v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}

// maxShown is how much of a value is shown.
const maxShown = 300

// shown is a value as JSON, cut.
func shown(v any) string {
	raw, err := expr.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return stepwell.Clip(string(raw), maxShown)
}
