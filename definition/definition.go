// Package definition is the pipeline document: from YAML or JSON to a typed Definition, with every
// problem reported at its line and column (specification: budpipeline §3.2; docs/semantics §2).
//
// Parse reads a document written by people and collects all problems. Check looks at a Definition
// as a whole: dependencies, cycles, actions, parameters, templates. Encode and Decode turn a
// checked Definition into the canonical JSON that an execution keeps as its snapshot, and back.
// The package is pure and keeps no state.
package definition

import "github.com/stepwell/stepwell/spec"

// Definition is one pipeline document.
type Definition struct {
	Name        string      `json:"name"`
	Version     string      `json:"version,omitempty"`
	Description string      `json:"description,omitempty"`
	Parameters  []Parameter `json:"parameters,omitempty"`
	Settings    Settings    `json:"settings,omitzero"`
	Steps       []Step      `json:"steps"`
	Outputs     []Output    `json:"outputs,omitempty"` // in document order; written as an object
	Finally     []Step      `json:"finally,omitempty"`
	OnFailure   []Step      `json:"on_failure,omitempty"`
	// Matrix names the pipelines, among Pipelines, that the entries of strategy.matrix have made, in order: the
	// document stands for running all of them side by side (stac-manager §8). Empty without a matrix.
	Matrix []string `json:"matrix,omitempty"`
	// Entry is the name of the matrix entry that this pipeline was made for.
	Entry string `json:"entry,omitempty"`
	// Offer are the values of the matrix entry that no ${NAME} uses: modules take those they know.
	Offer map[string]any `json:"offer,omitempty"`
	// Pipelines are the other pipelines that `pipeline:` steps name, by that name, resolved by the
	// loader so that a snapshot is self-contained.
	Pipelines map[string]*Definition `json:"pipelines,omitempty"`

	// Author says on whose authority the steps run, where roles matter: a server fills it in, a document cannot.
	Author *Author `json:"author,omitempty"`

	Pos Pos `json:"-"`
	// At gives the positions of what belongs to no step by path: "settings/concurrency/key",
	// "outputs/url". Keys are escaped as in Step.At.
	At    map[string]Pos  `json:"-"`
	loose map[string]bool // as in Step
}

// Author is whose authority a definition has.
type Author struct {
	Role     string `json:"role"`               // of who wrote it, at that time
	Pipeline string `json:"pipeline,omitempty"` // id of the stored pipeline, "" for none
	Name     string `json:"name"`               // of the pipeline
}

// Pos is a place in a document: 1-based line and column, zero when unknown.
type Pos struct{ Line, Column int }

// Parameter is a typed input of the pipeline.
type Parameter struct {
	Name        string    `json:"name"`
	Type        spec.Type `json:"type"` // canonical: float → number, cluster_ref … → ref
	Description string    `json:"description,omitempty"`
	Required    bool      `json:"required,omitempty"` // an absent `required` is true without a default, else false
	Default     any       `json:"default,omitempty"`
	HasDefault  bool      `json:"has_default,omitempty"` // a default of null is a default
	Enum        []string  `json:"enum,omitempty"`
	Secret      bool      `json:"secret,omitempty"`

	Pos Pos `json:"-"`
}

// Field is the parameter's description for value checks.
func (p *Parameter) Field() spec.Field {
	return spec.Field{Name: p.Name, Type: p.Type, Doc: p.Description, Required: p.Required, Default: p.Default, Enum: p.Enum, Secret: p.Secret}
}

// FailFast says what happens to the rest of an execution after a step with on_failure: fail failed.
type FailFast string

// The choices. The document writes false, true or "cancel".
const (
	FailFastOff    FailFast = "off"    // independent branches finish first
	FailFastDrain  FailFast = "drain"  // nothing new starts, running steps finish (true)
	FailFastCancel FailFast = "cancel" // running steps are cancelled
)

// Settings are the pipeline's execution settings. Zero values mean "not given".
type Settings struct {
	TimeoutSeconds   float64      `json:"timeout_seconds,omitempty"`
	FailFast         FailFast     `json:"fail_fast,omitempty"` // Defaults to drain
	MaxParallelSteps int          `json:"max_parallel_steps,omitempty"`
	RetryPolicy      *Retry       `json:"retry_policy,omitempty"`
	Sequential       bool         `json:"sequential,omitempty"`
	Concurrency      *Concurrency `json:"concurrency,omitempty"`
	SLA              *SLA         `json:"sla,omitempty"`             // how long an execution should take
	Priority         int          `json:"priority,omitempty"`        // of the pipeline's executions among others
	LogLevel         string       `json:"log_level,omitempty"`       // from logging.level
	OutputFailures   string       `json:"output_failures,omitempty"` // path of the report on failed items
	OutputSummary    string       `json:"output_summary,omitempty"`  // path of the summary
	Streams          Streams      `json:"streams,omitzero"`
	Requests         Requests     `json:"requests,omitzero"` // from default_concurrency
}

// Streams are the settings of item streams (docs/semantics §6). Zero values mean the defaults.
type Streams struct {
	Unordered          bool    `json:"unordered,omitempty"` // items may overtake each other
	Workers            int     `json:"workers,omitempty"`   // goroutines of a parallel modifier. Defaults to one per processor
	BatchSize          int     `json:"batch_size,omitempty"`
	MaxFailures        string  `json:"max_failures,omitempty"` // a count "10" or a share "5%" of items. Defaults to no limit
	Strict             bool    `json:"strict,omitempty"`       // the first failed item ends the stream
	NoCheckpoint       bool    `json:"no_checkpoint,omitempty"`
	CheckpointInterval float64 `json:"checkpoint_interval_seconds,omitempty"` // Defaults to 1
	NoResume           bool    `json:"no_resume,omitempty"`                   // from resume_from_checkpoint: false
}

// Requests are defaults for the modules that send requests, which take those they know (stac-manager,
// default_concurrency). Zero values mean "not given"; Concurrency also bounds the collections and the matrix
// entries that are worked on at once, 5 when it is not given.
type Requests struct {
	Concurrency      int     `json:"concurrency,omitempty"`
	RateLimit        float64 `json:"rate_limit,omitempty"` // requests per second
	RetryMaxAttempts int     `json:"retry_max_attempts,omitempty"`
	RetryBackoffBase float64 `json:"retry_backoff_base,omitempty"`
}

// SLA says how long an execution should take. Zero values mean "not given".
type SLA struct {
	ExpectedSeconds float64 `json:"expected_seconds,omitempty"`
	MaxSeconds      float64 `json:"max_seconds,omitempty"`
}

// Concurrency limits executions that share a key.
type Concurrency struct {
	Key        string `json:"key"`
	Limit      int    `json:"limit,omitempty"`       // Defaults to 1
	OnConflict string `json:"on_conflict,omitempty"` // queue (default), skip, cancel_running
}

// Retry is a retry policy as written. Zero values mean "not given"; Parse reads a written zero pause or
// jitter as a millionth.
type Retry struct {
	MaxAttempts       int     `json:"max_attempts,omitempty"`
	BackoffSeconds    float64 `json:"backoff_seconds,omitempty"`
	BackoffMultiplier float64 `json:"backoff_multiplier,omitempty"`
	MaxBackoffSeconds float64 `json:"max_backoff_seconds,omitempty"`
	Jitter            float64 `json:"jitter,omitempty"`
}

// ForEach repeats a step for every element.
type ForEach struct {
	Items          any    `json:"items"`                     // a template, a list, an object, or a number n for 0..n-1
	As             string `json:"as,omitempty"`              // Defaults to "item"
	MaxConcurrency int    `json:"max_concurrency,omitempty"` // Defaults to no limit of its own
	MaxFailures    string `json:"max_failures,omitempty"`    // a count "3" or a share "10%"; failures beyond it fail the step. Defaults to "0"
}

// Step is one node: exactly one of Action, Module, Pipeline and Steps is set.
type Step struct {
	ID             string         `json:"id"`
	Name           string         `json:"name,omitempty"`
	Action         string         `json:"action,omitempty"`
	Module         string         `json:"module,omitempty"`
	Pipeline       string         `json:"pipeline,omitempty"`
	Params         map[string]any `json:"params,omitempty"` // of an action or a sub-pipeline
	Config         map[string]any `json:"config,omitempty"` // of a module
	Steps          []Step         `json:"steps,omitempty"`  // a group
	DependsOn      []string       `json:"depends_on,omitempty"`
	Condition      string         `json:"condition,omitempty"`
	OnFailure      string         `json:"on_failure,omitempty"` // fail (default), continue, retry
	Retry          *Retry         `json:"retry,omitempty"`
	TimeoutSeconds float64        `json:"timeout_seconds,omitempty"`
	ForEach        *ForEach       `json:"for_each,omitempty"`
	Outputs        []string       `json:"outputs,omitempty"` // documentation only
	TriggerRule    string         `json:"trigger_rule,omitempty"`
	Queue          string         `json:"queue,omitempty"` // of a group: of the steps inside that name none
	Priority       int            `json:"priority,omitempty"`
	Weight         float64        `json:"weight,omitempty"` // share in the progress; 0: not given, counts as 1
	Idempotent     *bool          `json:"idempotent,omitempty"`
	LogLevel       string         `json:"log_level,omitempty"`
	Merge          string         `json:"merge,omitempty"` // of a step that joins branches of a stream: fail (default), first, last

	// Independent is set by Expand: the step is the group that runs for each collection of a discovery, and
	// failures of its iterations do not keep the others from running.
	Independent bool `json:"independent,omitempty"`

	Pos Pos `json:"-"`
	// At gives the positions of what is inside the step by path: "depends_on/0", "params/config/a". A ~
	// or / in a key is written ~0 or ~1 (RFC 6901). A scalar's position is that of its text, behind a
	// quote; a list's or mapping's that of its key.
	At       map[string]Pos  `json:"-"`
	loose    map[string]bool // paths of texts whose columns do not map to the source
	chosenBy []string        // steps whose target_step names this one; it depends on them
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
