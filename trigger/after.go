package trigger

import (
	"context"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// maxEnded limits the ends queued while the loop is busy; the rest is noticed within a minute.
const maxEnded = 10_000

// Ended reports that an execution has ended; it only speeds up waiting jobs and is optional. It never blocks.
func (s *Schedules) Ended(execution string) {
	s.endedMu.Lock()
	if len(s.ended) < maxEnded {
		s.ended = append(s.ended, execution)
	}
	s.endedMu.Unlock()
	s.wake()
}

// Take implements Sink: jobs of type after fire for the executions of the jobs that they follow. It returns when that
// is durable; entries seen before change nothing.
func (s *Schedules) Take(ctx context.Context, list []Happened) error {
	s.settle(ctx, s.waiting(list))
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	states := map[*entry]state{}
	for _, h := range list {
		if h.Kind != KindEnded || h.Job == "" {
			continue
		}
		for _, e := range s.followed[h.Job] { // only changed with the lock held
			if !e.awaits(&h) {
				continue
			}
			st, ok := states[e]
			if !ok {
				st = e.state
				st.Pending = slices.Clone(st.Pending)
			}
			seen, err := s.seen(ctx, e, &st, &h)
			if err != nil {
				return err
			}
			if !seen {
				st = s.follow(ctx, e, st, &h, now)
			}
			states[e] = st
		}
	}
	return s.keep(ctx, states, now)
}

// waiting are the jobs that follow those of the list.
func (s *Schedules) waiting(list []Happened) []*entry {
	s.followedMu.RLock()
	defer s.followedMu.RUnlock()
	seen := map[string]bool{}
	var entries []*entry
	for i := range list {
		if job := list[i].Job; list[i].Kind == KindEnded && !seen[job] {
			seen[job] = true
			entries = append(entries, s.followed[job]...)
		}
	}
	return entries
}

// seen reports whether an entry of the outbox was taken before. One with a lower number than another may still be new, where
// several processes write: then its firing neither waits nor has started.
func (s *Schedules) seen(ctx context.Context, e *entry, st *state, h *Happened) (bool, error) {
	if h.No > st.Outbox {
		return false, nil
	}
	key := h.firing().key(e.ID)
	if slices.ContainsFunc(st.Pending, func(f firing) bool { return f.key(e.ID) == key }) {
		return true, nil
	}
	_, err := s.o.Keys.StartKey(ctx, key)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return false, nil
	}
	return true, err
}

// firing is that of a job that follows the execution.
func (h *Happened) firing() firing {
	return firing{At: h.At.Unix(), From: h.Execution, Ended: h.Status.String()}
}

// follow admits a firing for an execution that has ended.
func (s *Schedules) follow(ctx context.Context, e *entry, st state, h *Happened, now time.Time) state {
	st.Outbox = max(st.Outbox, h.No)
	f := h.firing()
	if !e.enabled() {
		st.end(f, row{Status: FiringDropped, Reason: DropPaused}, now)
		return st
	}
	if e.MaxRuns > 0 && st.Fired >= e.MaxRuns || e.over(now) {
		return st
	}
	if len(st.Pending) >= s.o.Backlog {
		st.Dropped++
		st.end(f, row{Status: FiringDropped, Reason: DropLimit}, now)
		s.o.Log.WarnContext(ctx, "too many firings of a job wait; one was dropped", "job", e.ID, "execution", h.Execution)
		return st
	}
	if st.admit(e.Overlap, f, now) {
		st.Fired++
	}
	return st
}

// keep stores states, all or none, and takes them over.
func (s *Schedules) keep(ctx context.Context, states map[*entry]state, now time.Time) error {
	var entries []*entry
	var objects []store.Object
	for e, st := range states {
		o, err := e.stateObject(st)
		if err != nil {
			return err
		}
		entries, objects = append(entries, e), append(objects, o)
	}
	if len(objects) == 0 {
		return nil
	}
	done, err := s.o.Objects.PutObjects(ctx, objects...)
	if err != nil {
		return err
	}
	for i, e := range entries {
		e.state, e.stateRevision, e.dirty = states[e], done[i].Revision, false
		s.schedule(e, now)
	}
	return nil
}

// awaits reports whether a job, paused or not, waits for this end.
func (e *entry) awaits(h *Happened) bool {
	after := e.Schedule.After
	if after == nil || after.Job != h.Job || e.broken != nil {
		return false
	}
	switch after.On {
	case OnSuccess:
		return h.Status == stepwell.ExecutionCompleted || h.Status == stepwell.ExecutionCompletedWithFailures
	case OnFailure:
		return h.Status == stepwell.ExecutionFailed || h.Status == stepwell.ExecutionTimedOut
	}
	return true
}

// Wants reports whether a job follows another: then the end of the other's executions has to go into the outbox.
func (s *Schedules) Wants(x *store.Execution) bool {
	if x.Job == "" {
		return false
	}
	s.followedMu.RLock()
	defer s.followedMu.RUnlock()
	return len(s.followed[x.Job]) > 0
}

// followers recomputes the followers of the named jobs. The caller holds the lock.
func (s *Schedules) followers(changed ...*After) {
	for _, after := range changed {
		if after == nil {
			continue
		}
		var list []*entry
		for _, e := range s.jobs {
			if e.Schedule.After != nil && e.Schedule.After.Job == after.Job {
				list = append(list, e)
			}
		}
		s.followedMu.Lock()
		if s.followed[after.Job] = list; len(list) == 0 {
			delete(s.followed, after.Job)
		}
		s.followedMu.Unlock()
	}
}
