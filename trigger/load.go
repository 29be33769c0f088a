package trigger

import (
	"context"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
)

// load reads all jobs and their states.
func (s *Schedules) load(ctx context.Context) error {
	if err := resource.Each(ctx, s.o.Objects, kindSchedule, func(o *store.Object) error {
		e, err := readEntry(o)
		if err != nil {
			return err
		}
		if e.broken != nil {
			s.o.Log.ErrorContext(ctx, "a stored schedule cannot be understood any more; it does not fire", "job", e.ID, "error", e.broken)
		}
		s.jobs[e.ID] = e
		return nil
	}); err != nil {
		return err
	}
	var orphans []string
	if err := resource.Each(ctx, s.o.Objects, kindState, func(o *store.Object) error {
		e := s.jobs[o.ID]
		if e == nil {
			orphans = append(orphans, o.ID)
			return nil
		}
		return e.readState(o)
	}); err != nil {
		return err
	}
	for _, id := range orphans {
		if _, err := s.o.Objects.Object(ctx, kindSchedule, id); stepwell.CodeOf(err) != stepwell.CodeNotFound {
			continue // another process has made the job meanwhile
		}
		if err := s.o.Objects.DeleteObject(ctx, kindState, id, store.AnyRevision); err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			return err
		}
	}
	now := s.o.Now()
	var listening []Job
	followed := map[string][]*entry{}
	for _, e := range s.jobs {
		if err := s.resume(ctx, e, now); err != nil {
			return err
		}
		if e.Schedule.Type == TypeEvent && e.enabled() {
			listening = append(listening, e.Job)
		}
		if after := e.Schedule.After; after != nil {
			followed[after.Job] = append(followed[after.Job], e)
		}
		for _, id := range e.state.Active {
			s.active[id] = e
		}
		s.schedule(e, now)
	}
	s.followedMu.Lock()
	defer s.followedMu.Unlock()
	s.followed = followed
	s.listen(listening)
	return nil
}

// resume handles firings that a former process decided and perhaps did not start. A started one is found in the store
// by its key. The others follow the policy for missed firings: the decision is old.
func (s *Schedules) resume(ctx context.Context, e *entry, now time.Time) error {
	late := now.Add(-s.o.Grace)
	var drop []string
	e.state.Pending = slices.Clone(e.state.Pending)
	for i, f := range e.state.Pending {
		if f.Held || f.Late || f.From != "" || e.plan == nil || f.time().After(late) {
			continue
		}
		_, err := s.o.Keys.StartKey(ctx, f.key(e.ID))
		if err == nil {
			continue
		}
		if stepwell.CodeOf(err) != stepwell.CodeNotFound {
			return err
		}
		newer, ok := e.plan.Next(f.time())
		latest := !ok || newer.After(now) // the latest missed one
		if e.Misfire == schedule.RunAll || e.Misfire == schedule.RunOnce && latest {
			e.state.Pending[i].Late = true
			continue
		}
		drop = append(drop, f.key(e.ID))
	}
	if len(drop) > 0 {
		e.state.Pending = slices.DeleteFunc(e.state.Pending, func(f firing) bool {
			gone := slices.Contains(drop, f.key(e.ID))
			if gone {
				e.state.end(f, row{Status: FiringDropped, Reason: DropMisfire}, now)
			}
			return gone
		})
		e.state.Fired -= len(drop)
		e.dirty = true
	}
	return nil
}

// Reload reads all jobs and their states again, and what a former process has decided and not started: for a process that begins
// to call Run after another one has.
func (s *Schedules) Reload(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs, active, heap := s.jobs, s.active, s.heap
	s.jobs, s.active, s.heap = map[string]*entry{}, map[string]*entry{}, nil
	if err := s.load(ctx); err != nil {
		s.jobs, s.active, s.heap = jobs, active, heap
		return err
	}
	for _, e := range jobs {
		e.gone = true
	}
	return nil
}

// ownTries bounds the tries of a change while another process changes the state of the same job.
const ownTries = 5

// again makes a change, once more after another process has changed the job or its state. The caller holds the lock.
func (s *Schedules) again(ctx context.Context, idOrName string, change func(e *entry) error) error {
	for try := 1; ; try++ {
		e, err := s.find(idOrName)
		if err != nil {
			return err
		}
		job, state := e.Revision, e.stateRevision
		if err = change(e); stepwell.CodeOf(err) != stepwell.CodeConflict || !s.o.Shared || try == ownTries {
			return err
		}
		if err := s.refresh(ctx, e.ID, s.o.Now()); err != nil {
			return err
		}
		if e.Revision == job && e.stateRevision == state {
			return err // it has another reason
		}
	}
}

// Refresh reads again the jobs, and their states, among the objects that another process has changed or deleted. Of each
// object, only Kind and ID are looked at.
func (s *Schedules) Refresh(ctx context.Context, changed []store.Object) error {
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	done := map[string]bool{}
	for i := range changed {
		id := changed[i].ID
		if changed[i].Kind != kindSchedule && changed[i].Kind != kindState || done[id] {
			continue
		}
		done[id] = true
		if err := s.refresh(ctx, id, now); err != nil {
			return err
		}
	}
	return nil
}

// refresh takes over one job as the store has it. The caller holds the lock.
func (s *Schedules) refresh(ctx context.Context, id string, now time.Time) error {
	e := s.jobs[id]
	o, err := s.o.Objects.Object(ctx, kindSchedule, id)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		if e != nil {
			s.drop(e)
		}
		return nil
	}
	if err != nil {
		return err
	}
	fresh, err := readEntry(o)
	if err != nil {
		return err
	}
	var before *After
	if e == nil {
		e = &entry{pos: -1}
	} else {
		before, fresh.pos = e.Schedule.After, e.pos
		fresh.state, fresh.stateRevision, fresh.dirty = e.state, e.stateRevision, e.dirty
		fresh.state.plan = fresh.plan
	}
	*e, s.jobs[id] = *fresh, e
	s.reload(ctx, e)
	s.followers(before, e.Schedule.After)
	s.listens(e)
	s.schedule(e, now)
	return nil
}

// reload reads an entry's state again if another process has changed it. The caller holds the lock.
func (s *Schedules) reload(ctx context.Context, e *entry) {
	o, err := s.o.Objects.Object(ctx, kindState, e.ID)
	if err == nil && o.Revision == e.stateRevision {
		return
	}
	if err == nil {
		s.forget(e)
		err = e.readState(o)
	}
	if err != nil {
		s.o.Log.ErrorContext(ctx, "the state of a job cannot be read", "job", e.ID, "error", err)
		return
	}
	for _, id := range e.state.Active {
		s.active[id] = e
	}
}
