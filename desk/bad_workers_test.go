package desk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
)

// crowd are bad workers and a good one at the same node.
type crowd struct {
	n     *node
	id    string // of the execution
	steps int
	ctx   context.Context
	calm  sync.RWMutex // held for reading by whom a lost lease would do wrong
}

// take asks for tasks without waiting for long.
func (c *crowd) take(w client, want int) []wire.Task {
	return c.turn(w, wire.Turn{Want: want, WaitMS: 20}).Tasks
}

// turn takes a turn; a worker that was forgotten joins again.
func (c *crowd) turn(w client, in wire.Turn) (out wire.Turned) {
	in.Worker = w.name
	status, p := w.send("turn", in, &out)
	if p.Hint == wire.JoinFirst {
		w.join("t.far")
		return wire.Turned{}
	}
	if status != 200 {
		c.n.t.Errorf("%s: %d, %+v", w.name, status, p)
	}
	return out
}

// answer is the true outcome of a task.
func answer(t wire.Task) wire.Outcome {
	var p struct{ N int }
	if json.Unmarshal(t.Params, &p) != nil {
		return wire.Outcome{ID: t.ID, Status: wire.Failed}
	}
	return completed(t, fmt.Sprintf(`{"v":%d}`, p.N))
}

// report offers outcomes until they are answered.
func (c *crowd) report(w client, list ...wire.Outcome) {
	for len(list) > 0 && c.ctx.Err() == nil {
		out := c.turn(w, wire.Turn{Outcomes: list})
		if len(out.Committed)+len(out.Refused) > 0 {
			return
		}
	}
}

// good runs what it gets.
func (c *crowd) good() {
	w := client{n: c.n, name: "good"}.join("t.far")
	for c.ctx.Err() == nil {
		c.calm.RLock()
		for _, t := range c.take(w, 4) {
			c.report(w, answer(t))
		}
		c.calm.RUnlock()
	}
}

// dies takes a task under ever new names and is never heard of again. What was lost before it runs: a step may not lose three workers.
func (c *crowd) dies() {
	for i := 0; c.ctx.Err() == nil && i < 30; i++ {
		w := client{n: c.n, name: fmt.Sprint("dies-", i)}.join("t.far")
		c.calm.RLock()
		for _, t := range c.take(w, 1) {
			if t.Epoch > 1 {
				c.report(w, answer(t))
			}
		}
		c.calm.RUnlock()
	}
}

// late reports when its leases are over, with another outcome than the one who ran the step meanwhile.
func (c *crowd) late() {
	w := client{n: c.n, name: "late"}.join("t.far")
	for c.ctx.Err() == nil {
		c.calm.RLock()
		var lost []wire.Task
		for _, t := range c.take(w, 2) {
			if t.Epoch == 1 {
				lost = append(lost, t)
				continue
			}
			c.report(w, answer(t))
		}
		c.calm.RUnlock()
		c.pass()
		for c.ctx.Err() == nil && c.holds("late") {
			time.Sleep(time.Millisecond)
		}
		for _, t := range lost {
			c.report(w, completed(t, `{"v":"late"}`))
		}
	}
}

// pass lets a lease go by.
func (c *crowd) pass() {
	c.calm.Lock()
	defer c.calm.Unlock()
	c.n.pass(time.Minute)
}

// holds reports whether a worker holds something.
func (c *crowd) holds(name string) bool {
	for _, w := range c.n.desk.Workers() {
		if w.Name == name {
			return w.Held > 0
		}
	}
	return false
}

// twice reports everything again and again, with other outputs, also long after it was answered.
func (c *crowd) twice() {
	w := client{n: c.n, name: "twice"}.join("t.far")
	var old []wire.Outcome
	random := rand.New(rand.NewPCG(1, 2))
	for c.ctx.Err() == nil {
		c.calm.RLock()
		for _, t := range c.take(w, 3) {
			o := answer(t)
			c.report(w, o, o)
			o.Output = json.RawMessage(`{"v":"again"}`)
			c.report(w, o)
			old = append(old, o)
		}
		c.calm.RUnlock()
		if len(old) > 0 {
			c.report(w, old[random.IntN(len(old))])
		}
	}
}

// lies reports, claims, spawns and logs for steps that it does not hold.
func (c *crowd) lies() {
	w := client{n: c.n, name: "lies", key: "k2"}.join("t.far")
	random := rand.New(rand.NewPCG(3, 4))
	for c.ctx.Err() == nil {
		id := wire.ID{StepID: wire.Step(c.id, int32(random.IntN(c.steps+3))), Epoch: random.Uint32N(4)}
		lie := wire.Outcome{ID: id, Status: wire.Completed, Output: json.RawMessage(`{"v":"lie"}`)}
		c.turn(w, wire.Turn{Outcomes: []wire.Outcome{lie}, Holding: []wire.ID{id}, Back: []wire.ID{id}})
		w.send("steps/"+id.StepID+"/spawn", wire.Spawn{Worker: "lies", Epoch: id.Epoch, Steps: []wire.NewStep{{TimeoutSeconds: 1}}}, nil)
		w.send("steps/"+id.StepID+"/memo", wire.Memo{Worker: "lies", Epoch: id.Epoch, Key: "k", Value: json.RawMessage(`1`)}, nil)
		w.send("turn", wire.Turn{Worker: "good", Holding: []wire.ID{}, Leaving: true}, nil) // under another's name
	}
}

// floods sends what is too much, and what is no call at all.
func (c *crowd) floods() {
	w := client{n: c.n, name: "floods"}.join("t.far")
	calls := []func() (int, wire.Problem){
		func() (int, wire.Problem) {
			return w.send("turn", wire.Turn{Worker: w.name, Outcomes: make([]wire.Outcome, wire.MaxOutcomes+1)}, nil)
		},
		func() (int, wire.Problem) {
			return w.send("turn", wire.Turn{Worker: w.name, Holding: make([]wire.ID, wire.MaxHolding+1)}, nil)
		},
		func() (int, wire.Problem) { return w.send("turn", []int{1}, nil) },
		func() (int, wire.Problem) { return w.send("turn/"+strings.Repeat("x", 5000), wire.Turn{}, nil) },
		func() (int, wire.Problem) {
			return w.send("join", wire.Join{Worker: "floods", Protocol: 1, Concurrency: 1 << 30, Actions: []wire.Action{{Name: "t.far"}}}, nil)
		},
	}
	for c.ctx.Err() == nil {
		for _, call := range calls {
			if status, p := call(); status < 400 || status >= 500 || p.Code == "" {
				c.n.t.Errorf("too much was answered with %d, %+v", status, p)
			}
		}
		req, err := http.NewRequestWithContext(c.n.t.Context(), http.MethodPost, c.n.url+wire.Path+"turn", bytes.NewReader([]byte(`{"worker":`)))
		if err != nil {
			c.n.t.Error(err)
			return
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
}

// Workers that die, report late, report twice, lie and flood, all at once beside a good one: every step completes once, with
// what a worker that held it says, and the node goes on.
func TestBadWorkers(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	const steps = 200
	var text strings.Builder
	text.WriteString("name: crowd\nsteps:\n")
	for i := range steps {
		fmt.Fprintf(&text, "  - {id: s%d, action: t.far, params: {n: %d}}\n", i, i)
	}
	id := n.begin(text.String())
	ctx, stop := context.WithCancel(t.Context())
	c := &crowd{n: n, id: id, steps: steps, ctx: ctx}
	var all sync.WaitGroup
	for _, run := range []func(){c.lies, c.floods, c.dies, c.late, c.twice, c.good} {
		all.Go(run)
	}
	all.Go(func() { // what has died is lost, again and again
		for ctx.Err() == nil {
			c.pass()
			time.Sleep(20 * time.Millisecond)
		}
	})
	x, rows := n.end(id, stepwell.ExecutionCompleted)
	stop()
	all.Wait()
	for i := range steps {
		if got := string(rows[fmt.Sprint("s", i)].Output); got != fmt.Sprintf(`{"v":%d}`, i) {
			t.Errorf("step s%d gave %s", i, got)
		}
	}
	n.books(x, steps)
}
