package definition

// Schema is the JSON Schema (draft 2020-12) of pipeline documents, for editors and generators. It accepts the
// documents that Parse accepts and describes every key; rules about the whole document are left to Check. The caller
// owns the result.
func Schema() map[string]any {
	schema := documentShape.JSONSchema("", map[string]any{
		"version":       map[string]any{"anyOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "number"}}, "description": "The author's version of the document; Stepwell numbers stored versions itself."},
		"parameters":    list("Typed inputs of the pipeline, visible as params.<name>.", "parameter", 0),
		"settings":      ref("settings", "How executions of the pipeline run."),
		"steps":         list("The steps. They run as soon as what they depend on has ended.", "step", 1),
		"outputs":       map[string]any{"type": "object", "description": "Results of the pipeline: names with values that may hold templates over steps."},
		"finally":       list("Steps that run at the end in any case, after failure and cancel too.", "step", 0),
		"on_failure":    list("Steps that run when the execution has failed.", "step", 0),
		"input_secrets": ref("input_secrets", "Where further variables for ${NAME} come from."),
		"processing":    ref("requests", "Older form of settings.default_concurrency."),
		"strategy": strategyShape.JSONSchema("Runs the pipeline once for each entry of a matrix.", map[string]any{
			"matrix": map[string]any{"type": "array", "items": map[string]any{"type": "object", "minProperties": 1},
				"description": "Values for ${NAME}, and for the modules that know their names, one mapping for each run."}}),
	})
	delete(schema, "description")
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Stepwell pipeline"
	schema["$defs"] = map[string]any{
		"parameter": parameterShape.JSONSchema("A typed input of the pipeline.", map[string]any{
			"type": choices("Type of the value. The *_ref types are names of things, never empty.", typeNames...)}),
		"settings":      settingsSchema(),
		"retry":         retryShape.JSONSchema("When and how often a failed step is retried. Its numbers cannot be templates.", nil),
		"step":          stepSchema(),
		"requests":      requestsShape.JSONSchema("Defaults for modules that send requests.", nil),
		"input_secrets": secretsShape.JSONSchema("Further variables for ${NAME}.", nil),
		"for_each":      forEachSchema(),
		"template":      map[string]any{"type": "string", "pattern": `\{\{`, "description": "An expression in {{ }}."},
	}
	return schema
}

// ref refers to a definition; of the two descriptions the one here is about its use.
func ref(name, description string) map[string]any {
	return map[string]any{"$ref": "#/$defs/" + name, "description": description}
}

func list(description, of string, fewest int) map[string]any {
	s := map[string]any{"type": "array", "items": map[string]any{"$ref": "#/$defs/" + of}, "description": description}
	if fewest > 0 {
		s["minItems"] = fewest
	}
	return s
}

// words describes a list of texts, which may be one text.
func words(description string) map[string]any {
	return map[string]any{"description": description, "anyOf": []any{
		map[string]any{"type": "array", "items": map[string]any{"type": "string"}}, map[string]any{"type": "string"}}}
}

func choices(description string, allowed ...string) map[string]any {
	values := make([]any, len(allowed))
	for i, word := range allowed {
		values[i] = word
	}
	return map[string]any{"type": "string", "enum": values, "description": description}
}

// levelWords are the usual ways to write a level; Parse takes any mix of cases.
var levelWords = []string{"debug", "info", "warn", "warning", "error", "critical", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL"}

func settingsSchema() map[string]any {
	return settingsShape.JSONSchema("How executions of the pipeline run.", map[string]any{
		"fail_fast": map[string]any{"enum": []any{true, false, "cancel", "drain", "off"},
			"description": "After a failure: true (or drain) starts nothing new, false (or off) lets independent branches finish, cancel stops running steps too. Default true."},
		"retry_policy":        ref("retry", "Retry policy of steps that have none of their own."),
		"logging":             loggingShape.JSONSchema("Logs of steps.", map[string]any{"level": choices("The lowest level that is kept.", levelWords...)}),
		"streams":             streamsShape.JSONSchema("How items flow through stream steps.", map[string]any{"max_failures": failuresSchema()}),
		"default_concurrency": ref("requests", "Defaults for modules that send requests."),
		"input_secrets":       ref("input_secrets", "Where further variables for ${NAME} come from."),
	})
}

func stepSchema() map[string]any {
	s := stepShape.JSONSchema("One step: exactly one of action, pipeline, steps and module.", map[string]any{
		"steps":        list("A group: steps that run together, usually once per element of for_each.", "step", 1),
		"depends_on":   words("Ids of steps beside this one that must end first."),
		"condition":    map[string]any{"anyOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "boolean"}}, "description": "Expression, with or without {{ }}; when it is false the step is skipped."},
		"retry":        ref("retry", "Retry policy of this step."),
		"for_each":     ref("for_each", "Runs the step once per element."),
		"max_failures": failuresSchema(),
		"outputs":      words("Names of the step's outputs; documentation only."),
		"log_level":    choices("The lowest level of the step's log that is kept.", levelWords...),
	})
	var kinds []any
	for _, kind := range []string{"action", "pipeline", "steps", "module"} {
		kinds = append(kinds, map[string]any{"required": []any{kind}, "properties": map[string]any{kind: true}}) // strict validators want it named here
	}
	s["oneOf"] = kinds
	s["dependentRequired"] = map[string]any{"as": []any{"for_each"}, "max_concurrency": []any{"for_each"}, "max_failures": []any{"for_each"}, "config": []any{"module"}, "settings": []any{"action"}}
	without := func(keys ...string) map[string]any {
		never := map[string]any{}
		for _, key := range keys {
			never[key] = false
		}
		return map[string]any{"properties": never}
	}
	s["dependentSchemas"] = map[string]any{"steps": without("params"), "module": without("params", "source")}
	return s
}

func failuresSchema() map[string]any {
	return map[string]any{"description": `Failed elements that are tolerated: a count, or a share such as "10%". Default 0.`, "anyOf": []any{
		map[string]any{"type": "integer", "minimum": 0}, map[string]any{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?%?$`}}}
}

func forEachSchema() map[string]any {
	items := []any{map[string]any{"$ref": "#/$defs/template"}, map[string]any{"type": "array"},
		map[string]any{"type": "integer", "minimum": 0, "maximum": maxRange}, map[string]any{"type": "object"}}
	long := forEachShape.JSONSchema("The long form.", map[string]any{
		"items":        map[string]any{"description": "A template, a list, an object, or a number n for 0 to n-1.", "anyOf": items},
		"max_failures": failuresSchema(),
	})
	return map[string]any{"anyOf": []any{items[0], items[1], items[2], long,
		map[string]any{"type": "object", "description": "An object to iterate over; for one that has no key items.", "properties": map[string]any{"items": false},
			"not": map[string]any{"minProperties": 1, "propertyNames": map[string]any{"enum": []any{"as", "max_concurrency", "max_failures"}}}}}}
}
