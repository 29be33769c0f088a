package event

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// Jobs are the jobs that events may start; implemented by trigger.Schedules.
type Jobs interface {
	trigger.Jobs
	Listening() []trigger.Job
	ListensToExecutions() bool
}

// Signals delivers events to waiting steps, and knows the event of an id; implemented by conductor.Conductor.
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
	// Now is the clock of all times that are recorded or decide. Defaults to time.Now.
	Now func() time.Time
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
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return nil
}

// Router keeps event triggers and passes events on. Its methods may be called from many goroutines.
type Router struct {
	o      Options
	set    *resource.Set[record]
	counts *resource.Counts
	// interested: some enabled trigger is about executions.
	interested atomic.Bool
	conditions sync.Map // trigger.Condition by text, of triggers and jobs; emptied when a trigger changes, or when they are too many
	compiled   atomic.Int64
}

// New loads all event triggers.
func New(ctx context.Context, o Options) (r *Router, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	r = &Router{o: o}
	r.set, err = resource.Open(ctx, resource.Options[record]{Kind: r.Kind(), Objects: o.Objects, Most: o.Most, Label: func(r *record) string { return r.Name }, Changed: r.changed})
	if err != nil {
		return nil, err
	}
	if r.counts, err = resource.OpenCounts(ctx, o.Objects, "event_trigger_state", o.Hide); err != nil {
		return nil, err
	}
	r.changed()
	return r, nil
}

// Kind names the kind.
func (r *Router) Kind() resource.Kind {
	return resource.Kind{Name: "event_trigger", Noun: "event trigger", Path: "event-triggers", Param: "trigger_id", List: "event_triggers"}
}

// Refresh rereads the changes of another process.
func (r *Router) Refresh(ctx context.Context, changed []store.Object) error {
	return r.set.Refresh(ctx, changed)
}

// Run stores the counts until ctx ends.
func (r *Router) Run(ctx context.Context) error { return r.counts.Run(ctx) }

// MaxBody is the size of the largest event, in bytes: no more has to be read.
func (r *Router) MaxBody() int { return r.o.MaxBody }

// Create stores a trigger. CodeInvalid, CodeConflict when the id is taken, CodeNotFound when the job does not exist,
// CodeLimit when there are too many.
func (r *Router) Create(ctx context.Context, t *Trigger, actor string) (_ *Status, err error) {
	if t.ID, err = resource.NewID(t.ID); err != nil {
		return nil, err
	}
	if err := t.check(r.o.Jobs); err != nil {
		return nil, err
	}
	item, err := r.set.Create(ctx, t.ID, record{Trigger: *t, By: actor})
	if err != nil {
		return nil, err
	}
	return r.status(&item), nil
}

// Update applies edit to a copy of a trigger; its id stays. Errors as with Create, CodeConflict for another revision;
// store.AnyRevision accepts any.
func (r *Router) Update(ctx context.Context, idOrName string, revision int64, edit func(*Trigger) error) (*Status, error) {
	item, err := r.set.Update(ctx, idOrName, revision, func(changed *record) error {
		id := changed.ID
		if err := edit(&changed.Trigger); err != nil {
			return err
		}
		if changed.ID != id {
			return stepwell.Invalid("make a new trigger", "the id of an event trigger cannot change")
		}
		return changed.check(r.o.Jobs)
	})
	if err != nil {
		return nil, err
	}
	return r.status(&item), nil
}

// Get finds one by id, or by its name if no other has it.
func (r *Router) Get(_ context.Context, idOrName string) (*Status, error) {
	item, err := r.set.Find(idOrName)
	if err != nil {
		return nil, err
	}
	return r.status(&item), nil
}

// Filter selects event triggers, in order of id. Zero fields select all.
type Filter struct {
	Job string `query:"job_id" maxLength:"128"`
	resource.Page
}

// List lists event triggers.
func (r *Router) List(_ context.Context, f *Filter) ([]Status, error) {
	list := []Status{}
	for _, item := range r.set.List(f.Cursor, f.Limit, func(i *item) bool { return f.Job == "" || string(i.Value.Job) == f.Job }) {
		list = append(list, *r.status(&item))
	}
	return list, nil
}

// Delete removes an event trigger; executions stay.
func (r *Router) Delete(ctx context.Context, idOrName string, revision int64) error {
	id, err := r.set.Delete(ctx, idOrName, revision)
	if err != nil {
		return err
	}
	return r.counts.Forget(ctx, id)
}

func (r *Router) status(i *item) *Status {
	return &Status{Trigger: i.Value.Trigger, Filters: i.Value.Filters, Counted: trigger.CountedOf(r.counts.Of(i.ID), i.Value.By, i.Meta)}
}

// changed finds out whether a trigger is interested in executions.
func (r *Router) changed() {
	r.conditions.Clear()
	r.interested.Store(len(r.set.All(func(i *item) bool { return i.Value.On() && strings.HasPrefix(i.Value.EventType, internal) })) > 0)
}
