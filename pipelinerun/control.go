package pipelinerun

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Restart resets a step and all after it, which run again; what earlier steps gave is kept. What runs of them is cancelled, and its
// result discarded. A paused run goes on. One of which nothing has run has nothing to reset: it begins with its first step, and its
// State.Held says so. UnprocessableError: the step is not one of this run; CodeConflict: a step before it has not completed, or the run
// is being cancelled.
func (r *Runs) Restart(ctx context.Context, id, step string) (*Run, error) {
	x, err := r.find(ctx, id)
	if err != nil {
		return nil, err
	}
	position, err := positionOf(x.ID, step)
	if err != nil {
		return nil, err
	}
	rows, err := r.rows(ctx, x)
	if err != nil {
		return nil, err
	}
	if position > len(rows) {
		return nil, unprocessable(fmt.Sprintf("positions of this run are 1 to %d", len(rows)), "step_id: the run has no step %d", position)
	}
	for i := range rows[:position-1] {
		if stepStatus(&rows[i]) == Failed {
			return nil, conflict("restart the run from there: "+stepID(x.ID, i+1), "step %d, %s, has failed: those after it need what it gives", i+1, rows[i].Name)
		}
	}
	return r.restart(ctx, x, rows[position-1].Key)
}

// restart resets a step, and lets the run go on.
func (r *Runs) restart(ctx context.Context, x *store.Execution, key string) (*Run, error) {
	if err := r.reset(ctx, x.ID, key); err != nil {
		return nil, err
	}
	now, err := r.o.Store.Execution(ctx, x.ID)
	if err == nil && now.Status == stepwell.ExecutionPaused {
		err = r.o.Control.Resume(ctx, x.ID)
	}
	return r.after(ctx, x.ID, err)
}

// after is a run after a change.
func (r *Runs) after(ctx context.Context, id string, err error) (*Run, error) {
	if err != nil {
		return nil, err
	}
	return r.Get(ctx, id)
}

func conflict(hint, format string, args ...any) error {
	return stepwell.Errorf(stepwell.CodeConflict, hint, format, args...)
}

// reset has a step and all after it run again; in a run that waits for its turn there is nothing to reset.
func (r *Runs) reset(ctx context.Context, id, step string) error {
	err := r.o.Control.Restart(ctx, id, step, false)
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		if x, readErr := r.o.Store.Execution(ctx, id); readErr == nil && x.Held() {
			return nil
		}
	}
	return err
}

// Pause lets the running step finish and starts no other; a run that waits for its turn does not get it before Resume. Twice is
// harmless. CodeConflict: the run has ended.
func (r *Runs) Pause(ctx context.Context, id string) (*Run, error) {
	x, err := r.find(ctx, id)
	if err == nil {
		err = r.o.Control.Pause(ctx, x.ID)
	}
	if err != nil {
		return nil, err
	}
	return r.Get(ctx, x.ID)
}

// Stop pauses a run at once: the step that runs is cancelled and reset, and a late result of it is discarded. Errors as with Pause.
func (r *Runs) Stop(ctx context.Context, id string) (*Run, error) {
	run, err := r.Pause(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Status == Pending || s.Status == Running {
			return r.after(ctx, run.ID, r.reset(ctx, run.ID, s.Key))
		}
	}
	return run, nil
}

// Resume goes on with a paused run, which waits for its turn again if it had not begun, or restarts a failed one from the first step that is not done. One that is under way goes on as
// it is. CodeConflict: the run is done.
func (r *Runs) Resume(ctx context.Context, id string) (*Run, error) {
	x, err := r.find(ctx, id)
	if err != nil {
		return nil, err
	}
	switch {
	case x.Status == stepwell.ExecutionPaused:
		return r.after(ctx, x.ID, r.o.Control.Resume(ctx, x.ID))
	case x.Status == stepwell.ExecutionCancelling:
		return nil, conflict("try again when it has ended", "the run is being cancelled")
	case !x.Status.Terminal():
		return r.Get(ctx, x.ID)
	}
	rows, err := r.rows(ctx, x)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if stepStatus(&rows[i]) != Done {
			return r.restart(ctx, x, rows[i].Key)
		}
	}
	return nil, conflict("restart it from a step", "all steps of the run are done")
}
