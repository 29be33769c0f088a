package engine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"pgregory.net/rapid"
)

// TestRandomRuns lets random pipelines go through random histories: reports in any order, failures, doubles, late
// ones, spawns, waits, timers, cancels, pauses, restarts, lost workers and crashes. checks_test.go has the
// invariants.
func TestRandomRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		h := newHarness(t, p)
		m := &monkey{harness: h, rt: rt, ended: map[int32]bool{}, awaits: map[string]bool{}}
		h.t = fatal{t, m}
		m.do(Event{Kind: Start, Begin: &Begin{Window: rapid.SampledFrom([]int{0, 1, 3}).Draw(rt, "window"), Held: m.often(20, "held"), Priority: 3, Revision: Revision}})
		for range rapid.IntRange(1, 40).Draw(rt, "length") {
			m.turn()
		}
		m.finish()
		if rapid.IntRange(0, 3).Draw(rt, "again") == 0 && m.retry() {
			m.finish()
		}
	})
}

// retry begins a new execution with the old one's seeds.
func (m *monkey) retry() bool {
	i := rapid.IntRange(-1, len(m.run.main.nodes)-1).Draw(m.rt, "retry from")
	var from []string
	if i >= 0 {
		from = []string{m.run.main.key(int32(i))}
	}
	if _, err := m.rebuilt(true).Seeds(strings.Join(from, "")); err != nil {
		if stepwell.CodeOf(err) != stepwell.CodeConflict || m.run.Status() != stepwell.ExecutionCompleted {
			m.t.Fatalf("%v", err)
		}
		return false
	}
	ev := m.again(from)
	m.past, m.spent, m.told, m.awaits = nil, stepwell.Spending{}, stepwell.Spending{}, map[string]bool{}
	ev.Begin.Held = m.often(30, "held again")
	clear(m.ended)
	m.do(ev)
	return true
}

func (m *monkey) often(percent int, what string) bool {
	return rapid.IntRange(1, 100).Draw(m.rt, what) <= percent
}

// fatal shows the history with a failure.
type fatal struct {
	testing.TB
	m *monkey
}

func (f fatal) Helper() {}

func (f fatal) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

func (f fatal) Fatalf(format string, args ...any) {
	if os.Getenv("STEPWELL_TRACE") != "" {
		fmt.Println(dump(f.m.run))
	}
	f.m.rt.Fatalf("%s\nhistory:\n%s", fmt.Sprintf(format, args...), strings.Join(f.m.history, "\n"))
}

type monkey struct {
	*harness
	rt      *rapid.T
	history []string
	past    []Event // of attempts that are over
	ended   map[int32]bool
	spent   stepwell.Spending // by the events that changed something
	told    stepwell.Spending // by the effects
	awaits  map[string]bool   // all that were ever told
}

// do applies one batch and checks everything.
func (m *monkey) do(events ...Event) {
	for i := range events {
		m.history = append(m.history, fmt.Sprintf("%v %s", time.Duration(m.now-beginning)*time.Microsecond, m.describe(&events[i])))
	}
	for i, s := range m.batch(events...) {
		if s != "" {
			m.history = append(m.history, "   "+s)
		} else {
			m.spent = m.spent.Plus(stepwell.Spending{Cost: events[i].Cost, Usage: events[i].Usage})
		}
	}
	var out strings.Builder
	m.tell(&out)
	m.history = append(m.history, out.String())
	m.check()
}

func (m *monkey) describe(ev *Event) string {
	names := map[Kind]string{Start: "start", Done: "done", Failed: "failed", Skipped: "skipped", Waiting: "waiting", Running: "running", Spawned: "spawned",
		TimerDue: "timer", Recovered: "recovered", Lost: "lost", Cancel: "cancel", Pause: "pause", Resume: "resume", Restart: "restart", DoneAll: "segment", Admit: "admit", Settled: "settled", Advanced: "advanced"}
	s := fmt.Sprintf("%s %s epoch %d", names[ev.Kind], m.keys[ev.Idx], ev.Epoch)
	switch ev.Kind {
	case Failed:
		s += fmt.Sprintf(" permanent %v defer %v", ev.Permanent, ev.Defer)
	case Spawned:
		s += " " + string(canonical(ev.Spawns))
	case Restart:
		s += fmt.Sprintf(" %s failed only %v", ev.Step, ev.FailedOnly)
	case Waiting:
		s += fmt.Sprintf(" poll %v await %v until %d", ev.Wait.Resume, ev.Wait.Await, ev.Wait.Until)
	case Settled:
		s += fmt.Sprintf(" failure %v permanent %v reason %q", ev.Failure, ev.Permanent, ev.Reason)
	}
	return s
}

func (m *monkey) flying() []place {
	var out []place
	m.run.visit(func(p place) {
		if s := p.node().status; p.step().Body == nil && (s == stepwell.StepQueued || s == stepwell.StepRunning) {
			out = append(out, p)
		}
	})
	return out
}

// turn is one random thing, or several in one batch.
func (m *monkey) turn() {
	switch n := rapid.IntRange(0, 99).Draw(m.rt, "turn"); {
	case n < 60:
		var events []Event
		for range rapid.IntRange(1, 3).Draw(m.rt, "events") {
			if ev, ok := m.report(); ok {
				events = append(events, ev)
			}
		}
		if len(events) > 0 {
			m.do(events...)
		}
	case n < 72:
		m.nextTimer()
	case n < 74 && m.run.Status() == stepwell.ExecutionPending:
		m.do(Event{Kind: Admit})
	case n < 76 && len(m.past) > 0:
		m.late()
	case n < 78:
		m.settle()
	case n < 79:
		m.do(Event{Kind: Pause})
	case n < 83:
		m.do(Event{Kind: Resume})
	case n < 86:
		m.do(Event{Kind: Cancel})
	case n < 92:
		m.restart()
	default:
		m.crash()
	}
}

// late repeats a report of an attempt that is over: nothing may change.
func (m *monkey) late() {
	ev := rapid.SampledFrom(m.past).Draw(m.rt, "late")
	if p, ok := m.run.find(ev.Idx); ok && p.node().epoch == ev.Epoch && !p.node().status.Terminal() && p.node().status != stepwell.StepWaiting && p.node().status != stepwell.StepRetrying {
		return // still that attempt
	}
	was := dump(m.run)
	m.do(ev)
	if now := dump(m.run); now != was && ev.Kind != Spawned {
		m.t.Fatalf("a late report changes something: %s", firstDifference(was, now))
	}
}

func (m *monkey) restart() {
	i := rapid.IntRange(0, len(m.run.main.nodes)-1).Draw(m.rt, "restart")
	ev := Event{Kind: Restart, Step: m.run.main.key(int32(i))}
	switch rapid.IntRange(0, 4).Draw(m.rt, "failed only") {
	case 0:
		ev.FailedOnly = true // as earlier versions did
	case 1, 2:
		ev = m.failedOnly(ev.Step)
	}
	clear(m.ended)
	m.do(ev)
}

func (m *monkey) crash() {
	m.sameAfterReplay()
	m.run = m.replayed()
	m.timers = m.run.Pending()
	m.do(Event{Kind: Recovered})
}

func (m *monkey) nextTimer() bool {
	if len(m.timers) == 0 {
		return false
	}
	slices.SortStableFunc(m.timers, func(a, b Timer) int { return int(min(max(a.At-b.At, -1), 1)) })
	next := m.timers[0]
	m.timers = m.timers[1:]
	m.now = max(m.now+1, next.At)
	m.do(Event{Kind: TimerDue, Idx: next.Idx, Epoch: next.Epoch})
	return true
}

// report is something that an attempt in flight may tell.
func (m *monkey) report() (Event, bool) {
	list := m.flying()
	if len(list) == 0 {
		return Event{}, false
	}
	p := rapid.SampledFrom(list).Draw(m.rt, "of")
	ev := Event{Idx: p.idx(), Epoch: p.node().epoch, Started: m.now, Worker: "w"}
	m.now += 1000
	if len(p.step().Members()) > 0 {
		m.segment(p, &ev)
		m.past = append(m.past, ev)
		return ev, true
	}
	switch n := rapid.IntRange(0, 19).Draw(m.rt, "report"); {
	case n < 9:
		ev.Kind, ev.Output = Done, []byte(rapid.SampledFrom([]string{`{"x":1}`, `{"x":"ä<"}`, ``, `@blob`}).Draw(m.rt, "output"))
		m.blobs["@blob"] = []byte(`{"x":1,"big":true}`)
		m.load(&ev)
	case n < 13:
		ev.Kind, ev.Failure = Failed, &Failure{Code: rapid.SampledFrom([]stepwell.Code{stepwell.CodeFailed, stepwell.CodeTimeout}).Draw(m.rt, "code"), Message: "boom \xff"}
		ev.Permanent = rapid.IntRange(0, 2).Draw(m.rt, "permanent") == 0
		ev.Defer = rapid.IntRange(0, 3).Draw(m.rt, "defer") == 0
	case n == 13:
		ev.Kind, ev.Reason = Skipped, "nothing to do"
	case n == 14:
		ev.Kind, ev.Wait = Waiting, &Wait{Until: m.now + 3_000_000, Resume: rapid.Bool().Draw(m.rt, "poll"), State: []byte("s"), Output: []byte("@blob")}
		m.await(ev.Wait)
		m.blobs["@blob"] = []byte(`{"x":1,"big":true}`)
		m.load(&ev)
	case n == 15:
		ev.Kind = oneOfKinds(m, Running, Advanced)
	case n == 16:
		ev.Kind = Lost
	default:
		ev.Kind = Spawned
		for range rapid.IntRange(1, 2).Draw(m.rt, "spawns") {
			ev.Spawns = append(ev.Spawns, m.spawn())
		}
	}
	if ev.Kind != Running && ev.Kind != Advanced && ev.Kind != Lost && ev.Kind != Spawned {
		ev.Cost = rapid.Int64Range(-1, 3).Draw(m.rt, "cost")
		ev.InputTokens, ev.AudioMillis = rapid.Int64Range(0, 2).Draw(m.rt, "tokens"), rapid.Int64Range(0, 2).Draw(m.rt, "audio")
	}
	m.past = append(m.past, ev)
	return ev, true
}

// segment draws the result of a segment.
func (m *monkey) segment(p place, ev *Event) {
	members := p.step().Members()
	switch n := rapid.IntRange(0, 9).Draw(m.rt, "segment"); {
	case n < 5:
		ev.Kind, ev.Output, ev.Partial = DoneAll, []byte(`{"x":1,"collections":[{"id":"a"},{"id":"b"}]}`), n == 0
		for _, member := range members {
			if idx := p.s.idx(member.Step); idx != ev.Idx {
				ev.Parts = append(ev.Parts, Part{Idx: idx, Output: []byte(rapid.SampledFrom([]string{`{"x":1}`, ``, `@blob`}).Draw(m.rt, "part"))})
			}
		}
		m.blobs["@blob"] = []byte(`{"x":1,"big":true}`)
		m.load(ev)
	case n < 8:
		ev.Kind, ev.Failure, ev.Permanent = Failed, &Failure{Code: stepwell.CodeFailed, Message: "boom"}, n == 7
		fault := p.s.idx(rapid.SampledFrom(members).Draw(m.rt, "at fault").Step)
		ev.Member = fault + 1
		if n < 6 {
			return
		}
		for _, member := range members { // its branches came to their ends
			part := Part{Idx: p.s.idx(member.Step)}
			switch fate := rapid.IntRange(0, 2).Draw(m.rt, "fate"); {
			case part.Idx == fault:
				part.Failure = ev.Failure
			case fate == 0:
				part.StoppedBy = ev.Member
			case fate == 1:
				part.Failure = &Failure{Code: stepwell.CodeFailed, Message: "broke too"}
			default:
				part.Output = []byte(rapid.SampledFrom([]string{`{"x":1}`, ``, `@blob`}).Draw(m.rt, "part"))
			}
			ev.Parts = append(ev.Parts, part)
		}
		m.blobs["@blob"] = []byte(`{"x":1,"big":true}`)
		m.load(ev)
	case n == 8:
		ev.Kind = oneOfKinds(m, Running, Advanced)
	default:
		ev.Kind = Lost
	}
}

func oneOfKinds(m *monkey, kinds ...Kind) Kind { return rapid.SampledFrom(kinds).Draw(m.rt, "kind") }

func (m *monkey) spawn() Spawn {
	name := rapid.SampledFrom([]string{"extract", "copy"}).Draw(m.rt, "name")
	key := name + rapid.SampledFrom([]string{":1", ":2", ":3", ":\xff", ""}).Draw(m.rt, "key")
	x := spawnsOf([]string{key})[0]
	x.Params = []byte(rapid.SampledFrom([]string{`{"a":1}`, `{"a":1, "b":"<"}`, `{"b":"<","a":1}`, ``}).Draw(m.rt, "spawn params"))
	x.Continue = rapid.Bool().Draw(m.rt, "continue")
	x.DependsOn = rapid.SliceOfN(rapid.SampledFrom([]string{"extract:1", "copy:2", "extract", "nothing", "s1"}), 0, 2).Draw(m.rt, "on")
	return x
}

// finish lets everything that is under way come to an end, and expects the run to do so too.
func (m *monkey) finish() {
	for turn := 0; !m.run.Status().Terminal(); turn++ {
		if turn > 2000 {
			m.t.Fatalf("the run does not end")
		}
		switch m.run.Status() {
		case stepwell.ExecutionPaused:
			m.do(Event{Kind: Resume})
			continue
		case stepwell.ExecutionPending:
			m.do(Event{Kind: Admit})
			continue
		}
		list := m.flying()
		if len(list) == 0 {
			if !m.nextTimer() && !m.settle() {
				m.t.Fatalf("nothing is under way and the run is %v", m.run.Status())
			}
			continue
		}
		ev := Event{Kind: Done, Idx: list[0].idx(), Epoch: list[0].node().epoch, Started: m.now, Output: []byte(`{"x":1}`)}
		if turn%7 == 3 {
			ev.Kind, ev.Failure = Failed, &Failure{Code: stepwell.CodeFailed, Message: "late boom"}
		}
		m.now += 1000
		m.do(ev)
	}
	m.sameAfterReplay()
	m.checkEnd()
}
