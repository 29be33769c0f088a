package trigger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
)

// Backfill is a range of firings that will be started.
type Backfill struct {
	Count   int           `json:"count" doc:"How many firings will be started."`
	Skipped int           `json:"skipped" doc:"How many times of the range have fired before, or wait already."`
	First   resource.Time `json:"first"`
	Last    resource.Time `json:"last"`
}

// BackfillRange is the range of a backfill.
type BackfillRange struct {
	From  time.Time `json:"from" doc:"The range begins here."`
	To    time.Time `json:"to" doc:"The range ends before this, which must not lie in the future."`
	Again bool      `json:"again,omitempty" doc:"Repeats times for which the job has fired before."`
}

// Backfill fires a job for all its times of a range. They are started one after another, or all at once when the job's
// overlap is allow. The range is whole or refused: CodeLimit when it holds more than Options.Backlog times. When Backfill
// returns, it survives a crash.
func (s *Schedules) Backfill(ctx context.Context, idOrName string, r BackfillRange, actor string) (*Backfill, error) {
	if !r.From.Before(r.To) || r.To.After(s.o.Now()) {
		return nil, stepwell.Invalid("from must lie before to, and to not in the future", "the range cannot be filled")
	}
	out := &Backfill{}
	wanted, err := s.fillable(ctx, idOrName, r, actor, out)
	if err != nil || len(wanted) == 0 {
		return out, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := *out
	err = s.again(ctx, idOrName, func(e *entry) error {
		*out = found
		return s.fill(ctx, e, wanted, out)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fill stores firings of a range that do not wait yet. The caller holds the lock.
func (s *Schedules) fill(ctx context.Context, e *entry, wanted []firing, out *Backfill) error {
	st := e.state
	st.Pending = slices.Clone(st.Pending)
	for _, f := range wanted {
		if slices.ContainsFunc(e.state.Pending, func(p firing) bool { return p.key(e.ID) == f.key(e.ID) }) {
			out.Skipped++
			continue
		}
		if out.Count++; out.First.IsZero() {
			out.First.Time = f.time()
		}
		out.Last.Time = f.time()
		st.Pending = append(st.Pending, f)
	}
	if len(st.Pending) > s.o.Backlog {
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%d firings of the job wait already", len(e.state.Pending)), Hint: "fill a shorter range, or wait"}
	}
	if out.Count == 0 {
		return nil
	}
	if err := s.put(ctx, e, st, true); err != nil {
		return err
	}
	s.ask(e)
	s.schedule(e, s.o.Now())
	return nil
}

// fillable are the firings of a range that were not started before; the others count as skipped.
func (s *Schedules) fillable(ctx context.Context, idOrName string, r BackfillRange, actor string, out *Backfill) ([]firing, error) {
	s.mu.Lock()
	e, err := s.find(idOrName)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	id, plan, enabled := e.ID, e.plan, e.enabled()
	s.mu.Unlock()
	if plan == nil || !enabled {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the job is paused, or has no times", Hint: "resume it first"}
	}
	times, err := plan.Backfill(r.From, r.To, s.o.Backlog)
	if err != nil {
		return nil, err
	}
	again := ""
	if r.Again {
		if again, err = resource.NewID(""); err != nil {
			return nil, err
		}
	}
	var wanted []firing
	for _, at := range times {
		f := firing{At: at.Unix(), Again: again, Late: true, Held: true, Fill: true, By: actor}
		if !r.Again {
			_, err := s.o.Keys.StartKey(ctx, f.key(id))
			if err == nil {
				out.Skipped++
				continue
			}
			if stepwell.CodeOf(err) != stepwell.CodeNotFound {
				return nil, err
			}
		}
		wanted = append(wanted, f)
	}
	return wanted, nil
}
