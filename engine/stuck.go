package engine

import (
	"fmt"
	"strings"

	"github.com/stepwell/stepwell"
)

// stuck ends steps that can never start, in a run in which nothing runs, nothing waits for a time and
// nothing can start (source-systems D8): those that wait for a step that nobody will spawn, or else those
// that wait for each other. It reports whether there were any.
func (r *Run) stuck() bool {
	if r.inflight > 0 || r.sleeping > 0 || len(r.ready) > 0 || r.status != stepwell.ExecutionRunning && r.status != stepwell.ExecutionCancelling {
		return false
	}
	var orphans, circle []place
	r.visit(func(p place) {
		if p.node().status != stepwell.StepPending {
			return
		}
		never, pending := r.hopes(p)
		if never {
			orphans = append(orphans, p)
		} else if pending {
			circle = append(circle, p)
		}
	})
	blocked := orphans
	if len(blocked) == 0 {
		blocked = circle
	}
	if len(blocked) == 0 {
		r.finish(stepwell.ExecutionFailed, &Failure{Code: stepwell.CodeInternal, Message: "deadlock: no step can start and none is left"})
		return true
	}
	var waits []string
	for _, p := range blocked[:min(len(blocked), 5)] {
		waits = append(waits, fmt.Sprintf("%s waits for %s", p.key(), strings.Join(r.missing(p), ", ")))
	}
	f := &Failure{Code: stepwell.CodeFailed, Message: fmt.Sprintf("deadlock: %d steps can never start: %s", len(blocked), strings.Join(waits, "; ")),
		Hint: "depend on the key of a step that exists, or on a name that a running step spawns"}
	if len(blocked) == 1 {
		f.Message = "deadlock: " + waits[0]
	}
	for _, p := range blocked {
		p.node().flags |= upstream
		r.end(p, stepwell.StepSkipped, f)
		r.failScope(p, f)
	}
	return true
}

// awaited calls f for what a pending step waits for: a step that exists, or a token with its group.
func (r *Run) awaited(p place, f func(dep place, token string, g *group)) {
	for _, dep := range p.step().Deps {
		f(place{p.s, dep}, "", nil)
	}
	names := p.step().Names
	if x := p.s.spawnedAt(p.i); x != nil {
		names = x.spec.DependsOn
	}
	for _, name := range names {
		if q, ok := locate(p.s, name); ok && q != p {
			f(q, name, nil)
		} else {
			f(place{}, name, p.s.groups[name])
		}
	}
}

// hopes reports whether a step waits for something that will never be, or for steps that are pending
// themselves.
func (r *Run) hopes(p place) (never, pending bool) {
	pending = p.node().flags&dormant != 0
	r.awaited(p, func(dep place, _ string, g *group) {
		switch {
		case dep.s != nil:
			pending = pending || dep.node().status == stepwell.StepPending
		case g == nil || g.open == 0 && !g.satisfied() && len(g.spawners) == 0:
			never = true
		default:
			pending = pending || g.open > 0 || len(g.spawners) > 0
		}
	})
	return never, pending
}

// missing lists what a pending step waits for.
func (r *Run) missing(p place) []string {
	var out []string
	r.awaited(p, func(dep place, token string, g *group) {
		switch {
		case dep.s != nil:
			if !dep.node().status.Terminal() {
				out = append(out, dep.key())
			}
		case g == nil || g.open == 0 && !g.satisfied() && len(g.spawners) == 0:
			out = append(out, fmt.Sprintf("%q, which nothing spawns", token))
		case !g.satisfied():
			out = append(out, fmt.Sprintf("%q", token))
		}
	})
	return out
}
