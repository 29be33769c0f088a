package definition

// keySet is what one kind of mapping in a document may contain.
type keySet struct {
	what  string            // for messages: "a step"
	known []string          // keys that mean something
	idle  map[string]string // keys accepted without effect, with what to write instead or why
	hints map[string]string // unknown keys whose intention is clear
}

// Keys that other systems' documents carry and that change nothing about a run.
const decoration = "it is kept nowhere"

// The tables. They are read only.
var (
	rootKeys = keySet{
		what: "a pipeline",
		known: []string{"name", "version", "description", "parameters", "settings", "steps", "outputs", "finally", "on_failure",
			"strategy", "resume_from_checkpoint", "input_secrets", "processing"},
		idle: map[string]string{
			"icon": decoration, "color": decoration, "tags": decoration, "metadata": decoration, "status": decoration,
			"created_by": decoration, "created_at": decoration, "updated_at": decoration, "user_id": decoration,
			"system_owned": decoration, "labels": decoration, "annotations": decoration, "author": decoration, "id": decoration,
			"logging": "write settings.logging",
		},
		hints: map[string]string{
			"params": "write parameters", "inputs": "write parameters", "tasks": "write steps", "jobs": "write steps",
			"on_error": "write on_failure", "always": "write finally", "timeout_seconds": "write it under settings",
			"fail_fast": "write it under settings", "max_parallel_steps": "write it under settings", "concurrency": "write it under settings",
			"sequential": "write it under settings", "retry_policy": "write it under settings", "env": "write ${NAME} where the value is needed",
			"schedule": "schedules are made with the command or the API, not in the document",
			"triggers": "triggers are made with the command or the API, not in the document",
		},
	}
	settingsKeys = keySet{
		what: "settings",
		known: []string{"timeout_seconds", "fail_fast", "max_parallel_steps", "retry_policy", "sequential", "concurrency", "sla", "priority",
			"logging", "output_failures", "output_summary", "streams", "default_concurrency", "input_secrets", "resume_from_checkpoint"},
		idle: map[string]string{
			"timeout": "write timeout_seconds", "metadata": decoration, "tags": decoration,
		},
		hints: map[string]string{"retry": "write retry_policy", "retries": "write retry_policy", "max_parallel": "write max_parallel_steps",
			"log_level": "write logging: {level: …}", "max_concurrency": "write max_parallel_steps"},
	}
	streamsKeys = keySet{
		what:  "streams",
		known: []string{"ordered", "workers", "batch_size", "max_failures", "strict", "checkpoint", "checkpoint_interval_seconds"},
		hints: map[string]string{"concurrency": "write workers", "parallel": "write workers", "resume": "write resume_from_checkpoint: in settings", "checkpoints": "write checkpoint",
			"max_errors": "write max_failures", "buffer_size": "write batch_size"},
	}
	requestsKeys = keySet{
		what:  "default_concurrency",
		known: []string{"concurrency", "rate_limit", "retry_max_attempts", "retry_backoff_base"},
	}
	strategyKeys = keySet{what: "strategy", known: []string{"matrix"}, idle: map[string]string{"fail-fast": decoration, "fail_fast": decoration},
		hints: map[string]string{"max_parallel": "write settings.default_concurrency.concurrency"}}
	secretsKeys = keySet{what: "input_secrets", known: []string{"dotenv_path"}, hints: map[string]string{"dotenv": "write dotenv_path", "path": "write dotenv_path"}}
	loggingKeys = keySet{
		what:  "logging",
		known: []string{"level"},
		idle: map[string]string{"file": "logs are kept with the execution", "format": "the program's --log-format decides",
			"output_format": "the program's --log-format decides", "progress_interval": decoration, "file_size": decoration, "backup_count": decoration},
	}
	retryKeys = keySet{
		what:  "a retry policy",
		known: []string{"max_attempts", "backoff_seconds", "backoff_multiplier", "max_backoff_seconds", "jitter"},
		hints: map[string]string{"attempts": "write max_attempts", "max_retries": "write max_attempts, which counts the first try too",
			"retries": "write max_attempts, which counts the first try too", "backoff": "write backoff_seconds", "delay": "write backoff_seconds",
			"multiplier": "write backoff_multiplier", "max_backoff": "write max_backoff_seconds", "initial_delay_seconds": "write backoff_seconds"},
	}
	slaKeys = keySet{what: "sla", known: []string{"expected_seconds", "max_seconds"}, hints: map[string]string{"expected": "write expected_seconds",
		"duration_seconds": "write expected_seconds", "max": "write max_seconds", "maximum": "write max_seconds", "maximum_seconds": "write max_seconds", "timeout_seconds": "write max_seconds, or timeout_seconds in settings to stop the execution"}}
	concurrencyKeys = keySet{what: "concurrency", known: []string{"key", "limit", "on_conflict"}, hints: map[string]string{"group": "write key"}}
	parameterKeys   = keySet{
		what:  "a parameter",
		known: []string{"name", "type", "description", "required", "default", "enum", "secret"},
		idle:  map[string]string{"label": decoration, "placeholder": decoration, "show_when": decoration, "order": decoration, "group": decoration},
		hints: map[string]string{"options": "write enum", "choices": "write enum", "allowed": "write enum", "value": "write default", "optional": "write required: false"},
	}
	stepKeys = keySet{
		what: "a step",
		known: []string{"id", "name", "action", "module", "pipeline", "steps", "params", "config", "depends_on", "condition", "on_failure",
			"retry", "timeout_seconds", "for_each", "as", "max_concurrency", "max_failures", "outputs", "trigger_rule", "queue", "priority",
			"weight", "idempotent", "log_level", "merge"},
		idle: map[string]string{
			"description": decoration, "icon": decoration, "color": decoration, "tags": decoration, "metadata": decoration,
			"category": decoration, "position": decoration, "labels": decoration, "timeout": "write timeout_seconds",
		},
		hints: map[string]string{"uses": "write action", "type": "write action", "run": "write action: util.exec with params",
			"with": "write params", "parameters": "write params", "inputs": "write params", "args": "write params",
			"needs": "write depends_on", "dependencies": "write depends_on", "after": "write depends_on", "if": "write condition", "when": "write condition",
			"loop": "write for_each", "foreach": "write for_each", "with_items": "write for_each", "items": "write for_each: {items: …}",
			"retry_policy": "write retry", "retries": "write retry: {max_attempts: …}", "continue_on_error": "write on_failure: continue",
			"on_error": "write on_failure", "parallel": "steps without depends_on run in parallel; limit a loop with max_concurrency", "workflow": "write pipeline"},
	}
	repeatKeys = keySet{
		what:  "the params of for_each",
		known: []string{"items", "action", "action_params", "parallel", "max_concurrency", "max_failures", "continue_on_error", "as"},
		hints: map[string]string{"in": "write items", "over": "write items", "params": "write action_params", "step": "write action and action_params",
			"steps": "a group has steps: beside for_each:, not in params", "concurrency": "write max_concurrency", "item": "write as"},
	}
	forEachKeys = keySet{
		what:  "for_each",
		known: []string{"items", "as", "max_concurrency", "max_failures"},
		hints: map[string]string{"in": "write items", "over": "write items", "parallel": "write max_concurrency", "concurrency": "write max_concurrency", "item": "write as"},
	}
)
