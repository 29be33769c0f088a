// Package progress tells how far projects are and finds the end of each exactly once.
//
// The store decides: every count is in a durable transaction, and the one that brings a project over its finish line has the
// outbox entry job.completed in it. A state server (State) answers reads quickly and is shared with other programs, whose
// counts are taken over; it may be emptied, slow or away at any moment. Without one the store answers everything.
//
// Stability: the shapes of Progress and job.completed are kept; the rest may change.
package progress

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// NotFound is the status of a project that there is not.
const NotFound = "NOT_FOUND"

// Progress is how far a project is.
type Progress struct {
	store.ProjectState
	Percent float64 `json:"percent"`      // 0 to 100, with two decimals, rounded down
	Source  string  `json:"state_source"` // what has answered
	// Completed is true for the call that finished the project.
	Completed bool `json:"-"`
	// Repeated is true for an item whose key was counted before.
	Repeated bool `json:"-"`
	// StateErr says why the state server does not have a change, which is durable all the same and reaches the server at its
	// return: do not send it again.
	StateErr error `json:"-"`
}

// Held is what a state server has of a project.
type Held struct {
	store.ProjectState // Status is "" where the server has refused the project
	// OtherDone and OtherErrors are the counts of other programs.
	OtherDone, OtherErrors, Epoch int64
}

// State is a server that answers reads quickly. Errors have CodeUnavailable where the server is away.
type State interface {
	// Merge brings the server to the state of the store, whatever it has, and gives what it has then, in the order of the list:
	// counts and revisions only rise within an epoch, so a late or repeated Merge changes nothing. op names the caller's
	// operation in errors. touch renews the time that unchanged projects live.
	Merge(ctx context.Context, op string, list []store.ProjectProgress, touch bool) ([]Held, error)
	// Forget removes projects. It tries once.
	Forget(ctx context.Context, projects []string) error
	// Load reads a project; found is false if the server does not have it. It tries once.
	Load(ctx context.Context, project string) (h Held, found bool, err error)
	// Connected asks whether the server is there. generation changes whenever it may have missed or lost something.
	Connected(ctx context.Context) (generation int64, err error)
	// Name is Progress.Source.
	Name() string
	// Close ends the operations under way within 5 seconds, and the connections.
	Close() error
}

// Options say where progress is kept.
type Options struct {
	// Store decides.
	Store store.Projects
	// State answers reads. Defaults to none: the store does.
	State State
	// Source is Progress.Source where the store answers. Defaults to "sqlite".
	Source string
	// Window is how long counts are summed before they are stored. Defaults to 10 ms.
	Window time.Duration
	// Interval is the time between two comparisons of store and state server. Defaults to 1 s.
	Interval time.Duration
	// ReadTimeout is how long a read waits for the state server before the store answers. Defaults to 250 ms.
	ReadTimeout time.Duration
	// Age is how long ago a project may have changed to be written again to a state server that is back. Defaults to 7 days.
	Age time.Duration
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Log hears of what the state server misses. Defaults to no log.
	Log *slog.Logger
}

func (o *Options) validate() error {
	if o.Store == nil {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "progress needs a store"}
	}
	for to, normal := range map[*time.Duration]time.Duration{&o.Window: 10 * time.Millisecond, &o.Interval: time.Second, &o.ReadTimeout: 250 * time.Millisecond, &o.Age: 7 * 24 * time.Hour} {
		if *to <= 0 {
			*to = normal
		}
	}
	if o.Source == "" {
		o.Source = "sqlite"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Tracker counts. Its methods may be called from many goroutines.
type Tracker struct {
	o      Options
	adding adding
	follow follower
	stop   context.CancelFunc
	loops  sync.WaitGroup
}

// New makes a tracker. Close ends it.
func New(o Options) (*Tracker, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	t := &Tracker{o: o}
	t.adding.init(o.Window, t.store)
	t.follow.init(&t.o)
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	if o.State != nil {
		t.loops.Go(func() { t.follow.run(ctx) })
	}
	return t, nil
}

// Close stores what is being summed, refuses everything else with CodeUnavailable, and closes the state server within 5
// seconds. What that server misses is in the store.
func (t *Tracker) Close() error {
	t.adding.close()
	t.stop()
	var err error
	if t.o.State != nil {
		err = t.o.State.Close() // cuts off what the loop and the callers of Add wait for
	}
	t.loops.Wait()
	t.adding.flying.Wait()
	return err
}

// Create stores the progress of a project, INITIALIZING; one that is there is left alone. It does not fail because of the
// state server.
func (t *Tracker) Create(ctx context.Context, project string) (Progress, error) {
	if t.adding.isClosed() {
		return Progress{}, errClosed
	}
	t.follow.writing.Lock()
	defer t.follow.writing.Unlock()
	if _, err := t.o.Store.CreateProgress(ctx, project); err != nil {
		return Progress{}, err
	}
	list, err := t.o.Store.Progress(ctx, []string{project})
	if err != nil || len(list) == 0 {
		return Progress{}, err
	}
	return t.push(ctx, "create", []store.ProgressResult{{ProjectProgress: list[0]}})[0], nil
}

// Delete deletes the progress of a project; one that is not there is no error. A state server that is away is told when it is back.
func (t *Tracker) Delete(ctx context.Context, project string) error {
	if t.adding.isClosed() {
		return errClosed
	}
	t.follow.writing.Lock()
	defer t.follow.writing.Unlock()
	if err := t.o.Store.DeleteProgress(ctx, project); err != nil || t.o.State == nil {
		return err
	}
	if err := t.o.State.Forget(ctx, []string{project}); err != nil {
		t.Counted([]store.Count{{Project: project}})
	}
	return nil
}

// SetTotal sets the number of items. CodeNotFound: there is no such project.
func (t *Tracker) SetTotal(ctx context.Context, project string, total int64) (Progress, error) {
	return t.change(ctx, "set total", &store.ProgressChange{Count: store.Count{Project: project}, Total: &total})
}

// SetStatus sets the status, of capital letters and underscores. DONE finishes the project, and nothing but Reset leaves DONE.
// CodeNotFound: there is no such project.
func (t *Tracker) SetStatus(ctx context.Context, project, status string) (Progress, error) {
	return t.change(ctx, "set status", &store.ProgressChange{Count: store.Count{Project: project}, Status: status})
}

// FinishDiscovery sets the number of items and lets a project that is INITIALIZING or CRAWLING go on to PROCESSING, or to
// DONE if all are processed already. CodeNotFound: there is no such project.
func (t *Tracker) FinishDiscovery(ctx context.Context, project string, total int64) (Progress, error) {
	return t.change(ctx, "finish discovery", &store.ProgressChange{Count: store.Count{Project: project}, Total: &total, Discovered: true})
}

// Reset begins anew with INITIALIZING and forgets all counts and keys of items. CodeNotFound: there is no such project.
func (t *Tracker) Reset(ctx context.Context, project string) (Progress, error) {
	return t.change(ctx, "reset", &store.ProgressChange{Count: store.Count{Project: project}, Reset: true})
}

// Begin begins a project's progress anew with a total, in one change: PROCESSING.
func (t *Tracker) Begin(ctx context.Context, project string, total int64) (Progress, error) {
	return t.change(ctx, "begin", &store.ProgressChange{Count: store.Count{Project: project}, Reset: true, Total: &total, Discovered: true})
}

// Add counts processed items. Those with a key count once; the others once a call. Counts are summed for Options.Window,
// and are durable when Add returns nil. CodeNotFound: there is no such project.
func (t *Tracker) Add(ctx context.Context, n store.Count, key string) (Progress, error) {
	c := store.ProgressChange{Count: n, Key: key}
	if err := c.Check(); err != nil {
		return Progress{}, err
	}
	return t.adding.add(ctx, c)
}

// Counted says that commits have counted items of projects: their counts go to the state server soon. It never waits.
func (t *Tracker) Counted(counts []store.Count) {
	if t.o.State != nil {
		t.follow.wake(counts)
	}
}

// Read gives the progress of a project, NOT_FOUND if there is none: from the state server if that answers in time, else from
// the store.
func (t *Tracker) Read(ctx context.Context, project string) (Progress, error) {
	if t.o.State != nil {
		try, cancel := context.WithTimeout(ctx, t.o.ReadTimeout)
		h, found, err := t.o.State.Load(try, project)
		cancel()
		if err == nil && found && h.Status != "" {
			return Progress{ProjectState: h.ProjectState, Percent: percent(h.Done, h.Total), Source: t.o.State.Name()}, nil
		}
	}
	list, err := t.o.Store.Progress(ctx, []string{project})
	if err != nil {
		return Progress{}, err
	}
	if len(list) == 0 {
		return Progress{ProjectState: store.ProjectState{Project: project, Status: NotFound}, Source: t.o.Source}, nil
	}
	t.Counted([]store.Count{{Project: project}}) // the server has lost it, or is back later
	return t.of(&store.ProgressResult{ProjectProgress: list[0]}), nil
}

// Moving gives projects that have not finished and have changed within a time, from the store, at most limit of them.
func (t *Tracker) Moving(ctx context.Context, within time.Duration, limit int) ([]Progress, error) {
	list, err := t.o.Store.OpenProgress(ctx, t.o.Now().Add(-within), "", limit)
	if err != nil {
		return nil, err
	}
	out := make([]Progress, len(list))
	for i := range list {
		out[i] = t.of(&store.ProgressResult{ProjectProgress: list[i]})
	}
	return out, nil
}

// Event is the event of the finish of a project, with the counts as they are now; nil if it has not finished.
func (t *Tracker) Event(ctx context.Context, project string) (*store.ProjectEvent, error) {
	list, err := t.o.Store.Progress(ctx, []string{project})
	if err != nil || len(list) == 0 || list[0].Completed.IsZero() {
		return nil, err
	}
	e := list[0].Finish()
	return &e, nil
}

func (t *Tracker) change(ctx context.Context, op string, c *store.ProgressChange) (Progress, error) {
	if t.adding.isClosed() {
		return Progress{}, errClosed
	}
	out, err := t.o.Store.ChangeProgress(ctx, []store.ProgressChange{*c})
	if err != nil {
		return Progress{}, err
	}
	if out[0].Status == "" {
		return unknown(c.Project)
	}
	return t.push(ctx, op, out)[0], nil
}

func unknown(project string) (Progress, error) {
	return Progress{ProjectState: store.ProjectState{Project: project, Status: NotFound}}, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no progress of a project " + project, Hint: "create it first"}
}

// store makes the changes of a window. push brings them to the state server.
func (t *Tracker) store(ctx context.Context, changes []store.ProgressChange) (push func() []Progress, err error) {
	out, err := t.o.Store.ChangeProgress(ctx, changes)
	if err != nil {
		return nil, err
	}
	return func() []Progress { return t.push(ctx, "count items", out) }, nil
}

// push brings changes that are stored to the state server. An unknown project's progress is zero.
func (t *Tracker) push(ctx context.Context, op string, out []store.ProgressResult) []Progress {
	list := make([]Progress, len(out))
	for i := range out {
		if out[i].Status != "" {
			list[i] = t.of(&out[i])
		}
	}
	if t.o.State == nil {
		return list
	}
	now, err := t.follow.merge(ctx, op, last(out), true)
	for i := range list {
		p := &list[i]
		if p.StateErr = err; err != nil {
			continue
		}
		if x := now[p.Project]; x != nil { // other programs' counts may have finished it
			completed, repeated := p.Completed, p.Repeated
			*p = t.of(x)
			p.Source, p.Completed, p.Repeated = t.o.State.Name(), completed || x.Finished, repeated
			x.Finished = false // one caller is told
		}
	}
	return list
}

// last are the projects as the last of their changes has left them.
func last(out []store.ProgressResult) (list []store.ProjectProgress) {
	at := map[string]int{}
	for i := range out {
		p := out[i].ProjectProgress
		if p.Status == "" {
			continue
		}
		if j, ok := at[p.Project]; ok {
			list[j] = p
			continue
		}
		at[p.Project] = len(list)
		list = append(list, p)
	}
	return list
}

func (t *Tracker) of(p *store.ProgressResult) Progress {
	return Progress{ProjectState: p.ProjectState, Percent: percent(p.Done, p.Total), Source: t.o.Source,
		Completed: p.Finished, Repeated: p.Repeated}
}

// percent is done of total, never above 100; 0 while the total is not known.
func percent(done, total int64) float64 {
	if total <= 0 || done <= 0 {
		return 0
	}
	if done >= total {
		return 100
	}
	return min(math.Floor(float64(done)/float64(total)*10_000)/100, 99.99)
}
