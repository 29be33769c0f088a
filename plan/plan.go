// Package plan compiles a checked definition into the frozen graph that the engine runs: indexes
// instead of names, compiled templates, effective policies, and for every step the other steps
// that it reads.
//
// A Plan is immutable and shared by all executions of one definition version. Its memory per
// plain step is about 200 bytes, so that graphs of 100,000 steps stay cheap. Pure.
package plan

import (
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/partition"
)

// Plan is one pipeline, compiled.
type Plan struct {
	Name string
	Def  []definition.Parameter
	// Optional lists the params that templates may find missing: declared ones without a default that are not
	// required, and those of triggers that a template names. In order.
	Optional  []string
	Graph     *Graph
	Finally   *Graph   // nil: none
	OnFailure *Graph   // nil: none
	Outputs   *Outputs // nil: none
	// ReadAll is set when a template reads `steps` in a way that no list of names covers.
	ReadAll  bool
	FailFast definition.FailFast
	Timeout  time.Duration // of one execution; 0: none
	SLA      SLA
	Priority int // of executions that are given none
	// Weighted is set when some step has a weight of its own.
	Weighted bool
	// Concurrency limits the executions that share a key; nil: none.
	Concurrency *Concurrency
	// Partition says which params name the part of the data that an execution makes; nil: none do.
	Partition *partition.Setting
	Needs     Needs
	// Items is the step of Graph whose items count for an execution's project, plus 1; 0: the execution itself counts.
	Items int32
}

// SLA is how long an execution should take, from its admission; 0: nothing is promised.
type SLA struct {
	Expected time.Duration
	Maximum  time.Duration
}

// Graph is a set of steps with task edges. Step i's dependencies have been resolved to indexes
// into Steps; ties are broken by this order everywhere.
type Graph struct {
	Steps       []Step
	MaxParallel int   // 0: no limit of its own
	Weight      int64 // of all steps together
	// Spawners lists, for each name of spawned steps that somebody in the graph depends on, the
	// steps that may spawn it, in order of name.
	Spawners []Spawner
	// Families are the names of steps that steps of the graph may add to it.
	Families []Family
	FailFast definition.FailFast
	index    map[string]int32
}

// Family is the name of steps that are added while the graph runs.
type Family struct {
	Name string
	Keep bool // a template reads their outputs
}

// Family finds a family by name, −1 for none.
func (g *Graph) Family(name string) int {
	return slices.IndexFunc(g.Families, func(f Family) bool { return f.Name == name })
}

// Spawner lists the possible spawners of a name.
type Spawner struct {
	Name  string
	Steps []int32 // steps whose action, spawned steps or inner steps may spawn it
	Exact bool    // Name is a key, "name:identifier": exactly one step is waited for
}

// Index finds a step by id.
func (g *Graph) Index(id string) (int32, bool) {
	i, ok := g.index[id]
	return i, ok
}

// Step is one node. Exactly one of Action and Body is set, and neither for a stream step that has a lead: a ForEach step over an action has its action
// in Body's only step.
type Step struct {
	ID       string
	Name     string
	Action   string
	Params   *Value // nil: none
	Settings *Value // read by Params; nil: none
	Deps     []int32
	Names    []string // dependencies on spawned steps by name
	Children []int32
	Reads    []Read // steps with results that the params, condition or for_each read
	// Condition is nil when there is none.
	Condition *expr.Template
	Policy    *Policy
	ForEach   *ForEach
	Body      *Body
	// Keep is set when a template somewhere reads this step's outputs: the engine then holds them
	// and the log carries them.
	Keep bool
	// Gives is the declared content of the outputs of a step with Keep; nil: unknown.
	Gives *Gives
	// Stream is set for a stream step.
	Stream *Stream
	// Secrets is set when the params read secrets, which only the worker knows.
	Secrets bool
	// Callback is the same for the step's own address for something outside.
	Callback bool
	// Scoped is set when the params have templates, or the action needs a scope for them.
	Scoped bool
}

// Gives are the names of an action's outputs, shared by its steps. An action need not give all of them.
type Gives struct{ Names []string }

// Stream describes a step's handling of items.
type Stream struct {
	Module string  // its canonical name
	Inputs []int32 // the sources of its items, in order
	// Members are the steps of the segment that this step, its lead, is dispatched for, itself among them; nil
	// for others. Lead is 1 + the index of the lead that a step is dispatched with, 0 for a lead.
	Members []Member
	Lead    int32
}

// Lead is the index of the step that this one is dispatched with, when it is another.
func (s *Step) Lead() (int32, bool) {
	if s.Stream == nil || s.Stream.Lead == 0 {
		return 0, false
	}
	return s.Stream.Lead - 1, true
}

// needsFor records the needs of a template in the step's params.
func (s *Step) needsFor(t *expr.Template) {
	s.Scoped = true
	for _, ref := range t.Refs() {
		s.Secrets = s.Secrets || ref.Path[0] == "secrets" || ref.Path[0] == "credentials"
		s.Callback = s.Callback || ref.Path[0] == "callback"
	}
}

// Members are the steps that this one is dispatched for, nil when it is for itself alone.
func (s *Step) Members() []Member {
	if s.Stream == nil {
		return nil
	}
	return s.Stream.Members
}

// Inputs are the steps that give a stream step its items.
func (s *Step) Inputs() []int32 {
	if s.Stream == nil {
		return nil
	}
	return s.Stream.Inputs
}

// Does names the action or module of a step, "" for others.
func (s *Step) Does() string {
	if s.Stream != nil {
		return s.Stream.Module
	}
	return s.Action
}

// Read names a step read by a template: Up scopes outwards, then the step's index there, or ^ the index of a family. Source
// says that the template reads its result as source, not the step under its id.
type Read struct {
	Up     int32
	Step   int32
	Source bool
}

// Body is the graph inside a group, a for_each or a sub-pipeline.
type Body struct {
	Graph *Graph
	// Pipeline is set for a sub-pipeline: it sees only its own params and steps.
	Pipeline string
	Def      []definition.Parameter
	Optional []string // as with Plan
	Outputs  *Outputs
	// Handlers of the sub-pipeline; nil: none.
	OnFailure, Finally *Graph

	Single bool // a for_each over one action: the iteration's outputs are that step's
}

// Outputs are the declared outputs of a pipeline, by name.
type Outputs struct {
	Names  []string // sorted
	Values []*Value
	Reads  []Read
}

// ForEach repeats a body.
type ForEach struct {
	Items         *Value
	As            string
	MaxConcurrent int     // 0: no limit of its own
	MaxFailures   int     // tolerated failures; -1: use Share
	Share         float64 // tolerated share of failures, 0..1
	Collect       bool    // a template reads the results: keep them in order
}

// Rule is a trigger rule.
type Rule uint8

// The trigger rules (semantics §2).
const (
	AllSuccess Rule = iota
	AllDone
	OneSuccess
	OneFailed
	NoneFailed
)

var ruleNames = map[string]Rule{"": AllSuccess, "all_success": AllSuccess, "all_done": AllDone,
	"one_success": OneSuccess, "one_failed": OneFailed, "none_failed": NoneFailed}

// Policy holds settings that most steps of a pipeline share; equal policies are one value.
type Policy struct {
	Retry         stepwell.Retry
	Timeout       time.Duration // of one attempt (an action) or of the whole (a group)
	Within        time.Duration // of an attempt with its waits: an action's own timeout_seconds; 0: none
	Continue      bool          // on_failure: continue
	Rule          Rule
	Priority      int
	Queue         string // "": the default one
	Weight        int64  // share in the progress, as a multiple of WeightUnit; 0: none of its own, counts as one
	NotIdempotent bool
	LogLevel      string
	// Author authorises the step's use of its action; nil: not known.
	Author *definition.Author
}

// WeightUnit is the progress weight of a step without one.
const WeightUnit = 10_000

// DefaultTimeout bounds an attempt when neither the step nor its action says anything.
const DefaultTimeout = 5 * time.Minute
