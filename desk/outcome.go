package desk

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/worker"
)

// maxLines is how many lines one call may carry.
const maxLines = 10_000

// settling are outcomes that are to be reported: their attempts, and what to report.
type settling struct {
	attempts []*attempt
	events   []conductor.RunEvent
}

// settle takes outcomes in. Those that are neither committed nor refused are to be offered again, or to the nodes that run
// their executions. With asks the turn takes tasks then, and run is to be given to asked.
func (d *Desk) settle(ctx context.Context, s *session, outcomes []wire.Outcome, asks bool, out *wire.Turned) (away []*wire.Outcome, run int64) {
	if len(outcomes) == 0 {
		return nil, 0
	}
	claimed := d.claimHeld(s, outcomes)
	list := settling{make([]*attempt, 0, len(outcomes)), make([]conductor.RunEvent, 0, len(outcomes))}
	for i := range outcomes {
		o := &outcomes[i]
		a, done, err := claimed[i], false, error(nil)
		if a == nil {
			a, done, err = d.claimOutcome(ctx, s, o)
		}
		if err == nil && a != nil {
			var ev engine.Event
			if ev, err = d.conclude(ctx, s, a, o); err == nil {
				list.attempts, list.events = append(list.attempts, a), append(list.events, conductor.RunEvent{Run: a.task.Run, Event: ev})
				continue
			}
			d.unsettle(a)
		}
		switch {
		case elsewhere(err):
			away = append(away, o)
		case err != nil && refuses(err):
			out.Refused = append(out.Refused, wire.Refused{ID: o.ID, Code: stepwell.CodeOf(err), Message: err.Error()})
		case done:
			out.Committed = append(out.Committed, o.ID)
		}
	}
	return away, d.commit(ctx, s, &list, asks, out)
}

// claimHeld is claimOutcome for those of attempts that the worker holds; nil for all others.
func (d *Desk) claimHeld(s *session, outcomes []wire.Outcome) []*attempt {
	claimed := make([]*attempt, len(outcomes))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range outcomes {
		k, err := idOf(outcomes[i].ID)
		if a := d.attempts[k]; err == nil && a != nil && a.state == held && a.holder == s && !a.settling {
			a.settle(true)
			claimed[i] = a
		}
	}
	return claimed
}

// refuses reports whether an error says that an outcome never will be taken.
func refuses(err error) bool {
	code := stepwell.CodeOf(err)
	return code == stepwell.CodeInvalid || code == stepwell.CodeForbidden || code == stepwell.CodeNotFound || code == stepwell.CodeLimit
}

// claimOutcome finds the attempt of an outcome and keeps others from settling it; nil: there is none to settle. Done
// says that the outcome need not be offered again.
func (d *Desk) claimOutcome(ctx context.Context, s *session, o *wire.Outcome) (a *attempt, done bool, err error) {
	k, err := idOf(o.ID)
	if err != nil {
		return nil, false, err
	}
	d.mu.Lock()
	a = d.attempts[k]
	d.mu.Unlock()
	if a == nil {
		if done, err = d.recall(ctx, k); done || err != nil {
			return nil, done, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if a = d.attempts[k]; a == nil || a.settling {
		return nil, false, nil
	}
	if !d.adopt(a, s) {
		return nil, false, notHeld(k)
	}
	a.settle(true)
	return a, false, nil
}

func notHeld(k id) error {
	return stepwell.Errorf(stepwell.CodeForbidden, "", "attempt %d of %s is not this worker's", k.epoch, wire.Step(k.execution, k.idx))
}

// recall makes an attempt known again that workers know and this desk does not. Done says that there is no such attempt
// any more; errElsewhere: it is another node's.
func (d *Desk) recall(ctx context.Context, k id) (done bool, err error) {
	t, err := d.task(ctx, k)
	if t == nil || err != nil {
		return err == nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expect(t, true, d.flying[flight{t.Run, k.idx, k.epoch}])
	return false, nil
}

// task is that of an attempt in flight, known to this desk or not. Nil: there is no such attempt any more; errElsewhere: another
// node runs the execution.
func (d *Desk) task(ctx context.Context, k id) (*engine.Task, error) {
	run, ended, err := d.p.Locate(ctx, k.execution)
	if err != nil || ended {
		return nil, err
	}
	t, err := d.p.Conductor.Task(ctx, run, k.idx, k.epoch)
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		// An event that changes nothing tells whether the execution runs here, and so whether its attempt has ended.
		err = d.p.Conductor.ReportAll(ctx, []conductor.RunEvent{{Run: run, Event: engine.Event{Kind: engine.Advanced, At: d.o.Now().UnixMicro(), Idx: k.idx, Epoch: k.epoch}}})
		if stepwell.CodeOf(err) == stepwell.CodeConflict {
			err = errElsewhere
		}
		return nil, err
	}
	return t, err
}

// expect records an attempt that some worker may hold. The caller holds the lock.
func (d *Desk) expect(t *engine.Task, begun bool, name string) {
	k := id{t.Execution, t.Idx, t.Epoch}
	if d.attempts[k] != nil {
		return
	}
	a := &attempt{id: k, task: t, state: expected, since: d.o.Now(), begun: begun, worker: name, given: true, claimed: begun}
	if begun { // it counts towards the limits of its queue here, as it did there
		a.lease = d.queue.Hold(t.Queue, t)
	}
	d.attempts[k], d.byRun[flight{t.Run, t.Idx, t.Epoch}] = a, a
	for _, s := range d.sessions {
		if s.holding[k] {
			d.adopt(a, s)
			return
		}
	}
}

func (d *Desk) unsettle(a *attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.settle(false)
}

// conclude turns an outcome into an event, as if the handler had run here.
func (d *Desk) conclude(ctx context.Context, s *session, a *attempt, o *wire.Outcome) (engine.Event, error) {
	if len(o.Log) > maxLines {
		return engine.Event{}, stepwell.Errorf(stepwell.CodeLimit, "", "an outcome carries at most %d lines", maxLines)
	}
	d.mu.Lock()
	revoked, x := a.revoked, a.remote
	d.mu.Unlock()
	e := worker.Ended{Worker: s.name, Ran: time.Duration(min(max(o.RanMS, 0), 1e12) * float64(time.Millisecond)), Revoked: revoked, Used: resources(o.Resources)}
	if err := d.ended(o, len(a.task.Members) > 0, &e); err != nil {
		return engine.Event{}, err
	}
	if x == nil {
		x = d.remote(ctx, a)
	}
	logLines(x.Host(), o.Log)
	return x.Conclude(e), nil
}

// remote is this side of an attempt; one that was rendered by another node is rendered again.
func (d *Desk) remote(ctx context.Context, a *attempt) *worker.Remote {
	d.mu.Lock()
	x := a.remote
	d.mu.Unlock()
	if x != nil {
		return x
	}
	p := d.p.Runner.Prepare(context.WithoutCancel(ctx), a.task)
	x = d.p.Runner.Remote(context.Background(), p)
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.remote == nil {
		a.remote = x
	}
	return a.remote
}

// ended is an outcome as a handler returns it. CodeInvalid.
func (d *Desk) ended(o *wire.Outcome, segment bool, e *worker.Ended) error {
	failure := failureOf(o.Error)
	var err error = failure
	if o.Member != "" && segment {
		err = &action.MemberError{Member: o.Member, Err: failure}
	}
	if len(o.Members) > 0 && segment {
		e.Outputs = members(o)
	}
	after := time.Duration(min(max(o.RetryAfterMS, 0), 1e12)) * time.Millisecond
	switch o.Status {
	case wire.Completed:
		if len(o.Output) > 0 {
			e.Outputs = o.Output
		}
	case wire.Skipped:
		e.Err = action.Skip(failure.Message)
	case wire.Failed:
		switch e.Err = err; {
		case o.Permanent:
			e.Err = action.Fail(err)
		case o.Defer || after > 0:
			e.Err = &action.RetryError{After: after, Defer: o.Defer, Err: err}
		}
		e.Err = used(o.Output, e.Err)
	case wire.Waiting:
		if o.Wait == nil {
			return stepwell.Invalid(`give "wait"`, "a waiting step without its wait")
		}
		e.Err = d.wait(o.Wait)
	default:
		return stepwell.Invalid("completed, failed, skipped or waiting", "status %q", stepwell.Head(o.Status, 40))
	}
	return nil
}

// failureOf is what a worker says of a failure.
func failureOf(said *wire.Error) *stepwell.Error {
	failure := &stepwell.Error{Code: stepwell.CodeFailed, Message: "the worker does not say why"}
	if said != nil {
		failure.Message, failure.Hint = said.Message, said.Hint
		if slices.Contains(failures, said.Code) {
			failure.Code = said.Code
		}
	}
	return failure
}

// failures are the codes that a worker may give.
var failures = []stepwell.Code{stepwell.CodeInvalid, stepwell.CodeNotFound, stepwell.CodeConflict, stepwell.CodeUnavailable, stepwell.CodeTimeout,
	stepwell.CodeCancelled, stepwell.CodeLimit, stepwell.CodeFailed, stepwell.CodePanic, stepwell.CodeNotReplaced, stepwell.CodeUnauthenticated,
	stepwell.CodeForbidden, stepwell.CodeDenied}

func (d *Desk) wait(w *wire.Wait) error {
	out := &action.WaitError{Resume: w.Resume, State: w.State, Await: w.Await, Elsewhere: w.Elsewhere, Require: w.Require, ExternalID: w.External}
	if w.AfterMS > 0 || !w.Await {
		out.Until = d.o.Now().Add(time.Duration(min(max(w.AfterMS, 0), 1e12)) * time.Millisecond)
	}
	if len(w.Output) > 0 {
		out.Outputs = w.Output
	}
	return out
}

// commit reports outcomes, and adds those to an answer that are durable or no longer wanted. For asks and run see settle.
func (d *Desk) commit(ctx context.Context, s *session, list *settling, asks bool, out *wire.Turned) (run int64) {
	if len(list.events) == 0 {
		return 0
	}
	if asks {
		d.mu.Lock()
		run = s.asks(list.attempts)
		d.mu.Unlock()
	}
	all := d.p.Conductor.ReportAll(ctx, list.events) == nil
	done := list.attempts
	if !all {
		d.asked(s, run)
		done, run = nil, 0
		for i, a := range list.attempts {
			if d.committed(ctx, a, &list.events[i]) {
				done = append(done, a)
			}
		}
	}
	out.Committed = slices.Grow(out.Committed, len(done))
	leases := make([]queue.Lease, 0, len(done))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range list.attempts {
		a.settle(false)
	}
	for _, a := range done {
		out.Committed = append(out.Committed, a.wire())
		if a.lease.Token != 0 {
			leases, a.lease = append(leases, a.lease), queue.Lease{}
		}
		d.drop(a)
	}
	_ = d.queue.Ack(context.Background(), leases) // never fails
	if run == 0 {
		s = nil
	}
	d.wakeSessions(0, s) // not that which takes tasks now
	d.wakeOffers()
	return run
}

// committed reports one outcome of several of which not all were taken.
func (d *Desk) committed(ctx context.Context, a *attempt, ev *conductor.RunEvent) bool {
	err := d.p.Conductor.ReportAll(ctx, []conductor.RunEvent{*ev})
	if stepwell.CodeOf(err) != stepwell.CodeConflict {
		return err == nil
	}
	_, ended, err := d.p.Locate(ctx, a.execution)
	if err == nil && !ended { // another node runs it: the outcome is offered again, and goes there
		d.mu.Lock()
		defer d.mu.Unlock()
		d.drop(a)
	}
	return err == nil && ended
}

// Portable is CodeInvalid when calls of an action cannot be made by a worker elsewhere, because a node cannot finish them.
func Portable(about *spec.Spec) error {
	if about.Stream != nil || about.Internal && about.Name != plan.SegmentAction || about.Stays {
		return stepwell.Invalid("", "%s stays with its node", about.Name)
	}
	if rawFields(about.Params) {
		return stepwell.Invalid("leave out raw and bare", "the action %s renders templates itself, which a worker elsewhere cannot", about.Name)
	}
	return nil
}

// rawFields reports whether a handler renders templates of its parameters itself.
func rawFields(fields []spec.Field) bool {
	return slices.ContainsFunc(fields, func(f spec.Field) bool {
		return f.Raw || f.Bare || rawFields(f.Fields) || f.Items != nil && rawFields([]spec.Field{*f.Items})
	})
}

// logLines adds lines to a step's log.
func logLines(h action.Host, lines []wire.Line) {
	for i := range lines {
		l := &lines[i]
		var attrs map[string]any
		if len(l.Attrs) > 0 && json.Unmarshal(l.Attrs, &attrs) != nil {
			attrs = map[string]any{"unreadable": len(l.Attrs)}
		}
		list := make([]slog.Attr, 0, len(attrs))
		for name, v := range attrs {
			list = append(list, slog.Any(name, v))
		}
		to := h
		if l.Member != "" {
			to = h.Member(l.Member)
		}
		to.Log(level(l.Level), l.Message, list...)
	}
}

func level(name string) slog.Level {
	switch name {
	case "debug":
		return slog.LevelDebug
	case "warning":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// resources are those that a worker tells, within what there can be.
func resources(told *stepwell.Resources) *stepwell.Resources {
	if told == nil {
		return nil
	}
	r := stepwell.Resources{CPUSeconds: min(max(told.CPUSeconds, 0), 1e12), MaxRSS: max(told.MaxRSS, 0), BytesIn: max(told.BytesIn, 0), BytesOut: max(told.BytesOut, 0)}
	if r == (stepwell.Resources{}) {
		return nil
	}
	return &r
}

// used is the error of a failed outcome with the usage that its output tells of.
func used(output json.RawMessage, err error) error {
	var told struct {
		Usage json.RawMessage `json:"usage"`
	}
	if json.Unmarshal(output, &told) != nil || len(told.Usage) == 0 { // most tell of none
		return err
	}
	return action.Used(told.Usage, err)
}
