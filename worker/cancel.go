package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/store"
)

const (
	cancelTimeout  = 30 * time.Second // of one call
	maxCancelling  = 8                // calls at once
	cancelBackoff  = time.Second      // after the first call that failed; doubled up to maxCancelPause
	maxCancelPause = 5 * time.Minute
	cancelFor      = 24 * time.Hour  // from when the work was given up; no more tries then
	lookAgain      = time.Minute     // at work that an attempt of a former process owned
	orphaned       = 2 * time.Minute // after the time at which a living process would have begun a call, and ended it
)

// Cancels reports whether the action's handler can stop work going on outside.
func (p *Pool) Cancels(name string) bool {
	act, ok := p.o.Actions.Lookup(name)
	return !ok || act.Spec.Cancels // a process that has the action may take the row up
}

// Cancel stops a step's work outside (action.Canceler), whose row is durable. It returns at once; Run does not return
// before the first call has, not even after Drain, unless its context ends. A failed call is repeated, by the next
// process too. The outcome goes to the step's log.
func (p *Pool) Cancel(w store.OutsideWork) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return // the next process reads the row
	}
	p.later = slices.DeleteFunc(p.later, func(l store.OutsideWork) bool { return keyOf(&l) == keyOf(&w) })
	if !p.loaded {
		if p.own == nil {
			p.own = map[outsideKey]struct{}{}
		}
		p.own[keyOf(&w)] = struct{}{}
	}
	p.cancels = append(p.cancels, w)
	if p.ctx != nil {
		p.callCancels()
	}
}

// outsideKey names a row of work outside.
type outsideKey struct {
	execution int64
	step      int32
	epoch     uint32
}

func keyOf(w *store.OutsideWork) outsideKey { return outsideKey{w.Execution, w.Step, w.Epoch} }

// callCancels starts goroutines for the calls that are due. The caller holds the lock.
func (p *Pool) callCancels() {
	for p.cancelling < min(maxCancelling, len(p.cancels)) {
		p.cancelling++
		p.calls.Go(p.cancelLoop)
	}
}

// cancelLoop makes the calls that are due, and ends when there are none.
func (p *Pool) cancelLoop() {
	for {
		p.mu.Lock()
		if len(p.cancels) == 0 {
			p.cancels = nil
			p.cancelling--
			p.mu.Unlock()
			return
		}
		w := p.cancels[0]
		p.cancels = p.cancels[1:]
		p.mu.Unlock()
		p.cancelOne(w)
	}
}

// cancelOne makes one call and records its outcome. A handler that ignores the end of its context is abandoned.
func (p *Pool) cancelOne(w store.OutsideWork) {
	a, err := p.tryCancel(&w)
	if err == nil || action.IsFail(err) {
		p.cancelled(a, &w, err)
		return
	}
	if p.ctx.Err() == nil { // else the next process tries again
		p.cancelLater(a, &w, err)
	}
}

// CancelFor makes one call of Cancel for another process, which has the row, and tells of its outcome. It returns at once; Run does not
// return before the call has.
func (p *Pool) CancelFor(w store.OutsideWork, ended func(error)) {
	p.mu.Lock()
	runs := p.ctx != nil && !p.ended
	if runs {
		p.calls.Go(func() {
			_, err := p.tryCancel(&w)
			ended(err)
		})
	}
	p.mu.Unlock()
	if !runs {
		ended(context.Canceled)
	}
}

// RetryCancels has the calls of Cancel that have failed, of some actions, made again at once.
func (p *Pool) RetryCancels(of func(action string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	for i := range p.later {
		if w := &p.later[i]; !w.Held && w.Next.After(now) && of(w.Action) {
			w.Next = now
		}
	}
	p.wakeRetries()
}

// tryCancel makes one call.
func (p *Pool) tryCancel(w *store.OutsideWork) (a *attempt, err error) {
	ctx, end := context.WithTimeoutCause(p.ctx, cancelTimeout, errCancelTimeout)
	defer end()
	a = p.cancelAttempt(ctx, w)
	ended := make(chan error, 1)
	go func() { ended <- callCancel(a) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(p.o.Grace):
			err = context.Cause(ctx)
		}
	}
	return a, err
}

var errCancelTimeout = &stepwell.Error{Code: stepwell.CodeTimeout, Message: "not ended within " + cancelTimeout.String()}

// cancelAttempt is the attempt of a call of Cancel: the step's, as far as the row has it.
func (p *Pool) cancelAttempt(ctx context.Context, w *store.OutsideWork) *attempt {
	a := &attempt{r: p.Runner, ctx: ctx, process: ctx, started: p.o.Now(), timeout: cancelTimeout}
	a.Task = &engine.Task{Run: w.Execution, Execution: w.ExecutionID, Idx: w.Step, Epoch: w.Epoch, Attempt: w.Attempt, Key: w.StepKey,
		Step: &plan.Step{ID: w.StepKey, Action: w.Action}, State: w.State}
	a.host = host{a: a, idx: w.Step, key: w.StepKey, level: slog.LevelInfo}
	return a
}

func callCancel(a *attempt) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	act, ok := a.r.o.Actions.Lookup(a.Task.Step.Action)
	if !ok {
		return noAction("process", a.Task.Step.Action)
	}
	if !act.Spec.Cancels {
		return action.Invalid("", "the action %q cannot stop work any more", a.Task.Step.Action)
	}
	if err := a.openState(); err != nil {
		return err
	}
	if canceler, ok := act.Handler.(action.Canceler); ok {
		return canceler.Cancel(a.ctx, a.call(nil))
	}
	return a.r.o.CancelElsewhere(a.ctx, a.Task, a.State, &a.host)
}

// cancelled ends the row of work that was stopped, or that can never be.
func (p *Pool) cancelled(a *attempt, w *store.OutsideWork, err error) {
	if err == nil {
		a.host.Log(slog.LevelInfo, "the work going on elsewhere was cancelled")
	} else {
		a.host.Log(slog.LevelError, "the external work could not be cancelled: "+err.Error())
	}
	if err := p.o.Records.DeleteOutsideWork(context.Background(), w.Execution, w.Step, w.Epoch); err != nil {
		p.o.Log.Warn("work that was cancelled will be cancelled again", "execution", w.ExecutionID, "step", w.StepKey, "error", err)
		p.await(*w, p.o.Now().Add(cancelBackoff))
	}
}

// cancelLater has the call repeated, or gives up after a day.
func (p *Pool) cancelLater(a *attempt, w *store.OutsideWork, err error) {
	now := p.o.Now()
	w.Tries, w.Error = w.Tries+1, shorten(a.hide(err.Error()), maxMessage)
	w.Next = now.Add(min(cancelBackoff<<min(w.Tries-1, 20), maxCancelPause))
	if now.Sub(w.Since) >= cancelFor {
		w.Next = time.Time{}
		a.host.Log(slog.LevelError, "the external work could not be cancelled for a day and may still be running: "+err.Error())
	} else if w.Tries == 1 {
		a.host.Log(slog.LevelWarn, "the external work could not be cancelled, retrying: "+err.Error())
	}
	if err := p.o.Records.PutOutsideWork(context.Background(), *w); err != nil { // the old row serves as well
		p.o.Log.Warn("a failed call of Cancel was not recorded", "execution", w.ExecutionID, "step", w.StepKey, "error", err)
	}
	if !w.Next.IsZero() {
		p.await(*w, w.Next)
	}
}

// await keeps work for later.
func (p *Pool) await(w store.OutsideWork, next time.Time) {
	w.Next = next
	p.mu.Lock()
	p.later = append(p.later, w)
	p.mu.Unlock()
	p.wakeRetries()
}

func (p *Pool) wakeRetries() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// awaitFormer keeps a former process's work for later, unless it was given up in this process.
func (p *Pool) awaitFormer(w store.OutsideWork) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.own[keyOf(&w)]
	if !known && !slices.ContainsFunc(p.later, func(l store.OutsideWork) bool { return keyOf(&l) == keyOf(&w) }) {
		p.later = append(p.later, w)
	}
}

// retryCancels is the loop that takes up the rows of former processes, and retries failed calls.
func (p *Pool) retryCancels(ctx context.Context) {
	if p.o.Orphans == nil {
		p.loadOutside(ctx, func(*store.OutsideWork) bool { return true })
	}
	p.mu.Lock()
	p.loaded, p.own = true, nil
	p.mu.Unlock()
	if p.o.Orphans != nil {
		var taking sync.WaitGroup
		defer taking.Wait()
		taking.Go(func() { p.o.Orphans(ctx, p.takeOrphans) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
		due, next := p.dueCancels(p.o.Now())
		for i := range due {
			if p.givenUp(ctx, &due[i]) {
				p.Cancel(due[i])
			}
		}
		timer.Reset(next)
	}
}

// dueCancels removes and returns the due work, and the time until the next.
func (p *Pool) dueCancels(now time.Time) (due []store.OutsideWork, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next = time.Hour
	kept := p.later[:0]
	for _, w := range p.later {
		if !w.Next.After(now) {
			due = append(due, w)
			continue
		}
		kept, next = append(kept, w), min(next, w.Next.Sub(now))
	}
	clear(p.later[len(kept):])
	p.later = kept
	return due, next
}

// loadOutside reads the rows of former processes, and passes over those that this one has written meanwhile. A failed read
// is retried in a moment.
func (p *Pool) loadOutside(ctx context.Context, mine func(*store.OutsideWork) bool) {
	var after store.OutsideWork
	for {
		page, err := p.o.Records.OutsideWork(ctx, 0, after, 1000)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.o.Log.Error("the work to be cancelled cannot be read, retrying", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			continue
		}
		for _, w := range page {
			if !mine(&w) {
				continue
			}
			if w.Held {
				w.Next = p.o.Now()
			}
			if !w.Next.IsZero() {
				p.awaitFormer(w)
			}
		}
		if len(page) == 0 {
			return
		}
		after = page[len(page)-1]
	}
}

// takeOrphans takes up what no living process is about to stop, by its times: that one would have called Cancel, and written down when it
// calls again.
func (p *Pool) takeOrphans(ctx context.Context) {
	before := p.o.Now().Add(-orphaned)
	p.loadOutside(ctx, func(w *store.OutsideWork) bool {
		return w.Held || w.Since.Before(before) && w.Next.Before(before)
	})
	p.wakeRetries()
}

// givenUp looks at work that an attempt owned when its process died: it is to be stopped when its step has ended without
// completing. As long as the step goes on, it belongs to the step's next attempt.
func (p *Pool) givenUp(ctx context.Context, w *store.OutsideWork) bool {
	if !w.Held {
		return true
	}
	rows, err := p.o.Records.OutsideWork(ctx, w.Execution, store.OutsideWork{Execution: w.Execution, Step: w.Step}, 1000) // epochs begin with 1
	at := slices.IndexFunc(rows, func(r store.OutsideWork) bool { return r.Step == w.Step && r.Epoch == w.Epoch })
	switch {
	case err == nil && (at < 0 || !rows[at].Held):
		return false // another attempt has taken it over, or it was given up meanwhile
	case err == nil && rows[at].Completed:
		err = p.o.Records.DeleteOutsideWork(ctx, w.Execution, w.Step, w.Epoch)
		if err == nil {
			return false
		}
	case err == nil && rows[at].Ended:
		w.Held = false
		return true
	}
	p.await(*w, p.o.Now().Add(lookAgain))
	return false
}

// own makes work of a running attempt durable, so that it is stopped if the attempt is.
func (a *attempt) own(ctx context.Context, state json.RawMessage) error {
	if len(state) > maxState {
		return action.Fail(stepwell.Errorf(stepwell.CodeLimit, "", "the state of the work outside is %d bytes, the limit is %d KiB", len(state), maxState>>10))
	}
	t := a.Task
	w := store.OutsideWork{Execution: t.Run, ExecutionID: t.Execution, Step: t.Idx, Epoch: t.Epoch, Attempt: t.Attempt, StepKey: t.Key, Action: t.Step.Action,
		State: a.seal(state), Since: a.r.o.Now(), Held: true}
	if err := a.r.o.Records.PutOutsideWork(ctx, w); err != nil {
		return err
	}
	a.owning.Lock()
	defer a.owning.Unlock()
	a.owned = &w
	return nil
}

// settleOwned decides about the work that an attempt owned, before its outcome is reported: the attempt's cancel or timeout
// gives it up; after any other outcome nobody has to stop it. An attempt that is put back keeps it.
func (a *attempt) settleOwned(ev *engine.Event, cause error) {
	a.owning.Lock()
	w := a.owned
	a.owned = nil
	a.owning.Unlock()
	if w == nil || ev.Kind == engine.Failed && ev.Defer {
		return
	}
	if ev.Kind != engine.Failed || cause != errRevoked && cause != errDeadline {
		if err := a.r.o.Records.DeleteOutsideWork(context.Background(), w.Execution, w.Step, w.Epoch); err != nil {
			a.r.o.Log.Warn("work outside that is done keeps its row", "execution", w.ExecutionID, "step", w.StepKey, "error", err)
		}
		return
	}
	now := a.r.o.Now()
	w.Held, w.Since, w.Next = false, now, now
	if err := a.r.o.Records.PutOutsideWork(context.Background(), *w); err != nil { // held, it is found again when the step has ended
		a.r.o.Log.Warn("work outside that was given up is not recorded so", "execution", w.ExecutionID, "step", w.StepKey, "error", err)
	}
	a.r.giveUp(*w)
}
