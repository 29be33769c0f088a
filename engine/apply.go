package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
)

// Apply takes one event in. Changed is false when the event changes nothing (late, double, of an
// old epoch): then it is not recorded. An error means the request is refused and nothing changed.
// The batch must be closed with Settle.
func (r *Run) Apply(ev *Event, fx *Effects) (changed bool, err error) {
	r.fx, r.now = fx, ev.At
	ev.Worker, ev.Reason = clean(ev.Worker), clean(ev.Reason)
	if ev.Kind == Start {
		return r.begin(ev)
	}
	if r.main == nil {
		return false, notStarted()
	}
	switch ev.Kind {
	case Done, DoneAll, Failed, Skipped, Waiting, Running, Spawned, Lost, Advanced:
		return r.report(ev)
	case TimerDue:
		return r.timerDue(ev), nil
	case Recovered:
		return r.recovered(), nil
	case Cancel:
		return r.halt(stepwell.ExecutionCancelled, ev.Reason) || r.insist(ev.Reason), nil
	case Pause:
		return r.pause()
	case Resume:
		return r.resume()
	case Restart:
		return r.restart(ev)
	case Admit:
		return r.admit(), nil
	case Settled:
		return r.settled(ev), nil
	}
	return false, stepwell.Errorf(stepwell.CodeInternal, "", "unknown event %d", ev.Kind)
}

// Settle ends a batch: it dispatches the steps that became ready and detects the end or a deadlock. It costs nothing
// when nothing changed.
func (r *Run) Settle(at int64, fx *Effects) {
	if r.main == nil {
		return
	}
	r.fx, r.now = fx, at
	for {
		r.followWork()
		if r.dispatch() {
			continue
		}
		if !r.stuck() {
			r.counted = nil
			return
		}
	}
}

// Replay folds one recorded batch in. The effects of a replay are not carried out. Outputs that are
// references and that templates read must have been loaded (Event.Loaded, Seed.Loaded). *Diverged: the batch queued
// other steps when it was recorded, so that the state is not the execution's and the run must not be used.
func (r *Run) Replay(b *Batch, fx *Effects) error {
	before := len(fx.Tasks)
	for i := range b.Events {
		if _, err := r.Apply(&b.Events[i], fx); err != nil {
			return fmt.Errorf("replay of execution %s: %w", r.ID, err)
		}
	}
	r.Settle(b.At, fx)
	queued := fx.Tasks[before:]
	if !slices.EqualFunc(queued, b.Queued, func(t *Task, idx int32) bool { return t.Idx == idx }) {
		return r.diverged(b, queued)
	}
	return nil
}

func (r *Run) begin(ev *Event) (bool, error) {
	switch {
	case r.main != nil:
		return false, nil
	case ev.Begin == nil:
		return false, stepwell.Errorf(stepwell.CodeInternal, "", "a start without its Begin")
	}
	var err error
	if r.params, err = decodeObject("params", ev.Begin.Params); err != nil {
		return false, err
	}
	if r.about, err = decodeObject("about", ev.Begin.About); err != nil {
		return false, err
	}
	r.revision, r.project = max(ev.Begin.Revision, 1), ev.Begin.Project
	r.given = r.withAbsent(r.params, r.plan.Optional)
	r.began, r.priority, r.parent = ev.At, ev.Begin.Priority, ev.Begin.Parent
	r.window = ev.Begin.Window
	if r.window <= 0 {
		r.window = DefaultWindow
	}
	r.where, r.dependent = map[int32]place{}, map[int32][]int32{}
	r.main = r.openScope(r.plan.Graph, place{}, nil, -1)
	if ev.Begin.Held {
		r.held, r.fx.Changed = ev.Begin.Seeds, true
		return true, nil
	}
	r.launch(ev.Begin.Seeds)
	return true, nil
}

// decodeObject is nil for empty JSON and for anything but an object.
func decodeObject(name string, raw []byte) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := expr.Decode(raw)
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: name, Err: err}
	}
	m, _ := v.(map[string]any)
	return m, nil
}

func (r *Run) setStatus(s stepwell.ExecutionStatus) {
	if r.status != s {
		r.status = s
		r.fx.Changed = true
	}
}

// report applies the report of an attempt, if it is the step's present attempt.
func (r *Run) report(ev *Event) (bool, error) {
	p, ok := r.find(ev.Idx)
	var n *node
	if ok {
		n = p.node()
	}
	if !ok || n.epoch != ev.Epoch || n.status != stepwell.StepQueued && n.status != stepwell.StepRunning || p.step().Body != nil {
		if ev.Kind == Spawned {
			return false, stepwell.Errorf(stepwell.CodeConflict, "", "the step that spawns is no longer running")
		}
		return false, nil
	}
	switch ev.Kind {
	case Running:
		if n.status == stepwell.StepRunning {
			return false, nil
		}
		n.status = stepwell.StepRunning
		in := n.ensure()
		in.worker, in.started = ev.Worker, ev.Started
		r.row(p)
		return true, nil
	case Spawned:
		return r.spawn(p, ev)
	case Advanced:
		in := n.ensure()
		fresh := !in.advanced
		in.advanced = true
		return fresh, nil
	case Lost:
		r.lost(p, ev.Worker)
		return true, nil
	case Waiting:
		if ev.Wait == nil {
			return false, stepwell.Errorf(stepwell.CodeInternal, "", "a wait without its Wait")
		}
	}
	r.got = arrival{worker: ev.Worker, started: ev.Started, input: ev.Input}
	r.count(ev.Counted)
	r.outcome(p, ev)
	r.got = arrival{}
	return true, nil
}

// outcome ends an attempt.
func (r *Run) outcome(p place, ev *Event) {
	n := p.node()
	r.landed(p)
	r.spend(p, ev)
	r.placed = r.placed || ev.Footprints
	revoked := n.flags&revoking != 0
	n.flags &^= revoking | underway
	if ev.Kind == Waiting && ev.Wait.elsewhere() {
		n.ensure().state = ev.Wait.State // the work has begun, even if the step is being stopped
	}
	switch {
	case ev.Kind == Done:
		r.complete(p, ev)
	case ev.Kind == DoneAll:
		r.completeAll(p, ev)
	case revoked:
		r.cutShort(p)
	case ev.Kind == Skipped:
		r.end(p, stepwell.StepSkipped, &Failure{Code: stepwell.CodeSkipped, Message: ev.Reason})
	case ev.Kind == Waiting:
		r.wait(p, ev)
	default:
		r.fail(p, ev)
	}
}

// landed takes a step out of the work in flight.
func (r *Run) landed(p place) {
	r.inflight--
	for at := p.s; at != nil; at = at.up() {
		at.running--
		r.unpark(at)
	}
}

func (r *Run) complete(p place, ev *Event) {
	if len(ev.Output) == 0 {
		ev.Output = nil
	}
	r.got.output = ev.Output
	if p.step().Keep || p.s.spawnedAt(p.i) != nil && r.plan.ReadAll {
		whole := ev.Output
		if ev.Loaded != nil {
			whole = ev.Loaded
		}
		ev.Kept = true // also where it is too much to keep: a replay must find that out again
		if r.gather(p, whole) {
			p.node().ensure().output = whole
		}
	}
	r.end(p, stepwell.StepCompleted, nil)
}

func (r *Run) wait(p place, ev *Event) {
	n := p.node()
	if ev.Wait.elsewhere() {
		n.flags |= underway
	}
	if p.s.stop.bars(n) {
		r.cutShort(p)
		return
	}
	in := n.ensure()
	in.wait, in.state, in.loaded = ev.Wait, ev.Wait.State, ev.Loaded
	if within := p.step().Policy.Within; within > 0 && in.until == 0 {
		began := ev.Started
		if began == 0 {
			began = r.now
		}
		in.until = began + within.Microseconds()
	}
	wake := ev.Wait.Until
	if ev.Wait.Await {
		wake = max(wake, 0)
	}
	if in.until > 0 && (wake == 0 && ev.Wait.Await || in.until < wake) {
		wake = in.until
	}
	r.sleep(p, stepwell.StepWaiting, wake)
	if ev.Wait.Await {
		r.fx.Awaits = append(r.fx.Awaits, p.await())
	}
}

// sleep puts a step aside until a time; a step that awaits a signal may have none.
func (r *Run) sleep(p place, status stepwell.StepStatus, until int64) {
	n := p.node()
	n.status = status
	in := n.ensure()
	in.wake, in.worker, in.started = until, r.got.worker, r.got.started
	r.sleeping++
	if until > 0 || status != stepwell.StepWaiting || !in.wait.Await {
		r.timer(until, p.idx(), n.epoch)
	}
	r.row(p)
}

// fail ends a step or puts it aside for the next attempt (semantics §3: retry comes before
// on_failure; a deferral does not use an attempt up).
func (r *Run) fail(p place, ev *Event) {
	n := p.node()
	policy := p.step().Policy
	f := ev.Failure
	if f == nil {
		f = &Failure{Code: stepwell.CodeFailed, Message: "failed"}
	}
	f.Message, f.Hint = clean(f.Message), clean(f.Hint)
	if f.Code == stepwell.CodeTimeout {
		r.leave(p)
	}
	switch {
	case ev.Defer && p.s.stop.level > 0:
		r.cutShort(p)
	case ev.Defer:
		n.flags |= keepTry
		in := n.ensure()
		in.last, in.deferred = f, true
		r.sleep(p, stepwell.StepRetrying, r.now+ev.After.Microseconds())
	case p.s.stop.level == 0 && !ev.Permanent && int(n.attempt) < min(policy.Retry.MaxAttempts, math.MaxUint16):
		in := n.ensure()
		in.last, in.deferred, in.state = f, false, nil
		if at, ok := r.find(ev.Member - 1); ev.Member > 0 && ok {
			in.last = &Failure{Code: f.Code, Message: at.key() + ": " + f.Message, Hint: f.Hint, Step: at.key()}
		}
		delay := max(policy.Retry.Delay(int(n.attempt), fraction(r.ID, p.idx(), n.attempt)), ev.After)
		r.sleep(p, stepwell.StepRetrying, r.now+delay.Microseconds())
	case len(ev.Parts) > 0:
		r.endParts(p, ev)
	case ev.Member > 0 && r.blame(p, ev.Member-1, f):
	default:
		r.end(p, failureStatus(f), f)
	}
}

func failureStatus(f *Failure) stepwell.StepStatus {
	if f.Code == stepwell.CodeTimeout {
		return stepwell.StepTimedOut
	}
	return stepwell.StepFailed
}

// clean makes a text survive the record as it is: JSON holds nothing but UTF-8.
func clean(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "�")
}

// fraction is a number in [0,1) that is always the same for the same attempt: jitter without random.
func fraction(id string, idx int32, attempt uint16) float64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(id); i++ {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h = (h ^ uint64(uint32(idx))) * 1099511628211
	h = (h ^ uint64(attempt)) * 1099511628211
	h ^= h >> 29
	return float64(h%10000) / 10000
}
