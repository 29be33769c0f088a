package event

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/shelf"
)

// Jobs are what events may start; a trigger.Schedules is one.
type Jobs interface {
	Job(idOrName string) (*trigger.Schedule, error)
	Trigger(ctx context.Context, idOrName string, r trigger.Run) (*pipeline.Launched, error)
	Listening() []trigger.Job
	ListensToExecutions() bool
}

// Signals take what steps wait for, and know which event an id names; a conductor.Conductor is one.
type Signals interface {
	Name(ctx context.Context, kind, id string, content []byte, note json.RawMessage) (first json.RawMessage, err error)
	Signal(ctx context.Context, s store.Signal) (fresh, delivered bool, err error)
}

// Options configure a Router. Objects, Launcher, Executions, Jobs and Signals are required.
type Options struct {
	Objects    store.Objects
	Launcher   trigger.Launcher
	Executions trigger.Executions
	Jobs       Jobs
	Signals    Signals
	// MaxBody is the size of the largest event, in bytes. Defaults to 1 MiB.
	MaxBody int
	// Most is how many event triggers there may be. Defaults to 10,000.
	Most int
	// Starts is how many executions one event starts at once. Defaults to 16.
	Starts int
	// Depth is how long a chain of executions may be that end and thereby start each other. Defaults to 16.
	Depth int
	// Hide takes secrets out of texts that are stored. Defaults to there being none.
	Hide func(text string) string
	// Log takes the package's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

func (o *Options) validate() error {
	if o.Objects == nil || o.Launcher == nil || o.Executions == nil || o.Jobs == nil || o.Signals == nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "event: Objects, Launcher, Executions, Jobs and Signals are required"}
	}
	for value, otherwise := range map[*int]int{&o.MaxBody: 1 << 20, &o.Most: 10_000, &o.Starts: 16, &o.Depth: 16} {
		if *value <= 0 {
			*value = otherwise
		}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// Router keeps event triggers and passes events on. Its methods may be called from many goroutines. No other process
// may change the same triggers.
type Router struct {
	o      Options
	shelf  *shelf.Shelf[record]
	counts *shelf.Counts
	// interested: some enabled trigger is about executions.
	interested atomic.Bool
}

// New loads all event triggers.
func New(ctx context.Context, o Options) (*Router, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	kept, err := shelf.Open(ctx, shelf.Options[record]{Objects: o.Objects, Kind: "event_trigger", Noun: "event trigger", Most: o.Most, Name: func(r *record) string { return r.Name }})
	if err != nil {
		return nil, err
	}
	counts, err := shelf.OpenCounts(ctx, o.Objects, "event_trigger_state", o.Hide)
	if err != nil {
		return nil, err
	}
	r := &Router{o: o, shelf: kept, counts: counts}
	r.look()
	return r, nil
}

// Run stores what is counted until ctx ends.
func (r *Router) Run(ctx context.Context) error { return r.counts.Run(ctx) }

// MaxBody is the size of the largest event, in bytes: no more has to be read.
func (r *Router) MaxBody() int { return r.o.MaxBody }

// Create stores a trigger. CodeInvalid, CodeConflict when the id is taken, CodeNotFound when the job does not exist,
// CodeLimit when there are too many.
func (r *Router) Create(ctx context.Context, t Trigger, actor string) (*Status, error) {
	if t.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		t.ID = id.String()
	}
	if err := r.check(&t); err != nil {
		return nil, err
	}
	if _, ok := r.shelf.ByID(t.ID); ok {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the event trigger " + t.ID + " exists already", Hint: "update it, or use another trigger_id"}
	}
	done, err := r.shelf.Put(ctx, t.ID, 0, record{Trigger: t, By: actor})
	if err != nil {
		return nil, err
	}
	r.look()
	return r.status(&done), nil
}

func (r *Router) check(t *Trigger) error {
	if err := t.check(); err != nil {
		return err
	}
	if t.Job == "" {
		return nil
	}
	job, err := r.o.Jobs.Job(t.Job)
	if err != nil {
		return err
	}
	t.Job = job.ID
	return nil
}

// Update changes a trigger by what edit does to a copy of it; its id stays. Errors as with Create, CodeConflict when the
// revision is another; store.AnyRevision stands for any.
func (r *Router) Update(ctx context.Context, idOrName string, revision int64, edit func(*Trigger) error) (*Status, error) {
	it, err := r.shelf.Find(idOrName)
	if err != nil {
		return nil, err
	}
	if revision != store.AnyRevision && revision != it.Revision {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the event trigger has been changed meanwhile", Hint: "read it again and repeat the change"}
	}
	changed, err := r.shelf.Copy(it)
	if err != nil {
		return nil, err
	}
	if err := edit(&changed.Trigger); err != nil {
		return nil, err
	}
	if changed.ID != it.ID {
		return nil, stepwell.Invalid("make a new trigger", "the id of an event trigger cannot change")
	}
	if err := r.check(&changed.Trigger); err != nil {
		return nil, err
	}
	done, err := r.shelf.Put(ctx, it.ID, it.Revision, changed)
	if err != nil {
		return nil, err
	}
	r.look()
	return r.status(&done), nil
}

// Trigger finds one by id, or by its name if no other has it.
func (r *Router) Trigger(idOrName string) (*Status, error) {
	it, err := r.shelf.Find(idOrName)
	if err != nil {
		return nil, err
	}
	return r.status(&it), nil
}

// Filter selects event triggers, in order of id. Zero fields select all.
type Filter struct {
	Job   string
	After string // id of the last one of the page before
	Limit int    // Defaults to 50, at most 1,000
}

// List lists event triggers.
func (r *Router) List(f Filter) []Status {
	list := []Status{}
	for _, it := range r.shelf.Page(f.After, f.Limit, func(it *item) bool { return f.Job == "" || it.Value.Job == f.Job }) {
		list = append(list, *r.status(&it))
	}
	return list
}

// Delete removes an event trigger; executions stay.
func (r *Router) Delete(ctx context.Context, idOrName string, revision int64) error {
	it, err := r.shelf.Find(idOrName)
	if err != nil {
		return err
	}
	if err := r.shelf.Delete(ctx, it.ID, revision); err != nil {
		return err
	}
	r.look()
	return r.counts.Forget(ctx, it.ID)
}

func (r *Router) status(it *item) *Status {
	n := r.counts.Of(it.ID)
	return &Status{Trigger: it.Value.Trigger, Count: n.Runs, LastTriggered: n.Last, LastExecution: n.Execution, LastError: n.Failed, CreatedBy: it.Value.By,
		Revision: it.Revision, Created: it.Created, Updated: it.Updated}
}
