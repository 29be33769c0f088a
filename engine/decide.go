package engine

import (
	"errors"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
)

// work is something that an event has set off. A list of it, rather than calls from one step to
// the next, keeps the stack flat however long a chain of skipped steps is.
type work struct {
	p    place
	what task
}

type task uint8

const (
	judgeStep task = iota // all dependencies have ended, or the rule needs no more of them
	endScope              // every step of a scope has ended
	stopRest              // a step has failed: pending steps do not start
	moreItems             // a for_each has room for iterations
	openAgain             // a group's pause before its next attempt is over
)

func (r *Run) todo(p place, what task) { r.work = append(r.work, work{p, what}) }

// followWork works the list off.
func (r *Run) followWork() {
	for i := 0; i < len(r.work); i++ {
		switch w := r.work[i]; w.what {
		case judgeStep:
			r.judge(w.p)
		case endScope:
			r.scopeEnded(w.p.s)
		case stopRest:
			r.sweep(w.p.s)
		case moreItems:
			r.moreItems(w.p)
		case openAgain:
			r.openAgain(w.p)
		}
	}
	clear(r.work)
	if r.work = r.work[:0]; cap(r.work) > maxIdle {
		r.work = nil
	}
}

// maxIdle is how many entries of a list are kept for the next batch.
const maxIdle = 4096

// judge decides whether a step runs, now that its dependencies allow a decision.
func (r *Run) judge(p place) {
	n := p.node()
	if n.status != stepwell.StepPending || n.flags&(judged|dormant) != 0 {
		return
	}
	step := p.step()
	if _, led := step.Lead(); led {
		r.judgeMember(p)
		return
	}
	if p.s.stop.level > 0 {
		r.cutShort(p)
		return
	}
	n.flags |= judged
	if why, blocked := refused(step, n.flags); why != "" {
		if blocked {
			n.flags |= upstream
		}
		r.end(p, stepwell.StepSkipped, &Failure{Code: stepwell.CodeSkipped, Message: why, Choice: !blocked})
		return
	}
	if f := p.s.tooLarge(step.Reads); f != nil {
		r.end(p, stepwell.StepFailed, f)
		return
	}
	if step.Condition != nil {
		yes, absent, err := step.Condition.Decide(r.scope(p, step.Reads), r.limits())
		if err != nil {
			r.end(p, stepwell.StepFailed, evalFailure("condition", err))
			return
		}
		if !yes {
			r.end(p, stepwell.StepSkipped, conditionFalse(step.Condition, absent))
			return
		}
	}
	if step.Body == nil {
		r.makeReady(p)
		return
	}
	r.openBody(p, step)
}

// conditionFalse gives the reason for a skip, and the absent value that the condition reads.
func conditionFalse(condition *expr.Template, absent error) *Failure {
	f := &Failure{Code: stepwell.CodeSkipped, Message: "condition is false: " + condition.Source(), Choice: true}
	if e, ok := absent.(*expr.Error); ok {
		f.Message += " (" + e.Message + ")"
	}
	return f
}

func (r *Run) openAgain(p place) {
	switch {
	case p.s.closed || p.node().status != stepwell.StepPending:
	case p.s.stop.level > 0:
		r.cutShort(p)
	default:
		r.openBody(p, p.step())
	}
}

// refused says why a trigger rule keeps a step from running, and whether steps after it are
// kept from running too. An empty reason lets it run.
func refused(step *plan.Step, f flags) (why string, blocked bool) {
	switch step.Policy.Rule {
	case plan.AllSuccess:
		if f&depBlocked != 0 {
			return "a step before it failed", true
		}
	case plan.OneSuccess:
		if f&depCompleted == 0 && len(step.Deps)+len(step.Names) > 0 {
			return "none of the steps before it completed", true
		}
	case plan.OneFailed:
		if f&(depBlocked|depFailed) == 0 {
			return "none of the steps before it failed", false
		}
	case plan.NoneFailed:
		if f&(depBlocked|depFailed) != 0 {
			return "a step before it failed", true
		}
	}
	return "", false
}

// ripe reports whether a decision about a step is possible: all its dependencies have ended, or the
// rule needs no more of them.
func ripe(rule plan.Rule, n *node) bool {
	switch rule {
	case plan.OneSuccess:
		return n.waiting == 0 || n.flags&depCompleted != 0
	case plan.OneFailed:
		return n.waiting == 0 || n.flags&(depBlocked|depFailed) != 0
	}
	return n.waiting == 0
}

func evalFailure(what string, err error) *Failure {
	f := &Failure{Code: stepwell.CodeInvalid, Message: what + ": " + err.Error(), Hint: stepwell.HintOf(err)}
	switch code := stepwell.CodeOf(err); {
	case code != "" && code != stepwell.CodeInternal:
		f.Code = code
	default:
		if e, ok := errors.AsType[*expr.Error](err); ok && e.Hint != "" {
			f.Hint = e.Hint
			f.Message = strings.TrimSuffix(f.Message, " ("+e.Hint+")")
		}
	}
	return f
}

// end makes a step terminal: the one place where that happens.
func (r *Run) end(p place, status stepwell.StepStatus, why *Failure) {
	n, s := p.node(), p.s
	r.seq++
	n.status, n.seq = status, r.seq
	n.flags = n.flags&^inReady | judged
	if status == stepwell.StepCompleted {
		n.flags &^= halted
	}
	if why != nil || n.info != nil {
		in := n.ensure()
		in.err, in.worker, in.started, in.state = why, "", 0, nil
	}
	if n.failed() && p.step().Policy.Continue {
		n.flags |= tolerated
		r.tolerated = true
	}
	s.lost = s.lost || n.lost()
	if r.plan.Weighted {
		r.weigh(s.around(), load{done: p.rest()})
	}
	r.countEnds(s.around(), status, 1)
	if r.hasItems(p) && status == stepwell.StepCompleted {
		r.countStream(p)
	}
	r.endedRow(p, why)
	if n.failed() {
		r.failScope(p, why)
	}
	r.release(p)
	if s.open--; s.open == 0 {
		r.todo(place{s: s}, endScope)
	}
}

// failScope applies a failure that is not tolerated to the other steps of the scope. The stop holds from now on;
// steps that have not started end in their turn.
func (r *Run) failScope(p place, why *Failure) {
	s := p.s
	f := &Failure{Code: stepwell.CodeFailed, Message: "failed", Step: p.key()}
	if why != nil {
		*f = *why
		if f.Step == "" {
			f.Step = p.key()
		}
	}
	if s.err == nil {
		s.err = f
	}
	st := stop{level: draining, reason: f.Step + " failed", step: f.Step}
	switch s.graph.FailFast {
	case definition.FailFastOff:
		return
	case definition.FailFastCancel:
		st.level = cancelling
	}
	if s.stop.add(st) {
		r.todo(place{s: s}, stopRest)
	}
}

// release notifies the dependents that a step has ended.
func (r *Run) release(p place) {
	n := p.node()
	bring := n.brings()
	if int(p.i) < len(p.s.graph.Steps) {
		for _, child := range p.s.graph.Steps[p.i].Children {
			r.freed(place{p.s, child}, bring)
		}
	}
	if len(r.dependent) > 0 {
		idx := p.idx()
		waiting := r.dependent[idx]
		delete(r.dependent, idx)
		for _, d := range waiting {
			if child, ok := r.find(d); ok {
				r.freed(child, bring)
			}
		}
	}
	if x := p.s.spawnedAt(p.i); x != nil {
		r.instanceEnded(p.s, x, bring)
	}
	if in := n.info; in != nil && len(in.names)+len(in.spawned) > 0 {
		r.spawnerEnded(p, bring)
	}
}

// brings returns the effect of a step's end on its dependents. A skipped step satisfies them, unless a failure was
// the reason.
func (n *node) brings() flags {
	switch {
	case n.status == stepwell.StepCompleted:
		return depCompleted
	case n.failed():
		return depBlocked | depFailed
	case n.flags&tolerated != 0:
		return depFailed
	case n.flags&(upstream|halted) != 0:
		return depBlocked
	}
	return 0
}

// freed takes one dependency off a step.
func (r *Run) freed(p place, bring flags) {
	n := p.node()
	n.waiting--
	n.flags |= bring
	if n.status == stepwell.StepPending && n.flags&judged == 0 && ripe(p.step().Policy.Rule, n) {
		r.todo(p, judgeStep)
	}
}

// countEnds counts ends in the progress of the run and of every enclosing step; n may be negative.
func (r *Run) countEnds(around place, status stepwell.StepStatus, n int) {
	r.counts.add(status, n)
	for at := around; at.s != nil; at = at.s.around() {
		at.node().ensure().within().add(status, n)
	}
}

// expect adds steps that are now known inside a step, or at top level, with their weight together.
func (r *Run) expect(around place, n int, weight int64) {
	r.weigh(around, load{total: weight})
	r.counts.Total += n
	for at := around; at.s != nil; at = at.s.around() {
		at.node().ensure().within().Total += n
	}
}

func (in *info) within() *tally {
	if in.inside == nil {
		in.inside = &tally{}
	}
	return in.inside
}

// addAll adds the counts of steps that lie inside of one.
func (p *Progress) addAll(in *Progress, sign int) {
	p.Total += sign * in.Total
	p.Completed += sign * in.Completed
	p.Failed += sign * in.Failed
	p.Skipped += sign * in.Skipped
	p.Cancelled += sign * in.Cancelled
}

func (p *Progress) add(status stepwell.StepStatus, n int) {
	switch status {
	case stepwell.StepCompleted:
		p.Completed += n
	case stepwell.StepFailed, stepwell.StepTimedOut:
		p.Failed += n
	case stepwell.StepSkipped:
		p.Skipped += n
	case stepwell.StepCancelled:
		p.Cancelled += n
	}
}
