package engine

import (
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell"
)

// Kind is the type of an event. The numbers are stored; never renumber them.
type Kind uint8

// The kinds of events.
const (
	Start     Kind = 1  // the execution begins (Begin)
	Done      Kind = 2  // an attempt completed (Output)
	Failed    Kind = 3  // an attempt failed (Failure, Permanent, After, Defer); of a stream's segment also Member, Parts, Partial
	Skipped   Kind = 4  // the action chose not to run (Reason)
	Waiting   Kind = 5  // the attempt gave its worker back (Wait)
	Running   Kind = 6  // the attempt is running, seen after a while or before a step that must not run twice
	Spawned   Kind = 7  // the attempt adds steps (Spawns)
	TimerDue  Kind = 8  // a timer's time has come
	Recovered Kind = 9  // the process with all work in flight has died
	Lost      Kind = 10 // the worker of one attempt was lost (Worker)
	Cancel    Kind = 11 // a stop is requested (Reason)
	Pause     Kind = 12
	Resume    Kind = 13
	Restart   Kind = 14 // reset a step and everything after it (Step, FailedOnly, Fine, Seeds)
	DoneAll   Kind = 15 // an attempt that stands for a stream's segment completed (Output, Parts, Partial)
	Admit     Kind = 16 // a held execution may begin
	Settled   Kind = 17 // an outside result for a step that awaits it (Output, or Failure and Permanent, or Reason to skip it)
	Advanced  Kind = 18 // the attempt has done durable work that the next one need not repeat
	Kinds     Kind = 19 // above all of them
)

// Event is one thing that happened to a run. Fields beyond Kind and At are used as the kinds say. The tags are those of
// its record (wire).
type Event struct {
	Kind    Kind   `json:"k"`
	Idx     int32  `json:"i,omitempty"`
	Epoch   uint32 `json:"p,omitempty"`
	At      int64  `json:"d"` // µs since 1970
	Started int64  `json:"-"` // when the handler began, µs
	Worker  string `json:"w,omitempty"`
	Output  []byte `json:"-"`           // as stored: a JSON object, or a reference to a blob
	Loaded  []byte `json:"-"`           // the JSON when Output, or Wait.Output, is a reference and a template reads it
	Input   []byte `json:"-"`           // rendered params, recorded with the step's row only
	Kept    bool   `json:"-"`           // set by Apply: a template reads Output, so the record must hold it
	Cost    int64  `json:"c,omitempty"` // of the attempt so far, in millionths of the unit of money; below zero counts as zero
	stepwell.Usage

	Parts   []Part `json:"-"`                 // results of the segment's other steps; of all its steps if it failed in parts
	Partial bool   `json:"partial,omitempty"` // items have failed; the execution's status says so
	// Footprints says that it is known where items of the segment are.
	Footprints bool `json:"footprints,omitempty"`
	// Counted are counts of the segment's steps, by number, that no output has. They are recorded with the steps'
	// rows only.
	Counted map[int32]Items `json:"-"`

	Failure   *Failure      `json:"f,omitempty"`
	Member    int32         `json:"m,omitempty"` // of a failed segment: 1 + the number of the step at fault, 0: the lead
	Permanent bool          `json:"x,omitempty"` // no retry helps
	After     time.Duration `json:"a,omitempty"` // the next attempt starts no earlier
	Defer     bool          `json:"r,omitempty"` // does not count as an attempt

	Wait       *Wait   `json:"wait,omitempty"`
	Spawns     []Spawn `json:"spawn,omitempty"`
	Begin      *Begin  `json:"begin,omitempty"`
	Reason     string  `json:"reason,omitempty"`
	Step       string  `json:"step,omitempty"`
	FailedOnly bool    `json:"failed_only,omitempty"`
	// Fine, with FailedOnly: parts of groups and of iterations are repeated too. Seeds are kept inside the step;
	// Epoch is the step's when they were found. Defaults to whole iterations, as recorded earlier.
	Fine  bool   `json:"fine,omitempty"`
	Seeds []Seed `json:"seeds,omitempty"`
}

// Part is one step's result in a segment: Output when the step completed, else Failure or StoppedBy.
type Part struct {
	Idx       int32
	Output    []byte // as stored
	Loaded    []byte // as with Event.Loaded
	Kept      bool   // as with Event.Kept
	Failure   *Failure
	StoppedBy int32 // 1 + the number of the step whose failure stopped this step

	worker  string // for the step's row
	started int64
}

// Begin is the content of an execution's start event.
type Begin struct {
	Params json.RawMessage `json:"params,omitempty"` // an object
	Window int             `json:"window,omitempty"`
	Parent string          `json:"parent,omitempty"` // the execution that this one retries
	Seeds  []Seed          `json:"seeds,omitempty"`  // results taken over from it, or from Reused
	Reused string          `json:"reused,omitempty"` // the execution with another plan that Seeds are from
	// Held makes an execution that starts nothing, and whose time does not run, until Admit.
	Held     bool `json:"held,omitempty"`
	Priority int  `json:"priority,omitempty"` // added to that of every task
	Revision int  `json:"revision"`           // of this package's decisions
	// Project has its processed items counted (Effects.Processed). Defaults to none.
	Project string `json:"project,omitempty"`
	// About is an object with the project and the lesson as templates see them. Defaults to neither.
	About json.RawMessage `json:"about,omitempty"`
}

// Revision is written into every execution that begins. A log of an earlier revision is folded with the decisions
// of that revision (Run.revision):
//
//   - 1: templates are evaluated by revision 1 of expr's rules.
//   - 2: since 2026-11-22. Losses inside steps, recounted by a restart, distinguish completed from completed with
//     failures; a group that completes when it is tried again has lost nothing.
const Revision = 2

// Seed is taken over from the retried execution, or from before a restart: the result of a step or an iteration, or a
// spawned step. A seed whose Key is its In heads the iterations of a for_each.
type Seed struct {
	In     string              `json:"in,omitempty"` // key of the group, sub-pipeline or for_each that it is inside of; "": top level
	Key    string              `json:"key"`
	By     string              `json:"by,omitempty"` // key of the spawner, relative to the same scope
	Spawn  *Spawn              `json:"spawn,omitempty"`
	Status stepwell.StepStatus `json:"status"` // completed or skipped, or pending for a step still to run
	Output string              `json:"output,omitempty"`
	Read   bool                `json:"read,omitempty"` // a template reads Output
	Why    *Failure            `json:"why,omitempty"`  // of a skipped one
	Bars   bool                `json:"bars,omitempty"` // of a skipped one: those after it are skipped too
	Seq    int32               `json:"seq,omitempty"`  // order of ending in the earlier execution, kept in this one
	Inside *Inside             `json:"inside,omitempty"`
	Items  string              `json:"items,omitempty"`   // of a for_each: a digest of its items, which must be the same
	GoesOn bool                `json:"goes_on,omitempty"` // of a segment's lead: only failed items are repeated
	Loaded []byte              `json:"-"`
}

// Wait is a step without a worker until a time (µs). With Resume there is work going on elsewhere that the
// handler will look after, with Await only if Elsewhere says so; without, nothing is going on but time. With
// Await, Settled may end it before; when nobody did, the handler runs again (Resume), or the step completes with
// Output, or without one fails. An Until of 0 is no time at all, for a step that awaits.
type Wait struct {
	Until  int64  `json:"until"`
	Resume bool   `json:"resume,omitempty"` // run the handler again, else complete with Output
	State  []byte `json:"state,omitempty"`
	Output []byte `json:"output,omitempty"`
	Await  bool   `json:"await,omitempty"`
	// Elsewhere: with Await, outside work is going on that may finish while a failure drains the scope.
	Elsewhere bool   `json:"elsewhere,omitempty"`
	External  string `json:"external,omitempty"` // with Await, the key of the signal that ends the step
	Require   string `json:"require,omitempty"`  // with Await, the output that a signal must give as true to complete the step; its sender sees to it
}

// Spawn is a step added while the run goes on, with everything already looked up.
type Spawn struct {
	Name          string          `json:"name"`
	Key           string          `json:"key"` // full: "name" or "name:identifier"; valid UTF-8
	Action        string          `json:"action"`
	DependsOn     []string        `json:"depends_on,omitempty"`
	Params        json.RawMessage `json:"params,omitempty"` // an object, used as it is
	Retry         stepwell.Retry  `json:"retry,omitzero"`
	Timeout       time.Duration   `json:"timeout,omitempty"`
	Continue      bool            `json:"continue,omitempty"`
	NotIdempotent bool            `json:"not_idempotent,omitempty"`
	// Spawns are the names that its action may spawn in turn (spec.Spec.Spawns): dependents of these names wait for
	// this step too.
	Spawns []string `json:"spawns,omitempty"`
}
