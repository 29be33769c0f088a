package scenario

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// judge compares the execution with what was expected of it.
func (r *run) judge(ctx context.Context) (err error) {
	if r.x, err = r.world.Store.Execution(ctx, r.id); err != nil {
		return err
	}
	if err := r.readSteps(ctx); err != nil {
		return err
	}
	r.res.Seconds = r.world.Clock.Now().Sub(r.start).Seconds()
	if r.res.Played, err = r.played(); err != nil {
		return err
	}
	scope, err := r.scope()
	if err != nil {
		return err
	}
	if err := r.cover(ctx); err != nil {
		return err
	}
	if r.t.expect != nil {
		if err := r.compare(ctx, scope); err != nil {
			return err
		}
	}
	for _, a := range r.t.asserts {
		holds, err := a.EvalBool(scope, expr.Limits{})
		if err != nil {
			r.add(a.pos, err.Error(), "")
		} else if !holds {
			r.add(a.pos, "not true: "+a.Source(), r.operands(a, scope))
		}
	}
	if r.x.Status != stepwell.ExecutionCompleted && !r.t.saysStatus() {
		f := r.add(r.t.Pos, "the execution is "+r.x.Status.String()+", and the test does not say so", "write expect: {status: "+r.x.Status.String()+"} if it is meant")
		if r.x.Failure != nil {
			f.Message, f.Step = f.Message+": "+r.x.Failure.Message, r.x.Failure.Step
		}
	}
	if err := r.leaks(ctx); err != nil {
		return err
	}
	if err := r.snapshots(ctx); err != nil {
		return err
	}
	for _, m := range r.t.own {
		if !r.used[m] {
			r.res.Notes = append(r.res.Notes, fmt.Sprintf("%s:%d:%d: the mock %s was not used", r.t.File, m.pos.Line, m.pos.Column, m.name))
		}
	}
	if len(r.res.Failures) == 0 {
		return nil
	}
	r.res.Notes = append(r.res.Notes, r.itemFailures()...)
	events := r.lastEvents(ctx)
	for i := range r.res.Failures {
		f := &r.res.Failures[i]
		if f.Events = events; f.Step == "" {
			continue
		}
		why, err := r.world.Why(ctx, r.id, f.Step)
		for _, reason := range why {
			f.Why = append(f.Why, reason.Message)
		}
		if err != nil {
			f.Why = []string{err.Error()}
		}
	}
	return nil
}

// saysStatus reports whether a test says how the execution ends. Else it must complete.
func (t *Test) saysStatus() bool {
	if t.Open {
		return true
	}
	if t.expect != nil && (t.expect.node.Lookup("status") != nil || t.expect.node.Lookup("error") != nil) {
		return true
	}
	return slices.ContainsFunc(t.asserts, func(a assertion) bool {
		return slices.ContainsFunc(a.Refs(), func(ref expr.Ref) bool {
			return ref.Path[0] == "execution" && (len(ref.Path) == 1 || ref.Path[1] == "status")
		})
	})
}

// operands shows the values that an expression reads.
func (r *run) operands(a assertion, scope expr.Vars) string {
	var parts []string
	for _, ref := range a.Refs() {
		name := strings.Join(ref.Path, ".")
		t, err := expr.ParseExpression(name)
		if err != nil {
			continue
		}
		if v, err := t.Eval(scope, expr.Limits{}); err == nil {
			parts = append(parts, name+" is "+shown(v))
		}
	}
	return strings.Join(parts, ", ")
}

// readSteps reads all steps.
func (r *run) readSteps(ctx context.Context) error {
	for from := int32(0); ; {
		page, err := r.world.Store.Steps(ctx, r.x.No, store.StepFilter{From: from, Limit: stepsPage})
		if err != nil {
			return err
		}
		for i := range page {
			r.steps[page[i].Key] = &page[i]
			r.keys = append(r.keys, page[i].Key)
		}
		if len(page) < stepsPage {
			return nil
		}
		from = page[len(page)-1].Idx + 1
	}
}

// stepsPage is how many steps are read at once.
const stepsPage = 10_000

// outputs are a step's outputs, opened.
func (r *run) outputs(raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if engine.IsRef(raw) {
		var err error
		if raw, err = r.world.Store.Blobs().Load(context.Background(), string(raw)); err != nil {
			return nil, err
		}
	}
	return expr.Decode(raw)
}

// scope are the names for assertions and for templates in expectations.
func (r *run) scope() (expr.Vars, error) {
	steps := map[string]any{}
	for _, key := range r.keys {
		s := r.steps[key]
		out, err := r.outputs(s.Output)
		if err != nil {
			return nil, err
		}
		one := map[string]any{"status": s.Status.String(), "attempt": int64(s.Attempt), "outputs": out, "error": nil, "duration": float64(s.Ended-s.Started) / 1e6}
		if s.Error != nil {
			one["error"] = s.Error.Message
		}
		steps[key] = one
	}
	outputs, err := r.outputs(r.x.Outputs)
	if err != nil {
		return nil, err
	}
	return expr.Vars{"steps": steps, "params": r.t.Params, "row": any(r.t.row),
		"execution": map[string]any{"status": r.x.Status.String(), "outputs": outputs, "duration": r.took().Seconds(), "id": r.id}}, nil
}

// took is how long the execution took, or has taken until now.
func (r *run) took() time.Duration {
	end := r.x.Ended
	if end.IsZero() {
		end = r.world.Clock.Now()
	}
	return end.Sub(r.x.Created)
}

// compare goes through the keys of expect.
func (r *run) compare(ctx context.Context, scope expr.Vars) error {
	c := &comparison{scope: scope, fail: func(pos spec.Pos, message string) { r.add(pos, message, "") }}
	for _, e := range r.t.expect.node.Entries {
		n := e.Value
		switch e.Key {
		case "status":
			if got := r.x.Status.String(); n.Text != got {
				f := r.add(e.At(), fmt.Sprintf("status: expected %s, got %s", n.Text, got), "")
				if r.x.Failure != nil {
					f.Message += ": " + r.x.Failure.Message
					f.Step = r.x.Failure.Step
				}
			}
		case "outputs":
			c.value(n, "outputs", scope["execution"].(map[string]any)["outputs"])
		case "error":
			c.failure(e, "error", r.x.Failure)
		case "steps":
			for _, step := range n.Entries {
				if err := r.compareStep(ctx, c, step); err != nil {
					return err
				}
			}
		case "order":
			r.compareOrder(n)
		case "calls":
			for _, inner := range n.Entries {
				r.compareCalls(c, inner)
			}
		case "logs":
			for _, inner := range n.Entries {
				r.compareLogs(inner)
			}
		case "duration":
			r.compareDuration(e, "duration", r.took())
		case "cost":
			c.value(n, "cost", float64(r.x.Progress.Cost)/1e6)
		case "breached":
			c.value(n, "breached", cmp.Or(r.x.Progress.Breached, "none"))
		case "items", "failures":
			r.compareItems(c, e)
		}
	}
	return nil
}

// failure compares an error: with a text that its message holds, or with its members.
func (c *comparison) failure(e spec.Entry, path string, got *engine.Failure) {
	switch {
	case got == nil && e.Value.IsNull():
	case got == nil:
		c.fail(e.At(), path+": expected "+shown(c.plain(e.Value))+", there was no error")
	case e.Value.Kind == spec.ScalarNode:
		if want := fmt.Sprint(c.plain(e.Value)); !strings.Contains(got.Message, want) {
			c.fail(e.At(), fmt.Sprintf("%s: expected a message with %q, got %q", path, want, got.Message))
		}
	default:
		c.value(e.Value, path, map[string]any{"code": string(got.Code), "message": got.Message, "hint": got.Hint, "step": got.Step})
	}
}

// compareStep compares one step: its status, or its members.
func (r *run) compareStep(ctx context.Context, outer *comparison, e spec.Entry) error {
	path := "steps." + e.Key
	c := &comparison{scope: outer.scope, fail: func(pos spec.Pos, message string) { r.add(pos, message, "").Step = e.Key }}
	s := r.steps[e.Key]
	if s == nil {
		r.add(e.Pos, path+": there was no such step", spec.DidYouMean(e.Key, r.keys))
		return nil
	}
	if e.Value.Kind == spec.ScalarNode {
		if want := fmt.Sprint(c.plain(e.Value)); want != s.Status.String() {
			c.fail(e.At(), fmt.Sprintf("%s: expected %s, got %s", path, want, s.Status))
		}
		return nil
	}
	for _, m := range e.Value.Entries {
		at := path + "." + m.Key
		switch m.Key {
		case "status":
			if want := fmt.Sprint(c.plain(m.Value)); want != s.Status.String() {
				c.fail(m.At(), fmt.Sprintf("%s: expected %s, got %s", at, want, s.Status))
			}
		case "attempts":
			c.value(m.Value, at, int64(s.Attempt))
		case "outputs":
			out, err := r.outputs(s.Output)
			if err != nil {
				return err
			}
			c.value(m.Value, at, out)
		case "error":
			c.failure(m, at, s.Error)
		case "after":
			if want, err := spec.ParseDuration(c.plain(m.Value)); err != nil {
				c.fail(m.At(), at+": "+err.Error())
			} else if began := time.UnixMicro(s.Started).Sub(r.x.Created); s.Started == 0 || began < want {
				c.fail(m.At(), fmt.Sprintf("%s: expected its last attempt to begin later than %s after the start, it began after %s", at, want, began))
			}
		case "duration":
			r.compareDuration(m, at, time.Duration(s.Ended-s.Started)*time.Microsecond)
		case "cost":
			c.value(m.Value, at, float64(s.Cost)/1e6)
		case "why":
			if err := r.compareWhy(ctx, c, m, at, e.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareWhy compares with the code of a reason, or with a part of its text.
func (r *run) compareWhy(ctx context.Context, c *comparison, m spec.Entry, path, step string) error {
	why, err := r.world.Why(ctx, r.id, step)
	if err != nil {
		return err
	}
	want := fmt.Sprint(c.plain(m.Value))
	var got []string
	for _, reason := range why {
		if reason.Code == want || strings.Contains(reason.Message, want) {
			return nil
		}
		got = append(got, reason.Code+" ("+reason.Message+")")
	}
	c.fail(m.At(), fmt.Sprintf("%s: expected %s, got %s", path, want, strings.Join(got, ", ")))
	return nil
}

// compareDuration compares with a duration, or with bounds.
func (r *run) compareDuration(e spec.Entry, path string, got time.Duration) {
	check := func(at spec.Entry, ok func(want time.Duration) bool, what string) {
		v, _ := at.Value.Scalar()
		want, err := spec.ParseDuration(v)
		switch {
		case err != nil:
			r.add(at.At(), path+": "+err.Error(), "write 15m")
		case !ok(want):
			r.add(at.At(), fmt.Sprintf("%s: expected %s%s, got %s", path, what, want, got), "")
		}
	}
	if e.Value.Kind == spec.ScalarNode {
		check(e, func(want time.Duration) bool { return got == want }, "")
		return
	}
	for _, m := range e.Value.Entries {
		switch m.Key {
		case "below":
			check(m, func(want time.Duration) bool { return got < want }, "less than ")
		case "above":
			check(m, func(want time.Duration) bool { return got > want }, "more than ")
		default:
			r.add(m.Pos, path+": unknown key "+spec.Quote(m.Key), "use above and below")
		}
	}
}

// compareOrder compares the order in which steps ended. A list inside: in any order.
func (r *run) compareOrder(n *spec.Node) {
	last, lastKey := int32(0), ""
	for _, item := range n.Items {
		group := []*spec.Node{item}
		if item.Kind == spec.ListNode {
			group = item.Items
		}
		most, mostKey := last, lastKey
		for _, one := range group {
			s := r.steps[one.Text]
			switch {
			case s == nil:
				r.add(one.Pos, fmt.Sprintf("order: there was no step %q", one.Text), spec.DidYouMean(one.Text, r.keys))
			case s.Seq == 0:
				r.add(one.Pos, "order: "+one.Text+" has not ended", "").Step = one.Text
			case s.Seq < last:
				r.add(one.Pos, fmt.Sprintf("order: %s ended before %s", one.Text, lastKey), "").Step = one.Text
			case s.Seq > most:
				most, mostKey = s.Seq, one.Text
			}
		}
		last, lastKey = most, mostKey
	}
}

// compareCalls compares the params of the calls of a step or an action.
func (r *run) compareCalls(c *comparison, e spec.Entry) {
	act, ofAction := strings.CutPrefix(e.Key, "action ")
	var got []any
	for _, call := range r.calls {
		if ofAction && r.sameAction(act, call.Action) || !ofAction && matches(e.Key, call.Key, call.id) > 0 {
			got = append(got, any(call.Params))
		}
	}
	if ofAction || len(got) > 0 || slices.Contains(stepNames(r.pipe.Plan()), e.Key) {
		c.value(e.Value, "calls."+e.Key, plainList(got))
		return
	}
	r.add(e.Pos, fmt.Sprintf("calls: there is no step %q", e.Key), spec.DidYouMean(e.Key, r.keys))
}

// plainList makes values of handlers' params plain data.
func plainList(list []any) []any {
	out := make([]any, len(list))
	for i, v := range list {
		raw, err := expr.Marshal(v)
		if err == nil {
			v, err = expr.Decode(raw)
		}
		if out[i] = v; err != nil {
			out[i] = err.Error()
		}
	}
	return out
}

// compareLogs looks for texts in the lines of a step, in order.
func (r *run) compareLogs(e spec.Entry) {
	var lines []string
	for _, l := range r.lines {
		if matches(e.Key, l.StepKey, lastID(l.StepKey)) > 0 {
			lines = append(lines, l.Message)
		}
	}
	list := []*spec.Node{e.Value}
	if e.Value.Kind == spec.ListNode {
		list = e.Value.Items
	}
	left := lines
	for _, n := range list {
		i := slices.IndexFunc(left, func(line string) bool { return strings.Contains(line, n.Text) })
		if i < 0 {
			r.add(n.Pos, fmt.Sprintf("logs.%s: expected a line with %q, got %s", e.Key, n.Text, shown(texts(lines))), "").Step = e.Key
			return
		}
		left = left[i+1:]
	}
}

func texts(lines []string) []any {
	out := make([]any, len(lines))
	for i, l := range lines {
		out[i] = l
	}
	return out
}

// lastEvents are the last events of the execution, with their times since its start.
func (r *run) lastEvents(ctx context.Context) (out []string) {
	x, err := r.world.Store.Execution(ctx, r.id)
	if err != nil {
		return nil
	}
	var all []engine.HistoryEvent
	for after := int64(0); ; {
		page, err := r.world.Store.Events(ctx, x.No, after, 10_000)
		if err != nil || len(page) == 0 {
			break
		}
		all, after = append(all, page...), page[len(page)-1].Version
	}
	for _, e := range all[max(0, len(all)-10):] {
		text := fmt.Sprintf("%-10s %s", e.At.Sub(x.Created).Round(time.Millisecond), cmp.Or(e.StepKey, "execution")+" "+e.Type)
		if e.Detail != "" {
			text += ": " + stepwell.Clip(e.Detail, 120)
		}
		out = append(out, text)
	}
	return out
}
