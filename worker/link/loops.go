package link

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
)

const (
	fetchWait   = 10 * time.Second       // of a turn for tasks
	soon        = 5 * time.Millisecond   // steps that are shorter come in batches, of as many as ended in that time
	maxCredit   = 500                    // above the free slots
	fetchers    = 2                      // turns for tasks under way: while one waits, more slots may have become free
	senders     = 2                      // turns with outcomes under way: one is being committed, the next is there by then
	readyFor    = 100 * time.Millisecond // then a task that has not begun goes back
	maxAlong    = 4                      // outcomes of a turn that asks for tasks too
	tellEvery   = 200 * time.Millisecond // lines and progress
	tellTimeout = 5 * time.Second
)

// turn takes one turn.
func (w *Worker) turn(ctx context.Context, in wire.Turn) (out wire.Turned, err error) {
	in.Instance = w.members.instance
	if err = w.try(ctx, "turn", in, &out); err == nil {
		w.stop(out.Stop)
		w.cancelOutside(out.Cancels)
		w.members.follow(w, out.Nodes)
		if out.Drain {
			w.Drain()
		}
	}
	return out, err
}

// fetchLoop asks for tasks while there are free slots, and while steps are short before the slots are free.
func (w *Worker) fetchLoop(ctx context.Context) {
	pause := firstPause
	for w.await(ctx, func() bool { return w.wanted(w.coming) > 0 }) {
		want := w.ask()
		if want == 0 {
			continue
		}
		out, err := w.turn(ctx, wire.Turn{Want: want, WaitMS: int(fetchWait.Milliseconds())})
		w.came(want, 0, out.Tasks)
		if err != nil {
			w.failed(ctx, "no tasks can be fetched, retrying", err)
			_ = action.Pause(ctx, pause) // the loop looks at ctx
			pause = min(2*pause, lastPause)
			continue
		}
		pause = firstPause
	}
}

// came takes in the tasks of a turn that has asked for some, along with outcomes or by itself.
func (w *Worker) came(asked, along int, list []wire.Task) {
	if asked > 0 {
		w.mu.Lock()
		w.coming, w.along = w.coming-asked, w.along-along
		w.mu.Unlock()
		w.add(list)
	}
}

// ask is how many tasks a turn asks for.
func (w *Worker) ask() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renewCredit()
	want := w.wanted(w.coming)
	w.coming += want
	return want
}

// askAlong is how many tasks a turn with a few outcomes asks for: their node has the next steps of a chain when the outcomes are durable, and
// its answer takes them along. It asks for slots that are free while a turn waits for others: so no task waits anywhere that could
// begin before the commit. A worker of several nodes cannot tell which of them will have some.
func (w *Worker) askAlong(outcomes int) (want int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	running := len(w.held) - w.outbox - len(w.ready)
	free := w.o.Concurrency - running - len(w.ready) - w.coming
	if outcomes <= maxAlong && w.coming > w.along && w.conn != nil && !w.draining && !w.members.several.Load() && w.o.Lists == nil {
		want = min(outcomes, max(0, free))
	}
	w.coming, w.along = w.coming+want, w.along+want
	return want
}

// renewCredit lets, while steps are short, as many tasks be ready as end soon. The caller holds the lock.
func (w *Worker) renewCredit() {
	now := time.Now()
	ran, took := w.ran, now.Sub(w.counted)
	if took < time.Millisecond {
		return // too soon to tell
	}
	w.ran, w.counted, w.credit = 0, now, 0
	if ran > 0 && took*time.Duration(w.o.Concurrency)/time.Duration(ran) < soon {
		w.credit = min(maxCredit, int(time.Duration(ran)*soon/took))
	}
}

// wanted is how many tasks may come besides those asked for: as many as there are free slots, and w.credit more. It is 0 too as
// long as more than half of the credit is ready, or of all have been asked for. The caller holds the lock.
func (w *Worker) wanted(asked int) int {
	n := len(w.pulls)
	if w.members.several.Load() {
		n = min(n, w.slots.unused())
	}
	n += w.credit - len(w.ready) - asked
	if n <= asked || w.draining || w.outbox >= maxOutbox || w.bytes >= maxOutboxBytes || len(w.ready) > w.credit/2 {
		return 0
	}
	return n
}

// tellFetchers wakes those that may ask for tasks now. The caller holds the lock.
func (w *Worker) tellFetchers() {
	if w.wanted(w.coming) > 0 || w.o.Lists != nil && w.wanted(0) > 0 {
		w.change()
	}
}

func (w *Worker) failed(ctx context.Context, what string, err error) {
	switch {
	case ctx.Err() != nil:
	case w.members.linked(w) != nil, errors.Is(err, errNotLinked): // steps come from the others; or what failed a moment ago has been told
		w.o.Log.Debug(what, "node", w.nodes[0], "error", err)
	default:
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
		for _, x := range append(w.members.others(w), w) { // the node has heard of what all of them hold
			if t := x.running(execution, idx, one.Epoch); t != nil {
				x.pool.Revoke(t.Run, t.Idx, t.Epoch)
			}
		}
	}
}

// running finds a held attempt that has not ended; nil: there is none.
func (w *Worker) running(execution string, idx int32, epoch uint32) *task {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, t := range w.held {
		if k.idx == idx && k.epoch == epoch && t.Execution == execution && t.outcome == nil {
			return t
		}
	}
	return nil
}

// sendLoop offers outcomes until they are committed.
func (w *Worker) sendLoop(ctx context.Context) {
	for pause := firstPause; ; {
		batch := w.toSend()
		if len(batch) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-w.outcomes:
			}
			continue
		}
		in := wire.Turn{Outcomes: make([]wire.Outcome, len(batch)), Want: w.askAlong(len(batch))}
		for i, t := range batch {
			in.Outcomes[i] = *t.outcome
		}
		out, err := w.turn(ctx, in)
		w.came(in.Want, in.Want, out.Tasks)
		kept := w.settled(batch, &out)
		if err == nil { // what the node cannot take now, as another one runs its execution, keeps no other outcome waiting
			w.sendLater(kept)
			pause = firstPause
			continue
		}
		w.failed(ctx, "outcomes are kept, and offered again", err)
		w.sendAgain(kept)
		if action.Pause(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// toSend takes the outcomes of one turn, the oldest first.
func (w *Worker) toSend() []*task {
	w.mu.Lock()
	defer w.mu.Unlock()
	count, bytes := 0, 0
	for _, t := range w.unsent {
		if bytes += t.size; count > 0 && (bytes > wire.MaxBody/2 || count == wire.MaxOutcomes) {
			w.tellSender() // of the rest
			break
		}
		count++
	}
	batch := w.unsent[:count:count]
	w.unsent = w.unsent[count:]
	return batch
}

// tellSender has a sender look for outcomes.
func (w *Worker) tellSender() {
	select {
	case w.outcomes <- struct{}{}:
	default:
	}
}

// beatLoop says what is held, and gives back what does not begin.
func (w *Worker) beatLoop(ctx context.Context) {
	for beat, losses := time.Now(), int64(0); ; {
		w.mu.Lock()
		due := w.lease / 3
		w.mu.Unlock()
		if action.Pause(ctx, min(due, readyFor)) != nil {
			return
		}
		in := wire.Turn{Back: w.unbegun()}
		in.Took = w.untold(in.Back)
		if lost := w.members.losses.Load(); time.Since(beat) >= due || lost != losses {
			in.Holding, beat, losses = w.allHeld(), time.Now(), lost
			if w.linked() == nil && w.members.linked(w) != nil {
				in.Holding = nil // the others tell their nodes
			}
		}
		if len(in.Back)+len(in.Took) == 0 && in.Holding == nil {
			continue
		}
		if _, err := w.turn(ctx, in); err != nil {
			w.failed(ctx, "the node does not hear what is held, it is told again", err)
		} else if len(in.Took) > 0 {
			w.told(in.Took)
		}
	}
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
	list = append(list, w.refused...)
	w.refused = nil
	return list
}

// settled forgets outcomes that are committed or refused, and returns the others, which are to be offered again.
func (w *Worker) settled(batch []*task, out *wire.Turned) (kept []*task) {
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
	kept = batch[:0]
	for _, t := range batch {
		if !done[t.id] {
			kept = append(kept, t)
			continue
		}
		w.outbox, w.bytes = w.outbox-1, w.bytes-t.size
		delete(w.listOf(t), t.key())
	}
	clear(batch[len(kept):])
	if w.tellFetchers(); w.outbox == 0 {
		w.change()
	}
	return kept
}

// sendAgain has outcomes offered before all others.
func (w *Worker) sendAgain(list []*task) {
	if len(list) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsent = append(list[:len(list):len(list)], w.unsent...)
	w.tellSender()
}

// sendLater has outcomes offered again after a pause, which doubles.
func (w *Worker) sendLater(list []*task) {
	if len(list) == 0 {
		return
	}
	pause := lastPause
	for _, t := range list {
		t.pause = max(firstPause, min(2*t.pause, lastPause))
		pause = min(pause, t.pause)
	}
	time.AfterFunc(pause, func() { w.sendAgain(list) })
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
		if err := w.try(ctx, stepCall(t, "log"), wire.Log{Worker: w.name(), Epoch: t.Epoch, Lines: lines}, nil); err != nil && passes(err) {
			w.mu.Lock()
			t.lines = append(lines, t.lines...)
			w.mu.Unlock()
		}
	}
	if progress == nil {
		return
	}
	if err := w.try(ctx, stepCall(t, "progress"), progress, nil); err != nil && progress.Advanced && passes(err) { // the next one says more but for that
		w.mu.Lock()
		defer w.mu.Unlock()
		t.progressDoc(w.name()).Advanced = true
	}
}
