package trigger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
)

// maxWait bounds a wait, because the clock may be set meanwhile.
const maxWait = time.Minute

// startTimeout bounds one start.
const startTimeout = 30 * time.Second

// Run fires jobs until ctx ends. It may be called again afterwards.
func (s *Schedules) Run(ctx context.Context) error {
	var cleaning sync.WaitGroup
	defer cleaning.Wait()
	cleaning.Go(func() { s.clean(ctx) })
	s.mu.Lock()
	s.running, s.asked = true, nil
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running = false
	}()
	for ctx.Err() == nil {
		s.runOnce(ctx)
		s.rest(ctx)
	}
	return nil
}

// rest waits until something may be due.
func (s *Schedules) rest(ctx context.Context) {
	timer := time.NewTimer(s.wait())
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-s.ring:
	case <-timer.C:
	}
}

// Flush is for a process that does not call Run: it starts the firings that its calls of Backfill have added, counts what
// Trigger has started, and starts nothing else. It returns when all of them have been started.
func (s *Schedules) Flush(ctx context.Context) {
	s.mu.Lock()
	s.only, s.asked = s.asked, nil
	if s.heap = nil; s.only != nil {
		for _, e := range s.jobs {
			e.pos = -1
			s.schedule(e, s.o.Now())
		}
	}
	s.mu.Unlock()
	for s.Unflushed() && ctx.Err() == nil {
		if s.runOnce(ctx); s.Unflushed() {
			s.rest(ctx)
		}
	}
}

// Unflushed reports whether Flush has something to do.
func (s *Schedules) Unflushed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(append(slices.Clone(s.asked), s.only...), func(e *entry) bool {
		return !e.gone && (e.dirty || slices.ContainsFunc(e.state.Pending, func(f firing) bool { return f.Fill }))
	})
}

// ask remembers an entry for Flush. The caller holds the lock.
func (s *Schedules) ask(e *entry) {
	if !s.running && !slices.Contains(s.asked, e) {
		s.asked = append(s.asked, e)
	}
}

// wait is how long nothing is due.
func (s *Schedules) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heap) == 0 {
		return maxWait
	}
	return max(0, min(maxWait, s.heap[0].due.Sub(s.o.Now())))
}

// runOnce deals with all that is due now: decide, write that down, start, write that down.
func (s *Schedules) runOnce(ctx context.Context) {
	for ctx.Err() == nil {
		due := s.take()
		if len(due) == 0 {
			return
		}
		s.settle(ctx, due)
		starts := s.decide(ctx, due)
		s.start(ctx, starts)
		s.record(ctx, due, starts)
	}
}

// take removes the due entries from the heap, at most one batch.
func (s *Schedules) take() []*entry {
	s.endedMu.Lock()
	ended := s.ended
	s.ended = nil
	s.endedMu.Unlock()
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ended {
		if e := s.active[id]; e != nil {
			s.inactive(e, id)
			s.schedule(e, now)
		}
	}
	var due []*entry
	for len(s.heap) > 0 && len(due) < s.o.Batch && !s.heap[0].due.After(now) {
		due = append(due, s.heap.pop())
	}
	return due
}

// inactive takes in that an execution has ended.
func (s *Schedules) inactive(e *entry, id string) {
	delete(s.active, id)
	e.state.Active = slices.DeleteFunc(slices.Clone(e.state.Active), func(a string) bool { return a == id })
}

// settle asks which of the executions that are in the way have ended.
func (s *Schedules) settle(ctx context.Context, due []*entry) {
	type held struct {
		e  *entry
		id string
	}
	var ask []held
	s.mu.Lock()
	for _, e := range due {
		if e.Overlap == schedule.OverlapAllow {
			continue
		}
		for _, id := range e.state.Active {
			ask = append(ask, held{e, id})
		}
	}
	s.mu.Unlock()
	for _, h := range ask {
		x, err := s.o.Executions.Execution(ctx, h.id)
		if err == nil && !x.Status.Terminal() || err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			continue // it runs, or its state is unknown
		}
		s.mu.Lock()
		s.inactive(h.e, h.id)
		s.mu.Unlock()
	}
}

// start is a job's share of a pass.
type start struct {
	e       *entry
	job     Job
	firings []firing
	results []result
}

// result is the outcome of a firing.
type result struct {
	launched *pipeline.Launched
	err      error
	at       time.Time
}

// decide stores the due firings, and returns the starts.
func (s *Schedules) decide(ctx context.Context, due []*entry) []*start {
	now := s.o.Now()
	s.mu.Lock()
	states := make(map[*entry]state, len(due))
	for _, e := range due {
		switch {
		case e.gone:
		case s.only != nil: // no time of its own is due
			states[e] = e.state
		default:
			states[e] = e.decide(now, s.begun, s.o.Grace, s.o.Backlog)
		}
	}
	s.write(ctx, due, states, now)
	var starts []*start
	var cancel []*entry
	for _, e := range due {
		if e.gone || now.Before(e.retry) {
			continue
		}
		if n := e.startable(); n > 0 {
			starts = append(starts, &start{e: e, job: e.Job, firings: slices.Clone(e.state.Pending[:n])})
		} else if len(e.state.Pending) > 0 {
			e.recheck = now.Add(maxWait)
			if e.Overlap == schedule.OverlapCancelRunning && !e.state.Pending[0].Late {
				cancel = append(cancel, e)
			}
		}
	}
	ids := map[string]string{}
	for _, e := range cancel {
		for _, id := range e.state.Active {
			ids[id] = e.Label()
		}
	}
	s.mu.Unlock()
	for id, job := range ids {
		if err := s.o.Canceler.Cancel(ctx, id, "the job "+job+" fires again"); err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			s.o.Log.WarnContext(ctx, "an execution was not cancelled for the next of its job", "job", job, "execution", id, "error", err)
		}
	}
	return starts
}

// write stores the changed states, and applies them. A state that cannot be stored stays as it was, and is retried. The
// caller holds the lock.
func (s *Schedules) write(ctx context.Context, due []*entry, states map[*entry]state, now time.Time) {
	var changed []*entry
	var objects, chunks []store.Object
	for _, e := range due {
		st, ok := states[e]
		if !ok || !e.dirty && !differs(&e.state, &st) {
			continue
		}
		chunk, err := st.chunk(e.ID)
		o, err2 := e.stateObject(st)
		if err := errors.Join(err, err2); err != nil {
			s.o.Log.ErrorContext(ctx, "the state of a job cannot be written", "job", e.ID, "error", err)
			continue
		}
		if chunk != nil {
			states[e], chunks = st, append(chunks, *chunk)
		}
		changed, objects = append(changed, e), append(objects, o)
	}
	objects = append(objects, chunks...) // behind the states, whose revisions are taken over
	if len(objects) == 0 {
		return
	}
	done, err := s.o.Objects.PutObjects(context.WithoutCancel(ctx), objects...)
	if err != nil {
		s.o.Log.ErrorContext(ctx, "due firings cannot be stored; it will be retried", "jobs", len(objects), "error", err)
		for _, e := range changed {
			e.later(now)
			if stepwell.CodeOf(err) == stepwell.CodeConflict {
				s.reload(ctx, e)
			}
		}
		return
	}
	for i, e := range changed {
		e.state, e.stateRevision, e.dirty = states[e], done[i].Revision, false
	}
}

// differs compares the fields that decide may change.
func differs(a, b *state) bool {
	return !sameRows(a, b) || a.Last != b.Last || a.Fired != b.Fired || a.Dropped != b.Dropped || a.Runs != b.Runs || a.Outbox != b.Outbox || a.Failed != b.Failed ||
		!a.FailedAt.Equal(b.FailedAt) || !slices.Equal(a.Pending, b.Pending)
}

// later delays a failed entry: a second, two, four, up to a minute.
func (e *entry) later(now time.Time) {
	e.retry = now.Add(min(time.Minute, time.Second<<min(e.tries, 6)))
	e.tries++
}

// start starts firings, those of one job in order.
func (s *Schedules) start(ctx context.Context, starts []*start) {
	var group errgroup.Group
	group.SetLimit(s.o.Starts)
	for _, st := range starts {
		group.Go(func() error {
			for _, f := range st.firings {
				r := s.fire(ctx, &st.job, f)
				st.results = append(st.results, r)
				if r.err != nil && !Permanent(r.err) {
					return nil
				}
			}
			return nil
		})
	}
	_ = group.Wait() // the results tell
}

// fire starts one firing.
func (s *Schedules) fire(ctx context.Context, j *Job, f firing) result {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	about := map[string]any{"type": "scheduled", "schedule_id": j.ID, "schedule_name": j.Name, "scheduled_at": stamp(f.time()), "triggered_at": stamp(s.o.Now())}
	if f.From != "" {
		about["type"], about["execution_id"], about["status"], about["job_id"] = TypeAfter, f.From, f.Ended, j.Schedule.After.Job
	}
	if f.Late {
		about["catch_up"] = true
	}
	in := j.Target.Launch(pipeline.Launch{From: f.From, Nominal: f.time(), Outside: &pipeline.Outside{About: about}})
	in.Trigger, in.Job, in.Actor, in.Key = "scheduled", j.ID, cmp.Or(f.By, "schedule:"+j.ID), f.key(j.ID)
	launched, err := s.o.Launcher.Launch(ctx, in)
	return result{launched: launched, err: err, at: s.o.Now()}
}

// record applies the started firings, stores them, and puts the entries back into the heap.
func (s *Schedules) record(ctx context.Context, due []*entry, starts []*start) {
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make(map[*entry]state, len(starts))
	for _, st := range starts {
		if !st.e.gone {
			s.apply(ctx, st, now)
			st.e.dirty = true
			states[st.e] = st.e.state
		}
	}
	s.write(ctx, due, states, now)
	for _, e := range due {
		s.schedule(e, now)
	}
}

// apply takes one job's results in.
func (s *Schedules) apply(ctx context.Context, st *start, now time.Time) {
	e := st.e
	for i, r := range st.results {
		f := st.firings[i]
		if r.err != nil && ctx.Err() != nil {
			return // the process stops: it is no fault, and is started by the next one
		}
		if r.err != nil && !Permanent(r.err) {
			e.state.failed(s.o.Hide(r.err.Error()), r.at)
			e.later(now)
			s.o.Log.WarnContext(ctx, "a job could not be started; it will be retried", "job", e.ID, "at", f.time(), "error", r.err)
			return
		}
		e.tries, e.retry, e.recheck = 0, time.Time{}, time.Time{}
		e.state.Pending = slices.DeleteFunc(slices.Clone(e.state.Pending), func(p firing) bool { return p.key(e.ID) == f.key(e.ID) })
		fired := Fired{Job: e.ID, Err: r.err}
		if r.err != nil {
			e.state.failed(s.o.Hide(r.err.Error()), r.at)
			e.state.end(f, row{Status: FiringRefused, Error: e.state.Failed}, r.at)
			s.o.Log.WarnContext(ctx, "a firing was given up", "job", e.ID, "at", f.time(), "error", r.err)
		} else if fired.Execution = r.launched.Execution; r.launched.Fresh || !f.Fill { // else it is in the ledger already
			s.started(e, fired.Execution, r.at)
			e.state.end(f, row{Status: f.status(), Execution: fired.Execution}, r.at)
		}
		if e.plan != nil && f.From == "" && !f.Late {
			fired.Late = r.at.Sub(f.time().Add(e.plan.Jitter(e.ID, f.time())))
			s.lag = fired.Late
		}
		s.o.Observe(fired)
	}
}

// status is that of a firing that was started.
func (f firing) status() string {
	if f.Late && !f.Fill {
		return FiringCaughtUp
	}
	return FiringRan
}
