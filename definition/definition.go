// Package definition is the pipeline document: from YAML or JSON to a typed Definition, with every
// problem reported at its line and column (specification: budpipeline §3.2; docs/semantics §2).
//
// Parse reads a document written by people and collects all problems. Check looks at a Definition
// as a whole: dependencies, cycles, actions, parameters, templates. Encode and Decode turn a
// checked Definition into the canonical JSON that an execution keeps as its snapshot, and back.
// The package is pure and keeps no state.
package definition

import (
	"github.com/stepwell/stepwell/partition"
	"github.com/stepwell/stepwell/spec"
)

// Pos, Problem and Problems are those of package spec: places in a document, and its problems.
type (
	Pos      = spec.Pos
	Problem  = spec.Problem
	Problems = spec.Problems
)

// Definition is one pipeline document.
type Definition struct {
	Name        string      `json:"name" required:"true" minLength:"1" maxLength:"255" doc:"Name of the pipeline."`
	Version     string      `json:"version,omitempty" maxLength:"255"`
	Description string      `json:"description,omitempty" minLength:"0" maxLength:"100000" doc:"What the pipeline is for."`
	Parameters  []Parameter `json:"parameters,omitempty" aka:"params,inputs" doc:"Typed inputs of the pipeline, visible as params.<name>."`
	Settings    Settings    `json:"settings,omitzero"`
	Steps       []Step      `json:"steps" required:"true" minItems:"1" aka:"tasks,jobs" doc:"The steps. They run as soon as what they depend on has ended."`
	Outputs     []Output    `json:"outputs,omitempty"` // in document order; written as an object
	Finally     []Step      `json:"finally,omitempty" aka:"always" doc:"Steps that run at the end in any case, after failure and cancel too."`
	OnFailure   []Step      `json:"on_failure,omitempty" aka:"on_error" doc:"Steps that run when the execution has failed."`
	Progress    *Progress   `json:"progress,omitempty" doc:"What counts in the progress of an execution's project. Default: the execution, as one item."`
	// Matrix names the pipelines, among Pipelines, that the entries of strategy.matrix have made, in order: the
	// document stands for running all of them side by side (stac-manager §8). Empty without a matrix.
	Matrix []string `json:"matrix,omitempty" key:"-"`
	// Entry is the name of the matrix entry that this pipeline was made for.
	Entry string `json:"entry,omitempty" key:"-"`
	// Offer are the values of the matrix entry that no ${NAME} uses: modules take those they know.
	Offer map[string]any `json:"offer,omitempty" key:"-"`
	// Pipelines are the other pipelines that `pipeline:` steps name, by that name, resolved by the
	// loader so that a snapshot is self-contained.
	Pipelines map[string]*Definition `json:"pipelines,omitempty" key:"-"`

	// Policies are those of the actions that the definition uses, as they were when it was expanded (Expand); nil: it has not been.
	Policies map[string]Policy `json:"policies,omitempty" key:"-"`

	// Author authorises the steps, where roles matter: a server fills it in, a document cannot.
	Author *Author `json:"author,omitempty" key:"-"`

	// Text is the document as written, of an execution's own definition; nothing else keeps that one. "": it is not kept here. Two texts
	// that say the same are two snapshots.
	Text string `json:"text,omitempty" key:"-"`

	Pos Pos `json:"-"`
	// At gives positions outside of steps by path: "settings/concurrency/key", "outputs/url". Keys are escaped as in
	// Step.At.
	At    map[string]Pos  `json:"-"`
	loose map[string]bool // as in Step
}

// Author is the person with authority over a definition.
type Author struct {
	Role     string `json:"role"`               // the author's, at the time of writing
	Pipeline string `json:"pipeline,omitempty"` // id of the stored pipeline, "" for none
	Name     string `json:"name"`               // of the pipeline
}

// Parameter is a typed input of the pipeline.
type Parameter struct {
	Name        string    `json:"name" required:"true" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" maxLength:"100" doc:"Name, used as params.<name>."`
	Type        spec.Type `json:"type" doc:"Type of the value. The *_ref types are names of things, never empty."` // canonical: float → number, cluster_ref … → ref
	Description string    `json:"description,omitempty" minLength:"0" maxLength:"100000" doc:"What the parameter is for."`
	Required    bool      `json:"required,omitempty" doc:"Whether an execution must give it. Without this key it is required unless there is a default."` // an absent `required` is true without a default, else false
	Default     any       `json:"default,omitempty" aka:"value" doc:"Value when none is given; it is not evaluated."`
	HasDefault  bool      `json:"has_default,omitempty" key:"-"` // a default of null is a default
	Enum        []string  `json:"enum,omitempty" minItems:"1" aka:"options,choices,allowed" doc:"The values that a string may have."`
	Secret      bool      `json:"secret,omitempty" doc:"Never shown in logs, events and outputs."`

	Pos Pos `json:"-"`

	Credential bool `json:"-"` // it is a credential_ref
}

// Field is the parameter's description for value checks.
func (p *Parameter) Field() spec.Field {
	return spec.Field{Name: p.Name, Type: p.Type, Doc: p.Description, Required: p.Required && !p.HasDefault, Default: p.Default, Enum: p.Enum, Secret: p.Secret}
}

// FailFast is the policy for the rest of an execution after a step with on_failure: fail failed.
type FailFast string

// The choices. The document writes false, true or "cancel".
const (
	FailFastOff    FailFast = "off"    // independent branches finish first
	FailFastDrain  FailFast = "drain"  // nothing new starts, running steps finish (true)
	FailFastCancel FailFast = "cancel" // running steps are cancelled
)

// Settings are the pipeline's execution settings. Zero values mean "not given".
type Settings struct {
	TimeoutSeconds   float64            `json:"timeout_seconds,omitempty" exclusiveMinimum:"0" maximum:"31536000" unit:" (one year)" doc:"Time limit of an execution."`
	FailFast         FailFast           `json:"fail_fast,omitempty"` // Defaults to drain
	MaxParallelSteps int                `json:"max_parallel_steps,omitempty" minimum:"1" maximum:"100000" aka:"max_parallel,max_concurrency" doc:"Steps of one execution that run at the same time."`
	RetryPolicy      *Retry             `json:"retry_policy,omitempty" aka:"retry,retries"`
	Sequential       bool               `json:"sequential,omitempty" doc:"Each step also depends on the one before it."`
	Concurrency      *Concurrency       `json:"concurrency,omitempty" doc:"Limits executions that share a key, whichever pipeline they are of."`
	Partition        *partition.Setting `json:"partition,omitempty" doc:"Which parameters name the part of the data that an execution makes (docs/partitions.md)."`
	SLA              *SLA               `json:"sla,omitempty" doc:"How long an execution should take. One that takes longer is reported and continues."`                                                      // how long an execution should take
	Priority         int                `json:"priority,omitempty" minimum:"-1000" maximum:"1000" doc:"Executions of higher ones go first. Default 0."`                                                       // of the pipeline's executions among others
	LogLevel         string             `json:"log_level,omitempty" key:"logging"`                                                                                                                            // from logging.level
	OutputFailures   string             `json:"output_failures,omitempty" minLength:"0" maxLength:"4096" doc:"Path of the report on failed items. Default failures.json, written when something has failed."` // path of the report on failed items
	OutputSummary    string             `json:"output_summary,omitempty" minLength:"0" maxLength:"4096" doc:"Path of the summary of a run with item streams; without it none is written."`                    // path of the summary
	Streams          Streams            `json:"streams,omitzero" doc:"How items flow through stream steps."`
	Requests         Requests           `json:"requests,omitzero" key:"default_concurrency"` // from default_concurrency
}

// Streams are the settings of item streams (docs/semantics §6). Zero values mean the defaults.
type Streams struct {
	Unordered          bool    `json:"unordered,omitempty" key:"ordered" spec:"not" doc:"Whether items stay in order. Default true."`                                                    // items may overtake each other
	Workers            int     `json:"workers,omitempty" minimum:"1" maximum:"1024" aka:"concurrency,parallel" doc:"Goroutines of a parallel modifier. Default one for each processor."` // goroutines of a parallel modifier. Defaults to one per processor
	BatchSize          int     `json:"batch_size,omitempty" minimum:"1" maximum:"65536" aka:"buffer_size" doc:"Items that are handed on together. Default 256."`
	MaxFailures        string  `json:"max_failures,omitempty" aka:"max_errors"`                       // a count "10" or a share "5%" of items. Defaults to no limit
	Strict             bool    `json:"strict,omitempty" doc:"The first failed item ends the stream."` // the first failed item ends the stream
	NoCheckpoint       bool    `json:"no_checkpoint,omitempty" key:"checkpoint" spec:"not" aka:"checkpoints" doc:"Whether a run that was cut off continues where it was. Default true."`
	CheckpointInterval float64 `json:"checkpoint_interval_seconds,omitempty" exclusiveMinimum:"0" maximum:"3600" unit:" (one hour)" doc:"Time between two checkpoints. Default 1."` // Defaults to 1
	NoResume           bool    `json:"no_resume,omitempty" key:"-"`                                                                                                                 // from resume_from_checkpoint: false
}

// Requests are defaults for the modules that send requests, which take those they know (stac-manager,
// default_concurrency). Zero values mean "not given"; Concurrency also bounds the collections and the matrix
// entries that are worked on at once, 5 when it is not given.
type Requests struct {
	Concurrency      int     `json:"concurrency,omitempty" minimum:"1" maximum:"1000" doc:"Requests, collections and matrix entries at the same time. Default 5."`
	RateLimit        float64 `json:"rate_limit,omitempty" exclusiveMinimum:"0" maximum:"1e6" unit:" requests per second" doc:"Requests per second."` // requests per second
	RetryMaxAttempts int     `json:"retry_max_attempts,omitempty" minimum:"0" maximum:"100" doc:"Attempts of a request."`
	RetryBackoffBase float64 `json:"retry_backoff_base,omitempty" minimum:"1" maximum:"3600" doc:"Seconds, and factor, of the pauses between them."`
}

// SLA says how long an execution should take. Zero values mean "not given".
type SLA struct {
	ExpectedSeconds float64 `json:"expected_seconds,omitempty" exclusiveMinimum:"0" maximum:"31536000" unit:" (one year)" aka:"expected,duration_seconds" doc:"Typical duration of an execution."`
	MaxSeconds      float64 `json:"max_seconds,omitempty" exclusiveMinimum:"0" maximum:"31536000" unit:" (one year)" aka:"max,maximum,maximum_seconds" doc:"Longest acceptable duration of an execution."`
}

// Progress says what an execution counts for its project.
type Progress struct {
	Items string `json:"items" required:"true" minLength:"1" maxLength:"255" aka:"step" doc:"Id of the step whose items count: the iterations of a for_each, or the items of a stream step."`
}

// Concurrency limits executions that share a key.
type Concurrency struct {
	Key        string `json:"key" required:"true" minLength:"1" maxLength:"1000" aka:"group" doc:"Text, usually a template over params and execution.pipeline, that executions share."`
	Limit      int    `json:"limit,omitempty" minimum:"1" maximum:"100000" doc:"How many may run. Default 1."`                                               // Defaults to 1
	OnConflict string `json:"on_conflict,omitempty" enum:"queue,skip,cancel_running" doc:"What happens to one more: queue (default), skip, cancel_running."` // queue (default), skip, cancel_running
}

// Retry is a retry policy as written. Zero values mean "not given"; Parse reads a written zero pause or
// jitter as a millionth.
type Retry struct {
	MaxAttempts       int     `json:"max_attempts,omitempty" minimum:"1" maximum:"100" aka:"attempts" doc:"All attempts, the first included. Default 3."`
	BackoffSeconds    float64 `json:"backoff_seconds,omitempty" minimum:"0" maximum:"31536000" spec:"zero" aka:"backoff,delay,initial_delay_seconds" doc:"Pause before the second attempt. Default 60."`
	BackoffMultiplier float64 `json:"backoff_multiplier,omitempty" minimum:"1" maximum:"100" aka:"multiplier" doc:"Factor from one pause to the next. Default 2."`
	MaxBackoffSeconds float64 `json:"max_backoff_seconds,omitempty" exclusiveMinimum:"0" maximum:"31536000" aka:"max_backoff" doc:"Longest pause. Default 3600."`
	Jitter            float64 `json:"jitter,omitempty" minimum:"0" maximum:"1" spec:"zero" doc:"Share of a pause that varies at random. Default 0.1."`
}

// ForEach repeats a step for every element.
type ForEach struct {
	Items          any    `json:"items" required:"true" aka:"in,over"`                                                                                          // a template, a list, an object, or a number n for 0..n-1
	As             string `json:"as,omitempty" aka:"item" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" doc:"Name of the element in templates. Default item."`             // Defaults to "item"
	MaxConcurrency int    `json:"max_concurrency,omitempty" minimum:"1" maximum:"100000" aka:"parallel,concurrency" doc:"Elements processed at the same time."` // Defaults to no limit of its own
	MaxFailures    string `json:"max_failures,omitempty"`                                                                                                       // a count "3" or a share "10%"; failures beyond it fail the step. Defaults to "0"
}

// Step is one node: exactly one of Action, Module, Pipeline and Steps is set.
type Step struct {
	ID             string         `json:"id" required:"true" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]*$" maxLength:"100" doc:"Unique in the document; others refer to it."`
	Name           string         `json:"name,omitempty" minLength:"0" maxLength:"255" doc:"Name for people. Default: the id."`
	Action         string         `json:"action,omitempty" minLength:"1" maxLength:"255" aka:"uses,type" doc:"What the step does: the name of an action."`
	Module         string         `json:"module,omitempty" minLength:"1" maxLength:"255" doc:"What the step does with items: the name of a stream module."`
	Pipeline       string         `json:"pipeline,omitempty" minLength:"1" maxLength:"255" aka:"workflow" doc:"Name of another pipeline to run with params."`
	Params         map[string]any `json:"params,omitempty" aka:"with,parameters,inputs,args" doc:"Values for the action or pipeline; they may hold templates."`            // of an action or a sub-pipeline
	Config         map[string]any `json:"config,omitempty" doc:"Values for a stream module."`                                                                              // of a module
	Steps          []Step         `json:"steps,omitempty" spec:"before=params" minItems:"1" doc:"A group: steps that run together, usually once per element of for_each."` // a group
	DependsOn      []string       `json:"depends_on,omitempty" aka:"needs,dependencies,after" doc:"Ids of steps beside this one that must end first."`
	Source         string         `json:"source,omitempty" minLength:"1" maxLength:"100" doc:"The result that the step works on, source in its templates: media, the file of the lesson, or the id of a step beside it, which then ends first."`
	Settings       map[string]any `json:"settings,omitempty" doc:"Values for the params of the action, settings in their templates: a model, a prompt. They may hold templates."`
	Condition      string         `json:"condition,omitempty" aka:"if,when" doc:"Expression, with or without {{ }}; when it is false the step is skipped."`
	OnFailure      string         `json:"on_failure,omitempty" enum:"fail,continue,retry" aka:"on_error" doc:"fail (default): the execution fails; continue: the execution continues; retry: as fail, with the default retries."` // fail (default), continue, retry
	Retry          *Retry         `json:"retry,omitempty" aka:"retry_policy"`
	TimeoutSeconds float64        `json:"timeout_seconds,omitempty" exclusiveMinimum:"0" maximum:"31536000" unit:" (one year)" doc:"Time limit of one attempt."`
	ForEach        *ForEach       `json:"for_each,omitempty" aka:"loop,foreach,with_items"`
	Outputs        []string       `json:"outputs,omitempty" doc:"Names of the step's outputs; documentation only."` // documentation only
	TriggerRule    string         `json:"trigger_rule,omitempty" enum:"all_success,all_done,one_success,one_failed,none_failed" doc:"When the step may run, seen from what it depends on."`
	Queue          string         `json:"queue,omitempty" minLength:"0" maxLength:"100" doc:"Queue whose workers take the step, or the steps of the group."` // of a group: of the steps inside that name none
	Priority       int            `json:"priority,omitempty" minimum:"-1000" maximum:"1000" doc:"Higher ones start first. Default 0."`
	Weight         float64        `json:"weight,omitempty" exclusiveMinimum:"0" maximum:"1e6" doc:"Share of the step, with all that is inside, in the progress of the execution. Default 1, and what is inside counts beside it."` // share in the progress; 0: not given, counts as 1
	Idempotent     *bool          `json:"idempotent,omitempty" doc:"Whether the step may run again after its worker died."`
	LogLevel       string         `json:"log_level,omitempty"`
	Merge          string         `json:"merge,omitempty" enum:"fail,first,last" doc:"What happens where this step joins branches of an item stream that set the same path to different values: the item fails, or the first or last branch in depends_on wins. Default fail."` // of a step that joins branches of a stream: fail (default), first, last

	// Independent is set by Expand: the step is the group that runs for each element that a source found, and
	// failures of its iterations do not keep the others from running.
	Independent bool `json:"independent,omitempty" key:"-"`

	Pos Pos `json:"-"`
	// At gives positions inside the step by path: "depends_on/0", "params/config/a". A ~ or / in a key is written ~0
	// or ~1 (RFC 6901). A scalar's position is that of its text, behind a quote; a list's or mapping's that of its
	// key.
	At       map[string]Pos  `json:"-"`
	loose    map[string]bool // paths of texts whose columns differ from the source
	chosenBy []string        // steps whose target_step is this step; it depends on them
	written  *writtenCondition
}

// writtenCondition is the condition of a step in the document, where another step's target_step has changed it.
type writtenCondition struct {
	text  string
	at    Pos
	loose bool
}

// Label is the step's name for people.
func (s *Step) Label() string {
	if s.Name != "" {
		return s.Name
	}
	return s.ID
}

// Output is one of the pipeline's outputs: a value that may hold templates.
type Output struct {
	Name  string `json:"name"`
	Value any    `json:"value"`

	Pos Pos `json:"-"`
}
