package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/worker"
)

// seenRunning is after how long a running attempt is recorded as such, as a pool does it.
const seenRunning = time.Second

// flight is an attempt that runs.
type flight struct {
	Attempt
	order   uint64
	began   time.Time // as due, by the time that no fault sets
	due     time.Time
	seen    bool // it has been recorded as running
	out     Outcome
	ended   *engine.Event // of an action that has run; nil: the outcome is out
	remote  *worker.Remote
	revoked bool
}

// next is when something happens to the attempt.
func (f *flight) next() time.Time {
	if at := f.began.Add(seenRunning); !f.seen && at.Before(f.due) {
		return at
	}
	return f.due
}

// begin starts a waiting attempt if a worker is free.
func (w *World) begin(ctx context.Context) (any bool, err error) {
	w.pull()
	if len(w.ready) == 0 || len(w.flights) >= w.o.Workers {
		return false, nil
	}
	i := w.pick(len(w.ready))
	t := w.ready[i]
	w.ready = slices.Delete(w.ready, i, i+1)
	if w.begun++; w.begun > w.o.MaxAttempts {
		return false, stepwell.Errorf(stepwell.CodeLimit, "a step may repeat for ever: check its conditions and waits", "more than %d attempts were begun", w.o.MaxAttempts)
	}
	switch fate, err := w.pass(AfterPull, t.Key); {
	case err != nil:
		return true, nil
	case fate == Lost:
		return true, w.Conductor.Report(ctx, t.Run, w.lost(t.Idx, t.Epoch))
	}
	return true, w.start(ctx, t)
}

// pull takes what was dispatched out of the queue.
func (w *World) pull() {
	for _, l := range w.queue.Take(nil, w.queue.Len(), func(*queue.Message) bool { return true }) {
		t := l.Body.(*engine.Task)
		w.keys[stepOf{t.Run, t.Idx}] = t.Key
		w.ready = append(w.ready, t)
	}
}

func (w *World) start(ctx context.Context, t *engine.Task) error {
	p := w.runner.Prepare(ctx, t)
	w.order++
	f := &flight{Attempt: Attempt{Task: t, Params: p.Params, Started: w.Clock.Now()}, order: w.order, began: w.Clock.at, seen: t.Step.Policy.NotIdempotent}
	var out *Outcome
	if p.Err == nil && w.o.Mock != nil {
		var err error
		if out, err = w.o.Mock(&f.Attempt); err != nil {
			return err
		}
	}
	if out == nil || out.Real || out.Handler != nil {
		if out != nil {
			f.out = *out
		}
		p.Handler = f.out.Handler
		return w.call(ctx, f, p)
	}
	f.out = *out
	f.remote = w.runner.Remote(context.WithoutCancel(ctx), p) // turn looks at ctx: thousands of attempts need not be known to it
	if t.Step.Policy.NotIdempotent || f.out.Lost {
		if taken, err := w.claim(ctx, f); !taken || err != nil {
			f.remote.Close()
			return err
		}
	}
	w.begins(t)
	for _, text := range f.out.Logs {
		f.remote.Host().Log(slog.LevelInfo, text)
	}
	if len(f.out.Spawn) > 0 {
		if err := f.remote.Host().Spawn(ctx, f.out.Spawn); err != nil {
			f.out.Err = err
		}
	}
	limit := f.remote.Timeout()
	if f.out.Hang || f.out.Takes >= limit && !f.out.Lost {
		f.out.Takes, f.out.Err = limit, stepwell.Errorf(stepwell.CodeTimeout, "", "the step's timeout passed")
	}
	f.due = f.began.Add(f.out.Takes)
	w.flights = append(w.flights, f)
	return nil
}

// call runs an action. It ends at once, or after as long as it is said to take.
func (w *World) call(ctx context.Context, f *flight, p worker.Prepared) error {
	if act, ok := w.o.Actions.Lookup(f.Step.Action); ok && w.o.Trace != nil {
		run := act.Attempt
		if p.Handler != nil {
			run = p.Handler.Run
		}
		p.Handler = action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
			w.begins(f.Task)
			return run(ctx, c)
		})
	}
	ended := w.runner.Run(ctx, p)
	if ended.Kind == 0 {
		return nil // another one has it
	}
	f.ended = &ended
	f.due = f.began.Add(f.out.Takes)
	w.flights = append(w.flights, f)
	return nil
}

func (w *World) begins(t *engine.Task) {
	w.trace(Trace{What: Begun, Run: t.Run, Idx: t.Idx, Epoch: t.Epoch, Key: t.Key, Once: t.Step.Policy.NotIdempotent})
}

// claim records that an attempt runs, before it does; false: it is no longer wanted.
func (w *World) claim(ctx context.Context, f *flight) (bool, error) {
	f.seen = true
	err := mortalReporter{w}.Report(ctx, f.Run, f.remote.Running("sim", f.Started))
	if stepwell.CodeOf(err) == stepwell.CodeConflict || w.dead {
		return false, nil
	}
	return err == nil, err
}

// dueFlight is one of the attempts to which something happens now, or -1.
func (w *World) dueFlight() int {
	var due []int
	for i, f := range w.flights {
		if !f.next().After(w.Clock.at) {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return -1
	}
	return due[w.pick(len(due))]
}

// land lets happen to an attempt what is due: it is recorded as running, or ends.
func (w *World) land(ctx context.Context, i int) error {
	f := w.flights[i]
	if f.next() != f.due {
		f.seen = true
		ev := engine.Event{Kind: engine.Running, At: w.Clock.Now().UnixMicro(), Idx: f.Idx, Epoch: f.Epoch, Started: f.Started.UnixMicro(), Worker: "sim"}
		err := mortalReporter{w}.Report(ctx, f.Run, ev)
		if stepwell.CodeOf(err) == stepwell.CodeConflict { // its end is on its way, or nobody wants it
			err = nil
		}
		return err
	}
	w.flights = slices.Delete(w.flights, i, i+1)
	var ev engine.Event
	switch {
	case f.ended != nil:
		ev = *f.ended
		ev.At = w.Clock.Now().UnixMicro()
	case f.out.Lost && !f.revoked:
		ev = engine.Event{Kind: engine.Lost, At: w.Clock.Now().UnixMicro(), Idx: f.Idx, Epoch: f.Epoch, Worker: fmt.Sprintf("sim-%d", f.order)}
	default:
		ev = f.remote.Conclude(worker.Ended{Worker: "sim", Ran: w.Clock.at.Sub(f.began), Outputs: f.out.Outputs, Err: f.out.Err, Revoked: f.revoked})
		ev.Cost += f.out.Cost
	}
	if f.remote != nil {
		f.remote.Close()
	}
	return mortalReporter{w}.Report(ctx, f.Run, ev)
}

// revoke ends an attempt now. One that waits for a worker ends when it begins.
func (w *World) revoke(run int64, idx int32, epoch uint32) {
	for _, f := range w.flights {
		if f.Run == run && f.Idx == idx && f.Epoch == epoch {
			f.stop(w.Clock.at)
			return
		}
	}
	w.pull()
	for i, t := range w.ready {
		if t.Run == run && t.Idx == idx && t.Epoch == epoch {
			w.ready = slices.Delete(w.ready, i, i+1)
			f := &flight{Attempt: Attempt{Task: t, Started: w.Clock.Now()}, began: w.Clock.at, remote: w.runner.Remote(context.Background(), worker.Prepared{Task: t})}
			f.stop(w.Clock.at)
			w.order++
			f.order = w.order
			w.flights = append(w.flights, f)
			return
		}
	}
}

func (f *flight) stop(now time.Time) {
	if f.ended != nil || f.out.Deaf {
		return // its action has run: there is nothing to stop; or it does not listen
	}
	f.revoked, f.seen, f.due, f.out = true, true, now, Outcome{Err: stepwell.Errorf(stepwell.CodeCancelled, "", "stopped on request"), Cost: f.out.Cost}
}
