package engine

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
)

// each is the state of a for_each: a window of live iterations over the items (semantics §3).
type each struct {
	items     []any // nil for a range of n
	n         int32
	next      int32
	again     []int32 // iterations to repeat, before those from next on
	completed int32
	failed    int32
	skipped   int32
	cut       int32 // ended by a stop
	unbegun   int32 // left out, known at the end
	redo      []redo
	first     int32    // the first iteration that failed
	why       *Failure // and why
	results   [][]byte
	bytes     int // of results
	limit     int32
	tolerate  int32
	stopped   bool
	scopes    map[int32]*scope // live ones by iteration

	kept  map[int32]bool // iterations that were taken over
	ahead int32          // how many of them lie at next or after
	// Kept by iteration, only if the run retains ended iterations.
	past    map[int32]*scope   // not wholly completed
	tallies map[int32]*tally   // counts inside the others
	skips   map[int32]*Failure // why those were skipped that were
}

// redo is an iteration that can be repeated, with its counts.
type redo struct {
	iter   int32
	status stepwell.StepStatus
	inside *tally
	partly bool // it counts as completed
}

// live are the scopes of the iterations under way, in order.
func (e *each) live() []*scope {
	out := make([]*scope, 0, len(e.scopes))
	for _, s := range e.scopes {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *scope) int { return int(a.iter - b.iter) })
	return out
}

func (r *Run) openEach(p place, step *plan.Step, in *info) error {
	v, err := step.ForEach.Items.Render(r.scope(p, step.Reads), r.limits())
	if err != nil {
		return err
	}
	e, err := elements(v)
	if err != nil {
		return err
	}
	per := len(step.Body.Graph.Steps)
	if int(r.next)+int(e.n)*per > MaxSteps {
		return stepwell.Errorf(stepwell.CodeLimit, "", "%d iterations go beyond the limit of %d steps per execution", e.n, MaxSteps)
	}
	e.limit = int32(min(r.window, math.MaxInt32))
	if m := step.ForEach.MaxConcurrent; m > 0 {
		e.limit = min(e.limit, int32(m))
	}
	e.tolerate = int32(step.ForEach.MaxFailures)
	if step.ForEach.MaxFailures < 0 {
		e.tolerate = int32(math.Floor(step.ForEach.Share*float64(e.n) + 1e-9))
	}
	if step.ForEach.Collect {
		e.results = make([][]byte, e.n)
	}
	e.scopes = map[int32]*scope{}
	in.each = e
	r.expect(p, int(e.n), int64(e.n)*plan.WeightUnit)
	r.seedEach(p, step, e)
	return nil
}

// iterate opens an iteration.
func (r *Run) iterate(p place, step *plan.Step, e *each, i int32) *scope {
	s := r.openScope(step.Body.Graph, p, step.Body, i)
	if e.items != nil {
		s.item = e.items[i]
	} else {
		s.item = int64(i)
	}
	e.scopes[i] = s
	return s
}

// elements turns the value of for_each into a list: a list, an object (as key and value, by key), or a number n for 0
// … n−1.
func elements(v any) (*each, error) {
	switch v := v.(type) {
	case []any:
		if len(v) > MaxSteps {
			return count(int64(len(v)))
		}
		return &each{items: v, n: int32(len(v))}, nil
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		items := make([]any, len(keys))
		for i, k := range keys {
			items[i] = map[string]any{"key": k, "value": v[k]}
		}
		return &each{items: items, n: int32(len(items))}, nil
	case int64:
		return count(v)
	case int:
		return count(int64(v))
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return count(int64(v))
		}
	case nil:
		return nil, stepwell.Invalid("use default([]) when there may be nothing", "is null")
	}
	return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "is " + kindOf(v) + ", not a list, an object or a whole number",
		Hint: "split a string, or use a template whose whole value is the list"}
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case float64:
		return "a number with a fraction"
	}
	return fmt.Sprintf("a %T", v)
}

func count(n int64) (*each, error) {
	if n < 0 || n > MaxSteps {
		return nil, stepwell.Errorf(stepwell.CodeLimit, "", "%d is not a number of iterations between 0 and %d", n, MaxSteps)
	}
	return &each{n: int32(n)}, nil
}

// moreItems opens iterations up to the limit, and ends the for_each after the last.
func (r *Run) moreItems(p place) {
	n := p.node()
	if n.status != stepwell.StepRunning || n.info.each == nil || p.s.closed {
		return
	}
	e, step := n.info.each, p.step()
	for !e.stopped && len(e.scopes) < int(e.limit) {
		i, ok := e.nextIteration()
		if !ok {
			break
		}
		r.first(r.iterate(p, step, e, i))
	}
	if len(e.scopes) == 0 && (e.stopped || len(e.again) == 0 && e.next >= e.n) {
		r.eachEnded(p, e)
	}
}

func (e *each) nextIteration() (int32, bool) {
	if len(e.again) > 0 {
		i := e.again[0]
		e.again = e.again[1:]
		return i, true
	}
	for e.ahead > 0 && e.kept[e.next] {
		e.next++
		e.ahead--
	}
	if e.next >= e.n {
		return 0, false
	}
	e.next++
	return e.next - 1, true
}

func (r *Run) iterationEnded(s *scope) {
	p := s.owner
	e := p.node().info.each
	delete(e.scopes, s.iter)
	status := s.nodes[0].status
	again := redo{iter: s.iter, status: status}
	if in := s.nodes[0].info; in != nil {
		again.inside = in.inside
	}
	var raw []byte
	switch {
	case s.cut && s.stop.cause != 0:
		e.cut++
		e.redo = append(e.redo, again)
	case s.err != nil:
		e.failed++
		e.redo = append(e.redo, again)
		if e.why == nil || s.iter < e.first {
			e.first, e.why = s.iter, s.err
		}
	case s.cut:
		e.cut++
		e.redo = append(e.redo, again)
	case status == stepwell.StepCompleted:
		if e.completed++; s.lost {
			again.partly = true
			e.redo = append(e.redo, again)
		}
		if in := s.nodes[0].info; in != nil {
			raw = in.output
		}
	default:
		e.skipped++
	}
	if e.results != nil {
		r.collect(p, e, s.iter, raw)
	}
	if r.hasItems(p) {
		r.countIterations(e, s.err != nil)
	}
	r.close(s)
	if r.retain {
		e.retain(s, again.inside)
	}
	if ff := p.step().Body.Graph.FailFast; e.failed > e.tolerate && ff != definition.FailFastOff {
		e.stopped = true
		if ff == definition.FailFastCancel {
			r.stopInside(p, stop{level: cancelling, reason: e.why.Step + " failed", step: e.why.Step})
		}
	}
	r.todo(p, moreItems)
}

// retain keeps the state of an ended iteration that Seeds needs.
func (e *each) retain(s *scope, inside *tally) {
	if e.past == nil {
		e.past, e.tallies, e.skips = map[int32]*scope{}, map[int32]*tally{}, map[int32]*Failure{}
	}
	delete(e.past, s.iter)
	delete(e.tallies, s.iter)
	delete(e.skips, s.iter)
	n := &s.nodes[0]
	switch {
	case s.lost && s.body.Graph.Steps[0].Body != nil:
		e.past[s.iter] = s
	case s.lost:
	case n.status == stepwell.StepSkipped:
		e.skips[s.iter] = n.info.err
	case inside != nil:
		e.tallies[s.iter] = inside
	}
}

// collect keeps an iteration's result, within the limit.
func (r *Run) collect(p place, e *each, i int32, raw []byte) {
	more := len(raw) - len(e.results[i])
	if in := p.node().info; r.collected+more > maxCollected {
		if in.err == nil {
			in.err = &Failure{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the collected results exceed %d MiB", maxCollected>>20),
				Hint: "let the steps return less, or read the results of single iterations from the store"}
		}
		e.stopped = true
		return
	}
	e.results[i] = raw
	e.bytes += more
	r.collected += more
}

func (r *Run) eachEnded(p place, e *each) {
	in := p.node().info
	e.unbegun = e.n - e.next - e.ahead + int32(len(e.again))
	r.countEnds(p, stepwell.StepSkipped, int(e.unbegun))
	r.weigh(p, load{done: int64(e.unbegun) * plan.WeightUnit})
	r.bodyOutput(p, in, e.outputs())
	if e.completed+e.skipped == e.n && len(e.redo) == 0 { // nothing is left that could be repeated
		e.items, e.results = nil, nil
	}
	if len(e.redo) > 0 || e.unbegun > 0 {
		p.node().flags |= partly
	}
	switch {
	case in.err != nil:
		r.end(p, stepwell.StepFailed, in.err)
	case e.cut+e.unbegun > 0 && p.s.stop.cause != 0:
		r.cutShort(p)
	case e.failed > e.tolerate:
		r.end(p, stepwell.StepFailed, &Failure{Code: stepwell.CodeFailed, Hint: e.why.Hint, Step: e.why.Step,
			Message: fmt.Sprintf("%d of %d iterations failed, first %s: %s", e.failed, e.n, e.why.Step, e.why.Message)})
	case e.cut+e.unbegun > 0:
		r.cutShort(p)
	default:
		r.tolerated = r.tolerated || e.failed > 0
		r.end(p, stepwell.StepCompleted, nil)
	}
}

// outputs of a for_each: how it went, and the results in the items' order if somebody reads them.
func (e *each) outputs() []byte {
	out := map[string]any{"count": e.n, "completed": e.completed, "failed": e.failed, "skipped": e.n - e.completed - e.failed}
	if e.results != nil {
		list := make([]json.RawMessage, len(e.results))
		for i, raw := range e.results {
			if list[i] = raw; raw == nil {
				list[i] = json.RawMessage("null")
			}
		}
		out["results"] = list
	}
	return canonical(out)
}
