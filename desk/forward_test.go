package desk_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
)

// A worker's calls for an execution that another node runs get there: outcomes, claims, memos, log lines and spawns.
func TestElsewhere(t *testing.T) {
	owner := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	n.owner = owner
	id := owner.begin("name: two\nsteps:\n  - {id: a, action: t.far}\n  - {id: b, action: t.far}\n")
	there, here := client{n: owner, name: "w1"}.join("t.far"), client{n: n, name: "w1"}.join("t.far")
	a, b := there.task(), there.task()
	step := "steps/" + a.StepID
	if status, p := here.send("claim", wire.Claim{Worker: "w1", StepID: a.StepID, Epoch: a.Epoch}, nil); status != 200 {
		t.Errorf("claim: %d, %+v", status, p)
	}
	if status, p := here.send(step+"/memo", wire.Memo{Worker: "w1", Epoch: a.Epoch, Key: "k", Value: []byte(`{"v":1}`)}, nil); status != 200 {
		t.Errorf("memo: %d, %+v", status, p)
	}
	var v wire.Value
	if there.send(step+"/memo", wire.Memo{Worker: "w1", Epoch: a.Epoch, Key: "k"}, &v); string(v.Value) != `{"v":1}` {
		t.Errorf("recalled %+v", v)
	}
	if status, p := here.send(step+"/log", wire.Log{Worker: "w1", Epoch: a.Epoch, Lines: []wire.Line{{Message: "hello"}}}, nil); status != 200 {
		t.Errorf("log: %d, %+v", status, p)
	}
	spawn := wire.Spawn{Worker: "w1", Epoch: a.Epoch, Steps: []wire.NewStep{{}}}
	if status, p := here.send(step+"/spawn", spawn, nil); status != 400 { // the owner's answer, whatever it is
		t.Errorf("spawn: %d, %+v", status, p)
	}
	wrong := completed(b, `{}`)
	wrong.Status = "odd"
	if out := here.turn(wire.Turn{Outcomes: []wire.Outcome{completed(a, `{"v":1}`), wrong}}); len(out.Committed) != 1 || len(out.Refused) != 1 {
		t.Errorf("answer %+v", out)
	}
	if out := here.report(completed(b, `{"v":2}`)); len(out.Committed) != 1 {
		t.Errorf("answer %+v", out)
	}
	x, steps := owner.end(id, stepwell.ExecutionCompleted)
	if string(steps["a"].Output) != `{"v":1}` || steps["a"].Attempt != 1 || steps["b"].Attempt != 1 {
		t.Errorf("steps %+v", steps)
	}
	owner.books(x, 2)
	if status, _ := here.send(step+"/log", wire.Log{Worker: "w1", Epoch: a.Epoch}, nil); status != 409 {
		t.Errorf("a line after the end: %d", status)
	}
}

// While the node that runs an execution cannot be reached, what workers say of it is to be said again.
func TestNowhere(t *testing.T) {
	owner := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	n.owner, n.cut = owner, true
	owner.begin(one)
	task := client{n: owner, name: "w1"}.join("t.far").task()
	here := client{n: n, name: "w1"}.join("t.far")
	if out := here.report(completed(task, `{}`)); len(out.Committed)+len(out.Refused) != 0 {
		t.Errorf("answer %+v", out)
	}
	for _, call := range []string{"steps/" + task.StepID + "/log", "steps/" + task.StepID + "/memo", "steps/" + task.StepID + "/spawn", "claim"} {
		if status, _ := here.send(call, map[string]any{"worker": "w1", "step_id": task.StepID, "epoch": task.Epoch}, nil); status != 503 {
			t.Errorf("%s: %d", call, status)
		}
	}
}

// A node takes over what a killed one ran, and a new one answers at the address of that: the successor goes on to hear that the
// worker holds the step, and gets its outcome, which reaches the new node.
func TestComesBack(t *testing.T) {
	db := dbOf(t)
	begun, open := make(chan struct{}, 10), make(chan struct{})
	gate := act("t.gate", func(ctx context.Context, c *action.Call) (any, error) {
		begun <- struct{}{}
		<-open
		return map[string]any{"attempt": c.Attempt}, nil
	})
	at, later := newDoor(t), newDoor(t)
	now := time.Now()
	options := func(d *door) desk.Options {
		return desk.Options{Lease: time.Second, Address: func() string { return d.url }, Nodes: func() []string { return []string{at.url, later.url} },
			Now: func() time.Time { return now }} // no lease ends
	}
	first := newNode(t, db, options(at), never("t.gate"))
	at.open(first)
	first.link("w1", false, []string{at.url}, gate)
	id := first.begin("name: one\nsteps:\n  - {id: a, action: t.gate}\n")
	<-begun
	at.to.Store(nil)
	first.stop()
	n := newNode(t, db, options(later), never("t.gate"))
	if err := n.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	newcomer := newNode(t, dbOf(t), options(at), never("t.gate"))
	newcomer.owner = n
	heard := later.listen(n, `"holding":[{"step_id":"`+id)
	<-heard
	at.open(newcomer)
	for len(newcomer.desk.Workers()) == 0 {
		time.Sleep(time.Millisecond)
	}
	for range cap(heard) + 2 { // those under way may be older
		select {
		case <-heard:
		case <-time.After(time.Minute):
			t.Fatal("the successor does not hear any more that the step is held")
		}
	}
	close(open)
	x, steps := n.end(id, stepwell.ExecutionCompleted)
	if string(steps["a"].Output) != `{"attempt":1}` || len(begun) != 0 {
		t.Errorf("step %+v, begun %d times more", steps["a"], len(begun))
	}
	n.books(x, 1)
}

// listen opens a door, and gives a token for each request with a text in its body.
func (d *door) listen(n *node, text string) <-chan struct{} {
	heard := make(chan struct{}, 1)
	h := n.desk.Handler(func(*http.Request) desk.Caller { return desk.Caller{Secure: true} })
	var tapped http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if bytes.Contains(raw, []byte(text)) {
			select {
			case heard <- struct{}{}:
			default:
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		h.ServeHTTP(w, r)
	})
	d.to.Store(&tapped)
	return heard
}
