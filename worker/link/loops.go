package link

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
)

const (
	fetchWait   = 10 * time.Second       // of a turn for tasks
	soon        = 5 * time.Millisecond   // steps that are shorter come in batches, of as many as ended in that time
	maxCredit   = 500                    // above the free slots
	readyFor    = 100 * time.Millisecond // then a task that has not begun goes back
	tellEvery   = 200 * time.Millisecond // lines and progress
	tellTimeout = 5 * time.Second
)

// turn takes one turn.
func (w *Worker) turn(ctx context.Context, in wire.Turn) (out wire.Turned, err error) {
	in.Worker = w.o.Name
	raw, err := w.try(ctx, "turn", in)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err == nil {
		w.stop(out.Stop)
		if out.Drain {
			w.Drain()
		}
	}
	return out, err
}

// fetchLoop asks for tasks while there are free slots.
func (w *Worker) fetchLoop(ctx context.Context) {
	last, pause := time.Now(), firstPause
	for w.await(ctx, func() bool { return !w.draining && w.want(0) > 0 }) {
		now := time.Now()
		want := w.credited(now.Sub(last))
		last = now
		out, err := w.turn(ctx, wire.Turn{Want: want, WaitMS: int(fetchWait.Milliseconds())})
		if err != nil {
			w.failed(ctx, "no tasks can be fetched, trying again", err)
			_ = action.Pause(ctx, pause) // the loop looks at ctx
			pause = min(2*pause, lastPause)
			continue
		}
		pause = firstPause
		w.add(out.Tasks)
	}
}

// credited is how many tasks may come: as many as there are free slots, and while steps are short as many more as end soon.
func (w *Worker) credited(took time.Duration) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	ran, credit := w.ran, 0
	took = max(took, time.Millisecond)
	if ran > 0 && took*time.Duration(w.o.Concurrency)/time.Duration(ran) < soon {
		credit = min(maxCredit, int(time.Duration(ran)*soon/took))
	}
	w.ran = 0
	return w.want(credit)
}

// want is how many tasks may come. The caller holds the lock.
func (w *Worker) want(credit int) int {
	if len(w.outbox) >= maxOutbox || w.bytes >= maxOutboxBytes {
		return 0
	}
	return w.idle + credit - len(w.ready)
}

func (w *Worker) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		w.o.Log.Warn(what, "error", err)
	}
}

// stop revokes tasks.
func (w *Worker) stop(list []wire.ID) {
	for _, one := range list {
		execution, idx, err := wire.Split(one.StepID)
		if err != nil {
			continue
		}
		var found *task
		w.mu.Lock()
		for k, t := range w.held {
			if k.idx == idx && k.epoch == one.Epoch && t.Execution == execution && t.outcome == nil {
				found = t
			}
		}
		w.mu.Unlock()
		if found != nil {
			w.pool.Revoke(found.Run, found.Idx, found.Epoch)
		}
	}
}

// sendLoop offers outcomes until they are committed, says what is held, and gives back what does not begin.
func (w *Worker) sendLoop(ctx context.Context) {
	pause, beat := firstPause, time.Now()
	for {
		w.mu.Lock()
		due := w.lease / 3
		w.mu.Unlock()
		idle, end := context.WithTimeout(ctx, min(due, readyFor))
		w.await(idle, func() bool { return len(w.outbox) > 0 })
		end()
		if ctx.Err() != nil {
			return
		}
		in := wire.Turn{Outcomes: w.offered(), Back: w.unbegun()}
		in.Took = w.untold(in.Back)
		if time.Since(beat) >= due {
			in.Holding, beat = w.holding(), time.Now()
		}
		if len(in.Outcomes)+len(in.Back)+len(in.Took) == 0 && in.Holding == nil {
			continue
		}
		out, err := w.turn(ctx, in)
		if err == nil && len(in.Took) > 0 {
			w.told(in.Took)
		}
		switch {
		case err != nil:
			w.failed(ctx, "outcomes are kept, and offered again", err)
		case w.settled(&out) > 0 || len(in.Outcomes) == 0:
			pause = firstPause
			continue
		}
		_ = action.Pause(ctx, pause) // the loop looks at ctx
		pause = min(2*pause, lastPause)
	}
}

// offered lists the outcomes of one turn, the oldest first.
func (w *Worker) offered() (list []wire.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, t := range w.outbox {
		if n += t.size; len(list) > 0 && (n > wire.MaxBody/2 || len(list) == wire.MaxOutcomes) {
			break
		}
		list = append(list, *t.outcome)
	}
	return list
}

// unbegun takes the tasks that have waited too long for a free slot, or all when the worker is drained.
func (w *Worker) unbegun() (list []wire.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.ready[:0]
	for _, t := range w.ready {
		if !w.draining && time.Since(t.came) < readyFor {
			kept = append(kept, t)
			continue
		}
		list = append(list, t.id)
		delete(w.held, t.key())
	}
	w.ready = kept
	return list
}

// settled forgets outcomes, and returns how many.
func (w *Worker) settled(out *wire.Turned) (n int) {
	done := make(map[wire.ID]bool, len(out.Committed)+len(out.Refused))
	for _, k := range out.Committed {
		done[k] = true
	}
	for _, r := range out.Refused {
		done[r.ID] = true
		w.o.Log.Warn("an outcome was refused", "step", r.StepID, "epoch", r.Epoch, "reason", r.Message)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.outbox[:0]
	for _, t := range w.outbox {
		if !done[t.id] {
			kept = append(kept, t)
			continue
		}
		n++
		w.bytes -= t.size
		delete(w.held, t.key())
	}
	clear(w.outbox[len(kept):])
	w.outbox = kept
	w.change()
	return n
}

// tellLoop sends lines and progress.
func (w *Worker) tellLoop(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.mu.Lock()
		var list []*task
		for _, t := range w.held {
			if t.outcome == nil && (len(t.lines) > 0 || t.progress != nil) {
				list = append(list, t)
			}
		}
		w.mu.Unlock()
		for _, t := range list {
			w.tell(ctx, t)
		}
	}
}

// tell sends the lines and the progress of one attempt. Lines that do not arrive are sent with the next.
func (w *Worker) tell(ctx context.Context, t *task) {
	t.talk.Lock()
	defer t.talk.Unlock()
	w.mu.Lock()
	if t.outcome != nil {
		w.mu.Unlock()
		return
	}
	lines, progress := t.takeLines(), t.progress
	t.progress = nil
	w.mu.Unlock()
	ctx, end := context.WithTimeout(ctx, tellTimeout)
	defer end()
	if len(lines) > 0 {
		if _, err := w.try(ctx, stepCall(t, "log"), wire.Log{Worker: w.o.Name, Epoch: t.Epoch, Lines: lines}); err != nil && passes(err) {
			w.mu.Lock()
			t.lines = append(lines, t.lines...)
			w.mu.Unlock()
		}
	}
	if progress != nil {
		_, _ = w.try(ctx, stepCall(t, "progress"), progress) // the next one says more
	}
}
