package definition

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// repeatNames are the names under which for_each is written as an action (budpipeline's control actions).
var repeatNames = []string{"for_each", "util.for_each"}

// repeats reports whether a step is a for_each written as an action.
func repeats(n *spec.Node) bool {
	action := n.Lookup("action")
	return action != nil && slices.Contains(repeatNames, action.Text)
}

// repeat turns a for_each that is written as an action into a step of the repeated action with for_each, as
// if it had been written that way.
func (d *decoder) repeat(n *spec.Node, s *Step, path string) {
	if !repeats(n) {
		return
	}
	s.Action = "" // even with problems below: for_each itself is no action
	if n.Lookup("for_each") != nil {
		d.Fail(s.At["for_each"], spec.MemberPath(path, "for_each"), "for_each stands both as the action and as a key", "keep one of them; for a loop in a loop use a group")
		return
	}
	params := n.Lookup("params")
	if params.IsNull() {
		d.Fail(s.At["action"], spec.MemberPath(path, "action"), "for_each has no params", "write params: {items: …, action: …, action_params: {…}}")
		return
	}
	s.ForEach = &ForEach{}
	at := s.At["params"]
	path = spec.MemberPath(path, "params")
	var p repeatParams
	d.Places.Prefix = "for_each"
	d.Struct(params, path, repeatShape, &p, func(e spec.Entry) bool { return d.repeatKey(e, s, path) })
	s.ForEach.MaxConcurrency = p.MaxConcurrency
	d.repeatPace(s.ForEach, params, path)
	if params.Kind != spec.MapNode {
		return
	}
	for _, need := range [][2]string{{"items", `write items: "{{ … }}"`}, {"action", "write the name of the action to repeat"}} {
		if params.Lookup(need[0]).IsNull() {
			d.Fail(at, path, "for_each has no "+need[0], need[1])
		}
	}
}

func (d *decoder) repeatKey(e spec.Entry, s *Step, path string) bool {
	if e.Value.IsNull() {
		return true
	}
	switch e.Key {
	case "items":
		s.ForEach.Items = d.loopItems(e, path)
	case "action":
		d.Places.Record("action", e.Value, e.At())
		s.Action = d.repeated(e, path)
	case "action_params":
		if e.Value.Kind != spec.MapNode {
			d.Fail(e.At(), spec.MemberPath(path, e.Key), "action_params must be a mapping of names to values, not "+e.Value.Describe(), "")
			return true
		}
		d.Places.Record("params", e.Value, e.Pos)
		s.Params, _ = d.Value(e.Value, spec.MemberPath(path, e.Key), "params").(map[string]any)
	case "parallel", "continue_on_error": // see repeatPace
	default:
		return d.loopKey(e, path, s.ForEach)
	}
	return true
}

// repeated is the name of the action that for_each repeats.
func (d *decoder) repeated(e spec.Entry, path string) string {
	name := d.Text(e, path, 255)
	switch {
	case slices.Contains(repeatNames, name):
		d.Fail(e.At(), spec.MemberPath(path, e.Key), "for_each cannot repeat itself", "put the inner loop into a group: steps: under a step with for_each")
		return ""
	case strings.Contains(name, "{{"):
		d.Fail(e.At(), spec.MemberPath(path, e.Key), "the action of for_each cannot be a template", "use a group with one step and condition for each action")
		return ""
	}
	return name
}

// repeatPace puts parallel and continue_on_error into the words of for_each.
func (d *decoder) repeatPace(f *ForEach, params *spec.Node, path string) {
	if e := params.Entry("parallel"); !e.Value.IsNull() && !d.flag(e, path, true) {
		f.MaxConcurrency = 1
		if e := params.Entry("max_concurrency"); !e.Value.IsNull() {
			d.Warn(e.At(), spec.MemberPath(path, e.Key), "max_concurrency has no effect beside parallel: false", "")
		}
	}
	if e := params.Entry("continue_on_error"); !e.Value.IsNull() && d.flag(e, path, false) {
		if !params.Lookup("max_failures").IsNull() {
			d.Fail(e.At(), spec.MemberPath(path, e.Key), "continue_on_error stands beside max_failures", "keep one of them; continue_on_error: true is max_failures: 100%")
			return
		}
		f.MaxFailures = "100%"
	}
}

// flag is Boolean, or the fallback when it is none.
func (d *decoder) flag(e spec.Entry, path string, fallback bool) bool {
	before := d.Count()
	v := d.Boolean(e, path)
	if d.Count() > before {
		return fallback
	}
	return v
}
