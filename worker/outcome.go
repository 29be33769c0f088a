package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
)

// report hands an outcome on. An attempt that was cut off because the process ends in order has not failed and has
// lost no worker: it is put back, and goes on as the same attempt. One that must not run twice is left in flight
// for whoever recovers the run, where it fails with the reason.
func (p *Pool) report(j *job, ev engine.Event, cause error) (dealt bool) {
	ending := cause == errDrained || p.ctx.Err() != nil && cause != errRevoked && cause != errDeadline
	if ending && ev.Kind == engine.Failed {
		if j.task.Step.Policy.NotIdempotent && cause != errDrained {
			return false
		}
		ev = p.event(j, engine.Failed)
		ev.Defer, ev.Failure = true, &engine.Failure{Code: stepwell.CodeCancelled, Message: "stopped, because the process ends"}
	}
	p.settleOwned(j, &ev, cause)
	if err := p.o.Reporter.Report(p.ctx, j.task.Run, ev); err != nil {
		if p.ctx.Err() == nil { // else the whole process stops, and says why
			p.o.Log.Error("report failed", "execution", j.task.Execution, "step", j.task.Key, "error", err)
		}
		return false
	}
	return true
}

// conclude turns what the handler returned into an event. Errors and values are the handler's own
// code, so that they too may panic.
func (p *Pool) conclude(j *job, out any, err, cause error) (ev engine.Event) {
	defer func() {
		if v := recover(); v != nil {
			err := &stepwell.Error{Code: stepwell.CodePanic, Message: fmt.Sprintf("what the action returned panicked: %v", v), Hint: "action.Fail, Retry and Defer need an error"}
			ev = p.failed(j, err, err)
		}
	}()
	ev = p.outcome(j, out, err, cause)
	ev.Counted = counted(j, out, &ev)
	return ev
}

// counted are the counts of stream steps that no output tells.
func counted(j *job, result any, ev *engine.Event) map[int32]engine.Items {
	all, ok := result.(action.Members)
	if !ok || ev.Kind != engine.DoneAll && ev.Kind != engine.Failed {
		return nil
	}
	tells := func(output []byte) bool { return len(output) > 0 && !engine.IsRef(output) }
	told := map[int32]bool{}
	told[j.task.Idx] = tells(ev.Output)
	for i := range ev.Parts {
		told[ev.Parts[i].Idx] = tells(ev.Parts[i].Output)
	}
	var counts map[int32]engine.Items
	for _, m := range j.task.Members {
		if c, ok := all.Counts[m.ID]; ok && !told[m.Idx] {
			if counts == nil {
				counts = map[int32]engine.Items{}
			}
			counts[m.Idx] = engine.Items{In: c.In, Out: c.Out, Failed: c.Failed, Dropped: c.Dropped, Skipped: c.Skipped}
		}
	}
	return counts
}

func (p *Pool) event(j *job, kind engine.Kind) engine.Event {
	ev := engine.Event{Kind: kind, At: time.Now().UnixMicro(), Idx: j.task.Idx, Epoch: j.task.Epoch, Started: j.started.UnixMicro(), Worker: p.o.Name}
	if input := j.input.Load(); input != nil {
		ev.Input = *input
	}
	return ev
}

func (p *Pool) outcome(j *job, out any, err, cause error) engine.Event {
	switch {
	case err != nil && j.cutOff(err, cause):
		return p.putBack(j)
	case cause == errDeadline && err == nil:
		err = errDeadline // what comes late is dropped
	case cause == errDeadline:
		return p.failed(j, errDeadline, nil) // and so are its wishes
	case err == nil && len(j.task.Members) > 0:
		var ev engine.Event
		if ev, err = p.doneAll(j, out); err == nil {
			return ev
		}
	case err == nil:
		var raw []byte
		ev := p.event(j, engine.Done)
		if raw, err = encode(out); err == nil {
			ev.Output, ev.Loaded, err = p.keep(j, raw, j.task.Step.Keep)
		}
		if err == nil {
			ev.Cost = p.price(j, raw)
			return ev
		}
	}
	if skip, ok := errors.AsType[*action.SkipError](err); ok {
		ev := p.event(j, engine.Skipped)
		ev.Reason = j.text(p, skip.Reason, maxMessage)
		return ev
	}
	if wait, ok := errors.AsType[*action.WaitError](err); ok {
		ev := p.event(j, engine.Waiting)
		if ev.Wait, ev.Loaded, err = p.wait(j, wait, j.task.Step.Keep); err == nil {
			err = p.noteCallback(j, ev.Wait)
		}
		if err == nil {
			ev.Cost = p.price(j, nil)
			return ev
		}
	}
	if cause != nil && !errors.Is(err, cause) {
		return p.failed(j, fmt.Errorf("%w (%w)", cause, err), err)
	}
	if all, ok := out.(action.Members); ok && cause == nil && len(all.Failed) > 0 {
		return p.failedInParts(j, all, err)
	}
	return p.failed(j, err, err)
}

// price is what an attempt has cost since it began or went on.
func (p *Pool) price(j *job, outputs []byte) int64 {
	if p.o.Price == nil || !j.begun.Load() {
		return 0
	}
	calls := 1
	if len(j.task.State) > 0 {
		calls = 0 // it goes on
	}
	return max(0, p.o.Price(j.task.Step.Action, calls, time.Since(j.started).Seconds(), outputs))
}

// failed is a failure with what the handler's error says about other attempts.
func (p *Pool) failed(j *job, err, wish error) engine.Event {
	ev := p.event(j, engine.Failed)
	ev.Permanent = action.IsFail(wish)
	if again, ok := errors.AsType[*action.RetryError](wish); ok {
		ev.After, ev.Defer = max(0, again.After), again.Defer
	}
	if !ev.Defer { // it was not taken
		ev.Cost = p.price(j, nil)
	}
	ev.Failure = p.failure(j, err)
	if at, ok := errors.AsType[*action.MemberError](wish); ok {
		for _, m := range j.task.Members {
			if m.ID == at.Member && m.Idx != j.task.Idx {
				ev.Member = m.Idx + 1
			}
		}
		if err == wish { // the step is named beside what it says
			ev.Failure = p.failure(j, at.Err)
		}
	}
	return ev
}

// doneAll gives every step of a segment its outputs.
func (p *Pool) doneAll(j *job, out any) (engine.Event, error) {
	ev := p.event(j, engine.DoneAll)
	all, ok := out.(action.Members)
	if !ok {
		return ev, action.Fail(&stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("the segment returned %T instead of its steps' outputs", out)})
	}
	ev.Partial = all.Partial
	for _, m := range j.task.Members {
		stored, loaded, err := p.output(j, all.Outputs[m.ID], m.Keep)
		if err != nil {
			return ev, &action.MemberError{Member: m.ID, Err: err}
		}
		if m.Idx == j.task.Idx {
			ev.Output, ev.Loaded = stored, loaded
			continue
		}
		ev.Parts = append(ev.Parts, engine.Part{Idx: m.Idx, Output: stored, Loaded: loaded})
	}
	return ev, nil
}

// failedInParts is the failure of a segment of which some branches have come to their end.
func (p *Pool) failedInParts(j *job, all action.Members, err error) engine.Event {
	ev := p.failed(j, err, err)
	ev.Partial = all.Partial
	number := map[string]int32{}
	for _, m := range j.task.Members {
		number[m.ID] = m.Idx
	}
	for _, m := range j.task.Members {
		part := engine.Part{Idx: m.Idx}
		if failed := all.Failed[m.ID]; failed != nil {
			part.Failure = p.failure(j, failed)
		} else if by, ok := number[all.Stopped[m.ID]]; ok {
			part.StoppedBy = by + 1
		} else if part.Output, part.Loaded, err = p.output(j, all.Outputs[m.ID], m.Keep); err != nil {
			part.Failure = p.failure(j, err)
		}
		ev.Parts = append(ev.Parts, part)
	}
	return ev
}

func (p *Pool) failure(j *job, err error) *engine.Failure {
	code := stepwell.CodeOf(err)
	if code == stepwell.CodeInternal || code == "" {
		code = stepwell.CodeFailed
	}
	message := err.Error()
	switch {
	case errors.Is(err, errDeadline):
		code = stepwell.CodeTimeout
		message = fmt.Sprintf("not ended within %s", j.timeout)
	case errors.Is(err, errRevoked):
		code = stepwell.CodeCancelled
	}
	return &engine.Failure{Code: code, Message: j.text(p, message, maxMessage), Hint: j.text(p, stepwell.HintOf(err), maxMessage)}
}

// wait is a wait as it is stored, and the JSON of its outputs if that is stored elsewhere.
func (p *Pool) wait(j *job, w *action.WaitError, keep bool) (out *engine.Wait, loaded []byte, err error) {
	if w.Until.IsZero() && !w.Await {
		return nil, nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the action waits without saying until when"})
	}
	if len(w.State) > maxState {
		return nil, nil, tooLarge("the state of the wait is", maxState, "keep the id of the work, and look the rest up")
	}
	out = &engine.Wait{Resume: w.Resume, Await: w.Await, Elsewhere: w.Elsewhere, Require: w.Require, External: j.text(p, w.ExternalID, 1024)}
	if !w.Until.IsZero() {
		out.Until = w.Until.UnixMicro()
	}
	if w.Await {
		if err := engine.CheckKey(w.ExternalID); err != nil {
			return nil, nil, action.Fail(err)
		}
		if j.hide(p, w.ExternalID) != w.ExternalID {
			return nil, nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the key that the step waits for holds a secret", Hint: "keys are seen by everybody: use another one"})
		}
		out.External, out.State = w.ExternalID, j.seal(p, w.State)
	}
	switch {
	case !w.Resume:
		out.Output, loaded, err = p.output(j, w.Outputs, keep)
	case w.State == nil:
		out.State = []byte("null") // that there is a state tells the next call from the first
	default:
		out.State = j.seal(p, w.State)
	}
	return out, loaded, err
}

// output is the handler's result as it is stored, and the JSON itself if it is stored elsewhere and
// templates read it.
func (p *Pool) output(j *job, out any, keep bool) (stored, loaded []byte, err error) {
	raw, err := encode(out)
	if err != nil {
		return nil, nil, err
	}
	return p.keep(j, raw, keep)
}

// encode gives outputs as JSON, nil when there are none.
func encode(out any) (stored []byte, err error) {
	switch v := out.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		stored = bytes.TrimSpace(v)
	case []byte:
		stored = bytes.TrimSpace(v)
	default:
		if size(out, MaxOutput) > MaxOutput {
			return nil, outputsTooLarge()
		}
		if stored, err = expr.Marshal(out); err != nil {
			return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the outputs cannot be written as JSON", Err: err})
		}
	}
	if len(stored) == 0 || string(stored) == "null" {
		return nil, nil
	}
	if len(stored) > MaxOutput {
		return nil, outputsTooLarge()
	}
	if stored[0] != '{' || !json.Valid(stored) {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the outputs are not a JSON object", Hint: `return an object such as {"result": …}`})
	}
	if _, err := expr.Decode(stored); err != nil { // what cannot be read again must not be stored
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the outputs cannot be read", Err: err})
	}
	return stored, nil
}

func outputsTooLarge() error {
	return tooLarge("the outputs are", MaxOutput, "write a file and return its path")
}

// keep seals outputs, and stores large ones elsewhere.
func (p *Pool) keep(j *job, raw []byte, keep bool) (stored, loaded []byte, err error) {
	if len(raw) == 0 {
		return nil, nil, nil
	}
	stored = j.seal(p, raw)
	if len(stored) <= inlineOutput {
		return stored, nil, nil
	}
	var ref string
	err = p.o.Outage.Retry(p.ctx, func() (err error) { // the attempt has ended: its own time is not what counts
		ref, err = p.o.Blobs.Put(context.Background(), stored)
		return err
	})
	if err != nil {
		return nil, nil, action.Fail(fmt.Errorf("store the outputs: %w", err))
	}
	if keep {
		loaded = stored
	}
	return []byte(ref), loaded, nil
}

func templateError(err error) error {
	e := &stepwell.Error{Code: stepwell.CodeInvalid, Message: "params: " + err.Error()}
	if x, ok := errors.AsType[*expr.Error](err); ok && x.Hint != "" {
		e.Hint = x.Hint
		e.Message = strings.TrimSuffix(e.Message, " ("+x.Hint+")")
	}
	return e
}
