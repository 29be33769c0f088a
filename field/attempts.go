package field

import (
	"context"
	"math"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Attempt is what the history says of one attempt of a step, or of the part of one up to where it gave its worker back.
type Attempt struct {
	Step    int32
	Key     string
	Number  int   // of the step's attempts, from 1
	Queued  int64 // µs since 1970; 0, as of the others: it has not been, or the history does not say
	Started int64
	Ended   int64
	Worker  string
	Outcome string // completed, failed, skipped, cancelled, timed_out, waiting or lost; "": it has not ended
	Detail  string // of the outcome
	// Until is when the step goes on: the next attempt after a failure, or what it waits for. 0 once it has, and where that is not known.
	Until int64
}

// Attempts are the attempts of an execution's steps.
type Attempts struct {
	Version int64
	List    []Attempt // in the order in which they were queued
}

const (
	// MaxAttempts is how many attempts of one execution there may be.
	MaxAttempts = 1 << 20
	perAttempt  = 180 // bytes, with its key, without what went wrong
	// maxAttemptText bounds the bytes of what went wrong, of all attempts of an execution.
	maxAttemptText = 64 << 20
)

// Attempts are those of an execution, whose row the caller has read: at least up to its version. Unless they are kept, the history is
// read once. CodeLimit when they are more than MaxAttempts.
func (h *Hub) Attempts(ctx context.Context, x *store.Execution) (*Attempts, error) {
	if a := h.tries.find(x.No, x.Version, math.MaxInt64); a != nil {
		return a, nil
	}
	if err := h.builds.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer h.builds.Release(1)
	if a := h.tries.find(x.No, x.Version, math.MaxInt64); a != nil {
		return a, nil // somebody else has made them meanwhile
	}
	a := &Attempts{}
	fold := attempting{Attempts: a, open: map[int32]int{}, ended: map[int32]int{}}
	for {
		events, err := h.o.Store.Events(ctx, x.No, a.Version, 10_000)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 {
			break
		}
		for i := range events {
			fold.add(&events[i])
		}
		if len(a.List) > MaxAttempts || fold.bytes > maxAttemptText {
			return nil, stepwell.Errorf(stepwell.CodeLimit, "/history has them page by page", "the execution %s has more than %d attempts, or more than %d MiB of errors", x.ID, MaxAttempts, maxAttemptText>>20)
		}
		a.Version = events[len(events)-1].Version
	}
	a.Version = max(a.Version, x.Version) // the last versions have no events
	h.tries.keep(x.No, a.Version, a, perAttempt*len(a.List)+fold.bytes, h.o.Bytes/4)
	return a, nil
}

// attempting folds a history into attempts.
type attempting struct {
	*Attempts
	open  map[int32]int // by step: 1 + the place in List of its attempt that has not ended
	ended map[int32]int // by step: attempts that have ended, but for those that wait
	bytes int           // of what went wrong
}

func (a *attempting) add(e *engine.HistoryEvent) {
	if e.Step < 0 {
		return
	}
	at := a.open[e.Step] - 1
	switch e.Type {
	case "queued":
		if at >= 0 && a.List[at].Started == 0 {
			return // it was queued once more, because nobody has seen it begin
		}
		if at >= 0 {
			a.end(at, e, "lost")
		}
		a.List[a.begin(e)].Queued = e.At.UnixMicro()
	case "started":
		if at < 0 {
			at = a.begin(e)
		}
		a.List[at].Started, a.List[at].Worker = e.At.UnixMicro(), e.Worker
	case "completed", "failed", "skipped", "cancelled", "timed_out", "waiting", "lost":
		if at < 0 {
			return // a group, or a step that never ran
		}
		a.end(at, e, e.Type)
	}
}

func (a *attempting) begin(e *engine.HistoryEvent) int {
	a.List = append(a.List, Attempt{Step: e.Step, Key: e.StepKey, Number: a.ended[e.Step] + 1})
	a.open[e.Step] = len(a.List)
	return len(a.List) - 1
}

func (a *attempting) end(at int, e *engine.HistoryEvent, outcome string) {
	t := &a.List[at]
	t.Ended, t.Outcome, t.Detail = e.At.UnixMicro(), outcome, e.Detail
	a.bytes += len(e.Detail)
	if !e.Wake.IsZero() {
		t.Until = e.Wake.UnixMicro()
	}
	if e.Worker != "" && t.Worker == "" {
		t.Worker = e.Worker
	}
	if delete(a.open, e.Step); outcome != "waiting" {
		a.ended[e.Step]++
	}
}
