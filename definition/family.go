package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// Families are the names of the steps that a step may spawn into its scope, directly or through spawned steps:
// `spawn.name` among its parameters, else its action's declaration. A step under for_each adds them to its
// iterations.
func Families(step *Step, cat Specs) []string {
	type next struct{ name, action string }
	var names []string
	var todo []next
	add := func(name, action string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
			todo = append(todo, next{name, action})
		}
	}
	about, ok := cat.Spec(step.Action)
	if !ok || len(about.Spawns) == 0 {
		return nil
	}
	switch given := spawnParam(step, about).(type) {
	case bool:
		if !given {
			return nil
		}
		addAll(about, add)
	case map[string]any:
		action, _ := given["action"].(string)
		if name, named := given["name"].(string); named {
			add(name, action)
			break
		}
		for _, name := range about.Spawns {
			add(name, action)
		}
	default:
		addAll(about, add)
	}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		action := at.action
		if action == "" {
			action = at.name // a spawned step's action is its name, unless it says otherwise
		}
		if inner, ok := cat.Spec(action); ok {
			addAll(inner, add)
		}
	}
	return names
}

func addAll(about *spec.Spec, add func(name, action string)) {
	for _, name := range about.Spawns {
		add(name, "")
	}
}

// spawnParam is the parameter that says which steps an action adds, nil when it has none or it is not given.
func spawnParam(step *Step, about *spec.Spec) any {
	if _, has := spec.FieldNamed(about.Params, "spawn"); !has {
		return nil
	}
	return step.Params["spawn"]
}

// families checks the names that a step gives to the steps that it adds.
func (c *checker) families(s *scope, i int) {
	step := &s.list[i]
	a, err := c.actionNamed(step.Action)
	if a == nil || err != nil || len(a.spec.Spawns) == 0 {
		return
	}
	place, path := "params/spawn/name", spec.ElementPath(s.path, i)+".params.spawn.name"
	given, _ := spawnParam(step, a.spec).(map[string]any)
	name, named := given["name"].(string)
	if named && (strings.Contains(name, "{{") || !variableName(name)) {
		c.Fail(posOf(step, place), path, fmt.Sprintf("the name %s of the steps that %q adds is not possible", spec.Quote(name), step.ID),
			"begin with a letter or _, continue with letters, digits and _; other steps wait for it and read its outputs, so it cannot be a template")
		return
	}
	for _, name := range Families(step, c.cat) {
		if _, clash := s.index[name]; clash {
			c.Fail(posOf(step, place), path, fmt.Sprintf("the steps that %q adds are named %q, as a step beside it is", step.ID, name), "give them another name: spawn: {name: …}, or the step another id")
		}
	}
}

// familyRef checks a reference to spawned steps by name; ok is false when no step spawns the name.
func (c *checker) familyRef(ref *expr.Ref, src *source) (message, hint string, warning, ok bool) {
	name, at := ref.Path[1], src.index
	for s := src.scope; s != nil; at, s = s.at, s.outer {
		by := c.spawners(s, name)
		if len(by) == 0 {
			continue
		}
		if !slices.ContainsFunc(by, func(j int32) bool { return s.list[j].ForEach == nil }) {
			id := s.list[by[0]].ID
			return fmt.Sprintf("the steps %q are added inside of the iterations of %q", name, id), "read what the iterations gave: " + stepPath(id) + ".outputs.results", false, true
		}
		if len(ref.Path) > 2 && !slices.Contains(familyFields, ref.Path[2]) {
			return fmt.Sprintf("%q are steps that another one adds: they have outputs, failures and count, but no %q", name, ref.Path[2]), "outputs is the list of what they gave, in the order in which they were added", false, true
		}
		if src.early {
			return "steps have no outputs before the execution starts", "use params", false, true
		}
		if at < 0 || c.awaits(s, at, name) {
			return "", "", false, true
		}
		message = fmt.Sprintf("the step %q does not wait for the steps %q, so they may not have ended", s.list[at].ID, name)
		return message, fmt.Sprintf("add %s to depends_on of %s", name, s.list[at].ID), ref.Guarded, true
	}
	return "", "", false, false
}

// familyFields are the fields of a name's spawned steps for templates.
var familyFields = []string{"outputs", "failures", "count"}

// awaits: a step, or one before it, depends on a name.
func (c *checker) awaits(s *scope, at int, name string) bool {
	for i := range s.list {
		if slices.Contains(s.list[i].DependsOn, name) && (i == at || c.ancestor(s, i, at)) {
			return true
		}
	}
	return false
}
