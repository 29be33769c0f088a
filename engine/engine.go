// Package engine decides what a pipeline does next. It is the only place that does.
//
// A Run is the state of one execution. The owner feeds it batches of events, each with Apply and the
// batch's end with Settle, and gets back Effects: rows to store, tasks to dispatch, timers to set, work
// to revoke. The contract:
//
//  1. Both are deterministic: no clock, no random, no I/O. Times and ids arrive inside events.
//  2. Effects are carried out only after the batch and the rows are durable together.
//  3. Folding the recorded batches of a run (Replay) gives the same state, so that a crash loses
//     nothing but work in flight. A batch must be replayed as it was recorded.
//  4. Duplicate, late and unknown reports change nothing: a report names the epoch of its task.
//  5. The cost of an event depends on the steps it touches (the dependents), not on the size
//     of the run. The exceptions say so: stopping, restarting and recovering look at every step.
//
// Specifications: pipeline-steps (dependencies, spawning), budpipeline §3.2, docs/semantics §3. The
// transcripts in testdata show its decisions, section by section. Its records are stored: Kind and
// the forms of Batch only ever grow.
package engine

import (
	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
)

// DefaultWindow is how many steps of one run may be dispatched and not ended. The rest stays as
// numbers: memory and fairness towards other runs depend on it.
const DefaultWindow = 2000

// MaxSteps bounds the steps of one run, spawned ones and iterations included.
const MaxSteps = 10_000_000

// MaxLostLeases is how often a step may lose its worker before it counts as poisoned.
const MaxLostLeases = 3

// MaxLostStreams is the same for streams, which run for long and go on from their checkpoint: many a worker may
// be gone before the last item has come. Workers under which a step has got further do not count.
const MaxLostStreams = 20

// maxCollected bounds, in bytes, the results that a for_each keeps for the steps that read them.
const maxCollected = 16 << 20

// Failure says why a step or an execution failed.
type Failure struct {
	Code    stepwell.Code `json:"code"`
	Message string        `json:"message"`
	Hint    string        `json:"hint,omitempty"`
	Step    string        `json:"step,omitempty"` // key of the step that is the cause
	// Choice, of a skipped step: it did not have to run, by its condition or its trigger rule. Logs and rows of before 2026-11-23 lack it.
	Choice bool `json:"choice,omitempty"`
}

// Task is one dispatched attempt of a step: all that a worker needs to know.
type Task struct {
	Run       int64  // number of the execution
	Execution string // its id
	Pipeline  string
	Idx       int32
	Epoch     uint32
	Attempt   int
	Key       string
	Step      *plan.Step
	Params    []byte   // of a spawned step, a JSON object; used as they are, not rendered
	Members   []Member // of a segment's lead: the steps that it stands for, itself among them
	State     []byte   // left by the previous call that waited, nil at first
	Scope     *Scope   // the values templates read; nil when the step has none
	Priority  int
	Queue     string      // "": the default one
	Dir       string      // against which relative paths are resolved
	Limits    expr.Limits // of its templates
	About     plan.About
	// GoesOn is, for a segment's lead, the execution of which it repeats only the items that failed; "": it reads its
	// sources whole.
	GoesOn string
}

// Member is a step of a segment as its lead's task names it.
type Member struct {
	Idx      int32
	ID       string
	Key      string
	LogLevel string
	Module   string
	Keep     bool // a template reads its outputs
}

// Await is a step that waits until Settled ends it, or until a time.
type Await struct {
	Idx      int32
	Epoch    uint32
	Key      string // of the step
	Action   string // of the step
	External string // of the signal
	Require  string // required content of the signal's outputs, as in Wait
	State    []byte // the handler's saved state
	Until    int64  // µs; 0: no time
}

// Timer asks for a TimerDue event with the same Idx and Epoch at At (µs). Idx −1 is the end of the run's own
// time, −2 and −3 are when it takes longer than expected and than it may (plan.SLA).
type Timer struct {
	At    int64
	Idx   int32
	Epoch uint32
}

// Revoke asks that the work of a task be stopped; its report is still awaited.
type Revoke struct {
	Idx   int32
	Epoch uint32
}

// StepRow is the state of a step for the store, written when a step ends, waits, is seen running
// for long, is spawned or is reset. Times are µs since 1970, 0 for none.
type StepRow struct {
	Idx     int32
	Seq     int32 // order of ending within the run, from 1; 0 while not ended
	Status  stepwell.StepStatus
	Attempt int
	Key     string // only for steps that are not in the definition's top level
	Action  string // likewise
	Output  []byte // JSON object, or a reference to a blob
	Input   []byte // rendered params, nil when the definition says it all
	Error   *Failure
	Worker  string
	Queued  int64
	Started int64
	Ended   int64
	Wake    int64 // when a waiting or retrying step goes on
	// External is the key of the signal that ends a waiting step.
	External string
	Cost     int64 // of all its attempts, in millionths (1e-6) of the unit of money
	stepwell.Usage
	// Counted are the counts of a stream step whose Output lacks them: it did not complete, or Output is a reference.
	Counted *Items
	// Again says that a row of this index was written before: a store need not look for one otherwise.
	Again bool
}

// Items are the counts of a stream step.
type Items struct {
	In      int64 `json:"in"`
	Out     int64 `json:"out"`
	Failed  int64 `json:"failed"`
	Dropped int64 `json:"dropped"`
	Skipped int64 `json:"skipped"` // done in an earlier run
}

// Superseded says that older instances of steps no longer count: those inside the step with the key,
// and with Self that step itself, of indexes below Below. Their keys are taken by new instances.
type Superseded struct {
	Key   string
	Self  bool
	Below int32
}

// Forgotten says that records of a step's attempts before Epoch no longer count.
type Forgotten struct {
	Idx   int32
	Epoch uint32
}

// Effects are the owner's duties after a batch. They are reused: copy any part that must last.
type Effects struct {
	Rows    []StepRow
	Tasks   []*Task
	Timers  []Timer
	Revokes []Revoke
	// Superseded are marked after Rows have been written.
	Superseded []Superseded
	// Forget lists restarted steps: their records of former attempts (action.Once) no longer count.
	Forget   []Forgotten
	Awaits   []Await // steps that have begun to wait for a signal
	Cancels  []*Task // steps that will not go on, with State: stop their work elsewhere
	Changed  bool    // the execution's own status changed
	Finished bool    // it became terminal
	// Processed are items that count for the execution's project from now on: each once, whatever is restarted.
	Processed Processed
	Spent     stepwell.Spending // by the attempts of the batch
}

// Reset empties the effects and keeps the memory.
func (fx *Effects) Reset() {
	clear(fx.Rows)
	clear(fx.Tasks)
	clear(fx.Cancels)
	clear(fx.Awaits)
	*fx = Effects{Rows: fx.Rows[:0], Tasks: fx.Tasks[:0], Timers: fx.Timers[:0], Revokes: fx.Revokes[:0], Cancels: fx.Cancels[:0], Awaits: fx.Awaits[:0], Forget: fx.Forget[:0]}
}

// Progress counts the steps of a run, at top level and inside groups alike; a for_each counts
// each iteration's steps as they are known.
type Progress struct {
	Total     int     `json:"total"`
	Completed int     `json:"completed"`
	Failed    int     `json:"failed"`
	Skipped   int     `json:"skipped"`
	Cancelled int     `json:"cancelled"`
	Running   int     `json:"running"`
	Percent   float64 `json:"percentage" minimum:"0" maximum:"100"` // ended ÷ total by weight, never above 100
	// Cost is the cost of all attempts, superseded ones included, in millionths of the unit of money.
	Cost int64 `json:"cost_micros,omitempty" hidden:"true"`
	stepwell.Usage
	// Breached says that the execution takes, or took, longer than its settings promise.
	Breached string `json:"breached,omitempty" hidden:"true"` // BreachedExpected, BreachedMaximum
	// Footprints says that the execution's streams have items of which it is known where they are. Databases look for it in the
	// text of this value: "footprints":true.
	Footprints bool `json:"footprints,omitempty" hidden:"true"`
}
