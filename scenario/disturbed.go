package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/store"
)

// How is how the execution of a test is disturbed. The zero value: not at all.
type How struct {
	Seed uint64
	// Workers is how many attempts run at once (sim.Options).
	Workers int
	Fault   func(sim.Passage) sim.Fate
	Trace   func(*sim.Trace)
	// Calm is what came of the undisturbed execution: attempts are told the numbers that they had there.
	Calm *Played
	// Store opens the database (sim.Options). Defaults to one in memory.
	Store func(ctx context.Context, now func() time.Time) (store.Store, error)
	// Repeat has the actions of Options.Real run twice in each call, which gives Played.Repeated.
	Repeat bool
	// Killed is called where the process is to die, with what goes on around it, and ends the real process. Defaults to a death of
	// the world's process.
	Killed func(outside []byte) error
	// Outside is what Killed was given by a process that ran the same test with the same database and was killed: the
	// execution goes on from there.
	Outside []byte
	// Folder is where steps run that really do: an empty one, into which the pipeline's is copied. Defaults to a new one, which is deleted
	// afterwards.
	Folder string
}

// maxLives bounds how often the process of one run may die.
const maxLives = 20

// disturbed is what a run needs to know because the process may die and messages come twice.
type disturbed struct {
	def       *definition.Definition
	folder    string
	key       string // of the start, so that it can be repeated; "": it is not
	numbers   map[attemptOf]int
	keysOf    map[int32]string
	dropped   map[string]int // calls that were cut off, as the test says
	due       map[callOf]time.Time
	sent      map[*planned]store.Signal
	again     []*planned // cut off by a death: who asked for it asks again
	asked     map[*planned]int
	repeated  []Repeated
	notKilled error                  // why How.Killed has not ended the process
	pending   map[*planned]time.Time // that will happen
	doing     *planned               // that happens now
}

type attemptOf struct {
	idx   int32
	epoch uint32
}

type callOf struct {
	key    string
	number int
}

// newDisturbed has room for so many calls.
func newDisturbed(n int) disturbed {
	return disturbed{numbers: make(map[attemptOf]int, n), keysOf: make(map[int32]string, n), dropped: map[string]int{}, due: make(map[callOf]time.Time, n), sent: map[*planned]store.Signal{},
		asked: map[*planned]int{}, pending: map[*planned]time.Time{}}
}

// Play runs the execution of a test and judges nothing. When the process dies another one takes over, and what was asked for from
// outside meanwhile is asked for again. Calls that were cut off are repeated with the same outcome, in the time that was left, so that
// nothing but the disturbance differs from an undisturbed run.
//
// The world of what came of it stands still: whoever is done with it closes it.
func (o *Runner) Play(ctx context.Context, t *Test, how How) (p *Played, err error) {
	r := o.newRun(t, &how)
	r.key = "once"
	begins := t.At
	if how.Outside != nil {
		if begins, err = r.goOn(how.Outside); err != nil {
			return nil, err
		}
	}
	done, err := r.set(ctx, begins)
	if err != nil {
		return nil, err
	}
	defer done()
	defer func() {
		if err != nil {
			err = errors.Join(err, r.world.Close())
		}
	}()
	if err := r.live(ctx); err != nil {
		return nil, err
	}
	if r.x, err = r.world.Store.Execution(ctx, r.id); err != nil {
		return nil, err
	}
	if err := r.readSteps(ctx); err != nil {
		return nil, err
	}
	if p, err = r.played(); err == nil && r.copies() {
		p.Tree, err = treeOf(r.folder)
	}
	if err == nil {
		p.World = r.world
	}
	return p, err
}

// maxRefused bounds how often something is asked for again because the store refuses it.
const maxRefused = 20

// refused reports whether who has asked for something asks again, since the store has refused it for now.
func (r *run) refused(err error) bool {
	return r.how.Calm != nil && store.IsAway(err) && !r.world.Dead()
}

// live starts the execution and lets the world go on until nothing happens any more by itself.
func (r *run) live(ctx context.Context) error {
	req := conductor.Request{Pipeline: r.pipe, Params: r.params(r.def), Dir: r.folder, Row: &store.Execution{}}
	if r.key != "" {
		req.Origin = store.Origin{Key: r.key, KeyHash: []byte(r.key)}
	}
	if r.how.Outside != nil {
		err := r.forget(ctx, true)
		if err == nil {
			err = r.world.Restart(ctx)
		}
		if err != nil {
			return err
		}
	}
	for lives := 0; ; lives++ {
		id, err := r.world.Start(ctx, req)
		for tries := 0; r.refused(err) && tries < maxRefused; tries++ {
			id, err = r.world.Start(ctx, req)
		}
		if err == nil {
			r.id = id
			err = r.repeat(ctx)
		}
		if err == nil {
			err = r.world.Run(ctx)
		}
		if !errors.Is(err, sim.ErrKilled) || r.notKilled != nil {
			return cmp.Or(r.notKilled, err)
		}
		for {
			if lives++; lives > maxLives {
				return fmt.Errorf("the process has died %d times: %w", lives, err)
			}
			if err := r.forget(ctx, true); err != nil {
				return err
			}
			if err = r.world.Restart(ctx); err == nil {
				break
			}
			if !errors.Is(err, sim.ErrKilled) {
				return err
			}
		}
		if req.Pipeline, err = r.world.Register(ctx, r.def); err != nil {
			return err
		}
		r.pipe = req.Pipeline
	}
}

// fault is that of the run; an attempt whose worker is lost is to be repeated.
func (r *run) fault() func(sim.Passage) sim.Fate {
	if r.how.Fault == nil {
		return nil
	}
	return func(p sim.Passage) sim.Fate {
		fate := r.how.Fault(p)
		if fate == sim.Dies && r.how.Killed != nil {
			state, err := r.outside()
			if err == nil {
				err = r.how.Killed(state)
			}
			r.notKilled = err
		}
		if fate == sim.Lost && p.Point == sim.BeforeReport {
			r.count[p.Key]--
		}
		return fate
	}
}

// number is that of a call among those of its step. Messages that come twice are one call.
func (r *run) number(a *sim.Attempt) int {
	at := attemptOf{a.Idx, a.Epoch}
	n, known := r.numbers[at]
	if !known {
		n = r.count[a.Key]
		r.numbers[at], r.keysOf[a.Idx] = n, a.Key
		r.count[a.Key]++
	}
	return n
}

// forget takes back calls that the death of the process has cut off: they are repeated. Those that the test itself cuts off count.
func (r *run) forget(ctx context.Context, repeated bool) error {
	if r.key == "" || r.id == "" {
		return nil
	}
	x, err := r.world.Store.Execution(ctx, r.id)
	if err != nil {
		return err
	}
	ends := map[string]int{}
	var b engine.Batch
	for entry, err := range r.world.Store.StepLog(ctx, x.No, 0) {
		if err != nil {
			return err
		}
		if err := b.Decode(entry.Version, entry.Body); err != nil {
			return err
		}
		for i := range b.Events {
			switch ev := &b.Events[i]; ev.Kind {
			case engine.Done, engine.Failed, engine.Skipped, engine.Waiting, engine.DoneAll, engine.Lost:
				if ev.Worker != sim.LostByFault {
					ends[r.keysOf[ev.Idx]]++
				}
			}
		}
	}
	for key, n := range r.count {
		if repeated {
			r.count[key] = min(n, ends[key]+r.dropped[key])
		} else {
			r.dropped[key] = max(0, n-ends[key])
		}
	}
	return nil
}

// resume gives a call that is repeated the time that was left.
func (r *run) resume(a *sim.Attempt, n int, out *sim.Outcome) {
	if r.key == "" || out == nil {
		return
	}
	at := callOf{a.Key, n}
	due, known := r.due[at]
	if !known {
		r.due[at] = r.world.Clock.True().Add(out.Takes)
		return
	}
	out.Takes = max(0, due.Sub(r.world.Clock.True()))
}

// attempt is the number of an attempt as its mock is told.
func (r *run) attempt(a *sim.Attempt, n int) int {
	if r.how.Calm != nil {
		for i := range r.how.Calm.Calls {
			if c := &r.how.Calm.Calls[i]; c.Key == a.Key && c.Number == n+1 {
				return c.Attempt
			}
		}
	}
	return a.Attempt
}

// happen lets an entry of when happen.
func (r *run) happen(ctx context.Context, p *planned) error {
	if p.Restart != "" {
		n, err := r.restarts(ctx)
		if err != nil {
			return err
		}
		r.asked[p] = n
	}
	delete(r.pending, p)
	r.doing = p
	err := p.do(ctx, r)
	r.doing = nil
	for tries := 0; r.refused(err) && tries < maxRefused; tries++ {
		err = r.ask(ctx, p)
	}
	if r.world.Dead() {
		r.again = append(r.again, p)
		return sim.ErrKilled
	}
	if err != nil && r.how.Calm == nil { // else the disturbance may have left nothing to do: what came of the execution says so
		return &placedError{p.pos, fmt.Errorf("when: %w", err)}
	}
	return nil
}

// repeat asks again for what a death has cut off, and looks at what has happened while nobody observed.
func (r *run) repeat(ctx context.Context) error {
	again := r.again
	r.again = nil
	for i, p := range again {
		err := r.ask(ctx, p)
		for tries := 0; r.refused(err) && tries < maxRefused; tries++ {
			err = r.ask(ctx, p)
		}
		if err != nil {
			if r.world.Dead() {
				r.again = append(r.again, again[i:]...)
				return sim.ErrKilled
			}
			return &placedError{p.pos, fmt.Errorf("when: %w", err)}
		}
	}
	if len(r.t.planned) == 0 {
		return nil
	}
	x, err := r.world.Store.Execution(ctx, r.id)
	if err != nil {
		return err
	}
	steps, err := r.world.Store.Steps(ctx, x.No, store.StepFilter{Limit: 10_000})
	for i := range steps {
		r.became(steps[i].Key, steps[i].Status)
	}
	return err
}

// ask asks once more for something that may have been done.
func (r *run) ask(ctx context.Context, p *planned) error {
	if s, ok := r.sent[p]; ok {
		_, _, err := r.world.Signal(ctx, s)
		return unlessDone(err)
	}
	if p.Restart != "" {
		if n, err := r.restarts(ctx); err != nil || n > r.asked[p] {
			return err
		}
	}
	if p.RestartProcess {
		return nil // it has died
	}
	return unlessDone(p.do(ctx, r))
}

// unlessDone leaves out the errors that say that something has been done already.
func unlessDone(err error) error {
	if code := stepwell.CodeOf(err); code == stepwell.CodeConflict || code == stepwell.CodeNotFound {
		return nil
	}
	return err
}

// restarts counts the restarts of the execution's steps.
func (r *run) restarts(ctx context.Context) (n int, err error) {
	x, err := r.world.Store.Execution(ctx, r.id)
	if err != nil {
		return 0, err
	}
	events, err := r.world.Store.Events(ctx, x.No, 0, 10_000)
	for i := range events {
		if events[i].Type == "restart" {
			n++
		}
	}
	return n, err
}
