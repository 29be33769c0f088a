package desk_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/queue/queuetest"
	"github.com/stepwell/stepwell/store"
)

// never is an action that the node itself cannot run.
func never(name string) action.Action {
	return act(name, func(context.Context, *action.Call) (any, error) { panic("it runs on the node") })
}

const one = "name: one\nsteps:\n  - {id: a, action: t.far, params: {n: 7}}\n"

func TestQueue(t *testing.T) {
	queuetest.Run(t, func(*testing.T) queue.Queue { return desk.New(desk.Options{}) })
	queuetest.RunLimits(t, func(*testing.T) queuetest.Limited { return desk.New(desk.Options{}) })
}

// A worker gets a finished call; its outcome is committed before it is acknowledged; the next step follows.
func TestTurns(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"), never("t.other"))
	c := client{n: n, name: "w1"}.join("t.far")
	id := n.begin("name: two\nsteps:\n  - {id: a, action: t.far, params: {n: 7}}\n  - {id: b, action: t.far, depends_on: [a], params: {m: \"{{ steps.a.outputs.v }}\"}}\n")
	a := c.task()
	if string(a.Params) != `{"n":7}` || a.StepKey != "a" || a.ExecutionID != id || a.Attempt != 1 || a.TimeoutMS != 300_000 {
		t.Errorf("task %+v", a)
	}
	out := c.report(completed(a, `{"v":"x"}`))
	if len(out.Committed) != 1 || out.Committed[0] != a.ID {
		t.Fatalf("answer %+v", out)
	}
	if list, err := n.store.Steps(t.Context(), a.ExecutionNo, store.StepFilter{}); err != nil || list[0].Status != stepwell.StepCompleted {
		t.Errorf("acknowledged before it is durable: %+v, %v", list, err)
	}
	b := c.task()
	if string(b.Params) != `{"m":"x"}` {
		t.Errorf("task %+v", b)
	}
	c.report(completed(b, `{}`))
	x, steps := n.end(id, stepwell.ExecutionCompleted)
	if steps["a"].Worker != "w1" {
		t.Errorf("step %+v", steps["a"])
	}
	n.books(x, 2)
}

// An outcome that comes again is acknowledged and changes nothing, also after the end.
func TestTwice(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	c := client{n: n, name: "w1"}.join("t.far")
	id := n.begin("name: two\nsteps:\n  - {id: a, action: t.far}\n  - {id: b, action: t.far, depends_on: [a]}\n")
	a := c.task()
	out := c.turn(wire.Turn{Outcomes: []wire.Outcome{completed(a, `{"v":1}`), completed(a, `{"v":2}`)}})
	if len(out.Committed) != 1 {
		t.Errorf("both in one turn: %+v", out)
	}
	if out = c.report(completed(a, `{"v":3}`)); len(out.Committed) != 1 {
		t.Errorf("again: %+v", out)
	}
	c.report(completed(c.task(), `{}`))
	x, steps := n.end(id, stepwell.ExecutionCompleted)
	if string(steps["a"].Output) != `{"v":1}` {
		t.Errorf("step %s", steps["a"].Output)
	}
	if out = c.report(completed(a, `{"v":4}`)); len(out.Committed) != 1 {
		t.Errorf("after the end: %+v", out)
	}
	n.books(x, 2)
}

// A worker that says nothing for a lease has lost its attempt; another one gets it, and the late outcome changes
// nothing. A worker that lists the attempt keeps it.
func TestDies(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	dead := client{n: n, name: "dead"}.join("t.far")
	id := n.begin(one)
	a := dead.task()
	n.pass(10 * time.Second)
	dead.turn(wire.Turn{Holding: []wire.ID{a.ID}})
	n.pass(10 * time.Second)
	heir := client{n: n, name: "heir"}.join("t.far")
	if got := heir.turn(wire.Turn{Want: 1, WaitMS: 50}).Tasks; len(got) != 0 {
		t.Fatalf("taken from a worker that lives: %+v", got)
	}
	n.pass(10 * time.Second)
	b := heir.task()
	if b.StepID != a.StepID || b.Epoch <= a.Epoch {
		t.Errorf("first %+v, then %+v", a.ID, b.ID)
	}
	for out := (wire.Turned{}); len(out.Committed) != 1; { // not yet, while the desk settles the loss
		if out = dead.report(completed(a, `{"v":"late"}`)); len(out.Refused) > 0 {
			t.Fatalf("the late outcome: %+v", out)
		}
	}
	heir.report(completed(b, `{"v":"heir"}`))
	x, steps := n.end(id, stepwell.ExecutionCompleted)
	if string(steps["a"].Output) != `{"v":"heir"}` || steps["a"].Worker != "heir" {
		t.Errorf("step %+v", steps["a"])
	}
	n.books(x, 1)
}

// An answer that is lost on its way loses no worker: the attempt is given again, as it was, when its worker has lived on for a lease and
// has not named it. One that is never named is taken for one that kills its worker in the end.
func TestAnswerLost(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	c := client{n: n, name: "w1"}.join("t.far")
	n.begin(one)
	first := c.task()
	for again := range 3 {
		for range 3 {
			n.pass(5 * time.Second)
			c.turn(wire.Turn{})
		}
		n.pass(time.Second)
		if got := c.task(); got.ID != first.ID {
			t.Fatalf("given for the %d. time: %+v, first %+v", again+2, got.ID, first.ID)
		}
	}
	for range 3 {
		n.pass(5 * time.Second)
		c.turn(wire.Turn{})
	}
	n.pass(time.Second)
	second := c.task()
	if second.StepID != first.StepID || second.Epoch <= first.Epoch {
		t.Errorf("first %+v, then %+v", first.ID, second.ID)
	}
	for range 4 { // this one is named
		n.pass(5 * time.Second)
		if got := c.turn(wire.Turn{Holding: []wire.ID{second.ID}, Want: 1}).Tasks; len(got) != 0 {
			t.Fatalf("given again: %+v", got)
		}
	}
	c.report(completed(second, `{}`))
}

// Attempts that a worker gives back when it leaves go to others, and not to a turn of its own that still waits.
func TestLeavesWhileATurnWaits(t *testing.T) {
	for range 20 {
		n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
		c := client{n: n, name: "w1"}.join("t.far")
		n.begin(one)
		a := c.task()
		waiting := make(chan wire.Turned)
		go func() {
			var out wire.Turned
			c.send("turn", wire.Turn{Worker: c.name, Want: 1, WaitMS: 20_000}, &out)
			waiting <- out
		}()
		time.Sleep(10 * time.Millisecond) // it waits by now, or comes too late: then it is refused
		c.send("turn", wire.Turn{Worker: c.name, Leaving: true}, nil)
		if out := <-waiting; len(out.Tasks) != 0 {
			t.Fatalf("a worker that has left gets %+v", out.Tasks)
		}
		heir := client{n: n, name: "heir"}.join("t.far")
		if b := heir.task(); b.ID != a.ID {
			t.Fatalf("first %+v, then %+v", a.ID, b.ID)
		}
		n.stop()
	}
}

// A step that kills its workers fails with their names.
func TestPoison(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	c := client{n: n, name: "w1"}.join("t.far")
	id := n.begin(one)
	for range 3 {
		c.task()
		n.pass(time.Minute)
	}
	x, _ := n.end(id, stepwell.ExecutionFailed)
	if x.Failure == nil || !strings.Contains(x.Failure.Message, "lost 3 workers") {
		t.Errorf("failure %+v", x.Failure)
	}
}

// A worker reports only what it holds, in the ways that there are, and under a name of its own.
func TestLies(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	c, liar := client{n: n, name: "w1"}.join("t.far"), client{n: n, name: "liar", key: "k2"}.join("t.far")
	id := n.begin(one)
	for range 1000 { // until the step waits
		if out := liar.report(wire.Outcome{ID: wire.ID{StepID: id + ":0", Epoch: 1}, Status: wire.Completed}); len(out.Refused) == 1 {
			break
		}
	}
	a := c.task()
	refused := func(what string, o wire.Outcome) {
		t.Helper()
		if out := liar.report(o); len(out.Refused) != 1 || len(out.Committed) != 0 {
			t.Errorf("%s: %+v", what, out)
		}
	}
	refused("another's attempt", completed(a, `{"v":"lie"}`))
	refused("no execution", wire.Outcome{ID: wire.ID{StepID: "0198c0de-0000-7000-8000-000000000000:0", Epoch: 1}, Status: wire.Completed})
	refused("no id", wire.Outcome{ID: wire.ID{StepID: "nonsense", Epoch: 1}, Status: wire.Completed})
	liar.turn(wire.Turn{Holding: []wire.ID{a.ID}, Back: []wire.ID{a.ID}})
	refused("what it says that it holds", completed(a, `{"v":"lie"}`))
	for what, in := range map[string]any{"spawn": wire.Spawn{Worker: "liar", Epoch: 1}, "memo": wire.Memo{Worker: "liar", Epoch: 1, Key: "k"}, "log": wire.Log{Worker: "liar", Epoch: 1},
		"own": wire.Own{Worker: "liar", Epoch: 1}, "outputs/a": wire.Outputs{Worker: "liar", Epoch: 1}} {
		if status, p := liar.send("steps/"+a.StepID+"/"+what, in, nil); status != 409 {
			t.Errorf("%s: %d, %+v", what, status, p)
		}
	}
	if status, p := liar.send("claim", wire.Claim{Worker: "liar", StepID: a.StepID, Epoch: a.Epoch}, nil); status != 409 {
		t.Errorf("claim: %d, %+v", status, p)
	}
	if status, p := liar.send("turn", wire.Turn{Worker: "w1", Want: 1}, nil); status != 403 {
		t.Errorf("under another's name: %d, %+v", status, p)
	}
	if status, p := liar.send("join", wire.Join{Worker: "w1", Protocol: 1, Concurrency: 1, Actions: []wire.Action{{Name: "t.far"}}}, nil); status != 403 {
		t.Errorf("joining under another's name: %d, %+v", status, p)
	}
	for _, status := range []string{"", "lost", "recovered", "cancelled"} {
		if out := c.report(wire.Outcome{ID: a.ID, Status: status}); len(out.Refused) != 1 {
			t.Errorf("status %q: %+v", status, out)
		}
	}
	if out := c.report(completed(a, `[1]`)); len(out.Committed) != 1 {
		t.Errorf("outputs that are not an object: %+v", out)
	}
	x, _ := n.end(id, stepwell.ExecutionFailed)
	if x.Failure == nil || !strings.Contains(x.Failure.Message, "not a JSON object") {
		t.Errorf("failure %+v", x.Failure)
	}
}

// Calls that are too large or too many are refused, and nothing of them is kept.
func TestFloods(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	c := client{n: n, name: "w1"}.join("t.far")
	if status, p := c.send("turn", wire.Turn{Worker: "w1", Outcomes: make([]wire.Outcome, wire.MaxOutcomes+1)}, nil); status != 429 {
		t.Errorf("outcomes: %d, %+v", status, p)
	}
	if status, p := c.send("turn", wire.Turn{Worker: "w1", Holding: make([]wire.ID, wire.MaxHolding+1)}, nil); status != 429 {
		t.Errorf("holding: %d, %+v", status, p)
	}
	if status, p := c.send("memo", wire.Memo{Key: strings.Repeat("x", wire.MaxBody+1)}, nil); status != 429 {
		t.Errorf("bytes: %d, %+v", status, p)
	}
	if status, p := c.send("join", wire.Join{Worker: "w2", Protocol: 99, Concurrency: 1, Actions: []wire.Action{{Name: "t.far"}}}, nil); status != 400 || !strings.Contains(p.Message, "protocol 99") {
		t.Errorf("protocol: %d, %+v", status, p)
	}
	if status, p := c.send("turn", wire.Turn{Worker: "nobody"}, nil); status != 404 || p.Hint != wire.JoinFirst {
		t.Errorf("nobody: %d, %+v", status, p)
	}
	steps := "name: many\nsteps:\n"
	for i := range 1500 {
		steps += "  - {id: s" + strings.Repeat("i", 1+i%3) + string(rune('a'+i%26)) + json.Number(itoa(i)).String() + ", action: t.far}\n"
	}
	n.begin(steps)
	const most = 4 + 1024
	got := 0
	for tries := 0; got < most && tries < 600; tries++ { // the steps come to the queue one after the other
		got += len(c.turn(wire.Turn{Want: 1 << 30, WaitMS: 100}).Tasks)
	}
	got += len(c.turn(wire.Turn{Want: 1 << 30, WaitMS: 100}).Tasks)
	if got != most {
		t.Errorf("a worker of 4 steps at once holds %d", got)
	}
}

func itoa(i int) string { raw, _ := json.Marshal(i); return string(raw) }

// A stop reaches who holds the step; one that waits ends at once.
func TestStop(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"), never("t.nobody"))
	c := client{n: n, name: "w1"}.join("t.far")
	id := n.begin(one + "  - {id: b, action: t.nobody}\n")
	a := c.task()
	if err := n.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	out := c.turn(wire.Turn{Want: 1, WaitMS: 20_000})
	if len(out.Stop) != 1 || out.Stop[0] != a.ID {
		t.Fatalf("answer %+v", out)
	}
	c.report(wire.Outcome{ID: a.ID, Status: wire.Failed, Error: &wire.Error{Code: stepwell.CodeCancelled, Message: "stopped"}})
	n.end(id, stepwell.ExecutionCancelled)
}

// After the end of a node its successor expects the attempts in flight: one that is announced goes on, one that was
// only queued and is not announced is given out again.
func TestAdoption(t *testing.T) {
	db := dbOf(t)
	first := newNode(t, db, desk.Options{}, never("t.far"))
	c := client{n: first, name: "w1"}.join("t.far")
	id := first.begin("name: two\nsteps:\n  - {id: a, action: t.far}\n  - {id: b, action: t.far}\n")
	a, b := c.task(), c.task()
	first.stop()
	n := newNode(t, db, desk.Options{}, never("t.far"))
	if err := n.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.n = n
	in := wire.Join{Worker: c.name, Protocol: wire.Protocol, Concurrency: 4, Actions: []wire.Action{{Name: "t.far"}}, Holding: []wire.ID{a.ID}}
	if status, p := c.send("join", in, nil); status != 200 {
		t.Fatalf("%d, %+v", status, p)
	}
	n.pass(4 * time.Second)
	again := c.task()
	if again.ID != b.ID {
		t.Errorf("given again: %+v", again.ID)
	}
	if out := c.turn(wire.Turn{Outcomes: []wire.Outcome{completed(a, `{"v":1}`), completed(again, `{"v":2}`)}}); len(out.Committed) != 2 {
		t.Errorf("answer %+v", out)
	}
	x, steps := n.end(id, stepwell.ExecutionCompleted)
	if steps["a"].Attempt != 1 || steps["b"].Attempt != 1 {
		t.Errorf("steps %+v", steps)
	}
	n.books(x, 2)
}

// A worker that leaves loses nothing: its attempts go on elsewhere at once.
func TestLeaves(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	c, heir := client{n: n, name: "w1"}.join("t.far"), client{n: n, name: "w2"}.join("t.far")
	id := n.begin(one)
	a := c.task()
	c.turn(wire.Turn{Leaving: true})
	b := heir.task()
	if a.ID != b.ID {
		t.Errorf("first %+v, then %+v", a.ID, b.ID)
	}
	heir.report(completed(b, `{}`))
	n.end(id, stepwell.ExecutionCompleted)
	if list := n.desk.Workers(); len(list) != 1 || list[0].Name != "w2" || list[0].Held != 0 {
		t.Errorf("workers %+v", list)
	}
}

// Two processes under one name are told apart: the second has a name of its own, and neither takes the other's steps for lost.
func TestTwoProcessesOneName(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	join := func(name, instance string) string {
		t.Helper()
		in := wire.Join{Worker: name, Instance: instance, Protocol: wire.Protocol, Concurrency: 4, Actions: []wire.Action{{Name: "t.far"}}}
		var out wire.Joined
		if status, p := (client{n: n, name: name}).send("join", in, &out); status != 200 {
			t.Fatalf("join: %d, %+v", status, p)
		}
		return out.Worker
	}
	if name := join("gpu", "aaaaaaaa"); name != "" {
		t.Errorf("the first is called %q", name)
	}
	first := client{n: n, name: "gpu"}
	id := n.begin(one)
	a := first.task()
	if name := join("gpu", "bbbbbbbb"); name != "gpu~bbbbbbbb" {
		t.Errorf("the second is called %q", name)
	}
	second := client{n: n, name: "gpu~bbbbbbbb"}
	second.turn(wire.Turn{Holding: []wire.ID{}})
	second.turn(wire.Turn{Instance: "bbbbbbbb", Leaving: true})
	var names []string
	join("gpu", "bbbbbbbb")
	for _, w := range n.desk.Workers() {
		names = append(names, w.Name)
	}
	if strings.Join(names, " ") != "gpu gpu~bbbbbbbb" {
		t.Errorf("workers %v", names)
	}
	if out := first.report(completed(a, `{}`)); len(out.Committed) != 1 {
		t.Errorf("the first one's outcome: %+v", out)
	}
	x, _ := n.end(id, stepwell.ExecutionCompleted)
	n.books(x, 1)

	// The first is heard of no more: its name is free. When it comes back, it is sent to join again, and is the second then.
	n.pass(time.Minute)
	if name := join("gpu", "cccccccc"); name != "" {
		t.Errorf("the third is called %q", name)
	}
	if status, p := first.send("turn", wire.Turn{Worker: "gpu", Instance: "aaaaaaaa"}, nil); status != 404 || p.Hint != wire.JoinFirst {
		t.Errorf("the first: %d, %+v", status, p)
	}
	if name := join("gpu", "aaaaaaaa"); name != "gpu~aaaaaaaa" {
		t.Errorf("the first is called %q afterwards", name)
	}
	if name := join("gpu", ""); name != "" { // a worker that does not say which process it is
		t.Errorf("an old one is called %q", name)
	}
}

// A step that a worker is known to have begun is expected back from that worker alone, whatever others say that they hold.
func TestLiarAtAdoption(t *testing.T) {
	db := dbOf(t)
	first := newNode(t, db, desk.Options{}, never("t.far"))
	c := client{n: first, name: "w1"}.join("t.far")
	id := first.begin(one)
	a := c.task()
	if status, p := c.send("claim", wire.Claim{Worker: c.name, StepID: a.StepID, Epoch: a.Epoch}, nil); status != 200 {
		t.Fatalf("claim: %d, %+v", status, p)
	}
	first.stop()
	n := newNode(t, db, desk.Options{}, never("t.far"))
	if err := n.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.n = n
	liar := client{n: n, name: "liar"}.join("t.far")
	liar.turn(wire.Turn{Holding: []wire.ID{a.ID}})
	for { // until the node expects it
		out := liar.report(completed(a, `{"v":"lie"}`))
		if len(out.Committed) > 0 {
			t.Fatal("the lie is taken")
		}
		if len(out.Refused) > 0 {
			break
		}
	}
	c.join("t.far")
	if out := c.report(completed(a, `{"v":"true"}`)); len(out.Committed) != 1 {
		t.Errorf("the worker's outcome: %+v", out)
	}
	if _, steps := n.end(id, stepwell.ExecutionCompleted); string(steps["a"].Output) != `{"v":"true"}` {
		t.Errorf("step %s", steps["a"].Output)
	}
}

// A turn with an outcome that asks for tasks takes the next step along, also while another turn waits for tasks; each step is given once.
func TestNextStepGoesAlong(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	c := client{n: n, name: "w1"}.join("t.far")
	along := 0
	for range 6 {
		id := n.begin("name: two\nsteps:\n  - {id: a, action: t.far}\n  - {id: b, action: t.far, depends_on: [a]}\n")
		a := c.task()
		waiting := make(chan wire.Turned)
		go func() {
			var out wire.Turned
			c.send("turn", wire.Turn{Worker: c.name, Want: 1, WaitMS: 150}, &out)
			waiting <- out
		}()
		time.Sleep(5 * time.Millisecond) // it waits by now as a rule
		list := c.turn(wire.Turn{Outcomes: []wire.Outcome{completed(a, `{}`)}, Want: 1}).Tasks
		along += len(list)
		if len(list) == 0 { // that turn came at the same moment
			list = (<-waiting).Tasks
		} else if out := <-waiting; len(out.Tasks) > 0 {
			t.Fatalf("given twice: %+v", out.Tasks)
		}
		if len(list) != 1 {
			t.Fatalf("%d tasks", len(list))
		}
		c.report(completed(list[0], `{}`))
		n.end(id, stepwell.ExecutionCompleted)
	}
	if along == 0 {
		t.Error("no step has gone along")
	}
}
