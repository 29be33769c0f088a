package trigger

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
)

// maxPreview is how many firings are shown in advance.
const maxPreview = 100

// Update applies edit to a copy of a job; its id stays. revision is the expected revision, or store.AnyRevision. A job
// whose timing changes, that is enabled again, or that had ended and has not any more, counts from now: earlier times
// are not caught up. Errors as with Create, CodeNotFound, CodeConflict for another revision.
func (s *Schedules) Update(ctx context.Context, idOrName string, revision int64, edit func(*Job) error) (*Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out *Status
	err := s.again(ctx, idOrName, func(e *entry) (err error) {
		out, err = s.update(ctx, e, revision, edit)
		return err
	})
	return out, err
}

// update is Update of an entry. The caller holds the lock.
func (s *Schedules) update(ctx context.Context, e *entry, revision int64, edit func(*Job) error) (_ *Status, err error) {
	now := s.o.Now()
	if revision != store.AnyRevision && revision != e.Revision {
		return nil, resource.Changed("job")
	}
	changed := *e
	if changed.Job, err = resource.Clone(e.Job); err != nil {
		return nil, err
	}
	if err := edit(&changed.Job); err != nil {
		return nil, err
	}
	if changed.ID != e.ID {
		return nil, stepwell.Invalid("make a new job", "the id of a job cannot change")
	}
	if err = changed.accept(); err != nil {
		return nil, err
	}
	changed.broken = nil
	if err := s.follows(&changed); err != nil {
		return nil, err
	}
	_, over := e.ended(now)
	_, still := changed.ended(now)
	if !reflect.DeepEqual(changed.Schedule, e.Schedule) || changed.enabled() && !e.enabled() || over && !still {
		changed.begin(now, s.o.Grace)
		e.leave(&changed.state, now)
	}
	changed.state.plan = changed.plan
	if err := s.put(ctx, &changed, changed.state, true); err != nil {
		return nil, err
	}
	before := e.Schedule.After
	*e = changed // its place in the heap is the same
	s.followers(before, e.Schedule.After)
	s.listens(e)
	s.schedule(e, now)
	return e.warned(now), nil
}

// leave drops the times that a job has not dealt with and that its changed state counts no longer.
func (e *entry) leave(st *state, now time.Time) {
	if _, over := e.ended(now); over || e.plan == nil {
		return
	}
	reason := DropChanged
	if !e.enabled() {
		reason = DropPaused
	}
	st.plan = e.plan // remaining firings continue after the earlier ones
	e.skip(st, time.Unix(e.state.Last, 0), time.Unix(st.Last, 0), reason, now)
}

// Pause keeps a job from firing, waiting firings included. Pausing twice is harmless.
func (s *Schedules) Pause(ctx context.Context, idOrName string) (*Status, error) {
	return s.enable(ctx, idOrName, false)
}

// Resume lets a job fire again, from now on.
func (s *Schedules) Resume(ctx context.Context, idOrName string) (*Status, error) {
	return s.enable(ctx, idOrName, true)
}

func (s *Schedules) enable(ctx context.Context, idOrName string, yes bool) (*Status, error) {
	if v, err := s.Job(idOrName); err != nil || *v.Enabled == yes {
		return v, err
	}
	return s.Update(ctx, idOrName, store.AnyRevision, func(j *Job) error { j.Enabled = &yes; return nil })
}

// Delete removes a job and its pending firings; executions stay. CodeConflict when other jobs follow it.
func (s *Schedules) Delete(ctx context.Context, idOrName string, revision int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(idOrName)
	if err != nil {
		return err
	}
	if others := s.followed[e.ID]; len(others) > 0 {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the job " + others[0].Label() + " follows this one", Hint: "delete or change that one first"}
	}
	mark, err := s.leaves(ctx, e)
	if err != nil {
		return err
	}
	if err := s.o.Objects.DeleteObject(ctx, kindSchedule, e.ID, revision); err != nil {
		if mark != "" { // else clean sees that the job is still there
			_ = s.o.Objects.DeleteObject(ctx, kindLeftover, mark, store.AnyRevision)
		}
		return err
	}
	if mark != "" {
		select {
		case s.left <- struct{}{}:
		default:
		}
	}
	s.drop(e)
	// A state without its schedule is removed when the jobs are loaded, should this fail.
	err = s.o.Objects.DeleteObject(ctx, kindState, e.ID, store.AnyRevision)
	if err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
		s.o.Log.WarnContext(ctx, "the state of a deleted job was not removed", "job", e.ID, "error", err)
	}
	return nil
}

// drop forgets a job that has been deleted. The caller holds the lock.
func (s *Schedules) drop(e *entry) {
	e.gone = true
	delete(s.jobs, e.ID)
	s.followers(e.Schedule.After)
	s.listens(e)
	s.heap.remove(e)
	s.forget(e)
}

// forget no longer waits for a job's executions.
func (s *Schedules) forget(e *entry) {
	for _, id := range e.state.Active {
		delete(s.active, id)
	}
}

// follows checks that the followed jobs exist and do not follow the job itself.
func (s *Schedules) follows(e *entry) error {
	seen := map[string]bool{}
	for at := e; at.Schedule.After != nil; {
		next := at.Schedule.After.Job
		if next == e.ID {
			return stepwell.Invalid("let one of them go by time", "the jobs %s and %s would follow each other for ever", e.Label(), at.Label())
		}
		known := s.jobs[next]
		if known == nil {
			if at == e {
				return stepwell.Invalid("name it by its job_id", "there is no schedule %q to follow", stepwell.Clip(next, 80))
			}
			return nil
		}
		if seen[next] {
			return nil // another circle, which is not this job's doing
		}
		seen[next] = true
		at = known
	}
	return nil
}

// NextRuns are the next n times of a job, at most 100; none for a job that is paused, at its end, or knows no times.
func (s *Schedules) NextRuns(idOrName string, n int) ([]time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(idOrName)
	if err != nil {
		return nil, err
	}
	if e.nominal.IsZero() || n <= 0 {
		return []time.Time{}, nil
	}
	return e.plan.Preview(time.Unix(e.state.Last, 0), e.state.Fired, min(n, maxPreview)), nil
}

// Trigger starts a job at once, regardless of its schedule, also when it is paused, has ended or has a running
// execution. The job's settings are filled into the launch. A webhook or an event does not start a paused job:
// CodeConflict. Errors as with pipeline's Launch.
func (s *Schedules) Trigger(ctx context.Context, idOrName string, in pipeline.Launch) (*pipeline.Launched, error) {
	s.mu.Lock()
	e, err := s.find(idOrName)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	job := e.Job
	s.mu.Unlock()
	in.Trigger, in.Job = cmp.Or(in.Trigger, TypeManual), job.ID
	if in.Trigger != TypeManual && !job.enabled() {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the job " + stepwell.Clip(job.ID, 80) + " is paused", Hint: "resume it, or start it by hand"}
	}
	about := map[string]any{"type": in.Trigger, "schedule_id": job.ID, "schedule_name": job.Name, "triggered_at": stamp(s.o.Now())}
	if in.Trigger == TypeManual {
		about["manual"] = true
	}
	var out pipeline.Outside
	if in.Outside != nil {
		out = *in.Outside
	}
	if out.Values == nil {
		out.Values = map[string]any{}
	}
	if out.Event == nil {
		out.Event, about["payload"] = out.Values, out.Values
	}
	maps.Copy(about, out.About)
	out.About, in.Outside = about, &out
	launched, err := s.o.Launcher.Launch(ctx, job.Target.Launch(in))
	if err == nil && launched.Fresh {
		s.ran(ctx, e, launched.Execution)
	}
	return launched, err
}

// started takes a started execution in. The caller holds the lock.
func (s *Schedules) started(e *entry, execution string, now time.Time) {
	e.state.ran(now, execution)
	if e.Overlap == schedule.OverlapAllow {
		return // nothing ever waits for it
	}
	if len(e.state.Active) >= maxActive {
		s.inactive(e, e.state.Active[0])
	}
	e.state.Active = append(slices.Clone(e.state.Active), execution)
	s.active[execution] = e
}

// ran counts an execution that was not started by the loop; the loop writes it down, if it is here.
func (s *Schedules) ran(ctx context.Context, e *entry, execution string) {
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.Shared && !s.running {
		err := s.again(ctx, e.ID, func(e *entry) error {
			s.started(e, execution, now)
			return s.keep(ctx, map[*entry]state{e: e.state}, now)
		})
		if err != nil {
			s.o.Log.WarnContext(ctx, "a start by hand is not counted", "job", e.ID, "execution", execution, "error", err)
		}
		return
	}
	if e.gone {
		return
	}
	s.started(e, execution, now)
	e.dirty = true
	s.ask(e)
	s.schedule(e, now)
}
