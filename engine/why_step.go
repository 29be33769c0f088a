package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/plan"
)

// QueuedAt is when the present attempt of a step was queued, in µs; 0: there is no such step, or it never was.
func (r *Run) QueuedAt(idx int32) int64 {
	p, ok := r.find(idx)
	if !ok {
		return 0
	}
	return p.node().queued
}

// whyStep explains a step's state, the most telling reason first.
func (r *Run) whyStep(p place) []Reason {
	var out []Reason
	switch n := p.node(); n.status {
	case stepwell.StepPending:
		out = r.whyPending(p)
	case stepwell.StepQueued:
		message := "waits for a worker since " + clock(n.queued)
		if q := p.step().Policy.Queue; q != "" {
			message += ", in the queue " + q
		}
		out = append(out, Reason{Code: WhyQueued, Message: message})
	case stepwell.StepRunning:
		out = append(out, r.whyRunning(p))
	case stepwell.StepRetrying:
		out = append(out, Reason{Code: WhyBackoff, Message: "waits for its next attempt until " + clock(n.info.wake)})
	case stepwell.StepWaiting:
		out = append(out, whyWaiting(n))
	default:
		out = append(out, r.whyOver(p))
	}
	if n := p.node(); n.flags&revoking != 0 {
		out = append([]Reason{{Code: WhyStopping, Message: "has been asked to stop: " + p.s.stop.reason}}, out...)
	}
	return append(out, whyAgain(p)...)
}

func (r *Run) whyPending(p place) []Reason {
	n := p.node()
	var out []Reason
	switch r.status {
	case stepwell.ExecutionPending:
		return []Reason{{Code: WhyHeld, Message: "the execution has not been admitted yet"}}
	case stepwell.ExecutionPaused:
		out = append(out, Reason{Code: WhyPaused, Message: "the execution is paused"})
	}
	switch {
	case n.flags&dormant != 0:
		q, _ := r.find(p.s.spawnedAt(p.i).by)
		out = append(out, Reason{Code: WhyNotSpawned, Message: "waits for its spawner, which was restarted, to spawn it again", Steps: []string{q.key()}})
	case n.flags&inReady != 0:
		out = append(out, r.whyNoRoom(p)...)
	default:
		if lead, led := p.step().Lead(); led {
			key := p.s.key(lead)
			return append(out, Reason{Code: WhyDependencies, Message: "is part of the stream that " + key + " stands for, and ends with it", Steps: []string{key}})
		}
		steps, texts := r.missing(p)
		steps, _ = few(steps)
		_, text := few(texts)
		out = append(out, Reason{Code: WhyDependencies, Message: "waits for " + text + ruleText(p.step().Policy.Rule), Steps: steps})
	}
	return out
}

// whyNoRoom gives the reasons why a ready step is not dispatched.
func (r *Run) whyNoRoom(p place) []Reason {
	limit, at := r.plan.Graph.MaxParallel, "the pipeline"
	full := r.full(p.s)
	if full != nil {
		limit, at = full.graph.MaxParallel, full.own()
	} else if limit == 0 || r.inflight < limit {
		if r.inflight < r.window {
			return nil // goes with the next batch
		}
		return []Reason{{Code: WhyWindow, Message: fmt.Sprintf("%d steps of the execution are dispatched already, as many as may be", r.inflight)}}
	}
	steps := r.keys(func(q place) bool {
		s := q.node().status
		return (full == nil || q.s.within(full)) && (s == stepwell.StepQueued || s == stepwell.StepRunning) && q.step().Body == nil
	})
	return []Reason{{Code: WhyParallel, Message: fmt.Sprintf("max_parallel_steps of %s allows %d steps at a time", at, limit), Steps: steps}}
}

// within reports whether a scope is another one or lies inside of it.
func (s *scope) within(outer *scope) bool {
	for ; s != nil; s = s.up() {
		if s == outer {
			return true
		}
	}
	return false
}

func (r *Run) whyRunning(p place) Reason {
	n, step := p.node(), p.step()
	switch in := n.info; {
	case step.Body == nil || in.each == nil && in.body == nil:
		return Reason{Code: WhyRunning, Message: fmt.Sprintf("runs since %s on %s", clock(in.started), in.worker)}
	case in.each != nil:
		e := in.each
		var steps []string
		for _, s := range e.live()[:min(len(e.scopes), mostReasonSteps)] {
			steps = append(steps, s.own())
		}
		return Reason{Code: WhyInside, Message: fmt.Sprintf("%d of %d iterations have ended, %d are under way", e.completed+e.failed+e.skipped+e.cut, e.n, len(e.scopes)), Steps: steps}
	default:
		steps, text := few(openSteps(in.body))
		return Reason{Code: WhyInside, Message: "waits for " + text, Steps: steps}
	}
}

// openSteps lists the steps of a scope, or of its handlers when these run, that have not ended.
func openSteps(s *scope) []string {
	if s.handlers != nil {
		s = s.handlers
	}
	var out []string
	for i := range s.nodes {
		if !s.nodes[i].status.Terminal() {
			out = append(out, s.key(int32(i)))
		}
	}
	return out
}

func whyWaiting(n *node) Reason {
	until := "without a limit"
	if n.info.wake > 0 {
		until = "until " + clock(n.info.wake)
	}
	switch w := n.info.wait; {
	case w.Await && w.External != "":
		return Reason{Code: WhySignal, Message: fmt.Sprintf("waits for the signal %s, %s", w.External, until)}
	case w.Await:
		return Reason{Code: WhySignal, Message: "waits for an answer from outside, " + until}
	case w.External != "":
		return Reason{Code: WhyTime, Message: fmt.Sprintf("%s continues elsewhere; looks again, %s", w.External, until)}
	}
	return Reason{Code: WhyTime, Message: "waits " + until}
}

// whyOver explains how a step has ended.
func (r *Run) whyOver(p place) Reason {
	n := p.node()
	if n.status == stepwell.StepCompleted {
		switch {
		case n.attempt == 0:
			return Reason{Code: WhyTakenOver, Message: "the result was taken over from the execution that is retried"}
		case n.flags&tolerated != 0:
			return Reason{Code: WhyCompleted, Message: "completed, but some of its items failed"}
		}
		return whyCompleted(n)
	}
	f := &Failure{Message: n.status.String()}
	if n.info != nil && n.info.err != nil {
		f = n.info.err
	}
	out := Reason{Code: WhyFailed, Message: f.Message}
	if f.Step != "" && f.Step != p.key() {
		out.Steps = []string{f.Step}
	}
	switch {
	case n.status == stepwell.StepFailed || n.status == stepwell.StepTimedOut && n.flags&halted == 0:
	case n.flags&halted != 0 || n.status != stepwell.StepSkipped:
		out.Code = WhyStopped
	case n.attempt > 0:
		out.Code = WhySkipped
	default:
		r.whySkipped(p, &out)
	}
	return out
}

// whyCompleted says what failed inside a step that completed nevertheless.
func whyCompleted(n *node) Reason {
	out := Reason{Code: WhyCompleted, Message: "completed"}
	switch in := n.info; {
	case in == nil:
	case in.each != nil && in.each.failed > 0:
		e := in.each
		out.Message = fmt.Sprintf("completed: %d of %d iterations failed; max_failures tolerates %d", e.failed, e.n, e.tolerate)
		if e.why != nil && e.why.Step != "" {
			out.Message += fmt.Sprintf("; the first was %s: %s", e.why.Step, e.why.Message)
			out.Steps = []string{e.why.Step}
		}
	case in.inside != nil && in.inside.Failed > 0:
		out.Message = fmt.Sprintf("completed: %d steps inside it failed, which on_failure: continue tolerates", in.inside.Failed)
	}
	return out
}

// whySkipped distinguishes the reasons for a skip.
func (r *Run) whySkipped(p place, out *Reason) {
	n, step := p.node(), p.step()
	why, blocked := refused(step, n.flags)
	switch {
	case why != "" && !blocked:
		out.Code = WhyRule
	case n.flags&(upstream|tolerated) != 0:
		var failed []string
		r.awaited(p, func(dep place, _ string, _ *group) {
			if dep.s != nil && dep.node().brings()&(depBlocked|depFailed) != 0 {
				failed = append(failed, dep.key())
			}
		})
		if out.Steps, _ = few(failed); len(failed) > 0 {
			out.Message += ": " + strings.Join(out.Steps, ", ")
		}
	case step.Condition != nil:
		out.Code = WhyCondition
	default:
		out.Code = WhyNotSpawned
	}
}

// whyAgain says why a step is not in its first attempt.
func whyAgain(p place) []Reason {
	n := p.node()
	var out []Reason
	if n.flags&restarted != 0 {
		out = append(out, Reason{Code: WhyAgain, Message: "was restarted"})
	}
	in := n.info
	if in == nil {
		return out
	}
	if len(in.lost) > 0 {
		out = append(out, Reason{Code: WhyAgain, Message: "lost its worker: " + strings.Join(in.lost, ", ")})
	}
	switch {
	case in.last == nil:
	case in.deferred:
		out = append(out, Reason{Code: WhyAgain, Message: "was put off: " + in.last.Message})
	case n.status == stepwell.StepRetrying || n.status == stepwell.StepPending:
		out = append(out, Reason{Code: WhyAgain, Message: fmt.Sprintf("attempt %d failed: %s", n.attempt, in.last.Message)})
	default:
		out = append(out, Reason{Code: WhyAgain, Message: fmt.Sprintf("is in attempt %d, the one before failed: %s", n.attempt, in.last.Message)})
	}
	return out
}

// whyNotBegun explains an iteration that a for_each has not come to yet.
func (r *Run) whyNotBegun(key string) (Reason, bool) {
	for at, c := range key {
		if c != '[' {
			continue
		}
		p, ok := search(r.main, key[:at])
		if i, _, is := iteration(key[at:]); ok && is && p.node().info != nil && p.node().info.each != nil {
			if reason, ok := p.whyNotIteration(i); ok {
				return reason, true
			}
		}
	}
	return Reason{}, false
}

func (p place) whyNotIteration(i int32) (Reason, bool) {
	switch e := p.node().info.each; {
	case (i < e.next || i >= e.n) && !slices.Contains(e.again, i):
		return Reason{}, false
	case e.stopped:
		return Reason{Code: WhyStopped, Message: "no more iterations begin: " + p.whyNoMore(), Steps: []string{p.key()}}, true
	default:
		return Reason{Code: WhyItems, Message: fmt.Sprintf("has not begun: %d iterations are under way, as many as may be", len(e.scopes)), Steps: []string{p.key()}}, true
	}
}

// whyNoMore is the reason that a for_each has stopped.
func (p place) whyNoMore() string {
	e := p.node().info.each
	switch {
	case p.s.stop.level > 0:
		return p.s.stop.reason
	case e.why != nil && p.step().Body.Graph.FailFast != "":
		return e.why.Step + " failed"
	}
	return "the for_each has ended"
}

// ruleText words a step's trigger rule.
func ruleText(rule plan.Rule) string {
	switch rule {
	case plan.OneSuccess:
		return " (or for one of them to complete)"
	case plan.OneFailed:
		return " (or for one of them to fail)"
	}
	return ""
}

// WhyOver explains a step from its row when Run.Why does not know it any more, as it was inside of a step that has ended. The row's
// step has ended.
func WhyOver(row *StepRow) []Reason {
	out := Reason{Code: WhyFailed, Message: row.Status.String()}
	if row.Error != nil {
		if out.Message = row.Error.Message; row.Error.Step != "" && row.Error.Step != row.Key {
			out.Steps = []string{row.Error.Step}
		}
	}
	switch cut := strings.HasPrefix(out.Message, "stopped: ") || strings.HasPrefix(out.Message, "not started: "); {
	case row.Status == stepwell.StepCompleted:
		if out.Code = WhyCompleted; row.Attempt == 0 && row.Started == 0 {
			out = Reason{Code: WhyTakenOver, Message: "the result was taken over from the execution that is retried"}
		}
	case row.Status == stepwell.StepCancelled || cut:
		out.Code = WhyStopped
	case row.Status != stepwell.StepSkipped:
	case row.Attempt > 0:
		out.Code = WhySkipped
	case row.Error != nil && row.Error.Choice && strings.HasPrefix(out.Message, "condition is false"):
		out.Code = WhyCondition
	case row.Error != nil && row.Error.Choice:
		out.Code = WhyRule
	}
	if row.Attempt > 1 {
		return []Reason{out, {Code: WhyAgain, Message: fmt.Sprintf("ended in attempt %d", row.Attempt)}}
	}
	return []Reason{out}
}
