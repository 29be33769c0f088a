package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"pgregory.net/rapid"
)

// TestAssumptions: what is told of an assumption, at any moment of the histories of random pipelines, is what happens when it comes true.
// The run itself does not change when it is asked.
func TestAssumptions(t *testing.T) {
	told := map[Verb]int{}
	dispatched := 0
	rapid.Check(t, func(rt *rapid.T) {
		h := newHarness(t, drawPlan(rt))
		m := &monkey{harness: h, rt: rt, ended: map[int32]bool{}, awaits: map[string]bool{}}
		h.t = fatal{t, m}
		m.do(Event{Kind: Start, Begin: &Begin{Window: rapid.SampledFrom([]int{0, 1, 3}).Draw(rt, "window"), Revision: Revision}})
		for range rapid.IntRange(1, 25).Draw(rt, "length") {
			if rapid.IntRange(0, 2).Draw(rt, "assume") == 0 {
				if verb, n := m.assume(); verb != "" {
					told[verb]++
					dispatched += n
				}
			}
			m.turn()
		}
		m.finish()
		if rapid.Bool().Draw(rt, "retry") {
			if n, ok := m.assumeRetry(); ok {
				told[VerbRetry]++
				dispatched += n
			}
		}
	})
	for _, verb := range []Verb{VerbRestart, VerbRetry, VerbFail, VerbComplete, VerbSkip, VerbLose, VerbCancel, VerbPause, VerbResume} {
		if told[verb] == 0 && !testing.Short() { // 20 histories may lack one
			t.Errorf("%s was never assumed", verb)
		}
	}
	t.Logf("assumed: %v, %d steps dispatched", told, dispatched)
}

// assume asks for a random assumption's consequence and makes it come true.
func (m *monkey) assume() (Verb, int) {
	a := Assumption{Verb: rapid.SampledFrom([]Verb{VerbRestart, VerbFail, VerbComplete, VerbSkip, VerbLose, VerbCancel, VerbPause, VerbResume}).Draw(m.rt, "verb")}
	if a.Verb == VerbCancel && !m.often(20, "cancel") {
		a.Verb = VerbComplete
	}
	switch a.Verb {
	case VerbRestart:
		a.Step = m.run.main.key(int32(rapid.IntRange(0, len(m.run.main.nodes)-1).Draw(m.rt, "of")))
		a.FailedOnly = rapid.Bool().Draw(m.rt, "failed only")
	case VerbFail, VerbComplete, VerbSkip, VerbLose:
		var keys []string
		m.run.visit(func(p place) {
			if p.flies() || p.node().status == stepwell.StepWaiting {
				keys = append(keys, p.key())
			}
		})
		if len(keys) == 0 {
			return "", 0
		}
		a.Step, a.Permanent = rapid.SampledFrom(keys).Draw(m.rt, "of"), rapid.Bool().Draw(m.rt, "permanent")
		if a.Verb == VerbComplete {
			a.Outputs = []byte(`{"x":1}`)
		}
	}
	m.now += 1000
	was := dump(m.run)
	copied := m.rebuilt(true)
	ev, err := copied.Assumed(&a, m.now)
	if err == nil && a.FailedOnly {
		ev.Seeds, ev.Epoch, err = copied.RestartSeeds(a.Step)
		m.outputs(ev.Seeds)
	}
	if err != nil {
		return "", 0
	}
	c, refused := copied.Consequence(&ev, nil, nil)
	if now := dump(m.run); now != was {
		m.t.Fatalf("asking changes the run: %s", firstDifference(was, now))
	}
	clear(m.ended)
	m.do(ev)
	if refused != nil {
		if len(m.fx.Tasks)+len(m.fx.Rows) > 0 {
			m.t.Fatalf("%v %s is refused (%v), and happens", a.Verb, a.Step, refused)
		}
		return "", 0
	}
	m.asTold(a.Verb, c)
	return a.Verb, len(c.Tasks)
}

// assumeRetry is assume for a retry.
func (m *monkey) assumeRetry() (int, bool) {
	old := m.rebuilt(true)
	later, err := old.PreviewRetry("")
	if err != nil {
		return 0, false
	}
	ev := m.again(nil)
	m.past, m.spent, m.told, m.awaits = nil, stepwell.Spending{}, stepwell.Spending{}, map[string]bool{}
	clear(m.ended)
	asked := ev
	asked.At = m.now
	c, err := New(m.plan, m.run.No, m.run.ID).Consequence(&asked, old, later)
	if err != nil {
		m.t.Fatalf("%v", err)
	}
	m.do(ev)
	m.asTold(VerbRetry, c)
	for i := range c.Steps { // what is taken over is no change
		if among(whole(later.Kept), c.Steps[i].Key) && c.Steps[i].Attempt == 0 && c.Steps[i].Is == stepwell.StepCompleted {
			m.t.Fatalf("%+v is kept", c.Steps[i])
		}
	}
	return len(c.Tasks), true
}

// alike is a task with the params of a spawned step as one text: the copy has them from the log, the run may have them as they came.
func alike(t testing.TB, task *Task) *Task {
	same := *task
	if len(task.Params) == 0 {
		same.Params = nil
		return &same
	}
	v, err := expr.Decode(task.Params)
	if err != nil {
		t.Fatal(err)
	}
	if same.Params, err = expr.Marshal(v); err != nil {
		t.Fatal(err)
	}
	return &same
}

// asTold compares a consequence with what the last batch did.
func (m *monkey) asTold(verb Verb, c *Consequence) {
	if c.Is != m.run.Status() {
		m.t.Fatalf("%v: told %v, is %v", verb, c.Is, m.run.Status())
	}
	var told, is []string
	for _, t := range c.Tasks {
		told = append(told, string(canonical(alike(m.t, t))))
	}
	for _, t := range m.fx.Tasks {
		is = append(is, string(canonical(alike(m.t, t))))
	}
	if !slices.Equal(told, is) {
		m.t.Fatalf("%v: told\n%s\nis\n%s", verb, strings.Join(told, "\n"), strings.Join(is, "\n"))
	}
	states := map[string]stepwell.StepStatus{}
	m.run.visit(func(p place) { states[p.key()] = p.node().status })
	for i := range c.Steps {
		if s, known := states[c.Steps[i].Key]; known && s != c.Steps[i].Is && c.Steps[i].Why != nil {
			m.t.Fatalf("%v: %s: told %v, is %v", verb, c.Steps[i].Key, c.Steps[i].Is, s)
		}
	}
	changed := map[string]bool{}
	for i := range c.Steps {
		changed[c.Steps[i].Key] = true
	}
	for _, row := range m.fx.Rows {
		if row.Status == stepwell.StepSkipped && row.Attempt == 0 && verb != VerbRetry && !changed[m.keys[row.Idx]] {
			if p, ok := m.run.find(row.Idx); ok && p.node().status == stepwell.StepSkipped && verb != VerbRestart {
				m.t.Fatalf("%v: %s is skipped, and not told", verb, m.keys[row.Idx])
			}
		}
	}
}

func TestParseAssumption(t *testing.T) {
	for text, want := range map[string]string{
		"restart deploy":                "restart deploy false false ",
		"restart each failed-only":      "restart each true false ",
		"retry":                         "retry  false false ",
		"retry deploy":                  "retry deploy false false ",
		" fail  charge permanently ":    "fail charge false true ",
		`complete a:b c {"n": {"m":1}}`: `complete a:b c false false {"n": {"m":1}}`,
		"cancel":                        "cancel  false false ",
	} {
		a, err := ParseAssumption(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join([]string{string(a.Verb), a.Step, boolText(a.FailedOnly), boolText(a.Permanent), string(a.Outputs)}, " "); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"", "explode deploy", "fail", "restart", "cancel deploy", `complete a {"x"`} {
		if a, err := ParseAssumption(text); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%q is %+v, error %v", text, a, err)
		}
	}
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return "false"
}
