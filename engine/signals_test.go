package engine

import (
	"slices"

	"github.com/stepwell/stepwell"
	"pgregory.net/rapid"
)

// await lets a random wait be ended from outside.
func (m *monkey) await(w *Wait) {
	if w.Await = m.often(60, "await"); !w.Await {
		return
	}
	w.External, w.Elsewhere = "signal", m.often(30, "elsewhere")
	switch rapid.IntRange(0, 3).Draw(m.rt, "wait") {
	case 0:
		w.Until = 0
	case 1:
		w.Output = nil
	case 2:
		w.State = nil
	}
}

// settle ends a random wait from outside. It reports whether there was any.
func (m *monkey) settle() bool {
	list := m.run.Awaiting()
	if len(list) == 0 {
		return false
	}
	of := rapid.SampledFrom(list).Draw(m.rt, "settled")
	ev := Event{Kind: Settled, Idx: of.Idx, Epoch: of.Epoch, Worker: "alice", Cost: 1}
	switch rapid.IntRange(0, 4).Draw(m.rt, "answer") {
	case 0:
		ev.Failure, ev.Permanent = &Failure{Code: stepwell.CodeFailed, Message: "no"}, m.often(50, "for good")
	case 1:
		ev.Reason = "not needed"
	default:
		ev.Output = []byte(rapid.SampledFrom([]string{`{"x":1}`, ``, `@blob`}).Draw(m.rt, "answered"))
		m.blobs["@blob"] = []byte(`{"x":1,"big":true}`)
		m.load(&ev)
	}
	m.do(ev)
	m.past = append(m.past, ev)
	return true
}

// checkSignals compares awaiting steps, costs and progress with a count by hand.
func (m *monkey) checkSignals() {
	r := m.run
	for _, a := range m.fx.Awaits {
		m.awaits[string(canonical(a))] = true
	}
	for _, a := range r.Awaiting() {
		if !m.awaits[string(canonical(a))] {
			m.t.Fatalf("nobody was told that %v awaits", a)
		}
	}
	p := r.Progress()
	m.told = m.told.Plus(m.fx.Spent)
	if spent := (stepwell.Spending{Cost: p.Cost, Usage: p.Usage}); spent != m.spent || m.told != m.spent {
		m.t.Fatalf("the progress says %v, the batches %v, spent were %v", spent, m.told, m.spent)
	}
	var charged int64
	for _, c := range r.Charges() {
		if charged += c.Cost; c.Attempts < 1 || c.Repeated > c.Attempts || c.RepeatedCost > c.Cost {
			m.t.Fatalf("charged are %+v", c)
		}
	}
	if charged > p.Cost || !r.restarted && charged != p.Cost {
		m.t.Fatalf("the steps are charged %d, spent were %d", charged, p.Cost)
	}
	if p.Percent < 0 || p.Percent > 100 || r.load.done > r.load.total || r.load.done < 0 {
		m.t.Fatalf("%v %%, load %v", p.Percent, r.load)
	}
	if r.status == stepwell.ExecutionPending && len(m.fx.Rows)+len(m.fx.Tasks)+len(m.fx.Timers)+len(r.Pending()) > 0 {
		m.t.Fatalf("a held execution does something")
	}
	if r.plan.Weighted && r.main.phase == phaseMain {
		var sum load
		for i := range r.main.nodes {
			share := place{r.main, int32(i)}.share()
			sum.total, sum.done = sum.total+share.total, sum.done+share.done
		}
		if sum != r.load {
			m.t.Fatalf("the load is %v, counted as %v", sum, r.load)
		}
	}
}

// checkWhy: every step that is at hand is found by its key, and its state has a reason.
func (m *monkey) checkWhy() {
	m.run.visit(func(p place) {
		if q, ok := search(m.run.main, p.key()); !ok || q != p {
			m.t.Fatalf("%s is found as %v, %v", p.key(), ok, q.i)
		}
		reasons, err := m.run.Why(p.key())
		if err != nil || len(reasons) == 0 || slices.ContainsFunc(reasons, func(r Reason) bool { return r.Code == "" || r.Message == "" || len(r.Steps) > mostReasonSteps }) {
			m.t.Fatalf("why %s is %v: %v, %v", p.key(), p.node().status, reasons, err)
		}
		if first := reasons[0]; first.Code == WhyDependencies && len(first.Steps) == 0 {
			m.t.Fatalf("%s waits for nothing: %v", p.key(), reasons)
		}
	})
	if reasons, err := m.run.Why(""); err != nil || len(reasons) == 0 {
		m.t.Fatalf("why %v: %v, %v", m.run.Status(), reasons, err)
	}
}
