// Package conductor turns events into durable state and work: it takes events in, lets the
// engine decide, commits, and only then acts. One goroutine owns all running executions.
//
// Invariants: nothing is dispatched, answered or published before the commit that decided it; many
// executions share one commit, and a lone event never waits for company; a crash at any point
// loses no step and finishes no execution twice (docs/semantics §3, specification pipeline-steps).
package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
)

// Store lists the store's methods that the conductor needs.
type Store interface {
	store.Committer
	store.Loader
	store.Signals
	Execution(ctx context.Context, id string) (*store.Execution, error)
	Steps(ctx context.Context, execution int64, f store.StepFilter) ([]store.Step, error)
	Progress(ctx context.Context, projects []string) ([]store.ProjectProgress, error)
}

// Limits are the limits of a conductor that whoever embeds it may set.
type Limits struct {
	// MaxExecutions is how many executions may run at once, paused ones included; more are held. Defaults to no
	// limit.
	MaxExecutions int
	// MaxPending is how many executions may be held at once. Defaults to 100,000.
	MaxPending int
	// Patience is for how long an Outage is waited for, such as a full disk; then Run gives up. Defaults to about three
	// seconds.
	Patience time.Duration
	// Window is how many steps of one execution may be dispatched at once. Defaults to
	// engine.DefaultWindow.
	Window int
}

// Options configure a Conductor. Store, Queue, Blobs and Catalog are required.
type Options struct {
	Store   Store
	Queue   queue.Queue
	Blobs   store.Blobs
	Catalog plan.Catalog
	// Compiled is shared with other conductors. Defaults to none: each compiles what it runs.
	Compiled *Compiled
	// Secrets seals secrets in the recorded parameters of executions. Defaults to none: they are recorded as they
	// are.
	Secrets Secrets
	// Revoke stops a task wherever it is. Defaults to nothing.
	Revoke func(run int64, idx int32, epoch uint32)
	// Price is what an action's calls have used and cost that began at a time and gave the outputs; it is called for a signal's
	// outputs, with a zero time. Defaults to nothing.
	Price func(action string, calls int, began time.Time, outputs json.RawMessage) stepwell.Spending
	// Cancels reports whether the work that an action's steps leave outside can be stopped (action.Canceler): then it is
	// written down with the commit that gives it up, and handed to Cancel, which must not wait for it. Defaults to no action.
	Cancels func(action string) bool
	Cancel  func(store.OutsideWork)
	// Observe gets every commit, after it and before a worker gets the steps that it dispatches; an end comes when all log
	// lines are durable. It must be quick and keep nothing of the Update. A panic in it is logged, and goes no further.
	// Defaults to nothing.
	Observe func(*Update)
	// Lines gets the numbers of the executions whose log lines have become readable; it must be quick. Defaults to
	// none.
	Lines func(executions []int64)
	// Outbox says what is put into the outbox. Defaults to nothing.
	Outbox Outbox
	Limits
	// MaxKept bounds, in bytes, the signals that no step has waited for yet. Defaults to 64 MiB.
	MaxKept int64
	// Outage is shared by all users of the store: when it refuses one of them, all wait. Defaults to a new one.
	Outage *store.Outage
	// Now is the clock of all times that are recorded and of all timers; where several processes run the executions of a store,
	// they share it. It may stand still, and must not go back by more than clocks do. Defaults to time.Now.
	Now func() time.Time
	// NewID makes the id of a new execution. Defaults to a UUIDv7, which begins with its time.
	NewID func() (string, error)
	// Stepped leaves Run out: Turn is called instead, and by every method that waits for the loop. No goroutine runs then between
	// two calls, so that equal calls at equal times make equal commits.
	Stepped bool
	// Owner is the number by which the store knows this process as the owner of executions. Defaults to 1, which is right
	// where one process at a time runs those of a store.
	Owner int64
	// Owners is asked before an execution is loaded. Defaults to all being this process's.
	Owners Owners
	// Signalled gets every new signal, as it is stored, before the steps here that await it: steps of other processes may await it too
	// (RequestDeliver). Defaults to nothing.
	Signalled func(context.Context, store.Signal)
	// Slots are the slots of concurrency keys. Defaults to those of one process (NewSlots).
	Slots Slots
	// LessonQueue is the queue of steps of executions with a lesson that name none. Defaults to that of all other steps.
	LessonQueue string
	// Expect gets the attempts in flight of an execution once it is taken up, where workers outlive the process
	// that ran it: they are still to be reported. Defaults to all of them having died with it (engine.Recovered).
	Expect func(run int64, flying []engine.Flight)
	// Log takes the conductor's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

// Owners finds the owner of an execution, where several processes run those of one store.
type Owners interface {
	// Mine returns nil when this process is to run the execution, and *ElsewhereError when another one does.
	Mine(ctx context.Context, id string) error
	// Yield gives an execution up to a process whose engine has a revision (engine.Revision).
	Yield(ctx context.Context, execution int64, revision int) error
}

// ElsewhereError says that another process, Node, runs the execution: send the request there. Its code is
// CodeConflict.
type ElsewhereError struct{ Node string }

func (e *ElsewhereError) Error() string { return errGone.Message + ", but on node " + e.Node }

// Unwrap gives the error of an execution that is not running here.
func (e *ElsewhereError) Unwrap() error { return errGone }

// allMine is the Owners of a process that runs all executions of its store.
type allMine struct{}

func (allMine) Mine(context.Context, string) error      { return nil }
func (allMine) Yield(context.Context, int64, int) error { return nil }

func (o *Options) validate() error {
	if o.Store == nil || o.Queue == nil || o.Blobs == nil || o.Catalog == nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "conductor: Store, Queue, Blobs and Catalog are required"}
	}
	if o.Secrets == nil {
		o.Secrets = noSecrets{}
	}
	if o.Outage == nil {
		var pause func(context.Context, time.Duration) bool
		if o.Stepped { // its clock stands still
			pause = func(context.Context, time.Duration) bool { return true }
		}
		o.Outage = store.NewOutage(pause)
	}
	if o.Revoke == nil {
		o.Revoke = func(int64, int32, uint32) {}
	}
	if o.Cancels == nil || o.Cancel == nil {
		o.Cancels, o.Cancel = func(string) bool { return false }, func(store.OutsideWork) {}
	}
	if o.Observe == nil {
		o.Observe = func(*Update) {}
	}
	if o.Lines == nil {
		o.Lines = func([]int64) {}
	}
	if o.MaxPending <= 0 {
		o.MaxPending = 100_000
	}
	if o.MaxKept <= 0 {
		o.MaxKept = 64 << 20
	}
	if o.Window <= 0 {
		o.Window = engine.DefaultWindow
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = newID
	}
	if o.Owner == 0 {
		o.Owner = 1
	}
	if o.Owners == nil {
		o.Owners = allMine{}
	}
	if o.Signalled == nil {
		o.Signalled = func(context.Context, store.Signal) {}
	}
	if o.Slots == nil {
		o.Slots = NewSlots()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// Update is the change of one execution in one commit.
type Update struct {
	Execution *store.Execution // id, pipeline, status and so on after the commit
	store.StepChanges
	Progress engine.Progress
	At       int64 // µs: when the commit was decided
	// Counted are the items that this commit has counted for a project; nil: none.
	Counted []store.Count
	// Breached is the promise (settings.sla) that this commit has found broken: "", or as in Progress.
	Breached string
}

// Conductor runs executions. Its methods may be called from any goroutine; they work while Run
// does, which is called once.
type Conductor struct {
	o     Options
	inbox inbox
	stop  chan struct{} // closed when Run has returned
	cause error         // why, if not because it was asked to; set before stop is closed

	pipelines pipelines
	lines     lines

	mu      sync.Mutex
	byID    map[string]*live         // executions in memory
	loading map[string]chan struct{} // executions on their way there; closed when they are
	numbers numbers
	starts  starts
	// Requests to other processes that are being stored.
	elsewhere sync.WaitGroup
	// Running calls of RecoverAll, and a channel that the last one closes.
	recoveries int
	recovering chan struct{}

	tallies  tallies
	kept     kept
	stepping sync.Mutex // held by Turn
	// Owned by Run.
	ctx       context.Context // Run's
	failed    error           // why Run is to end
	admission admission
	waiters   waiters
	more      bool // the loop has work without a request
	runs      map[int64]*live
	timers    timerHeap
	touched   []*live
	commits   []store.Commit
	push      []queue.Message
	repush    int64   // when to retry refused pushes; 0: none
	verify    []int64 // numbers of executions that Verify has yet to look at
}

// live is an execution in memory. After byID any goroutine may read run.No, run.ID and pipeline, wait for done, and
// then read the rest; everything else belongs to the loop.
type live struct {
	run       *engine.Run
	row       store.Execution
	version   int64
	told      int64 // the version up to which observers know what has become of its steps
	described int64 // when the row was brought up to date, in µs
	batch     engine.Batch
	fx        engine.Effects
	log       []byte
	create    bool
	touched   bool
	rebuilt   bool            // came from the store: its timers are not set yet
	flying    []engine.Flight // attempts in flight at a rebuild, for Options.Expect
	gone      bool            // has left memory: items for it are refused with errGone
	refused   error
	replies   []chan error
	done      chan struct{} // closed when it has left memory, terminal and durable unless refused
	pipeline  *Pipeline
	created   *store.Execution // where Request.Row is wanted
	claim     chan struct{}    // on the key of its start, until that is known to be durable or refused

	slot  slot
	place *candidate // in the admission queue; nil: it has needed none

	outside  []store.OutsideWork // work given up in this turn
	counted  []store.Count       // items of the project, counted in this turn
	awaits   map[int32]string    // keys of signals, by step
	taken    []string            // keys of the signals that this turn has used up
	breached string              // as last reported
	broke    bool                // in this turn
}

// New makes a conductor.
func New(ctx context.Context, o Options) (*Conductor, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Conductor{o: o, inbox: inbox{ring: make(chan struct{}, 1)}, stop: make(chan struct{}), byID: map[string]*live{},
		loading: map[string]chan struct{}{}, starts: starts{}, runs: map[int64]*live{},
		pipelines: pipelines{byHash: map[[32]byte]*Pipeline{}}, waiters: waiters{byKey: map[string][]waiter{}}}
	return c, nil
}

// Report implements worker.Reporter. Outcomes are taken in at once, unless very much waits to be taken in and ctx has not
// ended; Spawned and Running return when they are durable. CodeConflict: the attempt is not (or no longer) the one to spawn
// or to begin. CodeLimit: it spawns too much at once; an outcome that is too large fails its step.
func (c *Conductor) Report(ctx context.Context, run int64, ev engine.Event) error {
	if ev.Kind == engine.Spawned || ev.Kind == engine.Running {
		return c.ReportAll(ctx, []RunEvent{{run, ev}})
	}
	it, err := eventItem(&RunEvent{run, ev}, nil)
	if err != nil {
		return err
	}
	c.inbox.awaitRoom(it.size, ctx.Done())
	return c.inbox.put(it)
}

// RunEvent is an event of the execution with the number.
type RunEvent struct {
	Run   int64
	Event engine.Event
}

// ReportAll is Report for many events, which are taken in in their order and together. It returns when each is durable, changes nothing,
// or is refused; the error joins the refusals, among them CodeConflict for executions that are not running here. When ctx
// ends or the conductor stops first, nobody knows which are durable: report them again.
func (c *Conductor) ReportAll(ctx context.Context, events []RunEvent) error {
	replies := make(chan error, len(events))
	size := 0
	for i := range events {
		size += eventSize(&events[i].Event)
	}
	c.inbox.awaitRoom(size, ctx.Done())
	if err := c.inbox.putEvents(events, replies); err != nil {
		return err
	}
	return c.await(ctx, replies)
}

// eventItem is the item of a report.
func eventItem(e *RunEvent, reply chan error) (item, error) {
	it := item{run: e.Run, ev: e.Event, reply: reply}
	if err := checkSize(&it.ev); err != nil {
		if e.Event.Kind == engine.Spawned || e.Event.Kind == engine.Running {
			return it, err
		}
		it.ev = failing(it.ev, err)
	}
	it.size = eventSize(&it.ev)
	return it, nil
}

// ask puts an item in and waits until it has been committed or refused. When ctx ends or the
// conductor stops first, nobody knows which.
func (c *Conductor) ask(ctx context.Context, it item) error {
	it.reply = make(chan error, 1)
	if err := c.inbox.put(it); err != nil {
		return err
	}
	return c.await(ctx, it.reply)
}

// await takes as many replies as the channel has room for, and joins the errors.
func (c *Conductor) await(ctx context.Context, replies chan error) (err error) {
	if c.o.Stepped {
		if err := c.turnUntil(ctx, replies); err != nil {
			return err
		}
	}
	for range cap(replies) {
		var one error
		select {
		case one = <-replies:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.stop:
			select {
			case one = <-replies: // both were there
			default:
				return c.stopped()
			}
		}
		if err == nil {
			err = one
		} else if one != nil {
			err = errors.Join(err, one)
		}
	}
	return err
}

// inLoop runs a function in the loop that answers at once.
func (c *Conductor) inLoop(ctx context.Context, f func() error) error {
	return c.ask(ctx, item{do: func(it *item) { c.answer(it.reply, f()) }})
}

// The errors of refused items.
var (
	errStopped = &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the conductor has stopped"}
	errGone    = &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution is not running here"}
	errStale   = &stepwell.Error{Code: stepwell.CodeConflict, Message: "the attempt is running already, or is no longer wanted"}
)

// stopped is the error for callers of a stopped conductor.
func (c *Conductor) stopped() error {
	if c.cause == nil {
		return errStopped
	}
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: errStopped.Message, Err: c.cause, Hint: stepwell.HintOf(c.cause)}
}

// live finds an execution in memory.
func (c *Conductor) live(id string) *live {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

func (c *Conductor) now() int64 { return c.o.Now().UnixMicro() }
