package definition_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell/definition"
)

// Two branches of a join that can set the same path to different values are warned of: such items fail there.
func TestJoinWarnings(t *testing.T) {
	const join = "\n  - {id: out, module: OutputModule, depends_on: [b, c], config: {format: json}}"
	branches := func(b, c string) string {
		return "\n  - {id: a, module: IngestModule}\n  - {id: b, depends_on: [a], " + b + "}\n  - {id: c, depends_on: [a], " + c + "}"
	}
	update := func(updates string) string { return "module: UpdateModule, config: {updates: {" + updates + "}}" }
	for _, c := range []struct{ name, steps, want string }{
		{"the same path", branches(update("properties.x: 1"), update("properties.x: 2")) + join, `b and c, on two branches that "out" joins, can both set properties.x`},
		{"the same value", branches(update("properties.x: 1"), update("properties.x: 1")) + join, ""},
		{"different paths", branches(update("properties.x: 1"), update("properties.y: 1")) + join, ""},
		{"one inside the other", branches(update("properties: {x: 1}"), update("properties.y: 1")) + join, "can both set properties"},
		{"a wildcard", branches(update("assets.*.title: A"), update("assets.B4.title: B")) + join, "can both set assets.*.title"},
		{"lists of texts are sets", branches(update("properties.keywords: [a]"), update("properties.keywords: [b]")) + join, ""},
		{"other lists are values", branches(update("properties.x: [1]"), update("properties.x: [2]")) + join, "can both set properties.x"},
		{"a removal", branches(update("properties.x: 1"), "module: UpdateModule, config: {removes: [properties.x]}") + join, "can both set properties.x"},
		{"two removals", branches("module: UpdateModule, config: {removes: [a]}", "module: UpdateModule, config: {removes: [a]}") + join, ""},
		{"values in depth", branches("module: ExtensionModule, config: {defaults: {properties: {x: 1}}}", "module: ExtensionModule, config: {defaults: {properties.y: 2}}") + join, ""},
		{"values in depth, the same", branches("module: ExtensionModule, config: {defaults: {properties: {x: 1}}}", "module: ExtensionModule, config: {defaults: {properties.x: 2}}") + join, "can both set properties.x"},
		{"merge says who wins", strings.Replace(branches(update("properties.x: 1"), update("properties.x: 2"))+join, "id: out", "id: out, merge: last", 1), ""},
		{"one after the other", strings.Replace(branches(update("properties.x: 1"), update("properties.x: 2"))+join, "id: c, depends_on: [a]", "id: c, depends_on: [b]", 1), ""},
		{"of different sources", strings.Replace("\n  - {id: a2, module: IngestModule}"+branches(update("properties.x: 1"), update("properties.x: 2"))+join, "id: c, depends_on: [a]", "id: c, depends_on: [a2]", 1), ""},
		{"nothing is joined", "\n  - {id: a, module: IngestModule}\n  - {id: out, module: OutputModule, merge: first, depends_on: [a], config: {format: json}}", `"out" joins no branches`},
	} {
		d := parsed(t, "name: x\nsteps:"+c.steps+"\n", definition.ParseOptions{})
		problems := definition.Check(d, actions(), "")
		if c.want == "" && len(problems) == 0 {
			continue
		}
		if len(problems) != 1 || problems.Err() != nil || c.want == "" || !strings.Contains(problems[0].Message, c.want) {
			t.Errorf("%s: %v, want %q", c.name, problems, c.want)
		}
	}
}

// merge is for steps of streams only, and one of three words.
func TestMergeKey(t *testing.T) {
	for step, want := range map[string]string{
		"{id: a, action: util.noop, merge: first}":        "merge belongs to a step that joins branches of a stream",
		"{id: a, module: IngestModule, merge: sometimes}": "merge",
	} {
		_, problems := definition.Parse([]byte("name: x\nsteps: ["+step+"]\n"), definition.ParseOptions{})
		if problems.Err() == nil || !strings.Contains(problems.Err().Error(), want) {
			t.Errorf("%s: %v", step, problems)
		}
	}
}

// TestTriggerRuleWarnings: a rule that waits for a failure after which fail_fast starts nothing is a warning.
func TestTriggerRuleWarnings(t *testing.T) {
	const first, second = "\nsteps:\n  - {id: a, action: util.noop", "}\n  - {id: b, action: util.noop, depends_on: [a], trigger_rule: "
	for _, c := range []struct{ name, text, want string }{
		{"the default", first + second + "all_done}", `"b" does not start after a failure while settings.fail_fast is true`},
		{"true", "\nsettings: {fail_fast: true}" + first + second + "one_failed}", "fail_fast is true"},
		{"cancel", "\nsettings: {fail_fast: cancel}" + first + second + "one_failed}", "fail_fast is cancel"},
		{"false", "\nsettings: {fail_fast: false}" + first + second + "one_failed}", ""},
		{"a tolerated failure", first + ", on_failure: continue" + second + "all_done}", ""},
		{"a rule that wants no failure", first + second + "none_failed}", ""},
		{"handlers", "\nsteps: [{id: x, action: util.noop}]" + strings.Replace(first, "steps", "finally", 1) + second + "all_done}", ""},
		{"inside a group", "\nsteps:\n- id: g\n  steps:" + strings.TrimPrefix(first, "\nsteps:") + second + "all_done}", "fail_fast is true"},
	} {
		problems := definition.Check(parsed(t, "name: x"+c.text+"\n", definition.ParseOptions{}), actions(), "")
		if c.want == "" && len(problems) == 0 {
			continue
		}
		if len(problems) != 1 || problems.Err() != nil || c.want == "" || !strings.Contains(problems[0].Message, c.want) {
			t.Errorf("%s: %v, want %q", c.name, problems, c.want)
		}
	}
}
