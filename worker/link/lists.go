package link

import (
	"context"
	"slices"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
)

// Lists are where a worker takes steps from besides its node; implemented by redisq.Lists.
type Lists interface {
	// Pop takes at most count messages (wire.Message) of some queues, and waits for the first. None: none came in time.
	Pop(ctx context.Context, queues []string, count int, wait time.Duration) ([]string, error)
}

const (
	popWait  = 5 * time.Second
	tellTook = 500 * time.Millisecond // then the node hears that a task is here
	atOnce   = 8                      // claims under way
)

// popLoop takes tasks from lists while there are free slots. What is on its way when ctx ends is offered again by its node.
func (w *Worker) popLoop(ctx context.Context) {
	pause, away := firstPause, false
	for w.await(ctx, func() bool { return w.wanted(0) > 0 }) {
		w.mu.Lock()
		w.renewCredit()
		count := w.wanted(0)
		w.mu.Unlock()
		if count == 0 {
			continue
		}
		list, err := w.o.Lists.Pop(ctx, w.o.Queues, count, popWait)
		if err != nil {
			if !away {
				w.failed(ctx, "the Redis lists of steps are unavailable, retrying: until they are back, steps come from servers only", err)
				away = true
			}
			_ = action.Pause(ctx, pause) // the loop looks at ctx
			pause = min(2*pause, lastPause)
			continue
		}
		if away {
			w.o.Log.Info("the lists of steps are back")
			away = false
		}
		pause = firstPause
		for node, messages := range w.sorted(list) {
			w.pass(ctx, node, messages)
		}
	}
}

// sorted reads messages, and parts them by the address of their node, which is "" for that of this worker.
func (w *Worker) sorted(list []string) map[string][]wire.Message {
	w.mu.Lock()
	own := w.address
	w.mu.Unlock()
	out := map[string][]wire.Message{}
	for _, raw := range list {
		var m wire.Message
		if err := json.Unmarshal([]byte(raw), &m); err != nil {
			w.o.Log.Error("a message of a list cannot be read", "error", err)
			continue
		}
		if m.Node == own {
			m.Node = ""
		}
		out[m.Node] = append(out[m.Node], m)
	}
	return out
}

// pass has the member of a node take its messages in. While the node cannot be joined, one that is linked to another node takes the
// tasks: from there the outcomes get to whoever runs the executions by then. What nobody takes is offered again.
func (w *Worker) pass(ctx context.Context, node string, messages []wire.Message) {
	x := w
	if node != "" {
		x = w.other(ctx, node)
	}
	if x == nil {
		if x = w; w.linked() == nil {
			x = w.members.linked(w)
		}
		messages = slices.DeleteFunc(messages, func(m wire.Message) bool { return m.Task == nil }) // nobody else can be asked now
	}
	if x != nil {
		x.addMessages(ctx, messages)
	}
}

// other is the member for the messages of another node. Nil: the node cannot be joined.
func (w *Worker) other(ctx context.Context, node string) *Worker {
	x, err := w.members.of(w, strings.TrimRight(node, "/"))
	if x != nil {
		_, err = x.connected(ctx)
	}
	if err != nil {
		w.failed(ctx, "the node of a message cannot be joined", err)
		return nil
	}
	return x
}

// addMessages takes in what came from lists.
func (w *Worker) addMessages(ctx context.Context, list []wire.Message) {
	tasks := make([]wire.Task, 0, len(list))
	var back []wire.ID
	var claims []wire.Message
	for _, m := range list {
		switch {
		case m.Task == nil:
			claims = append(claims, m)
		case w.serves(m.Task.Action):
			tasks = append(tasks, *m.Task)
		default:
			back = append(back, m.Task.ID)
		}
	}
	w.addFrom(tasks, true)
	if len(back) > 0 {
		w.misfits(ctx, back)
	}
	if len(claims) > 0 {
		w.claimAll(ctx, claims)
	}
}

func (w *Worker) serves(name string) bool {
	_, ok := w.o.Actions.Spec(name)
	return ok && !w.o.Actions.Announced(name)
}

// misfits gives tasks back that this worker cannot run: their node gives them to one that can.
func (w *Worker) misfits(ctx context.Context, list []wire.ID) {
	if _, err := w.turn(ctx, wire.Turn{Back: list}); err != nil {
		w.failed(ctx, "tasks for other workers are not given back now, their node offers them again", err)
	}
}

// claimAll asks for the tasks of messages that are without them.
func (w *Worker) claimAll(ctx context.Context, list []wire.Message) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	asked := make(map[wire.ID]bool, len(list))
	for _, m := range list {
		id := wire.ID{StepID: m.StepID, Epoch: m.Epoch}
		if asked[id] {
			continue // a message that came twice
		}
		asked[id] = true
		group.Go(func() error {
			w.claim(ctx, &m)
			return nil
		})
	}
	_ = group.Wait() // claims return no error
}

func (w *Worker) claim(ctx context.Context, m *wire.Message) {
	var t wire.Task
	err := w.call(ctx, "claim", wire.Claim{Worker: w.name(), StepID: m.StepID, Epoch: m.Epoch, Take: true}, &t)
	switch {
	case err == nil && w.serves(t.Action):
		w.add([]wire.Task{t})
	case err == nil:
		w.misfits(ctx, []wire.ID{t.ID})
	case stepwell.CodeOf(err) != stepwell.CodeConflict: // nobody wants it any more
		w.failed(ctx, "a task could not be claimed", err)
	}
}

// untold lists the tasks from lists of which the node has not heard, and that will not end at once. The tasks that are given
// back are among them: they are late, but not misfits.
func (w *Worker) untold(back []wire.ID) (list []wire.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.listed {
		return nil
	}
	list = append(list, back...)
	if time.Since(w.asked) < readyFor {
		return list
	}
	w.asked = time.Now()
	for _, t := range w.held {
		if t.listed && t.outcome == nil && time.Since(t.came) >= tellTook && len(list) < wire.MaxHolding/2 {
			list = append(list, t.id)
		}
	}
	return list
}

// told records that the node knows of tasks.
func (w *Worker) told(list []wire.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := make(map[wire.ID]bool, len(list))
	for _, k := range list {
		known[k] = true
	}
	for _, t := range w.held {
		if known[t.id] {
			t.listed = false
		}
	}
}
