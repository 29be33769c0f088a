package desk_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
)

// noted is a host that keeps the lines of a step's log.
type noted struct {
	action.Host
	lines []string
}

func (h *noted) Log(_ slog.Level, message string, _ ...slog.Attr) {
	h.lines = append(h.lines, message)
}

// joinCancels joins with an action whose work outside the worker can stop.
func (c client) joinCancels(name string) client {
	c.n.t.Helper()
	in := wire.Join{Worker: c.name, Protocol: wire.Protocol, Concurrency: 1, Actions: []wire.Action{{Name: name, Cancels: true}}}
	if status, p := c.send("join", in, nil); status != 200 {
		c.n.t.Fatalf("join: %d, %+v", status, p)
	}
	return c
}

// offer has the desk make a call of Cancel.
func offer(n *node, h action.Host) <-chan error {
	ctx, stop := context.WithTimeout(n.t.Context(), time.Minute)
	n.t.Cleanup(stop)
	t := &engine.Task{Run: 7, Execution: "x", Idx: 2, Epoch: 3, Attempt: 1, Key: "s", Step: &plan.Step{ID: "s", Action: "t.far"}, State: json.RawMessage(`{"job":1}`)}
	ended := make(chan error, 1)
	go func() { ended <- n.desk.Cancel(ctx, t, t.State, h) }()
	return ended
}

// cancel waits for a call.
func (c client) cancel() wire.Task {
	c.n.t.Helper()
	for range 1000 {
		if list := c.turn(wire.Turn{WaitMS: 20}).Cancels; len(list) > 0 {
			return list[0]
		}
	}
	c.n.t.Fatal("no call of Cancel came")
	return wire.Task{}
}

// TestCancelsGoToThoseThatAnnounceThem has one worker of before, which is sent nothing, and others that leave, fail, lie and come late.
func TestCancelsGoToThoseThatAnnounceThem(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, act("t.far", func(context.Context, *action.Call) (any, error) { return nil, nil }))
	old := client{n: n, name: "old"}.join("t.far")
	if err := <-offer(n, &noted{}); stepwell.CodeOf(err) != stepwell.CodeUnavailable || !strings.Contains(err.Error(), "t.far") {
		t.Errorf("with a worker of before alone: %v, want unavailable", err)
	}

	// A call whose worker leaves goes to the next one. A worker without free slots gets it too.
	first, second := client{n: n, name: "first"}.joinCancels("t.far"), client{n: n, name: "second"}.joinCancels("t.far")
	host := &noted{}
	ended := offer(n, host)
	call := first.cancel()
	if call.Kind != wire.Cancel || call.StepID != "x:2" || call.Epoch != 3 || string(call.State) != `{"job":1}` || call.TimeoutMS <= 0 {
		t.Errorf("the call is %+v", call)
	}
	if more := second.turn(wire.Turn{}).Cancels; len(more) != 0 {
		t.Errorf("two workers have one call: %+v", more)
	}
	if out := second.report(wire.Outcome{ID: call.ID, Status: wire.Completed}); len(out.Committed) != 1 {
		t.Errorf("the outcome of a call that is another one's: %+v", out)
	}
	first.turn(wire.Turn{Leaving: true})
	call = second.cancel()
	if out := second.report(wire.Outcome{ID: call.ID, Status: wire.Waiting}); len(out.Refused) != 1 || out.Refused[0].Kind != wire.Cancel {
		t.Errorf("a call that waits: %+v, want it refused", out)
	}
	if out := second.report(wire.Outcome{ID: call.ID, Status: wire.Completed, Log: []wire.Line{{Level: "info", Message: "stopped"}}}); len(out.Committed) != 1 || out.Committed[0] != call.ID {
		t.Errorf("the outcome is not committed under its name: %+v", out)
	}
	if err := <-ended; err != nil || len(host.lines) != 1 || host.lines[0] != "stopped" {
		t.Errorf("Cancel gives %v, and the lines %q", err, host.lines)
	}
	if out := second.report(wire.Outcome{ID: call.ID, Status: wire.Completed}); len(out.Committed) != 1 {
		t.Errorf("the outcome a second time: %+v, want it forgotten", out)
	}

	// Failures come back as they are meant.
	for _, permanent := range []bool{false, true} {
		ended = offer(n, &noted{})
		call = second.cancel()
		second.report(wire.Outcome{ID: call.ID, Status: wire.Failed, Permanent: permanent, Error: &wire.Error{Code: stepwell.CodeUnavailable, Message: "it is unavailable"}})
		if err := <-ended; err == nil || action.IsFail(err) != permanent || !strings.Contains(err.Error(), "it is unavailable") {
			t.Errorf("a failure that is permanent: %v came back as %v", permanent, err)
		}
	}
	if list := old.turn(wire.Turn{Want: 1}).Cancels; len(list) != 0 {
		t.Errorf("the worker of before got %+v", list)
	}
}
