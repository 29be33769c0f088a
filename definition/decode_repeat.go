package definition

import (
	"slices"
	"strings"
)

// repeatNames are the names under which for_each is written as an action (budpipeline's control actions).
var repeatNames = []string{"for_each", "util.for_each"}

// repeats reports whether a step is a for_each written as an action.
func repeats(n *node) bool {
	action := n.lookup("action")
	return action != nil && slices.Contains(repeatNames, action.text)
}

// repeat turns a for_each that is written as an action into a step of the repeated action with for_each, as
// if it had been written that way.
func (d *decoder) repeat(n *node, s *Step, path string, p *places) {
	if !repeats(n) {
		return
	}
	s.Action = "" // whatever is wrong below, for_each itself is no action
	if n.lookup("for_each") != nil {
		d.fail(s.At["for_each"], member(path, "for_each"), "for_each stands both as the action and as a key", "keep one of them; for a loop in a loop use a group")
		return
	}
	params := n.lookup("params")
	if params.isNull() {
		d.fail(s.At["action"], member(path, "action"), "for_each has no params", "write params: {items: …, action: …, action_params: {…}}")
		return
	}
	s.ForEach = &ForEach{}
	at := s.At["params"]
	path = member(path, "params")
	choice := pace{}
	d.fields(params, path, &repeatKeys, func(e entry) { d.repeatKey(e, s, path, p, &choice) })
	d.repeatPace(s.ForEach, choice, path)
	if params.kind != mapKind {
		return
	}
	for _, need := range [][2]string{{"items", `write items: "{{ … }}"`}, {"action", "write the name of the action to repeat"}} {
		if params.lookup(need[0]).isNull() {
			d.fail(at, path, "for_each has no "+need[0], need[1])
		}
	}
}

// pace is what for_each's params say about how the loop runs, each where it was said.
type pace struct{ parallel, concurrency, failures, goOn *entry }

func (d *decoder) repeatKey(e entry, s *Step, path string, p *places, choice *pace) {
	if e.value.isNull() {
		return
	}
	switch e.key {
	case "items":
		p.record("for_each/items", e.value, e.at())
		s.ForEach.Items = d.loopItems(e, path, "for_each/items", p)
	case "action":
		p.record("action", e.value, e.at())
		s.Action = d.repeated(e, path)
	case "action_params":
		if e.value.kind != mapKind {
			d.fail(e.at(), member(path, e.key), "action_params must be a mapping of names to values, not "+e.value.describe(), "")
			return
		}
		p.record("params", e.value, e.pos)
		s.Params, _ = d.value(e.value, member(path, e.key), "params", p).(map[string]any)
	case "parallel":
		choice.parallel = &e
	case "continue_on_error":
		choice.goOn = &e
	default:
		p.record(below("for_each", e.key), e.value, e.at())
		d.loopKey(e, path, s.ForEach)
		switch e.key {
		case "max_concurrency":
			choice.concurrency = &e
		case "max_failures":
			choice.failures = &e
		}
	}
}

// repeated is the name of the action that for_each repeats.
func (d *decoder) repeated(e entry, path string) string {
	name := d.text(e, path, maxName)
	switch {
	case slices.Contains(repeatNames, name):
		d.fail(e.at(), member(path, e.key), "for_each cannot repeat itself", "put the inner loop into a group: steps: under a step with for_each")
		return ""
	case strings.Contains(name, "{{"):
		d.fail(e.at(), member(path, e.key), "the action of for_each cannot be a template", "use a group with one step and condition for each action")
		return ""
	}
	return name
}

// repeatPace puts parallel and continue_on_error into the words of for_each.
func (d *decoder) repeatPace(f *ForEach, choice pace, path string) {
	if e := choice.parallel; e != nil && !d.flag(*e, path, true) {
		f.MaxConcurrency = 1
		if choice.concurrency != nil {
			d.warn(choice.concurrency.at(), member(path, "max_concurrency"), "max_concurrency has no effect beside parallel: false", "")
		}
	}
	if e := choice.goOn; e != nil && d.flag(*e, path, false) {
		if choice.failures != nil {
			d.fail(e.at(), member(path, e.key), "continue_on_error stands beside max_failures", "keep one of them; continue_on_error: true is max_failures: 100%")
			return
		}
		f.MaxFailures = "100%"
	}
}

// flag is boolean, or the fallback when it is none.
func (d *decoder) flag(e entry, path string, fallback bool) bool {
	before := len(d.found) + d.dropped
	v := d.boolean(e, path)
	if len(d.found)+d.dropped > before {
		return fallback
	}
	return v
}
