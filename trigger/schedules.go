package trigger

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Options configure a Schedules. Objects, Launcher, Executions, Canceler and Keys are required.
type Options struct {
	Objects    store.Objects
	Launcher   Launcher
	Executions Executions
	Canceler   Canceler
	Keys       Keys
	// Starts is how many executions are started at once. Defaults to 64.
	Starts int
	// Batch is how many jobs are dealt with in one transaction. Defaults to 500.
	Batch int
	// Backlog is how many firings of a job may wait, and how many one backfill may have. Defaults to 1,000.
	Backlog int
	// MaxJobs is how many jobs there may be. Defaults to 100,000.
	MaxJobs int
	// Grace is how late a firing counts as on time. Defaults to one minute.
	Grace time.Duration
	// Shared says that another process may call Run on the same objects. Defaults to false.
	Shared bool
	// Observe hears of every start of a schedule's firing. It must be quick. Defaults to nothing.
	Observe func(Fired)
	// Hide takes secrets out of texts that are stored. Defaults to there being none.
	Hide func(text string) string
	// Now is the clock of all times that are recorded or decide. Defaults to time.Now.
	Now func() time.Time
	// Log takes the package's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

// Fired is the outcome of a firing.
type Fired struct {
	Job       string
	Execution string        // "" when it could not be started
	Late      time.Duration // after its planned moment, jitter included; 0 for a catch-up firing
	Err       error
}

func (o *Options) validate() error {
	if o.Objects == nil || o.Launcher == nil || o.Executions == nil || o.Canceler == nil || o.Keys == nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "trigger: Objects, Launcher, Executions, Canceler and Keys are required"}
	}
	for value, otherwise := range map[*int]int{&o.Starts: 64, &o.Batch: 500, &o.Backlog: 1000, &o.MaxJobs: 100_000} {
		if *value <= 0 {
			*value = otherwise
		}
	}
	if o.Hide == nil {
		o.Hide = func(text string) string { return text }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Grace = cmp.Or(max(o.Grace, 0), time.Minute)
	if o.Observe == nil {
		o.Observe = func(Fired) {}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return nil
}

// Schedules keeps jobs and fires them. Its methods may be called from many goroutines; they work whether Run does or
// not.
type Schedules struct {
	o    Options
	ring chan struct{} // something has to be looked at
	left chan struct{} // a deleted job has left something behind

	mu      sync.Mutex
	jobs    map[string]*entry
	heap    heap
	active  map[string]*entry // by the executions that may still run
	lag     time.Duration     // of the latest firing
	asked   []*entry          // by Trigger and Backfill of this process, while Run does not run
	only    []*entry          // that Flush looks at; nil: all
	running bool              // Run does
	begun   time.Time         // when this process began: earlier due times were missed

	followedMu sync.RWMutex        // never held for long: the conductor asks
	followed   map[string][]*entry // the jobs that follow one
	listening  []Job               // enabled ones of type event; replaced, never changed
	internal   atomic.Bool         // one of them is about executions

	endedMu sync.Mutex
	ended   []string // executions that have ended, for the loop
}

// New loads all jobs.
func New(ctx context.Context, o Options) (*Schedules, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Schedules{o: o, ring: make(chan struct{}, 1), left: make(chan struct{}, 1), jobs: map[string]*entry{}, active: map[string]*entry{}, followed: map[string][]*entry{}, begun: o.Now()}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Create stores a job. It fires from now on: earlier times are not caught up. CodeInvalid, CodeConflict when the id is
// taken, CodeLimit when there are too many. Warnings say when it never fires, or when a change of clocks skips or
// repeats a firing.
func (s *Schedules) Create(ctx context.Context, j *Job, actor string) (_ *Status, err error) {
	now := s.o.Now()
	e := &entry{stored: stored{Job: *j, By: actor}, pos: -1}
	if e.ID, err = resource.NewID(j.ID); err != nil {
		return nil, err
	}
	if err = e.accept(); err != nil {
		return nil, err
	}
	e.begin(now, s.o.Grace)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.jobs) >= s.o.MaxJobs {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("there are %d jobs already", len(s.jobs)), Hint: "delete some"}
	}
	if s.jobs[e.ID] != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the job " + stepwell.Clip(e.ID, 80) + " exists already", Hint: "update it, or use another job_id"}
	}
	if err := s.follows(e); err != nil {
		return nil, err
	}
	if err := s.put(ctx, e, e.state, true); err != nil {
		return nil, err
	}
	s.jobs[e.ID] = e
	s.followers(e.Schedule.After)
	s.listens(e)
	s.schedule(e, now)
	return e.warned(now), nil
}

// warned is the view with warnings for the author of the job.
func (e *entry) warned(now time.Time) *Status {
	v := e.view(now)
	if e.plan != nil {
		for _, w := range e.plan.Warnings(time.Unix(min(e.state.Last, now.Unix()), 0)) {
			v.Warnings = append(v.Warnings, resource.Detail{Path: "schedule", Message: w.Message, Hint: w.Hint, Warning: true})
		}
	}
	return v
}

// put writes a job, and its state unless it stays as it is. The caller holds the lock.
func (s *Schedules) put(ctx context.Context, e *entry, st state, withState bool) error {
	object, err := e.object()
	if err != nil {
		return stepwell.Invalid("params must be JSON", "the job cannot be stored: %v", err)
	}
	objects := []store.Object{object}
	if withState {
		object, err := e.stateObject(st)
		if err != nil {
			return err
		}
		objects = append(objects, object)
	}
	done, err := s.o.Objects.PutObjects(ctx, objects...)
	if err != nil {
		return err
	}
	e.Meta = resource.MetaOf(&done[0])
	if withState {
		e.state, e.stateRevision, e.dirty = st, done[1].Revision, false
	}
	return nil
}

// Job finds one by id, or by its name if no other has it: CodeNotFound, CodeConflict when several have it.
func (s *Schedules) Job(idOrName string) (*Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(idOrName)
	if err != nil {
		return nil, err
	}
	return e.view(s.o.Now()), nil
}

func (s *Schedules) find(idOrName string) (*entry, error) {
	if e := s.jobs[idOrName]; e != nil {
		return e, nil
	}
	var found *entry
	for _, e := range s.jobs {
		if e.Name != idOrName || idOrName == "" {
			continue
		}
		if found != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("several jobs are called %q", stepwell.Clip(idOrName, 80)), Hint: "name it by its job_id"}
		}
		found = e
	}
	if found == nil {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("there is no schedule %q", stepwell.Clip(idOrName, 80))}
	}
	return found, nil
}

// Get is Job, for code that serves all kinds alike.
func (s *Schedules) Get(_ context.Context, idOrName string) (*Status, error) { return s.Job(idOrName) }

// Kind names the kind.
func (s *Schedules) Kind() resource.Kind {
	return resource.Kind{Name: "schedule", Noun: "job", Path: "scheduler/jobs", Param: "job_id", List: "jobs"}
}

// Filter selects jobs, in order of id. Zero fields select all.
type Filter struct {
	Type   string `query:"type" enum:"cron,interval,one_time,manual,webhook,event,after"`
	Status string `query:"status" enum:"active,paused,expired,completed"`
	resource.Page
}

// List lists jobs.
func (s *Schedules) List(_ context.Context, f *Filter) ([]Status, error) {
	limit := f.Limit
	limit = cmp.Or(max(limit, 0), 50)
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var picked []*entry
	for _, e := range s.jobs {
		if e.ID > f.Cursor && (f.Type == "" || f.Type == e.Schedule.Type) && (f.Status == "" || e.view(now).Status == f.Status) {
			picked = append(picked, e)
		}
	}
	slices.SortFunc(picked, func(a, b *entry) int { return strings.Compare(a.ID, b.ID) })
	list := []Status{}
	for _, e := range picked[:min(len(picked), limit, 1000)] {
		list = append(list, *e.view(now))
	}
	return list, nil
}

// Timed are the active jobs with times of their own that start one of the pipelines, by id or name; at most so many, by their ids.
func (s *Schedules) Timed(most int, pipelines ...string) []Job {
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Job
	for _, e := range s.jobs {
		if e.Target == nil || !slices.Contains(pipelines, e.Target.Workflow) || e.view(now).Status != StatusActive {
			continue
		}
		if _, timed := e.Spec(); timed {
			list = append(list, e.Job)
		}
	}
	slices.SortFunc(list, func(a, b Job) int { return strings.Compare(a.ID, b.ID) })
	return list[:min(len(list), most)]
}

// Stats are figures for metrics.
type Stats struct {
	Jobs    int           // all
	Active  int           // those with times of their own
	Next    time.Time     // the next of their firings; zero: none
	Waiting int           // firings that wait for an execution to end, or to be started
	Lag     time.Duration // how late the latest firing was started
}

// Stats counts.
func (s *Schedules) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Jobs: len(s.jobs), Lag: s.lag}
	for _, e := range s.jobs {
		st.Waiting += len(e.state.Pending)
		if e.nominal.IsZero() {
			continue
		}
		st.Active++
		if st.Next.IsZero() || e.nominal.Before(st.Next) {
			st.Next = e.nominal
		}
	}
	return st
}
