package definition

import (
	"fmt"
	"strings"
	"unicode"
)

// steps reads a list of steps; depth counts the groups around it, the pipeline being 1.
func (d *decoder) steps(e entry, path string, depth int) []Step {
	path = member(path, e.key)
	if e.value.isNull() {
		return nil
	}
	if e.value.kind != listKind {
		hint := "write - id: first, with action: below it"
		if e.value.kind == mapKind {
			hint = "put the name of each step into id: and begin each step with a dash"
		}
		d.fail(e.at(), path, e.key+" must be a list, not "+e.value.describe(), hint)
		return nil
	}
	if depth > groupDepth {
		d.fail(e.at(), path, fmt.Sprintf("groups nest deeper than %d levels", groupDepth), "move the inner part into a pipeline of its own")
		return nil
	}
	list := make([]Step, 0, len(e.value.items))
	for i, item := range e.value.items {
		list = append(list, d.step(item, element(path, i), depth))
	}
	return list
}

// step is long because it is a table: one case per key.
func (d *decoder) step(n *node, path string, depth int) Step {
	s := Step{Pos: n.pos}
	if n.kind != mapKind {
		d.fields(n, path, &stepKeys, func(entry) {})
		return s
	}
	s.At = make(map[string]Pos, len(n.entries)+4)
	p := &places{at: s.At}
	var loop ForEach // keys that stand beside for_each
	d.fields(n, path, &stepKeys, func(e entry) {
		p.record(e.key, e.value, e.at())
		switch e.key {
		case "id":
			s.ID = d.id(e, path)
		case "name":
			s.Name = d.text(e, path, maxName)
		case "action":
			s.Action = d.text(e, path, maxName)
		case "module":
			s.Module = d.text(e, path, maxName)
		case "pipeline":
			s.Pipeline = d.text(e, path, maxName)
		case "steps":
			s.Steps = d.steps(e, path, depth+1)
		case "params":
			if !repeats(n) { // else they are about the loop
				s.Params = d.mapping(e, path, p)
			}
		case "config":
			s.Config = d.mapping(e, path, p)
		case "depends_on":
			s.DependsOn = d.words(e, path, s.At)
		case "condition":
			s.Condition = d.condition(e, path)
		case "on_failure":
			s.OnFailure = d.choice(e, path, "fail", "continue", "retry")
		case "retry":
			s.Retry = d.retry(e, path)
		case "timeout_seconds":
			s.TimeoutSeconds = d.number(e, path, timeoutBounds)
		case "for_each":
			s.ForEach = d.forEach(e, path, p)
		case "as", "max_concurrency", "max_failures":
			d.loopKey(e, path, &loop)
		case "outputs":
			s.Outputs = d.words(e, path, nil)
		case "trigger_rule":
			s.TriggerRule = d.choice(e, path, "all_success", "all_done", "one_success", "one_failed", "none_failed")
		case "queue":
			s.Queue = d.text(e, path, 100)
		case "priority":
			s.Priority = d.integer(e, path, wholeBounds(-1000, 1000))
		case "weight":
			s.Weight = d.number(e, path, bounds{0, 1e6, true, ""})
		case "idempotent":
			if v := d.boolean(e, path); !e.value.isNull() {
				s.Idempotent = &v
			}
		case "log_level":
			s.LogLevel = d.logLevel(e, path)
		case "merge":
			s.Merge = d.choice(e, path, "fail", "first", "last")
		}
	})
	d.stepWhole(n, &s, path)
	d.joinLoop(n, &s, loop, path)
	d.repeat(n, &s, path, p)
	s.loose = p.loose
	return s
}

// stepWhole checks what concerns several keys of a step.
func (d *decoder) stepWhole(n *node, s *Step, path string) {
	if id := n.lookup("id"); id.isNull() || id.kind == scalarKind && strings.TrimSpace(id.text) == "" {
		hint := "every step needs an id that is unique in the document"
		if name := slug(s.Name); name != "" {
			hint = "write id: " + name
		}
		d.fail(n.pos, path, "the step has no id", hint)
	}
	var kinds []string
	for _, kind := range []string{"action", "module", "pipeline", "steps"} {
		if n.lookup(kind) != nil {
			kinds = append(kinds, kind)
		}
	}
	switch len(kinds) {
	case 0:
		d.fail(n.pos, path, fmt.Sprintf("the step %s does nothing", quoteShort(s.ID)), "give it one of action, pipeline or steps")
		return
	case 1:
	default:
		d.fail(n.pos, path, fmt.Sprintf("the step %s has %s; it can have only one of them", quoteShort(s.ID), strings.Join(kinds, " and ")), "make two steps of it")
		return
	}
	d.stepKind(n, s, kinds[0], path)
}

// stepKind checks that the keys of a step suit its kind.
func (d *decoder) stepKind(n *node, s *Step, kind, path string) {
	if v := n.lookup(kind); v.isNull() {
		d.fail(s.At[kind], member(path, kind), kind+" is empty", "")
	} else if kind == "steps" && v.kind == listKind && len(v.items) == 0 {
		d.fail(s.At[kind], member(path, kind), "the group has no steps", "a group contains at least one step")
	}
	if kind != "module" && n.lookup("config") != nil {
		d.fail(s.At["config"], member(path, "config"), "config belongs to a module", "an action's values are called params")
	}
	if kind != "module" && n.lookup("merge") != nil {
		d.fail(s.At["merge"], member(path, "merge"), "merge belongs to a step that joins branches of a stream", "only a step with module: has items to merge")
	}
	if kind == "module" && n.lookup("params") != nil {
		d.fail(s.At["params"], member(path, "params"), "params belong to an action", "a module's values are called config")
	}
	if kind == "steps" && n.lookup("params") != nil {
		d.fail(s.At["params"], member(path, "params"), "a group has no params", "give them to the steps inside")
	}
}

// id reads a step's id: 1 to 100 characters, a letter or digit first, then also _ . and -.
func (d *decoder) id(e entry, path string) string {
	id := d.text(e, path, 100)
	if id == "" || stepID(id) {
		return id
	}
	hint := "begin with a letter (a to z) or digit, go on with letters, digits, _ . and -"
	if s := slug(id); s != "" {
		hint = "write id: " + s
	}
	d.fail(e.at(), member(path, e.key), "the id "+quoteShort(id)+" is not possible", hint)
	return id
}

func stepID(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && (i == 0 || c != '_' && c != '.' && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 100
}

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
func (d *decoder) condition(e entry, path string) string {
	n := e.value
	if n.isNull() {
		return ""
	}
	if n.kind != scalarKind {
		hint := ""
		if n.kind == mapKind {
			hint = `quote it: "{{ … }}"`
		}
		d.fail(e.at(), member(path, e.key), "condition must be an expression, not "+n.describe(), hint)
		return ""
	}
	if len(n.text) > maxText {
		d.fail(e.at(), member(path, e.key), fmt.Sprintf("condition has more than %d characters", maxText), "")
		return ""
	}
	return n.text
}
