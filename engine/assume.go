package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
)

// Verb is what an Assumption says of an execution or a step.
type Verb string

// The verbs. Those from VerbFail on speak of an attempt that is in flight, or of a step that waits for something outside.
const (
	VerbRestart  Verb = "restart"
	VerbRetry    Verb = "retry"
	VerbCancel   Verb = "cancel"
	VerbPause    Verb = "pause"
	VerbResume   Verb = "resume"
	VerbFail     Verb = "fail"
	VerbComplete Verb = "complete"
	VerbSkip     Verb = "skip"
	VerbLose     Verb = "lose" // its worker is lost
)

// AssumptionHint lists what an Assumption may say.
const AssumptionHint = `one of: restart STEP [failed-only], retry [STEP], fail STEP [permanently], complete STEP [{"an": "output"}], skip STEP, lose STEP, cancel, pause, resume`

// Assumption is something that might happen to an execution.
type Assumption struct {
	Verb       Verb
	Step       string          // its key; "": the execution
	FailedOnly bool            // of a restart: only what did not complete inside the step
	Permanent  bool            // of a failure: no retry helps
	Outputs    json.RawMessage // of a completed step, an object. Defaults to none
}

// ParseAssumption reads a text such as "restart deploy" (AssumptionHint). CodeInvalid names what is wrong with it.
func ParseAssumption(text string) (*Assumption, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	a := &Assumption{Verb: Verb(verb), Step: strings.TrimSpace(rest)}
	named := true
	switch a.Verb {
	case VerbRestart:
		a.Step, a.FailedOnly = cutWord(a.Step, "failed-only")
	case VerbRetry:
		return a, nil
	case VerbFail:
		a.Step, a.Permanent = cutWord(a.Step, "permanently")
	case VerbComplete:
		if key, outputs, ok := strings.Cut(a.Step, " {"); ok {
			a.Step, a.Outputs = strings.TrimSpace(key), json.RawMessage("{"+outputs)
			if _, err := decodeObject("outputs", a.Outputs); err != nil {
				return nil, stepwell.Invalid("", "%v", err)
			}
		}
	case VerbSkip, VerbLose:
	case VerbCancel, VerbPause, VerbResume:
		named = false
	default:
		return nil, stepwell.Invalid(AssumptionHint, "%q is nothing that can be assumed of an execution", stepwell.Clip(text, 100))
	}
	switch {
	case named && a.Step == "":
		return nil, stepwell.Invalid(AssumptionHint, "%s: of which step?", a.Verb)
	case !named && a.Step != "":
		return nil, stepwell.Invalid(AssumptionHint, "%s is of the whole execution, not of %q", a.Verb, stepwell.Clip(a.Step, 100))
	}
	return a, nil
}

// cutWord takes a last word away.
func cutWord(text, word string) (before string, found bool) {
	if before, found = strings.CutSuffix(text, " "+word); found {
		return strings.TrimSpace(before), true
	}
	return text, false
}

// Assumed is the event that makes an assumption true at a time. CodeConflict: it cannot come true in the present state. A retry is none:
// it begins another run. The caller fills in what a restart with FailedOnly keeps (RestartSeeds).
func (r *Run) Assumed(a *Assumption, at int64) (Event, error) {
	ev := Event{At: at}
	switch a.Verb {
	case VerbRestart:
		ev.Kind, ev.Step, ev.FailedOnly, ev.Fine = Restart, a.Step, a.FailedOnly, a.FailedOnly
		return ev, nil
	case VerbCancel:
		ev.Kind = Cancel
		return ev, nil
	case VerbPause:
		ev.Kind = Pause
		return ev, nil
	case VerbResume:
		ev.Kind = Resume
		return ev, nil
	case VerbFail, VerbComplete, VerbSkip, VerbLose:
		err := r.assumedEnd(&ev, a)
		return ev, err
	}
	return ev, stepwell.Errorf(stepwell.CodeInternal, "", "no event makes %q true", a.Verb)
}

// assumedEnd fills in the end of an attempt.
func (r *Run) assumedEnd(ev *Event, a *Assumption) error {
	if r.main == nil {
		return notStarted()
	}
	p, ok := search(r.main, a.Step)
	if !ok {
		_, err := r.Why(a.Step)
		if err == nil {
			err = notInFlight(a.Step, stepwell.StepPending)
		}
		return err
	}
	if lead, led := p.step().Lead(); led {
		ev.Member = p.idx() + 1
		p.i = lead
	}
	n := p.node()
	if p.step().Body != nil {
		return stepwell.Errorf(stepwell.CodeConflict, "name a step inside it", "step %q ends with what is inside it", a.Step)
	}
	if a.Verb == VerbSkip && len(p.step().Members()) > 0 {
		return stepwell.Errorf(stepwell.CodeConflict, "assume that it fails, or completes", "step %q is of a stream, which is never skipped while it runs", a.Step)
	}
	ev.Idx, ev.Epoch, ev.Started = p.idx(), n.epoch, ev.At
	failure := &Failure{Code: stepwell.CodeFailed, Message: "assumed to fail"}
	switch waits := n.status == stepwell.StepWaiting && n.info.wait.Await; {
	case waits && a.Verb == VerbLose, !waits && !p.flies():
		return notInFlight(a.Step, n.status)
	case waits && a.Verb == VerbFail:
		ev.Kind, ev.Failure, ev.Permanent = Settled, failure, a.Permanent
	case waits && a.Verb == VerbSkip:
		ev.Kind, ev.Reason = Settled, "assumed to be skipped"
	case waits:
		ev.Kind, ev.Output = Settled, a.Outputs
	case a.Verb == VerbFail:
		ev.Kind, ev.Failure, ev.Permanent = Failed, failure, a.Permanent
	case a.Verb == VerbSkip:
		ev.Kind, ev.Reason = Skipped, "assumed to be skipped"
	case a.Verb == VerbLose:
		ev.Kind, ev.Worker = Lost, "(assumed)"
	default:
		r.assumedResult(p, ev, a.Outputs)
	}
	return nil
}

// assumedResult fills in the end of an attempt that completes: of a stream's steps all get the outputs.
func (r *Run) assumedResult(p place, ev *Event, outputs []byte) {
	ev.Kind, ev.Output, ev.Member = Done, outputs, 0
	for _, m := range p.step().Members() {
		ev.Kind = DoneAll
		if idx := p.s.idx(m.Step); idx != ev.Idx {
			ev.Parts = append(ev.Parts, Part{Idx: idx, Output: outputs})
		}
	}
}

func notInFlight(key string, is stepwell.StepStatus) error {
	return stepwell.Errorf(stepwell.CodeConflict, "ask for a moment at which it ran (--at), or what if it is restarted", "step %q is %s: no attempt of it is in flight, and it waits for nothing outside", key, is)
}

// Consequence is what would come of an event.
type Consequence struct {
	Was, Is stepwell.ExecutionStatus
	Failure *Failure // of the execution, once the event has happened
	Tasks   []*Task  // that would be dispatched at once
	Steps   []Change // whose state would be another one, in order of index
	Stopped []string // keys of running steps that would be asked to stop
	// Twice are keys of steps that must not run twice (idempotent: false), have begun, and would run again, now or later.
	// Those inside a group or for_each that is over are named by pattern: "each[*].charge".
	Twice []string
	// Later is what would run until the end, of a restart or a retry.
	Later *Forecast
}

// Change is a step that would have another state.
type Change struct {
	Key     string
	Was, Is stepwell.StepStatus
	Attempt int
	Wake    int64 // when a waiting or retrying step goes on, µs; 0: it does neither, or waits for something outside
	Error   *Failure
	Why     []Reason // of the first mostExplained; those inside a step that is over have only an Error
}

// mostExplained bounds how many changes of a Consequence are explained.
const mostExplained = 1000

// Consequence applies an event and settles it. The run must be the caller's own copy, because it has changed then. before is the
// execution that a retry repeats, nil for none; later is what is known to run later. An event that changes nothing has no tasks and no
// steps.
func (r *Run) Consequence(ev *Event, before *Run, later *Forecast) (*Consequence, error) {
	past := r
	if before != nil {
		past = before
	}
	c, once, were := &Consequence{Was: past.status, Later: later}, past.begunOnce(), past.statuses(before != nil)
	var fx Effects
	if _, err := r.Apply(ev, &fx); err != nil {
		return nil, err
	}
	r.Settle(ev.At, &fx)
	c.Is, c.Failure, c.Tasks = r.status, r.failure, fx.Tasks
	c.Steps = r.changes(fx.Rows, were, ev.Begin)
	for _, x := range fx.Revokes {
		if p, ok := r.find(x.Idx); ok && p.node().epoch == x.Epoch {
			c.Stopped = append(c.Stopped, p.key())
		}
	}
	c.Twice = once.again(c)
	return c, nil
}

// statuses are the states of all steps by index; none: of steps of another execution.
func (r *Run) statuses(none bool) []stepwell.StepStatus {
	if none || r.main == nil {
		return nil
	}
	list := make([]stepwell.StepStatus, r.next)
	r.visit(func(p place) { list[p.idx()] = p.node().status })
	return list
}

// changes are the last rows of the steps, without those that a retry takes over.
func (r *Run) changes(rows []StepRow, were []stepwell.StepStatus, begin *Begin) []Change {
	last := make(map[int32]*StepRow, len(rows))
	for i := range rows {
		last[rows[i].Idx] = &rows[i]
	}
	kept := map[string]bool{}
	if begin != nil {
		for i := range begin.Seeds {
			if s := &begin.Seeds[i]; s.Status.Terminal() {
				kept[s.Key] = true
			}
		}
	}
	order := make([]int32, 0, len(last))
	for idx := range last {
		order = append(order, idx)
	}
	slices.Sort(order)
	var list []Change
	for _, idx := range order {
		row := last[idx]
		one := Change{Key: row.Key, Was: stepwell.StepPending, Is: row.Status, Attempt: row.Attempt, Wake: row.Wake, Error: row.Error}
		p, known := r.find(idx)
		if known {
			one.Key = p.key()
			if s := p.node().status; s != one.Is { // no row is written of a step that is dispatched
				one.Is, one.Attempt, one.Wake, one.Error = s, int(p.node().attempt), 0, nil
			}
		}
		if int(idx) < len(were) {
			one.Was = were[idx]
		}
		if one.Was == one.Is && !one.Is.Terminal() || kept[one.Key] || begin != nil && row.Attempt == 0 && row.Status == stepwell.StepCompleted {
			continue
		}
		if known && len(list) < mostExplained {
			one.Why = r.whyStep(p)
		}
		list = append(list, one)
	}
	return list
}

// begunOnce are the steps that must not run twice and have begun.
type begunOnce struct {
	exact map[string]bool
	over  map[string][]string // patterns of such steps inside a group or for_each that has begun, by its key
}

func (r *Run) begunOnce() *begunOnce {
	b := &begunOnce{exact: map[string]bool{}, over: map[string][]string{}}
	if r.main == nil {
		return b
	}
	r.visit(func(p place) {
		n, step := p.node(), p.step()
		switch {
		case step.Body != nil:
			if n.status != stepwell.StepPending && n.status != stepwell.StepSkipped {
				if list := onceInside(nil, step, p.key()); len(list) > 0 {
					b.over[p.key()] = list
				}
			}
		case step.Policy.NotIdempotent && n.attempt > 0 && n.status != stepwell.StepPending && n.status != stepwell.StepQueued:
			b.exact[p.key()] = true
		}
	})
	return b
}

// onceInside appends patterns of the steps inside a group or for_each that must not run twice.
func onceInside(list []string, step *plan.Step, key string) []string {
	if step.ForEach != nil {
		key += "[*]"
	}
	for _, g := range []*plan.Graph{step.Body.Graph, step.Body.OnFailure, step.Body.Finally} {
		if g == nil {
			continue
		}
		inner := key + "."
		switch g {
		case step.Body.OnFailure:
			inner += "on_failure."
		case step.Body.Finally:
			inner += "finally."
		}
		for i := range g.Steps {
			s := &g.Steps[i]
			at := inner + s.ID
			if step.Body.Single {
				at = key
			}
			if s.Body != nil {
				list = onceInside(list, s, at)
			} else if s.Policy.NotIdempotent {
				list = append(list, at)
			}
		}
	}
	return list
}

// pattern is a key with a * for each iteration: of "each[3].a" and of "each[0..41].a" it is "each[*].a".
func pattern(key string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(key, "[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, key, _ = strings.Cut(rest, "]")
		b.WriteString("[*]")
	}
}

// again are those of a consequence that would run once more.
func (b *begunOnce) again(c *Consequence) []string {
	found := map[string]bool{}
	look := func(key string) {
		if b.exact[key] {
			found[key] = true
		}
		like := pattern(key)
		for owner, inside := range b.over {
			for _, one := range inside {
				if covers(pattern(owner), like) && covers(like, one) || covers(like, pattern(owner)) {
					found[one] = true
				}
			}
		}
	}
	for _, t := range c.Tasks {
		look(t.Key)
	}
	for i := range c.Steps {
		if s := c.Steps[i].Is; s == stepwell.StepRetrying {
			look(c.Steps[i].Key)
		}
	}
	if c.Later != nil {
		for _, key := range c.Later.Repeated {
			look(key)
		}
		for _, a := range c.Later.Again {
			look(a.Step)
		}
	}
	list := make([]string, 0, len(found))
	for key := range found {
		list = append(list, key)
	}
	slices.Sort(list)
	return list
}

// Call is a task's rendered parameters, without what only a worker knows. known is false, with the reason, where that is needed, or a
// template fails.
func (t *Task) Call() (params any, known bool, why string) {
	switch {
	case t.Params != nil:
		return json.RawMessage(t.Params), true, ""
	case t.Step.Params == nil:
		return map[string]any{}, true, ""
	case t.Step.Secrets:
		return nil, false, "it reads secrets"
	case t.Step.Callback:
		return nil, false, "it reads its callback address"
	}
	v, err := t.render()
	if err != nil {
		return nil, false, fmt.Sprintf("it would fail: %v", err)
	}
	return v, true, ""
}

func (t *Task) render() (any, error) {
	var scope expr.Scope = expr.Vars(nil)
	if t.Scope != nil {
		scope = t.Scope
	}
	if t.Step.Settings != nil {
		settings, err := t.Step.Settings.Render(scope, t.Limits)
		if err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
		scope = expr.Layered{Extra: map[string]any{"settings": settings}, Under: scope}
	}
	return t.Step.Params.Render(scope, t.Limits)
}
