package engine

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/plan"
)

// check looks at a run from scratch, without trusting its counters.
func (m *monkey) check() {
	r := m.run
	inflight, sleeping := 0, 0
	running := map[*scope]int{}
	open := map[*scope]int{}
	collected := 0
	r.visit(func(p place) {
		n := p.node()
		if open[p.s] += 0; !n.status.Terminal() {
			open[p.s]++
		}
		if n.info != nil && n.info.each != nil {
			collected += n.info.each.bytes
		}
		switch n.status {
		case stepwell.StepQueued, stepwell.StepRunning:
			if p.step().Body == nil {
				inflight++
				for at := p.s; at != nil; at = at.up() {
					running[at]++
				}
			}
		case stepwell.StepRetrying, stepwell.StepWaiting:
			sleeping++
		case stepwell.StepPending:
			if !r.Held() {
				m.checkPending(p)
			}
		}
		if row, ok := m.rows[p.idx()]; ok && row.Status.Terminal() != n.status.Terminal() || ok && n.status.Terminal() && row.Status != n.status {
			m.t.Fatalf("the last row of %s says %v, the run %v", p.key(), row.Status, n.status)
		} else if !ok && n.status.Terminal() {
			m.t.Fatalf("%s has ended without a row", p.key())
		}
	})
	if inflight != r.inflight || sleeping != r.sleeping {
		m.t.Fatalf("%d in flight and %d asleep, counted as %d and %d", inflight, sleeping, r.inflight, r.sleeping)
	}
	if collected != r.collected {
		m.t.Fatalf("%d bytes of results, counted as %d", collected, r.collected)
	}
	limit := r.window
	if p := r.plan.Graph.MaxParallel; p > 0 {
		limit = min(limit, p)
	}
	if inflight > limit {
		m.t.Fatalf("%d in flight, the limit is %d", inflight, limit)
	}
	for s, n := range open {
		if int(s.open) != n || int(s.running) != running[s] {
			m.t.Fatalf("scope %q has %d open and %d running, counted as %d and %d", s.inner(), n, running[s], s.open, s.running)
		}
		if p := s.graph.MaxParallel; p > 0 && running[s] > p {
			m.t.Fatalf("scope %q runs %d, the limit is %d", s.inner(), running[s], p)
		}
	}
	m.checkRows()
	m.checkTasks()
	m.checkSignals()
	m.checkWhy()
}

// checkPending compares a step's dependency counters with a count by hand.
func (m *monkey) checkPending(p place) {
	n := p.node()
	if n.flags&judged != 0 {
		return
	}
	waits := 0
	for _, d := range p.step().Deps {
		if !p.s.nodes[d].status.Terminal() {
			waits++
		}
	}
	for _, name := range p.step().Names {
		if !m.nameOver(p.s, name) {
			waits++
		}
	}
	if x := p.s.spawnedAt(p.i); x != nil {
		for _, idx := range x.exact {
			if d, ok := m.run.find(idx); ok && !d.node().status.Terminal() {
				waits++
			}
		}
		for _, name := range x.names {
			if !m.nameOver(p.s, name) || !m.known(p.s, name) {
				waits++
			}
		}
	}
	if int(n.waiting) != waits {
		m.t.Fatalf("%s waits for %d, counted as %d", p.key(), waits, n.waiting)
	}
	if n.waiting == 0 && n.flags&dormant == 0 {
		m.t.Fatalf("%s waits for nothing and is not decided", p.key())
	}
}

// known: there is, or may be, an instance of a name that nobody has declared.
func (m *monkey) known(s *scope, name string) bool {
	g := s.groups[name]
	return g != nil && g.declared || slices.ContainsFunc(s.extra, func(x spawned) bool {
		return (x.spec.Name == name || x.spec.Key == name) && s.nodes[s.keys[x.spec.Key]].flags&dormant == 0
	})
}

// nameOver: all instances of a name have ended, and so has every step that may spawn more.
func (m *monkey) nameOver(s *scope, name string) bool {
	found, exact := false, strings.Contains(name, ":")
	for i := range s.extra {
		if x := &s.extra[i]; (x.spec.Name == name || x.spec.Key == name) && s.nodes[len(s.graph.Steps)+i].flags&dormant == 0 {
			found = true
			if !s.nodes[len(s.graph.Steps)+i].status.Terminal() {
				return false
			}
			if exact {
				return true
			}
		}
	}
	for i := range s.nodes {
		if n := &s.nodes[i]; n.info != nil && !n.status.Terminal() && n.flags&dormant == 0 {
			for _, may := range n.info.names {
				if may == name {
					return false
				}
			}
		}
	}
	return found || !exact
}

// checkRows: a step ends once, until it is reset.
func (m *monkey) checkRows() {
	for _, row := range m.fx.Rows {
		if row.Status.Terminal() && m.ended[row.Idx] {
			m.t.Fatalf("%s ends twice", m.keys[row.Idx])
		}
		m.ended[row.Idx] = row.Status.Terminal()
		if row.Status == stepwell.StepSkipped {
			m.checkSkipped(row)
		}
	}
}

// checkSkipped: a trigger rule gives a step up only when no dependency is left that could change that.
func (m *monkey) checkSkipped(row StepRow) {
	p, ok := m.run.find(row.Idx)
	if !ok || p.node().status != stepwell.StepSkipped || len(p.step().Names) > 0 || !strings.Contains(row.Error.Message, "steps before it") && !strings.Contains(row.Error.Message, "a step before it") {
		return
	}
	if allowed(p) && len(p.step().Deps) > 0 {
		m.t.Fatalf("%s is skipped, its trigger rule allows it: %s", p.key(), row.Error.Message)
	}
	for _, d := range p.step().Deps {
		if !p.s.nodes[d].status.Terminal() {
			m.t.Fatalf("%s is skipped before %s has ended", p.key(), p.s.key(d))
		}
	}
}

// checkTasks: nothing is dispatched before its turn.
func (m *monkey) checkTasks() {
	for _, task := range m.fx.Tasks {
		p, ok := m.run.find(task.Idx)
		if !ok || p.node().epoch != task.Epoch || p.node().status != stepwell.StepQueued {
			m.t.Fatalf("%s is dispatched and not queued", task.Key)
		}
		if !allowed(p) {
			m.t.Fatalf("%s is dispatched, its trigger rule forbids it", task.Key)
		}
		for at := p; at.s != nil; at = at.s.around() {
			if at.s.above != nil {
				break
			}
			if at.s.stop.level > 0 && at.node().flags&underway == 0 && at.s == p.s {
				m.t.Fatalf("%s is dispatched where nothing may start", task.Key)
			}
		}
	}
}

// allowed evaluates a trigger rule by its definition, with nothing but statuses.
func allowed(p place) bool {
	step := p.step()
	completed, failed, blocked, left := 0, 0, 0, 0
	for _, d := range step.Deps {
		q := place{p.s, d}
		switch s := q.node().status; {
		case !s.Terminal():
			left++
		case s == stepwell.StepCompleted:
			completed++
		case s == stepwell.StepFailed || s == stepwell.StepTimedOut:
			if failed++; !q.step().Policy.Continue {
				blocked++
			}
		case forgiven(q):
			failed++
		case s == stepwell.StepCancelled, s == stepwell.StepSkipped && barred(q):
			blocked++
		}
	}
	switch {
	case len(step.Names) > 0 || len(step.Deps) == 0:
		return true // instances are not looked at here
	case step.Policy.Rule == plan.OneSuccess:
		return completed > 0
	case step.Policy.Rule == plan.OneFailed:
		return failed+blocked > 0
	case left > 0:
		return false
	case step.Policy.Rule == plan.AllDone:
		return true
	case step.Policy.Rule == plan.NoneFailed:
		return failed+blocked == 0
	}
	return blocked == 0
}

// forgiven: a step ended with its segment, because of a step in it that lets the rest go on.
func forgiven(p place) bool {
	lead := p.i
	if at, led := p.step().Lead(); led {
		lead = at
	}
	if s := p.node().status; s != stepwell.StepSkipped && s != stepwell.StepCancelled {
		return false
	}
	by := ""
	if why := p.node().info.err; why != nil && strings.HasPrefix(why.Message, "stopped: ") {
		by = why.Step
	}
	for _, m := range p.s.step(lead).Members() {
		q := place{p.s, m.Step}
		if by != "" && q.key() != by {
			continue
		}
		if s := q.node().status; (s == stepwell.StepFailed || s == stepwell.StepTimedOut) && q.step().Policy.Continue {
			return true
		}
	}
	return false
}

// barred: a step was skipped because of a failure before it, not by its condition or its action.
func barred(p place) bool {
	if why := p.node().info.err.Message; strings.HasPrefix(why, "not started") || strings.HasPrefix(why, "stopped") || strings.HasPrefix(why, "deadlock") {
		return true
	}
	return len(p.step().Names) == 0 && p.step().Policy.Rule != plan.OneFailed && p.node().attempt == 0 && !allowed(p)
}

// checkEnd looks at a run that is over.
func (m *monkey) checkEnd() {
	r := m.run
	r.visit(func(p place) {
		if !p.node().status.Terminal() {
			m.t.Fatalf("the run is over and %s is %v", p.key(), p.node().status)
		}
	})
	if len(r.work)+len(r.dependent) > 0 || r.inflight != 0 || r.sleeping != 0 || r.main.open != 0 || r.main.running != 0 {
		m.t.Fatalf("the run is over and something is left: %d work, %v dependent", len(r.work), r.dependent)
	}
	for i := range r.main.nodes {
		if r.status == stepwell.ExecutionCompleted && r.main.nodes[i].lost() {
			m.t.Fatalf("the run is completed and %s is %v with something lost", r.main.key(int32(i)), r.main.nodes[i].status)
		}
	}
	p := r.Progress()
	if ended := p.Completed + p.Failed + p.Skipped + p.Cancelled; ended != p.Total {
		m.t.Fatalf("the run is over and %d of %d steps have ended", ended, p.Total)
	}
	if p.Percent != 100 {
		m.t.Fatalf("the run is over at %v %%", p.Percent)
	}
	if r.Pending() != nil {
		m.t.Fatalf("the run is over and waits for timers")
	}
	if (r.Status() == stepwell.ExecutionFailed) != (r.Failure() != nil) && r.cause == 0 {
		m.t.Fatalf("%v with failure %v", r.Status(), r.Failure())
	}
}
