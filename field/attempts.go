package field

import (
	"context"
	"maps"
	"math"
	"slices"

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
	Queue   string // that the step is queued in; "": the default one
	Outcome string // completed, failed, skipped, cancelled, timed_out, waiting or lost; "": it has not ended
	Detail  string // of the outcome
	// Until is when the step goes on: the next attempt after a failure, or what it waits for. 0 once it has, and where that is not known.
	Until int64
}

// Attempts are the attempts of an execution's steps.
type Attempts struct {
	Version int64
	List    []Attempt // in the order in which they were queued
	began   int64     // ms since 1970
	fold    attempting
}

const (
	// MaxAttempts is how many attempts of one execution there may be.
	MaxAttempts = 1 << 20
	perAttempt  = 220 // bytes, with its key and what the fold knows of its step, without what went wrong
	// maxAttemptText bounds the bytes of what went wrong, of all attempts of an execution.
	maxAttemptText = 64 << 20
)

// Attempts are those of an execution, whose row the caller has read: at least up to its version. The history is read from where those of
// an earlier version that are kept end, else all of it. CodeLimit when they are more than MaxAttempts.
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
	about, err := h.About(ctx, x)
	if err != nil {
		return nil, err
	}
	a := &Attempts{began: origin(x), fold: attempting{last: map[int32]int{}}}
	if before := h.tries.find(x.No, 0, x.Version); before != nil {
		// Those who have the earlier ones may still read them.
		a.Version, a.List = before.Version, slices.Clone(before.List)
		a.fold = attempting{last: maps.Clone(before.fold.last), bytes: before.fold.bytes}
	}
	from := len(a.List)
	fold := &a.fold
	fold.list = &a.List
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
	for i := range a.List[from:] {
		a.List[from+i].Queue = about(a.List[from+i].Key).Queue
	}
	h.tries.keep(x.No, a.Version, a, perAttempt*len(a.List)+fold.bytes, h.o.Bytes/4)
	return a, nil
}

// attempting folds a history into attempts.
type attempting struct {
	list  *[]Attempt
	last  map[int32]int // by step: 1 + the place in the list of its newest attempt
	bytes int           // of what went wrong
}

func (a *attempting) add(e *engine.HistoryEvent) {
	if e.Step < 0 {
		return
	}
	var open *Attempt // the newest attempt, unless it has ended
	if at := a.last[e.Step] - 1; at >= 0 && (*a.list)[at].Outcome == "" {
		open = &(*a.list)[at]
	}
	switch e.Type {
	case "queued":
		if open != nil && open.Started == 0 {
			return // it was queued once more, because nobody has seen it begin
		}
		if open != nil {
			a.end(open, e, "lost")
		}
		a.begin(e).Queued = e.At.UnixMicro()
	case "started":
		if open == nil {
			open = a.begin(e)
		}
		open.Started, open.Worker = e.At.UnixMicro(), e.Worker
	case "completed", "failed", "skipped", "cancelled", "timed_out", "waiting", "lost":
		if open != nil { // else it is a group, or a step that never ran
			a.end(open, e, e.Type)
		}
	}
}

func (a *attempting) begin(e *engine.HistoryEvent) *Attempt {
	number := 1
	if at := a.last[e.Step] - 1; at >= 0 {
		before := &(*a.list)[at]
		if before.Until, number = 0, before.Number; before.Outcome != "waiting" {
			number++
		}
	}
	*a.list = append(*a.list, Attempt{Step: e.Step, Key: e.StepKey, Number: number})
	a.last[e.Step] = len(*a.list)
	return &(*a.list)[len(*a.list)-1]
}

func (a *attempting) end(t *Attempt, e *engine.HistoryEvent, outcome string) {
	t.Ended, t.Outcome, t.Detail = e.At.UnixMicro(), outcome, e.Detail
	a.bytes += len(e.Detail)
	if !e.Wake.IsZero() {
		t.Until = e.Wake.UnixMicro()
	}
	if e.Worker != "" && t.Worker == "" {
		t.Worker = e.Worker
	}
}
