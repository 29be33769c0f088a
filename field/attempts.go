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
	over  int64 // when the step ended while it waited; 0: it did not
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
// an earlier version that are kept end, unless there is a restart behind them, which takes ends of steps back; else all of it. CodeLimit when they are more than MaxAttempts.
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
		a.fold = attempting{last: maps.Clone(before.fold.last), bytes: before.fold.bytes, cause: before.fold.cause}
	}
	kept := a.Version > 0
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
		if kept && slices.ContainsFunc(events, func(e engine.HistoryEvent) bool { return e.Step < 0 && e.Type == "restart" }) {
			// The ends that it has taken back are no longer in the history. What is told is always what the whole history says.
			kept, from, a.Version, a.List = false, 0, 0, nil
			*fold = attempting{list: &a.List, last: map[int32]int{}}
			continue
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
	cause cause
}

// cause is an event of the execution that has ended attempts. The ends themselves are in rows, which a restart overwrites.
type cause struct {
	at      int64 // µs since 1970; 0: there was none
	outcome string
	detail  string
	sure    bool // it has ended all of them, if only later; else those that are not heard of any more
}

func (a *attempting) add(e *engine.HistoryEvent) {
	if e.Step < 0 {
		a.execution(e)
		return
	}
	var open *Attempt // the newest attempt, unless it has ended
	if at := a.last[e.Step] - 1; at >= 0 {
		if open = &(*a.list)[at]; open.Outcome != "" {
			open = nil
		}
	}
	switch e.Type {
	case "queued":
		if open != nil && a.ended(open) {
			open = nil
		}
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
			what := e.Type
			if e.Again && a.cause.sure && max(open.Queued, open.Started) <= a.cause.at {
				what = a.cause.outcome // how it was stopped: its row said that, until a restart
			}
			a.end(open, e, what)
		} else if at := a.last[e.Step] - 1; at >= 0 && e.Type != "waiting" {
			t := &(*a.list)[at]
			t.Until, t.over = 0, e.At.UnixMicro() // the step has ended while it waited to go on
		}
	}
}

// execution takes in an event of the execution.
func (a *attempting) execution(e *engine.HistoryEvent) {
	switch {
	case e.Type == "cancel":
		a.caused(cause{e.At.UnixMicro(), "cancelled", e.Detail, true})
	case e.Type == "timer" && e.Step == timeoutTimer:
		a.caused(cause{e.At.UnixMicro(), "timed_out", e.Detail, true})
	case e.Type == "restart":
		// What a cancellation or the timeout has ended was over by then.
		if a.cause.sure {
			for _, at := range a.last {
				if t := &(*a.list)[at-1]; t.Outcome == "" {
					a.ended(t)
				}
			}
		}
		a.cause = cause{e.At.UnixMicro(), "cancelled", "given up for a restart", false}
	}
}

// timeoutTimer is the step of the history's event of the timer of the execution's timeout.
const timeoutTimer = -1

// caused keeps the first of several causes.
func (a *attempting) caused(c cause) {
	if !a.cause.sure {
		a.cause = c
	}
}

// ended ends an attempt that had begun before what has ended it, and whose own end is not in the history.
func (a *attempting) ended(t *Attempt) bool {
	if a.cause.at == 0 || max(t.Queued, t.Started) > a.cause.at {
		return false
	}
	t.Ended, t.Outcome, t.Detail = a.cause.at, a.cause.outcome, a.cause.detail
	a.bytes += len(t.Detail)
	return true
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
