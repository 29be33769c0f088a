package desk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/proxytest"
	"github.com/stepwell/stepwell/queue/redisq"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker/link"
)

// listed is a node with lists on a Redis server of its own.
type listed struct {
	*node
	server  *redistest.Server
	address string // of the server, as clients see it
}

func openLists(t *testing.T, address string, o redisq.Options) *redisq.Lists {
	t.Helper()
	o.URL = "redis://" + address
	l, err := redisq.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func newListed(t *testing.T, o desk.Options, q redisq.Options, actions ...action.Action) *listed {
	t.Helper()
	l := &listed{server: redistest.New(t)}
	l.address = l.server.Address()
	o.Lists = openLists(t, l.address, q)
	l.node = newNode(t, dbOf(t), o, actions...)
	return l
}

// redis makes a command.
func (l *listed) redis(command ...string) string {
	l.t.Helper()
	out, err := redistest.Do(l.server.Address(), command...)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// pop is a BRPOP as any program makes it.
func (l *listed) pop(lists ...string) (m wire.Message) {
	l.t.Helper()
	_, raw, ok := strings.Cut(l.redis(append(append([]string{"BRPOP"}, lists...), "60")...), "\n")
	if !ok || json.Unmarshal([]byte(raw), &m) != nil {
		l.t.Fatalf("no message in %v: %q", lists, raw)
	}
	return m
}

// drained waits until the lists are empty.
func (l *listed) drained() {
	l.t.Helper()
	for end := time.Now().Add(time.Minute); l.redis("KEYS", "pipeline:*") != ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("left in the lists: %s", l.redis("KEYS", "pipeline:*"))
		}
	}
}

// worker starts a Go worker that takes from the lists.
func (l *listed) worker(name, address string, actions ...action.Action) *link.Worker {
	l.t.Helper()
	w, err := link.New(link.Options{Nodes: []string{l.url}, Name: name, Stream: true, Actions: registry(l.t, actions...), Concurrency: 8, Grace: 2 * time.Second, Log: quiet(),
		Lists: openLists(l.t, address, redisq.Options{Timeout: time.Second})})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	l.t.Cleanup(func() { stop(); <-ran })
	return w
}

func echo() action.Action {
	return act("t.echo", func(_ context.Context, c *action.Call) (any, error) { return map[string]any{"v": c.Params["n"]}, nil })
}

// A program that knows BRPOP and HTTP alone completes a pipeline: it need not have joined, and needs no epoch to claim.
func TestListsStranger(t *testing.T) {
	n := newListed(t, desk.Options{}, redisq.Options{}, never("t.echo"))
	id := n.begin("name: s\nsteps:\n  - {id: a, action: t.echo, params: {n: 5}}\n  - {id: b, action: t.echo, params: {n: '{{ steps.a.outputs.v }}'}, depends_on: [a]}\n")
	c := client{n: n.node, name: "stranger"}
	for _, want := range []string{"a", "b"} {
		m := n.pop("pipeline:steps")
		if m.StepName != want || m.ExecutionID != id || !strings.HasPrefix(m.StepID, id+":") || m.Task == nil {
			t.Fatalf("the message of %s is %+v", want, m)
		}
		var task wire.Task
		if status, p := c.send("claim", wire.Claim{Worker: c.name, StepID: m.StepID}, &task); status != 200 || task.Epoch != m.Epoch || string(task.Params) != `{"n":5}` {
			t.Fatalf("claim: %d, %+v, %+v", status, p, task)
		}
		x, err := n.store.Execution(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := n.store.Steps(t.Context(), x.No, store.StepFilter{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if s.Key == want && (s.Status != stepwell.StepRunning || s.Worker != "stranger") {
				t.Errorf("the claimed step is %s, of worker %q", s.Status, s.Worker)
			}
		}
		if status, _ := (client{n: n.node, name: "other"}).send("claim", wire.Claim{Worker: "other", StepID: m.StepID}, nil); status != 409 {
			t.Errorf("a second claim: %d", status)
		}
		if out := c.report(completed(task, `{"v":5}`)); len(out.Committed) != 1 {
			t.Errorf("the outcome: %+v", out)
		}
	}
	x, _ := n.end(id, stepwell.ExecutionCompleted)
	n.books(x, 2)
	n.drained()
}

// A stranger may claim, and report, at a node that does not run the execution, also without an epoch.
func TestListsStrangerElsewhere(t *testing.T) {
	owner := newListed(t, desk.Options{}, redisq.Options{}, never("t.echo"))
	n := newNode(t, dbOf(t), desk.Options{Lists: openLists(t, owner.address, redisq.Options{})}, never("t.echo"))
	n.owner = owner.node
	id := owner.begin("name: s\nsteps:\n  - {id: a, action: t.echo, params: {n: 5}}\n")
	m := owner.pop("pipeline:steps")
	c := client{n: n, name: "stranger"}
	var task wire.Task
	if status, p := c.send("claim", wire.Claim{Worker: c.name, StepID: m.StepID}, &task); status != 200 || task.Epoch != m.Epoch || string(task.Params) != `{"n":5}` {
		t.Fatalf("claim: %d, %+v, %+v", status, p, task)
	}
	if status, _ := (client{n: n, name: "other"}).send("claim", wire.Claim{Worker: "other", StepID: m.StepID}, nil); status != 409 {
		t.Errorf("a second claim: %d", status)
	}
	if out := c.report(completed(task, `{"v":5}`)); len(out.Committed) != 1 {
		t.Errorf("the outcome: %+v", out)
	}
	x, _ := owner.end(id, stepwell.ExecutionCompleted)
	owner.books(x, 1)
	if status, _ := c.send("claim", wire.Claim{Worker: c.name, StepID: m.StepID}, nil); status != 409 {
		t.Errorf("a claim after the end: %d", status)
	}
}

// A step that was cancelled while its message was in the list is refused at the claim.
func TestListsCancelled(t *testing.T) {
	n := newListed(t, desk.Options{}, redisq.Options{}, never("t.echo"))
	id := n.begin("name: s\nsteps:\n  - {id: a, action: t.echo}\n")
	m := n.pop("pipeline:steps")
	if err := n.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	n.end(id, stepwell.ExecutionCancelled)
	if status, _ := (client{n: n.node, name: "late"}).send("claim", wire.Claim{Worker: "late", StepID: m.StepID, Epoch: m.Epoch}, nil); status != 409 {
		t.Errorf("a claim of a cancelled step: %d", status)
	}
}

// One list has all priorities, the higher ones first; the steps of named queues are in lists of their own, or of three.
func TestListsPriorities(t *testing.T) {
	n := newListed(t, desk.Options{Offered: time.Minute}, redisq.Options{Queues: map[string]redisq.Queue{"default": {}, "gpu": {Lists: 3}}, Nodes: []string{"here"}}, never("t.echo"))
	step := func(id, more string) string { return fmt.Sprintf("  - {id: %s, action: t.echo%s}\n", id, more) }
	n.begin("name: s\nsteps:\n" + step("low", ", priority: -3") + step("plain", "") + step("high", ", priority: 7") + step("gpu_low", ", queue: gpu, priority: -1") +
		step("gpu_plain", ", queue: gpu") + step("gpu_high", ", queue: gpu, priority: 1") + step("other", ", queue: other") + step("here", ", queue: here"))
	for end := time.Now().Add(time.Minute); strings.TrimSpace(n.redis("LLEN", "pipeline:steps")) != "3" && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	for _, want := range []struct{ list, step string }{{"pipeline:steps", "high"}, {"pipeline:steps", "plain"}, {"pipeline:steps", "low"}, {"pipeline:steps:gpu", "gpu_plain"},
		{"pipeline:steps:gpu:high", "gpu_high"}, {"pipeline:steps:gpu:low", "gpu_low"}, {"pipeline:steps:other", "other"}} {
		if m := n.pop(want.list); m.StepName != want.step {
			t.Errorf("%s has %s, want %s", want.list, m.StepName, want.step)
		}
	}
	if left := n.redis("KEYS", "pipeline:*"); left != "" {
		t.Errorf("lists of queues that stay with the nodes: %s", left)
	}
}

// A Go worker with the lists has everything that a handler in process has.
func TestListsLink(t *testing.T) {
	n := newListed(t, desk.Options{}, redisq.Options{}, near()...)
	n.worker("w1", n.address, far()...)
	id := n.begin(`
name: all
steps:
  - {id: big, action: t.large}
  - {id: host, action: t.host, depends_on: [big]}
  - {id: large, action: t.echo, params: {n: "{{ steps.big.outputs.text }}"}, depends_on: [big]}
  - {id: spawner, action: t.spawn}
  - {id: after, action: t.echo, depends_on: [leaf]}
  - {id: flaky, action: t.flaky, retry: {max_attempts: 3, backoff_seconds: 0.001}}
  - {id: poll, action: t.poll}
  - {id: once, action: t.once}
`)
	x, steps := n.end(id, stepwell.ExecutionCompleted)
	if steps["flaky"].Attempt != 2 || steps["large"].Worker != "w1" {
		t.Errorf("flaky had %d attempts, the worker of large is %q", steps["flaky"].Attempt, steps["large"].Worker)
	}
	n.books(x, 11)
	n.drained()
}

// A step for which whoever takes it has no action goes to a worker that has it.
func TestListsMisfit(t *testing.T) {
	n := newListed(t, desk.Options{Offered: time.Minute}, redisq.Options{}, never("t.echo"), never("t.other"))
	n.worker("w1", n.address, echo())
	n.link("w2", true, []string{n.url}, act("t.other", func(context.Context, *action.Call) (any, error) { return nil, nil }))
	id := n.begin("name: s\nsteps:\n  - {id: a, action: t.other}\n  - {id: b, action: t.echo, depends_on: [a]}\n")
	_, steps := n.end(id, stepwell.ExecutionCompleted)
	if steps["a"].Worker != "w2" || steps["b"].Worker != "w1" {
		t.Errorf("workers %s and %s", steps["a"].Worker, steps["b"].Worker)
	}
}

// The lists may lose, repeat and delay everything: every step completes once, and the lists are empty at the end.
func TestListsFaults(t *testing.T) {
	const steps, wide, times = 400, 40, 4
	var b strings.Builder
	b.WriteString("name: f\nsteps:\n")
	for i := range steps {
		name := "t.echo"
		if i%(steps/4) == steps/8 {
			name = "t.gate"
		}
		fmt.Fprintf(&b, "  - {id: s%d, action: %s, params: {n: %d}", i, name, i)
		if i >= wide {
			fmt.Fprintf(&b, ", depends_on: [s%d]", i-wide)
		}
		b.WriteString("}\n")
	}
	faults := map[string]func(n *listed, p *proxytest.Proxy, over <-chan struct{}){
		"flushed": func(n *listed, _ *proxytest.Proxy, over <-chan struct{}) {
			n.redis("FLUSHALL")
			ended(over, 20*time.Millisecond)
		},
		"killed": func(n *listed, _ *proxytest.Proxy, over <-chan struct{}) {
			if err := n.server.Kill(); err != nil {
				n.t.Error(err)
			}
			if err := n.server.Begin(); err != nil {
				n.t.Error(err)
			}
			ended(over, 100*time.Millisecond)
		},
		"slow": func(_ *listed, p *proxytest.Proxy, over <-chan struct{}) {
			p.Slow(5 * time.Millisecond)
			ended(over, 20*time.Millisecond)
		},
		"partitioned": func(_ *listed, p *proxytest.Proxy, over <-chan struct{}) {
			p.Stall()
			ended(over, 100*time.Millisecond)
			p.Cut()
			p.Resume()
			ended(over, 50*time.Millisecond)
		},
		"popped and dropped": func(n *listed, _ *proxytest.Proxy, _ <-chan struct{}) { n.redis("BRPOP", "pipeline:steps", "0.01") },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			server := redistest.New(t)
			proxy := proxytest.New(t, server.Address())
			n := &listed{server: server, address: proxy.Address()}
			n.node = newNode(t, dbOf(t), desk.Options{Offered: 100 * time.Millisecond, Lists: openLists(t, n.address, redisq.Options{Timeout: time.Second})}, never("t.echo"), never("t.gate"))
			open, over := make(chan struct{}), make(chan struct{})
			gate := act("t.gate", func(ctx context.Context, _ *action.Call) (any, error) {
				select {
				case <-open: // enough has gone wrong
				case <-ctx.Done():
				}
				return nil, ctx.Err()
			})
			n.worker("w1", n.address, echo(), gate)
			n.worker("w2", n.address, echo(), gate)
			var faulty sync.WaitGroup
			faulty.Go(func() {
				for i := 0; !ended(over, 0); i++ {
					if fault(n, proxy, over); i == times {
						close(open)
					}
				}
			})
			id := n.begin(b.String())
			x, _ := n.end(id, stepwell.ExecutionCompleted)
			close(over)
			faulty.Wait()
			n.books(x, steps)
			n.drained()
		})
	}
}

// ended waits for an end, at most so long.
func ended(over <-chan struct{}, most time.Duration) bool {
	select {
	case <-over:
		return true
	case <-time.After(most):
		return false
	}
}

// While the lists are away, steps go to workers that are linked, and the desk says since when; back, they are in the lists again.
func TestListsAway(t *testing.T) {
	n := newListed(t, desk.Options{}, redisq.Options{Timeout: time.Second}, never("t.echo"))
	if err := n.server.Kill(); err != nil {
		t.Fatal(err)
	}
	id := n.begin("name: s\nsteps:\n  - {id: a, action: t.echo}\n")
	c := client{n: n.node, name: "linked"}.join("t.echo")
	c.report(completed(c.task(), `{}`))
	n.end(id, stepwell.ExecutionCompleted)
	if n.desk.ListsAway() == 0 {
		t.Error("the desk does not say that the lists are unavailable")
	}
	waiting := n.begin("name: s\nsteps:\n  - {id: a, action: t.echo}\n")
	if err := n.server.Begin(); err != nil {
		t.Fatal(err)
	}
	if m := n.pop("pipeline:steps"); m.ExecutionID != waiting {
		t.Errorf("the list has %+v", m)
	}
	if away := n.desk.ListsAway(); away != 0 {
		t.Errorf("the lists are there, and said to be away for %s", away)
	}
}

// Without lists nothing of them is on the path of a step: TestLink runs with none, and a node with lists of other queues alone
// hands steps to links.
func TestListsOfOtherQueues(t *testing.T) {
	n := newListed(t, desk.Options{}, redisq.Options{Queues: map[string]redisq.Queue{"gpu": {}}}, never("t.echo"))
	id := n.begin("name: s\nsteps:\n  - {id: a, action: t.echo}\n")
	c := client{n: n.node, name: "linked"}.join("t.echo")
	c.report(completed(c.task(), `{}`))
	n.end(id, stepwell.ExecutionCompleted)
	if left := n.redis("KEYS", "*"); left != "" {
		t.Errorf("Redis has %s", left)
	}
}
