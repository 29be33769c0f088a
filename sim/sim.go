// Package sim runs pipelines in no time: the conductor of the product in one goroutine, with a store and a queue in memory and a
// clock that jumps to the next thing that happens. Outcomes of attempts come from a Mock or from the actions themselves. Equal
// options and equal calls give the same step logs, byte for byte, in every process.
//
// It is no model of the product. What decides, commits, renders, checks, seals and stores is the code that serve runs; only
// time, the order of outcomes and the death of the process are the world's.
package sim

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/memory"
	"github.com/stepwell/stepwell/worker"
)

// Clock is the clock of a world. Actions that reckon with time are made with its Now.
type Clock struct {
	at  time.Time
	off time.Duration // by which faults have set it
}

// Now is the present time of the world, as its processes see it.
func (c *Clock) Now() time.Time { return c.at.Add(c.off) }

// True is the present time by a clock that no fault sets.
func (c *Clock) True() time.Time { return c.at }

// Start is when a world begins unless Options say otherwise.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Options configure a World. Actions is required.
type Options struct {
	// Actions have the descriptions of all actions, and the handlers of those that run for real.
	Actions *action.Registry
	// Clock is set to At. Defaults to a new one.
	Clock *Clock
	At    time.Time // Defaults to Start
	// Compiled is shared with other worlds that have the same Actions. Defaults to none.
	Compiled *conductor.Compiled
	// Definitions are shared with other worlds, of stores in memory. Defaults to none.
	Definitions *memory.Definitions
	// Seed picks which of the waiting attempts begins, and which of those that end at one moment ends, first. 0: the order of
	// their dispatch.
	Seed uint64
	// Mock says how an attempt ends; nil: its action runs. Defaults to all actions running.
	Mock func(*Attempt) (*Outcome, error)
	// Workers is how many attempts run at once. Defaults to 8.
	Workers int
	// Secrets are the values of secrets by name.
	Secrets map[string]string
	// Observe gets every commit (conductor.Options). It may call Plan, and nothing else of the world.
	Observe func(*conductor.Update)
	// Lines gets the log lines of steps.
	Lines func(store.LogLine)
	// Fault is asked at each passage of a point. After Dies nothing becomes durable, and Run returns ErrKilled. A fate that the
	// point does not know (Fates) is none. Defaults to all passing.
	Fault func(Passage) Fate
	// Trace gets what happens, in order. Defaults to nothing.
	Trace func(*Trace)
	// MaxAttempts bounds the attempts that are begun, so that a pipeline without an end ends. Defaults to 100,000.
	MaxAttempts int
	// MaxTime bounds how far the clock goes. Defaults to ten years.
	MaxTime time.Duration
	// Store opens the database for each process that begins, after the one before has ended, and Now is its clock. What is stored
	// outlives them. Defaults to one in memory.
	Store func(ctx context.Context, now func() time.Time) (store.Store, error)
}

// Attempt is an attempt that begins.
type Attempt struct {
	*engine.Task
	Params  map[string]any // rendered, checked, with defaults
	Started time.Time
}

// Outcome is how a mocked attempt ends.
type Outcome struct {
	Outputs any           // as handlers return them
	Err     error         // likewise: an error of package action steers what happens next
	Takes   time.Duration // from its begin to its end. Longer than the step's timeout: it times out
	Hang    bool          // it never ends by itself
	Deaf    bool          // it ends as it says although it is asked to stop
	Lost    bool          // its worker is lost when it would end
	Spawn   []action.NewStep
	Logs    []string
	Cost    int64 // in millionths of the unit of money, also if it is stopped
	Real    bool  // the action runs; Takes says how long that seems to take
	// Handler runs instead of the action's, as with Real.
	Handler action.Handler
}

// ErrKilled is the error of Run after the process has ended at a Point: call Restart.
var ErrKilled = errors.New("sim: the process has ended")

// World is a process with a store that outlives it.
type World struct {
	o     Options
	Clock *Clock
	Store store.Store // of the process that runs
	*conductor.Conductor

	guard   *secret.Guard
	queue   *queue.Memory
	runner  *worker.Runner
	random  *rand.Rand
	ids     uint64
	ready   []*engine.Task
	flights []*flight
	order   uint64 // of flights and of what is planned
	begun   int
	planned []plannedEvent
	idle    time.Duration
	end     time.Time
	passing sync.Mutex
	dead    bool
	// stopping says that the process was asked to end, down that the store or the blobs are for longer than it waits.
	stopping, down bool
	refuse         [2]int               // requests that the store, and the blobs, refuse
	pauses         int                  // of the process, while it waits for them
	passed         map[string]*passages // by key
	traced         Trace                // that is told of, or was last
	resend         bool                 // a signal comes twice
	keys           map[stepOf]string    // of dispatched steps
}

// plannedEvent happens at a time.
type plannedEvent struct {
	at    time.Time
	order uint64
	do    func(context.Context) error
}

// New makes a world.
func New(ctx context.Context, o Options) (*World, error) {
	if o.Actions == nil {
		return nil, stepwell.Errorf(stepwell.CodeInternal, "", "sim: Actions are required")
	}
	if o.Clock == nil {
		o.Clock = &Clock{}
	}
	if o.At.IsZero() {
		o.At = Start
	}
	if o.Workers <= 0 {
		o.Workers = 8
	}
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = 100_000
	}
	if o.MaxTime <= 0 {
		o.MaxTime = 10 * 365 * 24 * time.Hour
	}
	if o.Lines == nil {
		o.Lines = func(store.LogLine) {}
	}
	o.Clock.at, o.Clock.off = o.At, 0
	if o.Store == nil {
		o.Store = inMemory(o.Definitions)
	}
	w := &World{o: o, Clock: o.Clock, random: rand.New(rand.NewPCG(o.Seed, 0)), end: o.At.Add(o.MaxTime),
		passed: map[string]*passages{}, keys: map[stepOf]string{}}
	err := w.boot(ctx)
	if err == nil {
		err = w.keepSecrets(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// inMemory opens one store again and again.
func inMemory(shared *memory.Definitions) func(context.Context, func() time.Time) (store.Store, error) {
	var s *memory.Store
	return func(_ context.Context, now func() time.Time) (store.Store, error) {
		if s == nil {
			s = memory.New(now).Share(shared)
		}
		s.Release()
		return s, nil
	}
}

// open opens the store for a new process.
func (w *World) open(ctx context.Context) (err error) {
	if err := w.Close(); err != nil {
		return err
	}
	w.Store, err = w.o.Store(ctx, w.Clock.Now)
	return err
}

// Close lets go of the store.
func (w *World) Close() error {
	if w.Store == nil {
		return nil
	}
	s := w.Store
	w.Store = nil
	return s.Close()
}

// keyring has the master key of every world: what it seals is no secret, and equal worlds seal alike.
var keyring = sync.OnceValues(func() (*secret.Keyring, error) { return secret.NewKeyring(make([]byte, 32)) })

func (w *World) keepSecrets(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(w.o.Secrets)) {
		if _, err := w.guard.Vault.Set(ctx, name, w.o.Secrets[name], store.AnyRevision, "test"); err != nil {
			return err
		}
	}
	return nil
}

// boot starts the process: everything but the store is new.
func (w *World) boot(ctx context.Context) (err error) {
	if err := w.open(ctx); err != nil {
		return err
	}
	keys, err := keyring()
	if err != nil {
		return err
	}
	w.guard = secret.NewGuard(w.Store, keys, secret.NewRedactor())
	for _, f := range w.flights {
		if f.remote != nil {
			f.remote.Close()
		}
	}
	w.queue, w.ready, w.flights, w.dead = &queue.Memory{}, nil, nil, false
	w.stopping, w.down, w.refuse, w.pauses = false, false, [2]int{}, 0
	w.trace(Trace{What: Booted})
	log, mine, outage := slog.New(slog.DiscardHandler), mortalStore{w.Store, w}, store.NewOutage(w.pause)
	w.Conductor, err = conductor.New(ctx, conductor.Options{Store: mine, Queue: mortalQueue{w.queue, w}, Blobs: mine.Blobs(), Catalog: w.o.Actions, Compiled: w.o.Compiled,
		Secrets: w.guard, Revoke: w.revoke, Observe: w.observe, Now: w.Clock.Now, NewID: w.newID, Stepped: true, Outage: outage, Log: log,
		Limits: conductor.Limits{Patience: time.Nanosecond}})
	if err != nil {
		return err
	}
	w.runner, err = worker.NewRunner(worker.Options{Actions: w.o.Actions, Reporter: mortalReporter{w}, Records: mine, Blobs: mine.Blobs(), Outage: outage,
		Secrets: w.guard, Lines: w.line, Name: "sim", Now: w.Clock.Now, Log: log,
		CallbackURL: func(key string) string { return "https://stepwell.example/callbacks/" + key }})
	return err
}

// Observing sets Options.Observe.
func (w *World) Observing(f func(*conductor.Update)) { w.o.Observe = f }

func (w *World) observe(u *conductor.Update) {
	w.trace(Trace{What: Published, Update: u})
	if w.o.Observe != nil {
		w.o.Observe(u)
	}
}

func (w *World) line(l store.LogLine) {
	w.o.Lines(l)
	w.Line(l)
}

// Restart ends the process, if it has not ended, and starts another one, which takes up every execution.
func (w *World) Restart(ctx context.Context) error {
	if err := w.boot(ctx); err != nil {
		return err
	}
	err := w.RecoverAll(ctx)
	if w.Dead() {
		return ErrKilled
	}
	return err
}

// newID makes a UUIDv7 of the world's time and a counter.
func (w *World) newID() (string, error) {
	var id uuid.UUID
	w.ids++
	binary.BigEndian.PutUint64(id[:8], uint64(w.Clock.at.UnixMilli())<<16)
	binary.BigEndian.PutUint64(id[8:], w.ids)
	id[6], id[8] = 0x70, 0x80
	return id.String(), nil
}

// Plan has something done at a time, which is now if it has passed.
func (w *World) Plan(at time.Time, do func(context.Context) error) {
	w.order++
	w.planned = append(w.planned, plannedEvent{at, w.order, do})
}

// Begin starts an execution of a definition without problems.
func (w *World) Begin(ctx context.Context, d *definition.Definition, r conductor.Request) (id string, err error) {
	if r.Pipeline, err = w.Register(ctx, d); err != nil {
		return "", err
	}
	return w.Start(ctx, r)
}

// Start starts an execution, or finds the one that the request's key has started.
func (w *World) Start(ctx context.Context, r conductor.Request) (id string, err error) {
	if r.Origin.Key == "" {
		id, err = w.Conductor.Start(ctx, r)
	} else {
		id, _, err = w.StartOnce(ctx, r)
	}
	switch {
	case w.Dead():
		err = ErrKilled
	case err == nil:
		w.trace(Trace{What: Started, ID: id})
	}
	return id, err
}

// Dead reports whether the process has ended at a point: call Restart.
func (w *World) Dead() bool {
	if w.down && w.Stopped() { // it has given up
		w.dead = true
	}
	return w.dead
}

// Run lets the world go on until nothing happens any more by itself: all executions have ended, or wait for something from outside
// that is not planned.
func (w *World) Run(ctx context.Context) error {
	for {
		if err := w.turn(ctx); err != nil {
			return err
		}
		if w.stopping {
			return w.drain(ctx)
		}
		busy, err := w.begin(ctx)
		switch {
		case w.Dead():
			return ErrKilled
		case err != nil:
			return err
		case busy:
			continue
		}
		if more, err := w.advance(ctx, w.end); err != nil || !more {
			return err
		}
	}
}

// drain ends the process in order: what runs may end within stopAfter, and what does not is left to the next process. It ends as soon as
// something else could begin, so that a stop changes no order by itself.
func (w *World) drain(ctx context.Context) error {
	for until := w.Clock.at.Add(stopAfter); len(w.flights) > 0; {
		if w.pull(); len(w.ready) > 0 {
			break
		}
		if more, err := w.advance(ctx, until); err != nil {
			return err
		} else if !more {
			break
		}
		if err := w.turn(ctx); err != nil {
			return err
		}
	}
	err := w.End(ctx)
	if err != nil && !w.Dead() {
		return err
	}
	w.dead = true
	return ErrKilled
}

// turn lets the conductor decide.
func (w *World) turn(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	w.idle, err = w.Turn(ctx)
	if w.Dead() {
		return ErrKilled
	}
	return err
}

// advance sets the clock to the next thing that happens, and does it. more is false when there is none, or none until the given time.
func (w *World) advance(ctx context.Context, until time.Time) (more bool, err error) {
	next, found := time.Time{}, false
	consider := func(t time.Time) {
		if !found || t.Before(next) {
			next, found = t, true
		}
	}
	for _, f := range w.flights {
		consider(f.next())
	}
	for _, p := range w.planned {
		consider(p.at)
	}
	if w.idle != conductor.Idle {
		consider(w.Clock.at.Add(w.idle))
	}
	if !found || next.After(until) && until.Before(w.end) {
		return false, nil
	}
	if next.After(w.end) {
		return false, stepwell.Errorf(stepwell.CodeLimit, "a step may repeat for ever: check its conditions and waits",
			"the clock would go on beyond %s", w.end.Format(time.RFC3339))
	}
	if next.After(w.Clock.at) {
		w.Clock.at = next
	}
	if i := w.duePlan(); i >= 0 {
		do := w.planned[i].do
		w.planned = slices.Delete(w.planned, i, i+1)
		err := do(ctx)
		if w.Dead() {
			err = ErrKilled
		}
		return true, err
	}
	if i := w.dueFlight(); i >= 0 {
		err := w.land(ctx, i)
		if w.Dead() {
			err = ErrKilled
		}
		return true, err
	}
	return true, nil // a timer of the conductor's
}

// duePlan is the first planned event whose time has come, or -1.
func (w *World) duePlan() int {
	best := -1
	for i, p := range w.planned {
		if !p.at.After(w.Clock.at) && (best < 0 || cmp.Or(p.at.Compare(w.planned[best].at), cmp.Compare(p.order, w.planned[best].order)) < 0) {
			best = i
		}
	}
	return best
}

// pick is one of n, by the seed.
func (w *World) pick(n int) int {
	if w.o.Seed == 0 || n == 1 {
		return 0
	}
	return w.random.IntN(n)
}

// Dump is the step log of an execution as text, a line for each version: equal runs have equal ones.
func (w *World) Dump(ctx context.Context, no int64) (out []byte, err error) {
	for e, err := range w.Store.StepLog(ctx, no, 0) {
		if err != nil {
			return nil, err
		}
		out = fmt.Appendf(out, "%d %s\n", e.Version, e.Body)
	}
	return out, nil
}
