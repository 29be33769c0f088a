package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
)

// startKey is the key under which an instance starts its one execution.
func startKey(instance string) string {
	if len(instance) > 200 {
		sum := sha256.Sum256([]byte(instance))
		instance = hex.EncodeToString(sum[:])
	}
	return "dapr:" + instance
}

// activities reach the server. What they return as an error is tried again unless it is permanent.
type activities struct {
	server *client.Client
	// calls and waits are slots of requests: short ones, and those that wait for the end of an execution. The sidecar gives
	// more work than it takes a worker to serve at once.
	calls, waits chan struct{}
	// round is how long one stepwell.await lasts at most, poll how long one of its requests waits.
	round, poll time.Duration
}

func newActivities(server *client.Client) *activities {
	return &activities{server: server, calls: make(chan struct{}, 32), waits: make(chan struct{}, 200), round: 10 * time.Minute, poll: 20 * time.Second}
}

// maxValue bounds what a workflow takes and what it returns: a sidecar takes 4 MiB in one message by default.
const maxValue = 3 << 20

// encode is a value as JSON, in which values of others have the size that they came with: encoding/json makes six bytes of <, > and &.
func encode(v any) (string, error) {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	err := to.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// permanent is an error that no repetition changes.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// run runs one activity. Its result is sent as JSON.
func (a *activities) run(ctx context.Context, name string, input []byte) (any, error) {
	switch name {
	case startActivity:
		var o Order
		if err := json.Unmarshal(input, &o); err != nil {
			return nil, permanent{err}
		}
		return a.start(ctx, &o)
	case awaitActivity, controlActivity:
		var t target
		if err := json.Unmarshal(input, &t); err != nil {
			return nil, permanent{err}
		}
		if name == awaitActivity {
			return a.await(ctx, t.Execution)
		}
		return a.control(ctx, &t)
	}
	return nil, permanent{fmt.Errorf("there is no activity %q", name)}
}

// start starts the execution of an order, once for each key.
func (a *activities) start(ctx context.Context, o *Order) (any, error) {
	r := api.ExecuteRequest{Workflow: o.Pipeline, Version: o.Version, Project: o.Project, Priority: o.Priority, By: "dapr"}
	if len(o.Definition) > 0 {
		if err := json.Unmarshal(o.Definition, &r.Definition); err != nil {
			return nil, permanent{fmt.Errorf("definition: %w", err)}
		}
	}
	if len(o.Params) > 0 {
		if err := json.Unmarshal(o.Params, &r.Params); err != nil {
			return nil, permanent{fmt.Errorf("params: %w", err)}
		}
	}
	ctx, stop, err := slot(ctx, a.calls, time.Minute)
	if err != nil {
		return nil, err
	}
	defer stop()
	started, err := a.server.Execute(ctx, r, o.Key)
	if err != nil {
		return nil, judged(err)
	}
	return target{Execution: started.ID}, nil
}

// await waits for the end of an execution, for at most a round.
func (a *activities) await(ctx context.Context, execution string) (any, error) {
	for began := time.Now(); ; {
		x, err := a.ask(ctx, execution)
		if err != nil {
			return nil, judged(err)
		}
		var status stepwell.ExecutionStatus
		if err := status.UnmarshalText([]byte(x.Status)); err != nil {
			return nil, permanent{err}
		}
		switch {
		case status.Terminal():
			return verdictOf(x), nil
		case time.Since(began) > a.round:
			return verdict{}, nil
		}
	}
}

// ask shows an execution, at the latest after a while. Those that wait take turns.
func (a *activities) ask(ctx context.Context, execution string) (*api.ExecutionDetail, error) {
	ctx, stop, err := slot(ctx, a.waits, a.poll+time.Minute)
	if err != nil {
		return nil, err
	}
	defer stop()
	asked := time.Now()
	var x api.ExecutionDetail
	wait := url.Values{"wait_seconds": {fmt.Sprint(max(1, int(a.poll.Seconds())))}}
	if err := a.server.Call(ctx, http.MethodGet, "/api/v1/executions/"+url.PathEscape(execution), wait, nil, &x); err != nil {
		return nil, err
	}
	select { // a server that cannot wait answers at once
	case <-time.After(time.Until(asked.Add(200 * time.Millisecond))):
	case <-ctx.Done():
	}
	return &x, nil
}

// slot waits for a slot, and bounds what is done with it. The caller gives it back by stop.
func slot(ctx context.Context, slots chan struct{}, most time.Duration) (limited context.Context, stop func(), err error) {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	limited, end := context.WithTimeout(ctx, most)
	return limited, func() { end(); <-slots }, nil
}

func verdictOf(x *api.ExecutionDetail) verdict {
	v := verdict{Ended: true, Status: x.Status}
	if x.Error != nil {
		v.Error = stepwell.Clip(x.Error.Message, 4000)
	}
	if v.Result = x.Result; len(v.Result) > maxValue {
		v.Result, v.Error = nil, fmt.Sprintf("its outputs have %d bytes, and a workflow returns at most %d: read them from GET /api/v1/executions/%s", len(x.Result), maxValue, x.ID)
	}
	if x.Status != "completed" && x.Status != "completed_with_failures" && v.Error == "" {
		v.Error = "see stepwell executions show " + x.ID
	}
	return v
}

// control pauses, resumes or cancels an execution. One that has ended is left as it is.
func (a *activities) control(ctx context.Context, t *target) (any, error) {
	ctx, stop, err := slot(ctx, a.calls, time.Minute)
	if err != nil {
		return nil, err
	}
	defer stop()
	switch t.Verb {
	case pause:
		_, err = a.server.Pause(ctx, t.Execution)
	case resume:
		_, err = a.server.Resume(ctx, t.Execution)
	case cancel:
		_, err = a.server.Cancel(ctx, t.Execution, "the Dapr workflow was terminated")
	}
	if stepwell.CodeOf(err) == stepwell.CodeConflict { // it has ended, or is so already
		err = nil
	}
	return target{Execution: t.Execution}, judged(err)
}

// judged makes errors permanent that a repetition does not change. That the key is unknown is not one: another may be given.
func judged(err error) error {
	switch stepwell.CodeOf(err) {
	case stepwell.CodeInvalid, stepwell.CodeNotFound, stepwell.CodeConflict, stepwell.CodeForbidden, stepwell.CodeDenied:
		return permanent{err}
	}
	return err
}
