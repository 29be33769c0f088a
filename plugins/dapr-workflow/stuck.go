package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/dapr"
)

// daprd 1.16.0 deadlocks when the last program of a sidecar is killed while the turn of a workflow waits for it: its handler of the disconnection
// holds the lock of connections and waits for the actor of that workflow, whose turn waits for a program to connect. The sidecar answers every
// request, accepts the next program and never gives it anything. Only its end helps. The history is durable, and a new sidecar continues.
//
// The actors of workflows are registered while a program is connected. A sidecar that lacks them while this one is connected is stuck.
//
// Another fault of the same version: when a program is killed at the moment when the sidecar has its answer, the handler of the disconnection tries
// for up to 15 minutes to cancel what has ended. Meanwhile the sidecar counts the killed program as connected, and waits for all else that it
// had given to it.
const (
	stuckAfter   = 3 * time.Second // how long a sidecar may lack the actors of workflows, and a quarter of how long it may count a program too many
	longestStuck = 10 * time.Minute
)

// errStuck ends a connection whose sidecar is stuck.
var errStuck = errors.New("the sidecar is stuck")

// watch waits until the sidecar is as it should be after a program has connected. One that stays stuck is asked to end, for its supervisor to start
// it again.
func (w *worker) watch(ctx context.Context, stop context.CancelCauseFunc, took *flow, patience time.Duration) {
	since := time.Now()
	for wait := min(time.Second, patience/4); ; {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		m, err := w.health.Metadata(ctx)
		switch {
		case stepwell.CodeOf(err) == stepwell.CodeDenied:
			w.log.Warn("the sidecar cannot be watched", "error", err)
			return
		case err != nil, m.Actors.Status != "RUNNING": // it is starting, or ending
			since = time.Now()
			continue
		}
		what, after := w.wrong(m, took, patience)
		switch {
		case what == "":
			return
		case time.Since(since) < after:
			continue
		case w.keep:
			w.log.Error(what + ", and daprd 1.16 does not recover from that. Restart the sidecar: executions continue")
			since = time.Now()
			continue
		}
		w.log.Warn(what + ", and daprd 1.16 does not recover from that. The sidecar is asked to end, for its supervisor to start it again")
		if err := w.health.Shutdown(ctx); err != nil {
			w.log.Error("the sidecar could not be asked to end: restart it", "error", err)
		}
		stop(errStuck)
		return
	}
}

// wrong is what is wrong with the sidecar, and for how long that may last; "": nothing. A program before this one may take longer to end than a
// sidecar to register actors.
func (w *worker) wrong(m *dapr.Metadata, took *flow, patience time.Duration) (what string, after time.Duration) {
	switch {
	case took.items.Load() == 0 && m.LacksWorkflows():
		return "the sidecar gives no work to this program: a program before it was killed", patience
	case w.alone && m.Workflows.Workers > 1:
		return "the sidecar waits for a program that was killed, or another one with -run is connected to it", 4 * patience
	}
	return "", 0
}

// flow counts what comes over a connection.
type flow struct {
	items atomic.Int64
	turns atomic.Int64 // that have no answer yet
	last  atomic.Int64 // time of the last item, in nanoseconds
}

func (f *flow) come(turn bool) {
	f.items.Add(1)
	f.last.Store(time.Now().UnixNano())
	if turn {
		f.turns.Add(1)
	}
}

func (f *flow) answered(turn bool) {
	if turn {
		f.turns.Add(-1)
	}
}

// drain waits until no turn is under way and nothing has come for a moment.
func (f *flow) drain(ctx context.Context) {
	began := time.Now()
	for limit := began.Add(drainTime); time.Now().Before(limit); {
		quiet := time.Since(began)
		if last := f.last.Load(); last > began.UnixNano() {
			quiet = time.Since(time.Unix(0, last))
		}
		if f.turns.Load() == 0 && quiet > quietTime {
			return
		}
		select {
		case <-time.After(quietTime / 10):
		case <-ctx.Done():
			return
		}
	}
}
