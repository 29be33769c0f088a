package engine

import (
	"encoding/json"
	"strconv"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
)

// Run is the state of one execution. It is not safe for concurrent use.
type Run struct {
	No   int64
	ID   string
	Dir  string // handed on to tasks
	plan *plan.Plan

	status  stepwell.ExecutionStatus
	cause   stepwell.ExecutionStatus // why it is being stopped: Cancelled or TimedOut
	failure *Failure
	outputs []byte
	began   int64  // when its steps could start
	armed   int64  // when the execution's time began to run
	arming  uint32 // how often it did: the epoch of the execution's timer
	ended   int64

	project   string // has processed items counted; "": none
	processed int64  // items counted so far

	revision  int // of the decisions (Revision), as the execution's Begin has it
	params    map[string]any
	given     any // the params as templates see them
	about     plan.About
	window    int
	priority  int
	held      []Seed             // seeds of an execution that is not admitted yet
	parent    string             // the execution that this one retries
	memory    map[string][]*Seed // seeds inside steps that have not begun, by the key of the step
	counted   map[int32]Items    // of the batch that is applied: see Event.Counted
	goesOn    map[int32]string   // by lead of a segment: the execution of which it repeats only failed items
	retain    bool
	main      *scope
	where     map[int32]place   // steps outside main's definition
	dependent map[int32][]int32 // steps that wait for a step without an edge in the plan, by index
	next      int32             // the next free index
	seq       int32
	ready     readyHeap
	readySeq  uint64 // counts from frontRoom
	frontSeq  uint64 // counts the steps that go before all others
	inflight  int
	sleeping  int  // steps with a timer
	tolerated bool // something failed and the execution goes on
	counts    Progress
	load      load
	cost      stepwell.Spending           // of all attempts of all steps
	costs     map[int32]stepwell.Spending // by step, if not zero
	charges   map[string]*Charge          // by Charge.Step
	restarted bool                        // in place, once or more
	breached  string                      // see Progress
	placed    bool                        // Progress.Footprints
	collected int                         // bytes of results kept by for_each

	work []work
	now  int64
	fx   *Effects
	got  arrival
}

// arrival is the content of the report being applied, for the row that it ends in.
type arrival struct {
	output, input []byte
	worker        string
	started       int64
}

// phase is how far a pipeline has come.
type phase uint8

const (
	phaseMain phase = iota
	phaseOnFailure
	phaseFinally
	phaseOver
)

// place is a step: a scope and the index within it.
type place struct {
	s *scope
	i int32
}

func (p place) node() *node      { return &p.s.nodes[p.i] }
func (p place) step() *plan.Step { return p.s.step(p.i) }
func (p place) idx() int32       { return p.s.idx(p.i) }
func (p place) key() string      { return p.s.key(p.i) }

// scope is one instance of a graph: the pipeline itself, a group, an iteration, a sub-pipeline, or
// the handlers of a pipeline.
type scope struct {
	graph  *plan.Graph
	body   *plan.Body // nil for main and handlers
	owner  place      // the step that this is the inside of
	above  *scope     // of handlers: their pipeline
	label  string     // of handlers: the prefix of their keys
	iter   int32      // iteration, −1 for none
	item   any
	given  any // params of a sub-pipeline, as templates see them
	base   int32
	nodes  []node
	extra  []spawned        // nodes beyond the graph's, in order
	keys   map[string]int32 // of extra
	groups map[string]*group

	open    int32
	running int32   // steps dispatched, further inside too
	parked  []place // ready, but over the graph's own limit
	err     *Failure
	stop    stop
	cut     bool // the stop has kept or ended some step
	lost    bool // some step, or something inside it, did not complete
	ended   bool
	closed  bool

	phase      phase // of a pipeline
	handlers   *scope
	handlerErr *Failure
}

// node is the state of one step: 40 bytes, because there may be a million.
type node struct {
	queued  int64
	info    *info
	waiting int32 // dependencies that have not ended
	seq     int32 // order of ending within the run, from 1
	epoch   uint32
	attempt uint16
	flags   flags
	status  stepwell.StepStatus
}

type flags uint16

const (
	depCompleted flags = 1 << iota // a dependency completed
	depBlocked                     // a dependency failed for good or was skipped because of a failure
	depFailed                      // a dependency failed, tolerated or not
	judged                         // the decision to run has been made
	inReady
	revoking  // asked to stop, report awaited
	upstream  // skipped because of a failure before it
	tolerated // failed, and the execution goes on
	keepTry   // the next dispatch is the same attempt
	dormant   // spawned before a restart of its spawner, and not spawned again yet
	halted    // a stop has ended it or reached inside it
	restarted // a restart was requested
	underway  // waits with work going on elsewhere: a stop that lets running steps finish lets it finish
	partly    // ended, and something inside it did not complete
	stranded  // skipped because a dependency can never exist
	hasRow    // a row of it has been written
)

// failed: for good, on its own merits.
func (n *node) failed() bool {
	return n.flags&tolerated == 0 && (n.status == stepwell.StepFailed || n.status == stepwell.StepTimedOut && n.flags&halted == 0)
}

// info holds the state that only some steps have.
type info struct {
	output  []byte // full JSON, of steps that templates read
	err     *Failure
	last    *Failure // of the attempt before
	wait    *Wait
	loaded  []byte // the JSON of wait's output, when that is a reference
	state   []byte
	each    *each
	body    *scope
	past    *scope   // the body after its end, when the run retains it
	lost    []string // workers that died with it
	names   []string // names of steps it has spawned or may spawn
	spawned []int32  // indexes of the steps it spawned
	worker  string
	started int64
	wake    int64
	// deferred: last only put the attempt off.
	deferred bool
	advanced bool   // the attempt, since it was dispatched, has got further
	until    int64  // when the attempt, which has waited, must have ended; 0: any time
	part     *Part  // its result in the segment, left by the lead
	inside   *tally // counts inside a group, a for_each or a sub-pipeline
}

// New makes a run that has not begun; the first event must be Start.
func New(p *plan.Plan, no int64, id string) *Run {
	return &Run{No: no, ID: id, plan: p}
}

// Status is the execution's state.
func (r *Run) Status() stepwell.ExecutionStatus { return r.status }

// Failure is why the execution failed, nil if it did not.
func (r *Run) Failure() *Failure { return r.failure }

// Outputs are the execution's outputs as JSON, nil when there are none.
func (r *Run) Outputs() []byte { return r.outputs }

// Ended is when the execution became terminal, in µs; 0 before.
func (r *Run) Ended() int64 { return r.ended }

// Revision is that of the decisions, as the execution's Begin has it.
func (r *Run) Revision() int { return r.revision }

// About is what Begin.About says.
func (r *Run) About() plan.About { return r.about }

// Plan is the compiled definition.
func (r *Run) Plan() *plan.Plan { return r.plan }

// Progress counts the steps.
func (r *Run) Progress() Progress {
	p := r.counts
	p.Running, p.Cost, p.Usage, p.Breached, p.Footprints = r.inflight, r.cost.Cost, r.cost.Usage, r.breached, r.placed
	p.Percent = r.percent()
	return p
}

// limits are those of every template that the run evaluates.
func (r *Run) limits() expr.Limits { return expr.Limits{Revision: min(r.revision, expr.Revision)} }

func (n *node) ensure() *info {
	if n.info == nil {
		n.info = &info{}
	}
	return n.info
}

// step is the plan of the scope's i-th step.
func (s *scope) step(i int32) *plan.Step {
	if n := int32(len(s.graph.Steps)); i >= n {
		return &s.extra[i-n].step
	}
	return &s.graph.Steps[i]
}

// idx is the number of the scope's i-th step within the run.
func (s *scope) idx(i int32) int32 {
	if n := int32(len(s.graph.Steps)); i >= n {
		return s.extra[i-n].idx
	}
	return s.base + i
}

func (s *scope) spawnedAt(i int32) *spawned {
	if n := int32(len(s.graph.Steps)); i >= n {
		return &s.extra[i-n]
	}
	return nil
}

// up is the scope around this one.
func (s *scope) up() *scope {
	if s.above != nil {
		return s.above
	}
	return s.owner.s
}

// around is the step that this scope belongs to; its scope is nil for the pipeline itself.
func (s *scope) around() place {
	if s.above != nil {
		return s.above.owner
	}
	return s.owner
}

// find locates a step by its number.
func (r *Run) find(idx int32) (place, bool) {
	if r.main == nil || idx < 0 {
		return place{}, false
	}
	if int(idx) < len(r.main.graph.Steps) {
		return place{r.main, idx}, true
	}
	p, ok := r.where[idx]
	return p, ok
}

// key is the step key of a step: unique within the execution (pipeline-steps, "Parameterized step
// key"): `name:identifier` of a spawned step, `id` at top level, `group.id`, `loop[3]`, `loop[3].id`,
// `finally.id`.
func (s *scope) key(i int32) string {
	if x := s.spawnedAt(i); x != nil {
		return s.inner() + x.spec.Key
	}
	if s.body != nil && s.body.Single {
		return s.own()
	}
	return s.inner() + s.graph.Steps[i].ID
}

// inner is the key prefix of a scope's steps.
func (s *scope) inner() string {
	switch {
	case s.above != nil:
		return s.above.inner() + s.label
	case s.owner.s == nil:
		return ""
	}
	return s.own() + "."
}

// own is the key of the step that the scope is the inside of, with the iteration.
func (s *scope) own() string {
	key := s.owner.key()
	if s.iter >= 0 {
		key += "[" + strconv.Itoa(int(s.iter)) + "]"
	}
	return key
}

func canonical(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}
