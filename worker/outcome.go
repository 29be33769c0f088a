package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// outcome is the report of an attempt whose handler has returned, and whether its message is dealt with. Kind 0:
// none. An attempt cut off by a graceful shutdown has not failed and has lost no worker: it is put back, and goes on
// as the same attempt. If it must not run twice, it stays in flight: the recovery of the run fails it with the
// reason.
func (a *attempt) outcome(out any, err, cause error) (ev engine.Event, dealt bool) {
	a.host.flush()
	if err == errNotMine {
		return ev, true
	}
	ev = a.conclude(out, err, cause)
	ending := cause == errDrained || a.process.Err() != nil && cause != errRevoked && cause != errDeadline
	if ending && ev.Kind == engine.Failed {
		if a.Task.Step.Policy.NotIdempotent && cause != errDrained {
			return engine.Event{}, false
		}
		ev = a.deferred(0, stepwell.CodeCancelled, "stopped, because the process ends")
	}
	a.settleOwned(&ev, cause)
	return ev, true
}

// deferred lets the same attempt begin anew, after a while.
func (a *attempt) deferred(after time.Duration, code stepwell.Code, why string) engine.Event {
	ev := a.event(engine.Failed)
	ev.Defer, ev.After, ev.Failure = true, after, &engine.Failure{Code: code, Message: why}
	return ev
}

// conclude turns the handler's result into an event. Errors and values are the handler's own code, so that they too
// may panic.
func (a *attempt) conclude(out any, err, cause error) (ev engine.Event) {
	defer func() {
		if v := recover(); v != nil {
			err := stepwell.Errorf(stepwell.CodePanic, "action.Fail, Retry and Defer need an error", "what the action returned panicked: %v", v)
			ev = a.failed(err, err)
		}
	}()
	ev = a.returned(out, err, cause)
	ev.Counted = a.counted(out, &ev)
	if all, ok := out.(action.Members); ok && (ev.Kind == engine.DoneAll || ev.Kind == engine.Failed) {
		ev.Footprints = all.Footprints
	}
	return ev
}

// counted are the counts of stream steps that no output has.
func (a *attempt) counted(result any, ev *engine.Event) map[int32]engine.Items {
	all, ok := result.(action.Members)
	if !ok || ev.Kind != engine.DoneAll && ev.Kind != engine.Failed {
		return nil
	}
	tells := func(output []byte) bool { return len(output) > 0 && !engine.IsRef(output) }
	told := map[int32]bool{}
	told[a.Task.Idx] = tells(ev.Output)
	for i := range ev.Parts {
		told[ev.Parts[i].Idx] = tells(ev.Parts[i].Output)
	}
	var counts map[int32]engine.Items
	for _, m := range a.Task.Members {
		if c, ok := all.Counts[m.ID]; ok && !told[m.Idx] {
			if counts == nil {
				counts = map[int32]engine.Items{}
			}
			counts[m.Idx] = engine.Items{In: c.In, Out: c.Out, Failed: c.Failed, Dropped: c.Dropped, Skipped: c.Skipped}
		}
	}
	return counts
}

func (a *attempt) event(kind engine.Kind) engine.Event {
	ev := engine.Event{Kind: kind, At: a.r.o.Now().UnixMicro(), Idx: a.Task.Idx, Epoch: a.Task.Epoch, Started: a.started.UnixMicro(), Worker: a.r.o.Name}
	if input := a.input.Load(); input != nil {
		ev.Input = *input
	}
	return ev
}

// awayPause is how long an attempt waits for its next start that was put back because the store was away.
const awayPause = time.Second

// cutOff reports whether an attempt failed only because the store was away: it is put back, unless its handler has
// begun and may not run twice.
func (a *attempt) cutOff(err, cause error) bool {
	if cause == errRevoked || a.begun.Load() && a.Task.Step.Policy.NotIdempotent {
		return false
	}
	return errors.Is(err, store.ErrAway) || a.storeAway.Load() && cause == errDeadline
}

func (a *attempt) returned(out any, err, cause error) engine.Event {
	switch {
	case err != nil && a.cutOff(err, cause):
		return a.deferred(awayPause, stepwell.CodeUnavailable, "put back, because the store was unavailable")
	case cause == errDeadline && err == nil:
		err = errDeadline // late results are dropped
	case cause == errDeadline:
		return a.failed(errDeadline, nil) // and so are its wishes
	case err == nil:
		var ev engine.Event
		if ev, err = a.done(out); err == nil {
			return ev
		}
	}
	if skip, ok := errors.AsType[*action.SkipError](err); ok {
		ev := a.event(engine.Skipped)
		ev.Reason = a.text(skip.Reason, maxMessage)
		return ev
	}
	if wait, ok := errors.AsType[*action.WaitError](err); ok {
		ev := a.event(engine.Waiting)
		if ev.Wait, ev.Loaded, err = a.wait(wait, a.Task.Step.Keep); err == nil {
			err = a.recordCallbackUse(ev.Wait)
		}
		if err == nil {
			a.pay(&ev, nil)
			return ev
		}
	}
	if cause != nil && !errors.Is(err, cause) {
		return a.failed(fmt.Errorf("%w (%w)", cause, err), err)
	}
	if all, ok := out.(action.Members); ok && cause == nil && len(all.Failed) > 0 {
		return a.failedInParts(all, err)
	}
	return a.failed(err, err)
}

// pay fills in what an attempt has used and cost since it began or resumed.
func (a *attempt) pay(ev *engine.Event, outputs []byte) {
	if !a.begun.Load() {
		return
	}
	if len(a.Task.Members) == 0 { // what each step of a segment has used is not known
		ev.Resources = cmp.Or(a.told, a.meter.Used())
	}
	if a.r.o.Price == nil {
		return
	}
	calls := 1
	if len(a.Task.State) > 0 {
		calls = 0 // it goes on
	}
	s := a.r.o.Price(a.Task.Step.Action, calls, a.started, outputs)
	s.Resources = ev.Resources
	ev.Cost, ev.Usage = max(0, s.Cost), s.Usage
}

// failed is a failure with the retry wishes of the handler's error.
func (a *attempt) failed(err, wish error) engine.Event {
	ev := a.event(engine.Failed)
	ev.Permanent = action.IsFail(wish)
	if again, ok := errors.AsType[*action.RetryError](wish); ok {
		ev.After, ev.Defer = max(0, again.After), again.Defer
	}
	if !ev.Defer { // it was not taken
		a.pay(&ev, action.UsedBy(wish))
	}
	if a.r.o.Lent {
		ev.Output = action.UsedBy(wish) // the other process counts it
	}
	ev.Failure = a.failure(err)
	if at, ok := errors.AsType[*action.MemberError](wish); ok {
		for _, m := range a.Task.Members {
			if m.ID == at.Member && m.Idx != a.Task.Idx {
				ev.Member = m.Idx + 1
			}
		}
		if err == wish { // the step is named separately
			ev.Failure = a.failure(at.Err)
		}
	}
	return ev
}

// done is the completion, for a segment that of each of its steps.
func (a *attempt) done(out any) (engine.Event, error) {
	if len(a.Task.Members) == 0 {
		ev := a.event(engine.Done)
		raw, err := encode(out)
		if err == nil {
			ev.Output, ev.Loaded, err = a.storeOutput(raw, a.Task.Step.Keep)
		}
		if err == nil {
			a.pay(&ev, raw)
		}
		return ev, err
	}
	ev := a.event(engine.DoneAll)
	all, ok := out.(action.Members)
	if !ok {
		return ev, action.Fail(stepwell.Errorf(stepwell.CodeInternal, "", "the segment returned %T instead of its steps' outputs", out))
	}
	ev.Partial = all.Partial
	for _, m := range a.Task.Members {
		stored, loaded, err := a.output(all.Outputs[m.ID], m.Keep)
		if err != nil {
			return ev, &action.MemberError{Member: m.ID, Err: err}
		}
		if m.Idx == a.Task.Idx {
			ev.Output, ev.Loaded = stored, loaded
			continue
		}
		ev.Parts = append(ev.Parts, engine.Part{Idx: m.Idx, Output: stored, Loaded: loaded})
	}
	return ev, nil
}

// failedInParts is the failure of a segment of which some branches have come to their end.
func (a *attempt) failedInParts(all action.Members, err error) engine.Event {
	ev := a.failed(err, err)
	ev.Partial = all.Partial
	number := map[string]int32{}
	for _, m := range a.Task.Members {
		number[m.ID] = m.Idx
	}
	for _, m := range a.Task.Members {
		part := engine.Part{Idx: m.Idx}
		if failed := all.Failed[m.ID]; failed != nil {
			part.Failure = a.failure(failed)
		} else if by, ok := number[all.Stopped[m.ID]]; ok {
			part.StoppedBy = by + 1
		} else if part.Output, part.Loaded, err = a.output(all.Outputs[m.ID], m.Keep); err != nil {
			part.Failure = a.failure(err)
		}
		ev.Parts = append(ev.Parts, part)
	}
	return ev
}

func (a *attempt) failure(err error) *engine.Failure {
	code := stepwell.CodeOf(err)
	if code == stepwell.CodeInternal || code == "" {
		code = stepwell.CodeFailed
	}
	message := err.Error()
	switch {
	case errors.Is(err, errDeadline):
		code = stepwell.CodeTimeout
		message = fmt.Sprintf("not ended within %s", a.timeout)
	case errors.Is(err, errRevoked):
		code = stepwell.CodeCancelled
	}
	return &engine.Failure{Code: code, Message: a.text(message, maxMessage), Hint: a.text(stepwell.HintOf(err), maxMessage)}
}

// wait is a wait as it is stored, and the JSON of its outputs if that is stored elsewhere.
func (a *attempt) wait(w *action.WaitError, keep bool) (out *engine.Wait, loaded []byte, err error) {
	if w.Until.IsZero() && !w.Await {
		return nil, nil, action.Invalid("", "the action waits without saying until when")
	}
	if len(w.State) > maxState {
		return nil, nil, tooLarge("the state of the wait is", maxState, "keep the id of the work, and look the rest up")
	}
	out = &engine.Wait{Resume: w.Resume, Await: w.Await, Elsewhere: w.Elsewhere, Require: w.Require, External: a.text(w.ExternalID, 1024)}
	if !w.Until.IsZero() {
		out.Until = w.Until.UnixMicro()
	}
	if w.Await {
		if err := engine.CheckKey(w.ExternalID); err != nil {
			return nil, nil, action.Fail(err)
		}
		if a.hide(w.ExternalID) != w.ExternalID {
			return nil, nil, action.Invalid("keys are seen by everybody: use another one", "the key that the step waits for holds a secret")
		}
		out.External, out.State = w.ExternalID, a.seal(w.State)
	}
	switch {
	case !w.Resume:
		out.Output, loaded, err = a.output(w.Outputs, keep)
	case w.State == nil:
		out.State = []byte("null") // any state marks the next call as not the first
	default:
		out.State = a.seal(w.State)
	}
	return out, loaded, err
}

// output is the handler's result as it is stored, and the JSON itself if it is stored elsewhere and
// templates read it.
func (a *attempt) output(out any, keep bool) (stored, loaded []byte, err error) {
	raw, err := encode(out)
	if err != nil {
		return nil, nil, err
	}
	return a.storeOutput(raw, keep)
}

// encode gives outputs as JSON that can be read again, nil when there are none.
func encode(out any) (raw []byte, err error) {
	switch v := out.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		raw = bytes.TrimSpace(v)
	case []byte:
		raw = bytes.TrimSpace(v)
	default:
		if size(out, MaxOutput) > MaxOutput {
			return nil, outputsTooLarge()
		}
		var plain bool
		if raw, plain, err = expr.MarshalPlain(out); err != nil {
			return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the outputs cannot be written as JSON", Err: err})
		}
		if plain && len(raw) <= MaxOutput && raw[0] == '{' {
			return raw, nil
		}
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) > MaxOutput {
		return nil, outputsTooLarge()
	}
	if err = expr.Check(unsafe.String(unsafe.SliceData(raw), len(raw))); raw[0] != '{' || err != nil && !json.Valid(raw) {
		return nil, action.Invalid(`return an object such as {"result": …}`, "the outputs are not a JSON object")
	}
	if err != nil { // never store unreadable outputs
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the outputs cannot be read", Err: err})
	}
	return raw, nil
}

func outputsTooLarge() error {
	return tooLarge("the outputs are", MaxOutput, "write a file and return its path")
}

// storeOutput seals outputs, and stores large ones elsewhere.
func (a *attempt) storeOutput(raw []byte, keep bool) (stored, loaded []byte, err error) {
	if len(raw) == 0 {
		return nil, nil, nil
	}
	stored = a.seal(raw)
	if len(stored) <= inlineOutput {
		return stored, nil, nil
	}
	var ref string
	err = a.r.o.Outage.Retry(a.process, func() (err error) { // the attempt has ended: its own time limit no longer counts
		ref, err = a.r.o.Blobs.Put(context.Background(), stored)
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
