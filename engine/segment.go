package engine

import "github.com/stepwell/stepwell"

// A segment is the stream steps that items connect (docs/semantics §6). Its lead is dispatched for all of them; the
// others stay pending, depend on the lead, and end with their parts of its result.

// led reports whether a step's lead is at work: then the step is neither begun nor cut short on its own.
func (p place) led() bool {
	lead, led := p.step().Lead()
	if !led {
		return false
	}
	switch p.s.nodes[lead].status {
	case stepwell.StepQueued, stepwell.StepRunning, stepwell.StepCompleted:
		return true
	}
	return false
}

// completeAll ends a segment's lead and stores the results with which the other steps end when judged.
func (r *Run) completeAll(p place, ev *Event) {
	for i := range ev.Parts {
		part := &ev.Parts[i]
		q, ok := r.find(part.Idx)
		if !ok || q.s != p.s {
			continue
		}
		if lead, led := q.step().Lead(); led && lead == p.i {
			if len(part.Output) == 0 {
				part.Output = nil
			}
			part.Kept = q.step().Keep
			copied := *part
			copied.worker, copied.started = ev.Worker, ev.Started
			q.node().ensure().part = &copied
		}
	}
	if ev.Partial {
		p.node().flags |= tolerated
		r.tolerated = true
	}
	r.complete(p, ev)
}

// endParts ends a segment of which some branches failed, each step with its own result, the lead last. Completed
// steps end first, before the failures stop the rest of the scope.
func (r *Run) endParts(lead place, ev *Event) {
	got := r.got
	r.got = arrival{}
	r.tolerated = r.tolerated || ev.Partial
	own := -1
	for _, pass := range [...]func(*Part) bool{
		func(p *Part) bool { return p.Failure == nil && p.StoppedBy == 0 },
		func(p *Part) bool { return p.Failure == nil && p.StoppedBy > 0 },
		func(p *Part) bool { return p.Failure != nil },
	} {
		for i := range ev.Parts {
			part := &ev.Parts[i]
			q, ok := r.find(part.Idx)
			if !ok || q.s != lead.s || !pass(part) {
				continue
			}
			if q.i == lead.i {
				own = i
				continue
			}
			if l, led := q.step().Lead(); !led || l != lead.i || q.node().status != stepwell.StepPending {
				continue
			}
			r.got = arrival{worker: got.worker, started: got.started}
			q.node().attempt, q.node().queued = lead.node().attempt, lead.node().queued
			r.endPart(q, part)
		}
	}
	r.got = got
	if own < 0 {
		r.end(lead, failureStatus(ev.Failure), ev.Failure)
		return
	}
	r.endPart(lead, &ev.Parts[own])
}

// endPart ends one step of a segment with its result.
func (r *Run) endPart(p place, part *Part) {
	switch by, ok := r.find(part.StoppedBy - 1); {
	case part.Failure != nil:
		f := *part.Failure
		f.Message, f.Hint = clean(f.Message), clean(f.Hint)
		r.end(p, failureStatus(&f), &f)
	case part.StoppedBy > 0 && ok:
		n := p.node()
		if by.step().Policy.Continue {
			n.flags |= tolerated
		} else {
			n.flags |= upstream
		}
		n.flags |= judged
		r.end(p, stepwell.StepSkipped, &Failure{Code: stepwell.CodeSkipped, Message: "stopped: " + by.key() + " failed", Step: by.key()})
	default:
		ev := &Event{Output: part.Output, Loaded: part.Loaded}
		r.complete(p, ev)
		part.Output, part.Kept = ev.Output, ev.Kept
	}
}

// judgeMember ends a step whose lead has ended: with its part of the result, or like the lead.
func (r *Run) judgeMember(p place) {
	n := p.node()
	n.flags |= judged
	lead, _ := p.step().Lead()
	first := &p.s.nodes[lead]
	if first.status != stepwell.StepCompleted {
		if p.s.stop.level > 0 {
			r.cutShort(p)
			return
		}
		if first.flags&tolerated != 0 {
			n.flags |= tolerated // the step at fault says that the rest goes on
		} else {
			n.flags |= upstream
		}
		r.end(p, stepwell.StepSkipped, &Failure{Code: stepwell.CodeSkipped, Message: "the stream that it is part of did not finish"})
		return
	}
	n.attempt, n.queued = first.attempt, first.queued
	if in := n.info; in != nil && in.part != nil {
		r.got.output, r.got.worker, r.got.started = in.part.Output, in.part.worker, in.part.started
		if p.step().Keep {
			in.output = in.part.Output
			if in.part.Loaded != nil {
				in.output = in.part.Loaded
			}
		}
		in.part = nil
	}
	r.end(p, stepwell.StepCompleted, nil)
}

// blame fails the step of a segment that is at fault, and ends the lead with it. It reports false when that step is
// the lead or unknown.
func (r *Run) blame(lead place, idx int32, f *Failure) bool {
	p, ok := r.find(idx)
	if !ok || p.s != lead.s || p.node().status != stepwell.StepPending {
		return false
	}
	if l, led := p.step().Lead(); !led || l != lead.i {
		return false
	}
	got := r.got
	n := p.node()
	n.attempt, n.queued = lead.node().attempt, lead.node().queued
	r.got = arrival{worker: got.worker, started: got.started}
	r.end(p, failureStatus(f), f)
	r.got = got
	if n.flags&tolerated != 0 {
		lead.node().flags |= tolerated
	} else {
		lead.node().flags |= halted
	}
	r.end(lead, stepwell.StepCancelled, &Failure{Code: stepwell.CodeCancelled, Message: "stopped: " + p.key() + " failed", Step: p.key()})
	return true
}

// memberRows shows the other steps of a segment in the state of their lead.
func (r *Run) memberRows(lead place, row StepRow) {
	for _, m := range lead.step().Members() {
		p := place{lead.s, m.Step}
		if p.i == lead.i || p.node().status != stepwell.StepPending {
			continue
		}
		own := row
		own.Idx = p.idx()
		nameRow(p, &own)
		r.record(p, &own)
	}
}
