package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
)

// pipelinePrefix begins the names of the pipelines of all trials.
const pipelinePrefix = "chaos-"

// The numbers of steps of an execution's parts.
const (
	chainSteps  = 20
	fanSteps    = 40
	windowSteps = 30
	leafSteps   = 8
	// stepsEach counts all: those above, the two loops themselves, begin, copy, again, ask and end.
	stepsEach = chainSteps + fanSteps + windowSteps + leafSteps + 2 + 5
)

// queueName is a queue that all servers serve together with no more than queueLimit steps at once.
const (
	queueName  = "narrow"
	queueLimit = 12
)

// The folder of the files that each execution copies, with a step for each, and that of its copies.
const (
	sourceFolder = "source"
	copyFolder   = "copies"
)

// document is a pipeline with a chain, a fan-out, a window of iterations, a step that spawns others, one that fails at first, one that
// waits for an approval, and a concurrency key. Its outputs follow from its parameter.
func (t *trial) document() json.RawMessage {
	type m = map[string]any
	steps := []m{{"id": "begin", "action": "util.set_output", "params": m{"outputs": m{"n": "{{ params.n }}"}}}}
	last, value := "begin", "{{ steps.begin.outputs.n }}"
	for i := range chainSteps {
		id := fmt.Sprintf("c%d", i)
		steps = append(steps, m{"id": id, "action": "util.transform", "depends_on": []string{last}, "params": m{"input": value, "expression": "{{ input + 1 }}"}})
		last, value = id, "{{ steps."+id+".outputs.result }}"
	}
	each := func(n int) string { return fmt.Sprintf("{{ range(%d) | list }}", n) }
	steps = append(steps,
		m{"id": "fan", "depends_on": []string{"begin"}, "for_each": each(fanSteps), "queue": queueName, "action": "util.transform", "params": m{"input": "{{ item }}", "expression": "{{ input * 2 }}"}},
		m{"id": "window", "depends_on": []string{"begin"}, "for_each": each(windowSteps), "max_concurrency": 3, "action": "util.noop"},
		m{"id": "again", "depends_on": []string{"begin"}, "action": "util.exec", "params": m{"command": []string{"sh", "-c", `test "$STEPWELL_ATTEMPT" -gt 1`}},
			"retry": m{"max_attempts": 10, "backoff_seconds": 0.05}},
		m{"id": "copy", "depends_on": []string{"begin"}, "action": "media.copy", "retry": m{"max_attempts": 10, "backoff_seconds": 0.05},
			"params": m{"source": filepath.Join(t.folder, sourceFolder), "destination": filepath.Join(t.folder, copyFolder, t.name+"-{{ params.n }}"), "verify": false,
				"spawn": m{"action": "util.set_output", "name": "leaf", "params": m{"v": 1}, "on_failure": "fail"}}},
		m{"id": "ask", "depends_on": []string{last}, "action": "util.approval", "params": m{"message": "Continue?"}},
		m{"id": "end", "depends_on": []string{"fan", "window", "again", "ask", "leaf"}, "action": "util.noop"})
	raw, _ := json.Marshal(m{"name": t.name, "settings": m{"concurrency": m{"key": t.name + "-{{ params.n % 4 }}", "limit": 8}}, "parameters": []m{{"name": "n", "type": "integer", "required": true}}, "steps": steps, // texts and numbers always can be
		"outputs": m{"chain": value, "fan": "{{ steps.fan.outputs.results }}", "window": "{{ steps.window.outputs.count }}", "leaves": "{{ steps.leaf.count }}"}})
	return raw
}

// outputs are those of an execution.
type outputs struct {
	Chain  int `json:"chain"`
	Window int `json:"window"`
	Leaves int `json:"leaves"`
	Fan    []struct {
		Result int `json:"result"`
	} `json:"fan"`
}

// differs says what is wrong with the outputs of execution n.
func differs(n int, raw []byte) string {
	var o outputs
	if err := json.Unmarshal(raw, &o); err != nil {
		return err.Error()
	}
	if o.Chain != n+chainSteps || o.Window != windowSteps || o.Leaves != leafSteps || len(o.Fan) != fanSteps {
		return fmt.Sprintf("chain %d, window %d, leaves %d, fan of %d", o.Chain, o.Window, o.Leaves, len(o.Fan))
	}
	for i, f := range o.Fan {
		if f.Result != 2*i {
			return fmt.Sprintf("fan %d has %d", i, f.Result)
		}
	}
	return ""
}

// store stores the pipeline, whose name is the round's own: one that exists is that of a call whose answer was lost.
func (t *trial) store(ctx context.Context) error {
	err := t.ask(ctx, func(ctx context.Context, c *client.Client) error {
		return c.Call(ctx, "POST", "/api/v1/pipelines", nil, map[string]any{"document": t.document()}, nil)
	})
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		return nil
	}
	return err
}

// lay makes the files that executions copy.
func (t *trial) lay() error {
	folder := filepath.Join(t.folder, sourceFolder)
	err := os.Mkdir(folder, 0o700)
	for i := range leafSteps {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.jpg", i)), fmt.Appendf(nil, "file %d", i), 0o600))
	}
	return err
}

// ask calls some server until one answers, or ctx ends. A refusal that will not pass is returned.
func (t *trial) ask(ctx context.Context, do func(context.Context, *client.Client) error) error {
	for {
		var err error = errAway
		if c := t.nodes[rand.IntN(len(t.nodes))].client(); c != nil {
			one, cancel := context.WithTimeout(ctx, workerLease)
			err = do(one, c)
			cancel()
		}
		if err == nil {
			return nil
		}
		switch stepwell.CodeOf(err) {
		case stepwell.CodeInvalid, stepwell.CodeNotFound, stepwell.CodeConflict, stepwell.CodeDenied:
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		t.repeats.Add(1)
		wait(ctx, 100*time.Millisecond)
	}
}

var errAway = &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the server is down"}

// work runs one execution after the other to its end; no more are started when disturbing has ended.
func (t *trial) work(ctx, disturbing context.Context) {
	for disturbing.Err() == nil {
		n := int(t.next.Add(1))
		if most := max(t.Executions, t.Each); most > 0 && n > most {
			t.next.Add(-1)
			return
		}
		if err := t.execute(ctx, n); err != nil {
			t.wrong("execution %d: %v", n, err)
		}
		t.ended.Add(1)
	}
}

// execute starts execution n, under a key of its own, and waits for its end.
func (t *trial) execute(ctx context.Context, n int) error {
	id, err := t.start(ctx, n)
	for pause := 50 * time.Millisecond; err == nil; pause = min(2*pause, time.Second) {
		status := ""
		err = t.ask(ctx, func(ctx context.Context, c *client.Client) error {
			x, err := c.Execution(ctx, id)
			if err == nil {
				status = x.Status
			}
			return err
		})
		switch {
		case err != nil:
		case status == "completed":
			return nil
		case status == "failed", status == "cancelled":
			err = errors.New(status)
		default:
			wait(ctx, pause)
			err = ctx.Err()
		}
	}
	return fmt.Errorf("%s: %w", id, err)
}

func (t *trial) start(ctx context.Context, n int) (id string, err error) {
	return id, t.ask(ctx, func(ctx context.Context, c *client.Client) error {
		started, err := c.Execute(ctx, api.ExecuteRequest{Workflow: t.name, Params: api.Object{"n": n}}, fmt.Sprintf("%s-%d", t.name, n))
		if err == nil {
			id = started.ID
		}
		return err
	})
}

// approve answers the questions of all executions, each through some server.
func (t *trial) approve(ctx context.Context) {
	for ctx.Err() == nil {
		var open []api.Approval
		if err := t.ask(ctx, func(ctx context.Context, c *client.Client) error {
			list, err := c.Approvals(ctx, api.ListApprovals{Limit: 200})
			if err == nil {
				open = list.Approvals
			}
			return err
		}); err != nil && ctx.Err() == nil {
			t.wrong("approvals: %v", err)
			return
		}
		for _, a := range open {
			if a.Pipeline != t.name {
				continue
			}
			err := t.ask(ctx, func(ctx context.Context, c *client.Client) error { _, err := c.Approve(ctx, a.ID, ""); return err })
			if code := stepwell.CodeOf(err); err != nil && code != stepwell.CodeNotFound && code != stepwell.CodeConflict && ctx.Err() == nil { // answered, but the answer was lost
				t.wrong("approval %s: %v", a.ID, err)
			}
		}
		wait(ctx, 100*time.Millisecond)
	}
}
