package definition

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/stepwell/stepwell/spec"
)

// steps reads a list of steps; depth counts the groups around it, the pipeline being 1.
func (d *decoder) steps(e spec.Entry, path string, depth int) []Step {
	path = spec.MemberPath(path, e.Key)
	if e.Value.IsNull() {
		return nil
	}
	if e.Value.Kind != spec.ListNode {
		hint := "write - id: first, with action: below it"
		if e.Value.Kind == spec.MapNode {
			hint = "put the name of each step into id: and begin each step with a dash"
		}
		d.Fail(e.At(), path, e.Key+" must be a list, not "+e.Value.Describe(), hint)
		return nil
	}
	if depth > groupDepth {
		d.Fail(e.At(), path, fmt.Sprintf("groups nest deeper than %d levels", groupDepth), "move the inner part into a pipeline of its own")
		return nil
	}
	list := make([]Step, 0, len(e.Value.Items))
	for i, item := range e.Value.Items {
		list = append(list, d.step(item, spec.ElementPath(path, i), depth))
	}
	return list
}

func (d *decoder) step(n *spec.Node, path string, depth int) Step {
	doc := documentStep{Step: Step{Pos: n.Pos}}
	s := &doc.Step
	outer := d.Places
	defer func() { d.Places = outer }()
	if n.Kind == spec.MapNode {
		s.At = make(map[string]Pos, len(n.Entries)+4)
	}
	d.Places = &spec.Places{At: s.At}
	var loop ForEach // keys next to for_each
	d.Struct(n, path, stepShape, &doc, func(e spec.Entry) bool {
		switch e.Key {
		case "id":
			s.ID = d.id(e, path)
		case "steps":
			s.Steps = d.steps(e, path, depth+1)
		case "params":
			return repeats(n) // then they are about the loop
		case "condition":
			s.Condition = d.condition(e, path)
		case "for_each":
			s.ForEach = d.forEach(e, path)
		case "as", "max_failures":
			return d.loopKey(e, path, &loop)
		case "log_level":
			s.LogLevel = d.logLevel(e, path)
		default:
			return false
		}
		return true
	})
	if n.Kind != spec.MapNode {
		return *s
	}
	if s.Retry != nil {
		d.checkRetry(n.Entry("retry"), path, s.Retry)
	}
	loop.MaxConcurrency = doc.MaxConcurrency
	d.stepWhole(n, s, path)
	d.joinLoop(n, s, loop, path)
	d.repeat(n, s, path)
	s.loose = d.Places.Loose
	return *s
}

// stepWhole checks combinations of a step's keys.
func (d *decoder) stepWhole(n *spec.Node, s *Step, path string) {
	if id := n.Lookup("id"); id.IsNull() || id.Kind == spec.ScalarNode && strings.TrimSpace(id.Text) == "" {
		hint := "every step needs an id that is unique in the document"
		if name := slug(s.Name); name != "" {
			hint = "write id: " + name
		}
		d.Fail(n.Pos, path, "the step has no id", hint)
	}
	var kinds []string
	for _, kind := range []string{"action", "module", "pipeline", "steps"} {
		if n.Lookup(kind) != nil {
			kinds = append(kinds, kind)
		}
	}
	switch len(kinds) {
	case 0:
		d.Fail(n.Pos, path, fmt.Sprintf("the step %s does nothing", spec.Quote(s.ID)), "give it one of action, pipeline or steps")
		return
	case 1:
	default:
		d.Fail(n.Pos, path, fmt.Sprintf("the step %s has %s; it can have only one of them", spec.Quote(s.ID), strings.Join(kinds, " and ")), "make two steps of it")
		return
	}
	d.stepKind(n, s, kinds[0], path)
}

// stepKind checks that the keys of a step suit its kind.
func (d *decoder) stepKind(n *spec.Node, s *Step, kind, path string) {
	if v := n.Lookup(kind); v.IsNull() {
		d.Fail(s.At[kind], spec.MemberPath(path, kind), kind+" is empty", "")
	} else if kind == "steps" && v.Kind == spec.ListNode && len(v.Items) == 0 {
		d.Fail(s.At[kind], spec.MemberPath(path, kind), "the group has no steps", "a group contains at least one step")
	}
	for _, k := range []struct {
		key           string
		wrong         bool
		message, hint string
	}{
		{"config", kind != "module", "config belongs to a module", "an action's values are called params"},
		{"settings", kind != "action", "settings belong to an action", "only the params of an action read them"},
		{"source", kind == "module", "source belongs to a step that works on a result", "a module takes its items from the steps in depends_on"},
		{"merge", kind != "module", "merge belongs to a step that joins branches of a stream", "only a step with module: has items to merge"},
		{"params", kind == "module", "params belong to an action", "a module's values are called config"},
		{"params", kind == "steps", "a group has no params", "give them to the steps inside"},
	} {
		if k.wrong && n.Lookup(k.key) != nil {
			d.Fail(s.At[k.key], spec.MemberPath(path, k.key), k.message, k.hint)
		}
	}
}

// id reads a step's id: 1 to 100 characters, a letter or digit first, then also _ . and -.
func (d *decoder) id(e spec.Entry, path string) string {
	id := d.Text(e, path, 100)
	if id == "" || stepID(id) {
		return id
	}
	hint := "begin with a letter (a to z) or digit, continue with letters, digits, _ . and -"
	if s := slug(id); s != "" {
		hint = "write id: " + s
	}
	d.Fail(e.At(), spec.MemberPath(path, e.Key), "the id "+spec.Quote(id)+" is not possible", hint)
	return id
}

func stepID(s string) bool { return len(s) <= 100 && isName(s, "0123456789", "0123456789_.-") }

// slug makes an id of a name. It makes none of a name with letters beyond ASCII, of which too much would be lost.
func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r > unicode.MaxASCII && unicode.IsLetter(r):
			return ""
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_") && b.Len() < 60:
			b.WriteByte('_')
		}
	}
	return strings.Trim(b.String()[:min(b.Len(), 60)], "_")
}

// condition reads a text; true and false without quotes are meant as such.
func (d *decoder) condition(e spec.Entry, path string) string {
	n := e.Value
	if n.IsNull() {
		return ""
	}
	if n.Kind != spec.ScalarNode {
		hint := ""
		if n.Kind == spec.MapNode {
			hint = `quote it: "{{ … }}"`
		}
		d.Fail(e.At(), spec.MemberPath(path, e.Key), "condition must be an expression, not "+n.Describe(), hint)
		return ""
	}
	if len(n.Text) > maxText {
		d.Fail(e.At(), spec.MemberPath(path, e.Key), fmt.Sprintf("condition has more than %d characters", maxText), "")
		return ""
	}
	return n.Text
}
