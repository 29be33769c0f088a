package definition

import "github.com/stepwell/stepwell/spec"

// document is a pipeline as it is written.
type document struct {
	Definition
	Strategy struct {
		Matrix []map[string]any `json:"matrix"`
	} `json:"strategy"`
	Resume     bool         `json:"resume_from_checkpoint" doc:"Whether streams skip items that an earlier run has done. Default true."`
	Secrets    inputSecrets `json:"input_secrets"`
	Processing Requests     `json:"processing"`
}

// documentSettings are settings as they are written.
type documentSettings struct {
	Settings
	Secrets inputSecrets `json:"input_secrets"`
	Resume  bool         `json:"resume_from_checkpoint" doc:"Whether streams skip items that an earlier run has done. Default true."`
}

// inputSecrets name a file that Parse has read already, before ${…} was put in.
type inputSecrets struct {
	Path string `json:"dotenv_path" minLength:"1" maxLength:"4096" aka:"dotenv,path" doc:"A file of NAME=value lines; the environment takes precedence."`
}

type logging struct {
	Level string `json:"level"`
}

// documentStep is a step as it is written; the last three belong to for_each.
type documentStep struct {
	Step
	As             string `json:"as" spec:"before=outputs" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" doc:"Name of the element in templates. Default item."`
	MaxConcurrency int    `json:"max_concurrency" spec:"before=outputs" minimum:"1" maximum:"100000" doc:"Elements processed at the same time."`
	MaxFailures    string `json:"max_failures" spec:"before=outputs"`
}

// repeatParams are those of a for_each that is written as an action.
type repeatParams struct {
	Items          any            `json:"items" aka:"in,over"`
	Action         string         `json:"action"`
	ActionParams   map[string]any `json:"action_params" aka:"params"`
	Parallel       bool           `json:"parallel"`
	MaxConcurrency int            `json:"max_concurrency" minimum:"1" maximum:"100000" aka:"concurrency"`
	MaxFailures    string         `json:"max_failures"`
	GoOn           bool           `json:"continue_on_error"`
	As             string         `json:"as" aka:"item"`
}

// Keys of Airflow, Temporal and Dagu, each with the key to write instead.
const (
	scheduleHint = "store the pipeline, then: stepwell schedules create --pipeline NAME --cron …"
	commandHint  = "write action: util.exec, and params: {command: …}"
	outputHint   = "{{ steps.ID.outputs.stdout }} where the output of a command is needed"
)

// keys complete the structs' tags. Keys from other systems' documents that do not affect a run are idle.
var keys = []spec.Keys{
	{Of: Definition{}, What: "a pipeline", List: "a pipeline begins with name: and steps:",
		Idle:    "icon color tags metadata status created_by created_at updated_at user_id system_owned labels annotations author id",
		Instead: map[string]string{"logging": "write settings.logging"},
		Hints: map[string]string{"timeout_seconds": "write it under settings", "fail_fast": "write it under settings", "max_parallel_steps": "write it under settings",
			"concurrency": "write it under settings", "sequential": "write it under settings", "retry_policy": "write it under settings",
			"env": "write ${NAME} where the value is needed", "schedule": scheduleHint, "schedule_interval": scheduleHint, "cron": scheduleHint,
			"catchup":  "write misfire: in the schedule; " + scheduleHint,
			"triggers": "store the pipeline, then `stepwell events triggers create`, `stepwell webhooks create` or `stepwell schedules create`",
			"dag_id":   "write name: my-pipeline", "workflow": "write name: my-pipeline, and steps:", "handlerOn": "write on_failure: or finally:, a list of steps",
			"default_args": "write settings: {retry_policy: …}", "taskQueue": "write queue: on the steps"}},
	{Of: document{}.Strategy, What: "strategy", Idle: "fail-fast fail_fast",
		Hints: map[string]string{"max_parallel": "write settings.default_concurrency.concurrency"}},
	{Of: Settings{}, What: "settings", Idle: "metadata tags", Instead: map[string]string{"timeout": "write timeout_seconds"},
		Hints: map[string]string{"log_level": "write logging: {level: …}"}},
	{Of: Streams{}, What: "streams", Hints: map[string]string{"resume": "write resume_from_checkpoint: in settings"}},
	{Of: Requests{}, What: "default_concurrency"},
	{Of: inputSecrets{}, What: "input_secrets"},
	{Of: logging{}, What: "logging", Idle: "progress_interval file_size backup_count", Instead: map[string]string{"file": "logs are kept with the execution",
		"format": "the program's --log-format decides", "output_format": "the program's --log-format decides"}},
	{Of: Retry{}, What: "a retry policy", Hints: map[string]string{"max_retries": "write max_attempts, which counts the first try too",
		"retries": "write max_attempts, which counts the first try too"}},
	{Of: SLA{}, What: "sla", Hints: map[string]string{"timeout_seconds": "write max_seconds, or timeout_seconds in settings to stop the execution"}},
	{Of: Concurrency{}, What: "concurrency"},
	{Of: Progress{}, What: "progress"},
	{Of: Parameter{}, What: "a parameter", Idle: "label placeholder show_when order group", Hints: map[string]string{"optional": "write required: false"}},
	{Of: Step{}, What: "a step", Idle: "description icon color tags metadata category position labels", Instead: map[string]string{"timeout": "write timeout_seconds"},
		Hints: map[string]string{"run": commandHint, "command": commandHint, "script": commandHint, "bash_command": commandHint,
			"activity": "write action", "operator": "write action", "input": "write params", "args": "write params",
			"upstream": "write depends_on", "needs": "write depends_on", "preconditions": "write condition", "taskQueue": "write queue",
			"startToCloseTimeout": "write timeout_seconds", "continueOn": "write on_failure: continue",
			"output": "write " + outputHint, "items": "write for_each: {items: …}", "retries": "write retry: {max_attempts: …}",
			"continue_on_error": "write on_failure: continue", "parallel": "steps without depends_on run in parallel; limit a loop with max_concurrency"}},
	{Of: repeatParams{}, What: "the params of for_each", Hints: map[string]string{"step": "write action and action_params",
		"steps": "a group has steps: beside for_each:, not in params"}},
	{Of: ForEach{}, What: "for_each"},
}

// The shapes. They are read only.
var (
	shapes = spec.NewShapes(keys)

	documentShape  = shapes.Of(document{})
	strategyShape  = shapes.Of(document{}.Strategy)
	settingsShape  = shapes.Of(documentSettings{})
	streamsShape   = shapes.Of(Streams{})
	requestsShape  = shapes.Of(Requests{})
	secretsShape   = shapes.Of(inputSecrets{})
	loggingShape   = shapes.Of(logging{})
	retryShape     = shapes.Of(Retry{})
	parameterShape = shapes.Of(Parameter{})
	stepShape      = shapes.Of(documentStep{})
	repeatShape    = shapes.Of(repeatParams{})
	forEachShape   = shapes.Of(ForEach{})
)
