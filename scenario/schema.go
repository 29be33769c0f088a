package scenario

import (
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/spec"
)

// Schema describes test files as a JSON Schema object without references. Where names of the tested pipeline stand, spec.NamesKey and
// spec.ValuesKey say which.
func Schema() map[string]any {
	named := func(what, doc string, of map[string]any) map[string]any {
		return map[string]any{"type": "object", "description": doc, spec.NamesKey: what, "additionalProperties": of}
	}
	list := func(of map[string]any, doc string) map[string]any {
		return map[string]any{"type": "array", "description": doc, "items": of}
	}
	step := map[string]any{"type": "string", spec.ValuesKey: spec.NamesSteps}
	anything := map[string]any{}
	outcome := shapes.outcome.JSONSchema("How an attempt ends.", nil)
	planned := shapes.planned.JSONSchema("Something that happens meanwhile.", map[string]any{
		"step":    map[string]any{"type": "string", spec.ValuesKey: spec.NamesSteps, "description": "The step that is waited for, and that a decision is for."},
		"is":      map[string]any{"type": "string", "enum": states, "description": "The status of the step at which it happens."},
		"restart": map[string]any{"type": "string", spec.ValuesKey: spec.NamesSteps, "description": "This step is restarted."},
	})
	common := map[string]any{
		"pipeline": map[string]any{"type": "string", spec.ValuesKey: spec.NamesFiles, "description": "The pipeline's file, relative to this one. Defaults to the file beside it that has its name without .test."},
		"params":   named(spec.NamesParams, "Parameters of the execution.", anything),
		"mock":     named(spec.NamesMocks, "How attempts end, by step or action.", map[string]any{"anyOf": []any{outcome, list(outcome, "By attempt; the last one repeats.")}}),
		"real":     list(step, "Steps whose actions run."),
	}
	matched := func(doc string) map[string]any { return map[string]any{"description": doc} }
	ended := map[string]any{"type": "object", "properties": map[string]any{
		"status": map[string]any{"type": "string", "enum": states}, "attempts": matched("How many."), "outputs": matched("These members, or a matcher."),
		"after": matched("The last attempt began later than that."), "why": matched("The reason of `executions why`."), "error": matched("The message."),
		"duration": matched("{below: 5m} or {above: 5m}."), "cost": matched("In units of money."),
	}}
	expect := map[string]any{"type": "object", "description": "What must have come of it.", "properties": map[string]any{
		"status":   map[string]any{"type": "string", "enum": executionStates, "description": "Of the execution. Defaults to completed."},
		"outputs":  matched("Of the execution: these members, or a matcher."),
		"error":    matched("Of the execution."),
		"steps":    named(spec.NamesSteps, "How steps ended.", map[string]any{"anyOf": []any{map[string]any{"type": "string", "enum": states}, ended}}),
		"order":    list(step, "Steps in the order in which they began; a list inside: in any order."),
		"calls":    named(spec.NamesMocks, "The rendered parameters of calls.", anything),
		"logs":     named(spec.NamesSteps, "Lines of logs.", anything),
		"duration": matched("{below: 15m} or {above: 15m}."),
		"cost":     matched("In units of money."),
		"breached": map[string]any{"type": "string", "enum": []string{"none", engine.BreachedExpected, engine.BreachedMaximum}},
		"items":    named(spec.NamesSteps, "Items that steps of streams got.", anything),
		"failures": named(spec.NamesSteps, "Items that failed there.", anything),
	}}
	own := map[string]any{
		"when": list(planned, "What happens meanwhile."), "expect": expect, "items": named(spec.NamesSteps, "What sources of streams give, by step.", anything),
		"snapshot": list(map[string]any{"type": "string", "enum": []string{"plan", "calls", "history", "outputs"}}, "What must be as it was recorded."),
	}
	for key, about := range common {
		own[key] = about
	}
	common["tests"] = list(shapes.test.JSONSchema("A test.", own), "The tests.")
	return shapes.file.JSONSchema("Tests of a pipeline.", common)
}
