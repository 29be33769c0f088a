package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"pgregory.net/rapid"
)

// TestForecast: a retry, and a failed-only restart, of random pipelines after random histories repeat exactly the
// previewed steps: kept steps do not run, the others run or are judged anew, nothing else runs.
func TestForecast(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHarness(t, drawPlan(rt))
		m := &monkey{harness: h, rt: rt, ended: map[int32]bool{}, awaits: map[string]bool{}}
		h.t = fatal{t, m}
		m.do(Event{Kind: Start, Begin: &Begin{Window: rapid.SampledFrom([]int{0, 1, 3}).Draw(rt, "window"), Revision: Revision}})
		for range rapid.IntRange(1, 25).Draw(rt, "length") {
			m.turn()
		}
		m.finish()
		for range 2 { // kept results are kept again
			if rapid.Bool().Draw(rt, "in place") {
				m.repeatInPlace()
			} else if !m.repeat() {
				return
			}
		}
	})
}

// repeat retries an ended execution and compares the dispatched steps with the preview.
func (m *monkey) repeat() bool {
	i := rapid.IntRange(-3, len(m.run.main.nodes)-1).Draw(m.rt, "from")
	var from []string
	if i >= 0 {
		from = []string{m.run.main.key(int32(i))}
	}
	old := m.rebuilt(true)
	fc, err := old.PreviewRetry(strings.Join(from, ""))
	if err != nil {
		if stepwell.CodeOf(err) != stepwell.CodeConflict || m.run.Status() != stepwell.ExecutionCompleted {
			m.t.Fatalf("%v", err)
		}
		return false
	}
	m.history = append(m.history, fmt.Sprintf("retry of %v: %+v", from, *fc))
	ev := m.again(from)
	m.past, m.spent, m.told, m.awaits = nil, stepwell.Spending{}, stepwell.Spending{}, map[string]bool{}
	clear(m.ended)
	m.do(ev)
	again := m.goThrough(fc)
	for _, key := range whole(fc.Kept) {
		row, ok := m.last(key)
		if !ok && m.run.Failure() != nil {
			continue // the enclosing step has not begun: the next retry keeps it
		}
		if !ok || !among(again, key) && (row.Attempt != 0 || row.Status != stepwell.StepCompleted && row.Status != stepwell.StepSkipped) {
			m.t.Fatalf("%s is kept, and is %+v", key, row)
		}
	}
	return true
}

// repeatInPlace restarts only the failed parts of a step.
func (m *monkey) repeatInPlace() {
	key := m.run.main.key(int32(rapid.IntRange(0, len(m.run.main.nodes)-1).Draw(m.rt, "restart")))
	fc, err := m.rebuilt(true).PreviewRestart(key, true)
	if err != nil {
		return
	}
	m.history = append(m.history, fmt.Sprintf("restart of what failed in %s: %+v", key, *fc))
	clear(m.ended)
	m.do(m.failedOnly(key))
	m.goThrough(fc)
}

// goThrough completes every task and compares the dispatched steps with a preview. It returns those that may run.
func (m *monkey) goThrough(fc *Forecast) []string {
	may := slices.Clone(fc.Repeated)
	for _, a := range fc.Again {
		may = append(may, a.Step)
	}
	kept := whole(fc.Kept)
	may = whole(may)
	look := func() {
		for _, row := range m.fx.Rows { // a group that fails once more is tried again whole, as its retry says
			if row.Status == stepwell.StepRetrying && row.Attempt > 0 {
				may = append(may, m.keys[row.Idx])
			}
		}
		for _, task := range m.fx.Tasks {
			if !among(may, task.Key) && !strings.Contains(task.Key, "on_failure.") {
				m.t.Fatalf("%s runs, the preview repeats only %v", task.Key, may)
			}
			if among(kept, task.Key) && !among(may, task.Key) {
				m.t.Fatalf("%s runs, the preview says that it is kept", task.Key)
			}
		}
	}
	look()
	for turn := 0; !m.run.Status().Terminal(); turn++ {
		if turn > 2000 {
			m.t.Fatalf("the run does not end")
		}
		switch list := m.flying(); {
		case m.run.Status() == stepwell.ExecutionPaused:
			m.do(Event{Kind: Resume})
		case len(list) > 0:
			m.now += 1000
			m.do(Event{Kind: Done, Idx: list[0].idx(), Epoch: list[0].node().epoch, Started: m.now, Output: []byte(`{"x":1}`)})
		case !m.nextTimer() && !m.settle():
			m.t.Fatalf("nothing is under way and the run is %v", m.run.Status())
		}
		look()
	}
	m.sameAfterReplay()
	m.checkEnd()
	return may
}

// last is the newest row of a key.
func (m *monkey) last(key string) (row StepRow, found bool) {
	for idx, r := range m.rows {
		if m.keys[idx] == key && (!found || r.Idx > row.Idx) {
			row, found = r, true
		}
	}
	return row, found
}

// whole writes entries out: loop[2..4] is three iterations.
func whole(entries []string) []string {
	var out []string
	for _, entry := range entries {
		loop, span, ok := strings.Cut(strings.TrimSuffix(entry, "]"), "..")
		if !ok || !strings.HasSuffix(entry, "]") {
			out = append(out, entry)
			continue
		}
		at := strings.LastIndexByte(loop, '[')
		var first, last int
		if _, err := fmt.Sscan(loop[at+1:]+" "+span, &first, &last); err != nil {
			panic(err)
		}
		for i := first; i <= last; i++ {
			out = append(out, fmt.Sprintf("%s[%d]", loop[:at], i))
		}
	}
	return out
}

// among: a key is in a list, or inside something in it.
func among(list []string, key string) bool {
	return slices.ContainsFunc(list, func(entry string) bool { return covers(entry, key) })
}
