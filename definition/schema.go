package definition

import (
	"fmt"

	"github.com/stepwell/stepwell/spec"
)

// Schema is the JSON Schema (draft 2020-12) of pipeline documents, for editors and for programs that
// write them. It accepts what Parse accepts without a problem, and says about every key what it
// does; what depends on the whole document is left to Check. The caller owns the result.
func Schema() map[string]any {
	return map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "Stepwell pipeline",
		"type":                 "object",
		"required":             []any{"name", "steps"},
		"additionalProperties": false,
		"properties": properties(rootKeys, map[string]any{
			"name":        text("Name of the pipeline.", 1, maxName),
			"version":     map[string]any{"type": []any{"string", "number"}, "description": "The author's version of the document; Stepwell numbers stored versions itself."},
			"description": text("What the pipeline is for.", 0, maxText),
			"parameters":  list("Typed inputs of the pipeline, visible as params.<name>.", ref("parameter"), 0),
			"settings":    described(ref("settings"), "How executions of the pipeline run."),
			"steps":       list("The steps. They run as soon as what they depend on has ended.", ref("step"), 1),
			"outputs":     map[string]any{"type": "object", "description": "Results of the pipeline: names with values that may hold templates over steps."},
			"finally":     list("Steps that run at the end in any case, after failure and cancel too.", ref("step"), 0),
			"on_failure":  list("Steps that run when the execution has failed.", ref("step"), 0),
			"strategy": object(strategyKeys, "Runs the pipeline once for each entry of a matrix.", map[string]any{
				"matrix": list("Values for ${NAME}, and for the modules that know their names, one mapping for each run.", map[string]any{"type": "object", "minProperties": 1}, 0),
			}),
			"resume_from_checkpoint": flag("Whether streams skip items that an earlier run has done. Default true."),
			"input_secrets":          described(ref("input_secrets"), "Where further variables for ${NAME} come from."),
			"processing":             described(ref("requests"), "Older form of settings.default_concurrency."),
		}),
		"$defs": map[string]any{
			"parameter": parameterSchema(),
			"settings":  settingsSchema(),
			"retry":     retrySchema(),
			"step":      stepSchema(),
			"requests": object(requestsKeys, "Defaults for modules that send requests.", map[string]any{
				"concurrency":        amount("integer", "Requests, collections and matrix entries at the same time. Default 5.", wholeBounds(1, 1000)),
				"rate_limit":         amount("number", "Requests per second.", bounds{0, 1e6, true, ""}),
				"retry_max_attempts": amount("integer", "Tries of a request.", wholeBounds(0, 100)),
				"retry_backoff_base": amount("number", "Seconds, and factor, of the pauses between them.", bounds{1, 3600, false, ""}),
			}),
			"input_secrets": object(secretsKeys, "Further variables for ${NAME}.", map[string]any{
				"dotenv_path": text("A file of NAME=value lines; the environment counts more.", 1, 4096),
			}),
			"for_each": forEachSchema(),
			"template": map[string]any{"type": "string", "pattern": `\{\{`, "description": "An expression in {{ }}."},
		},
	}
}

// properties adds the keys that are accepted without effect.
func properties(set keySet, known map[string]any) map[string]any {
	for key, why := range set.idle {
		description := "Accepted without effect."
		if why != decoration {
			description = "Accepted without effect: " + why + "."
		}
		known[key] = map[string]any{"description": description, "deprecated": true}
	}
	return known
}

func object(set keySet, description string, known map[string]any, required ...any) map[string]any {
	s := map[string]any{"type": "object", "description": description, "additionalProperties": false, "properties": properties(set, known)}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func ref(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

func described(schema map[string]any, description string) map[string]any {
	schema["description"] = description
	return schema
}

func text(description string, shortest, longest int) map[string]any {
	return map[string]any{"type": "string", "minLength": shortest, "maxLength": longest, "description": description}
}

func list(description string, items map[string]any, fewest int) map[string]any {
	s := map[string]any{"type": "array", "items": items, "description": description}
	if fewest > 0 {
		s["minItems"] = fewest
	}
	return s
}

func words(description string) map[string]any {
	return map[string]any{"description": description, "anyOf": []any{
		map[string]any{"type": "array", "items": map[string]any{"type": "string"}}, map[string]any{"type": "string"}}}
}

func flag(description string) map[string]any {
	return map[string]any{"type": "boolean", "description": description}
}

func anyObject(description string) map[string]any {
	return map[string]any{"type": "object", "description": description}
}

func choices(description string, allowed ...string) map[string]any {
	values := make([]any, len(allowed))
	for i, word := range allowed {
		values[i] = word
	}
	return map[string]any{"type": "string", "enum": values, "description": description}
}

// amount is a number within the bounds that Parse enforces.
func amount(kind, description string, b bounds) map[string]any {
	low := "minimum"
	if b.above {
		low = "exclusiveMinimum"
	}
	return map[string]any{"type": kind, "description": description, low: b.low, "maximum": b.high}
}

// levelWords are the usual ways to write a level; Parse takes any mix of cases.
var levelWords = []string{"debug", "info", "warn", "warning", "error", "critical", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL"}

func parameterSchema() map[string]any {
	return object(parameterKeys, "A typed input of the pipeline.", map[string]any{
		"name":        map[string]any{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": 100, "description": "Name, used as params.<name>."},
		"type":        choices("Type of the value. The *_ref types are names of things, never empty.", typeNames...),
		"description": text("What the parameter is for.", 0, maxText),
		"required":    flag("Whether an execution must give it. Without this key it is required unless there is a default."),
		"default":     map[string]any{"description": "Value when none is given; it is not evaluated."},
		"enum":        list("The values that a string may have.", map[string]any{"type": "string"}, 1),
		"secret":      flag("Never shown in logs, events and outputs."),
	}, "name")
}

func settingsSchema() map[string]any {
	return object(settingsKeys, "How executions of the pipeline run.", map[string]any{
		"timeout_seconds":    amount("number", "Time limit of an execution.", timeoutBounds),
		"fail_fast":          map[string]any{"enum": []any{true, false, "cancel", "drain", "off"}, "description": "After a failure: true (or drain) starts nothing new, false (or off) lets independent branches finish, cancel stops running steps too. Default true."},
		"max_parallel_steps": amount("integer", "Steps of one execution that run at the same time.", parallel),
		"retry_policy":       described(ref("retry"), "Retry policy of steps that have none of their own."),
		"sequential":         flag("Each step also depends on the one before it."),
		"concurrency": object(concurrencyKeys, "Limits executions that share a key, of whatever pipeline they are.", map[string]any{
			"key":         text("Text, usually a template over params and execution.pipeline, that executions share.", 1, 1000),
			"limit":       amount("integer", "How many may run. Default 1.", parallel),
			"on_conflict": choices("What happens to one more: queue (default), skip, cancel_running.", "queue", "skip", "cancel_running"),
		}, "key"),
		"sla": object(slaKeys, "How long an execution should take. One that takes longer is reported and goes on.", map[string]any{
			"expected_seconds": amount("number", "What an execution takes as a rule.", timeoutBounds),
			"max_seconds":      amount("number", "What an execution may take at most.", timeoutBounds),
		}),
		"priority": amount("integer", "Executions of higher ones go first. Default 0.", wholeBounds(-1000, 1000)),
		"logging": object(loggingKeys, "Logs of steps.", map[string]any{
			"level": choices("The lowest level that is kept.", levelWords...),
		}),
		"output_failures": text("Path of the report on failed items. Default failures.json, written when something has failed.", 0, 4096),
		"output_summary":  text("Path of the summary of a run with item streams; without it none is written.", 0, 4096),
		"streams": object(streamsKeys, "How items flow through stream steps.", map[string]any{
			"ordered":                     flag("Whether items stay in order. Default true."),
			"workers":                     amount("integer", "Goroutines of a parallel modifier. Default one for each processor.", wholeBounds(1, 1024)),
			"batch_size":                  amount("integer", "Items that are handed on together. Default 256.", wholeBounds(1, 65536)),
			"max_failures":                failuresSchema(),
			"strict":                      flag("The first failed item ends the stream."),
			"checkpoint":                  flag("Whether a run that was cut off goes on where it was. Default true."),
			"checkpoint_interval_seconds": amount("number", "Time between two checkpoints. Default 1.", bounds{0, 3600, true, ""}),
		}),
		"default_concurrency":    described(ref("requests"), "Defaults for modules that send requests."),
		"input_secrets":          described(ref("input_secrets"), "Where further variables for ${NAME} come from."),
		"resume_from_checkpoint": flag("Whether streams skip items that an earlier run has done. Default true."),
	})
}

func retrySchema() map[string]any {
	return object(retryKeys, "When and how often a failed step is tried again. Its numbers cannot be templates.", map[string]any{
		"max_attempts":        amount("integer", "All tries, the first included. Default 3.", wholeBounds(1, 100)),
		"backoff_seconds":     amount("number", "Pause before the second try. Default 60.", bounds{0, oneYear, false, ""}),
		"backoff_multiplier":  amount("number", "Factor from one pause to the next. Default 2.", bounds{1, 100, false, ""}),
		"max_backoff_seconds": amount("number", "Longest pause. Default 3600.", bounds{0, oneYear, true, ""}),
		"jitter":              amount("number", "Share of a pause that varies at random. Default 0.1.", bounds{0, 1, false, ""}),
	})
}

func stepSchema() map[string]any {
	s := object(stepKeys, "One step: exactly one of action, pipeline, steps and module.", map[string]any{
		"id":              map[string]any{"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$", "maxLength": 100, "description": "Unique in the document; others refer to it."},
		"name":            text("Name for people. Default: the id.", 0, maxName),
		"action":          text("What the step does: the name of an action.", 1, maxName),
		"pipeline":        text("Name of another pipeline to run with params.", 1, maxName),
		"steps":           list("A group: steps that run together, usually once per element of for_each.", ref("step"), 1),
		"module":          text("What the step does with items: the name of a stream module.", 1, maxName),
		"params":          anyObject("Values for the action or pipeline; they may hold templates."),
		"config":          anyObject("Values for a stream module."),
		"depends_on":      words("Ids of steps beside this one that must end first."),
		"condition":       map[string]any{"type": []any{"string", "boolean"}, "description": "Expression, with or without {{ }}; when it is false the step is skipped."},
		"on_failure":      choices("fail (default): the execution fails; continue: it goes on; retry: as fail, with the default retries.", "fail", "continue", "retry"),
		"retry":           described(ref("retry"), "Retry policy of this step."),
		"timeout_seconds": amount("number", "Time limit of one attempt.", timeoutBounds),
		"for_each":        described(ref("for_each"), "Runs the step once per element."),
		"as":              map[string]any{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": "Name of the element in templates. Default item."},
		"max_concurrency": amount("integer", "Elements that are worked on at the same time.", parallel),
		"max_failures":    failuresSchema(),
		"outputs":         words("Names of the step's outputs; documentation only."),
		"trigger_rule":    choices("When the step may run, seen from what it depends on.", "all_success", "all_done", "one_success", "one_failed", "none_failed"),
		"queue":           text("Queue whose workers take the step, or the steps of the group.", 0, 100),
		"priority":        amount("integer", "Higher ones start first. Default 0.", wholeBounds(-1000, 1000)),
		"weight":          amount("number", "Share of the step, with all that is inside, in the progress of the execution. Default 1, and what is inside counts beside it.", bounds{0, 1e6, true, ""}),
		"idempotent":      flag("Whether the step may run again after its worker died."),
		"merge":           choices("What happens where this step joins branches of an item stream that set the same path to different values: the item fails, or the first or last branch in depends_on wins. Default fail.", "fail", "first", "last"),
		"log_level":       choices("The lowest level of the step's log that is kept.", levelWords...),
	}, "id")
	var kinds []any
	for _, kind := range []string{"action", "pipeline", "steps", "module"} {
		kinds = append(kinds, map[string]any{"required": []any{kind}})
	}
	s["oneOf"] = kinds
	s["dependentRequired"] = map[string]any{"as": []any{"for_each"}, "max_concurrency": []any{"for_each"}, "max_failures": []any{"for_each"}, "config": []any{"module"}}
	never := func(keys ...string) map[string]any {
		forbidden := map[string]any{}
		for _, key := range keys {
			forbidden[key] = false
		}
		return map[string]any{"properties": forbidden}
	}
	s["dependentSchemas"] = map[string]any{"steps": never("params"), "module": never("params")}
	return s
}

func failuresSchema() map[string]any {
	return map[string]any{"description": `Failed elements that are tolerated: a count, or a share such as "10%". Default 0.`, "anyOf": []any{
		map[string]any{"type": "integer", "minimum": 0}, map[string]any{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?%?$`}}}
}

func forEachSchema() map[string]any {
	items := []any{ref("template"), map[string]any{"type": "array"}, map[string]any{"type": "integer", "minimum": 0, "maximum": maxRange}, map[string]any{"type": "object"}}
	long := object(forEachKeys, "The long form.", map[string]any{
		"items":           map[string]any{"description": "A template, a list, an object, or a number n for 0 to n-1.", "anyOf": items},
		"as":              map[string]any{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": "Name of the element in templates. Default item."},
		"max_concurrency": amount("integer", "Elements that are worked on at the same time.", parallel),
		"max_failures":    failuresSchema(),
	}, "items")
	return map[string]any{"anyOf": []any{items[0], items[1], items[2], long,
		map[string]any{"type": "object", "description": "An object to go over: it has no key items.", "properties": map[string]any{"items": false},
			"not": map[string]any{"minProperties": 1, "propertyNames": map[string]any{"enum": []any{"as", "max_concurrency", "max_failures"}}}}}}
}

// ParameterSchema is the JSON Schema of the parameters that an execution of d takes, for forms and
// for callers.
func ParameterSchema(d *Definition) map[string]any {
	schema := spec.JSONSchema(d.fields(), true)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = fmt.Sprintf("Parameters of %s", d.Name)
	return schema
}
