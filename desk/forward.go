package desk

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk/wire"
)

const (
	forwardPatience = 2 * time.Second // for outcomes: others of the same turn wait for their answer meanwhile
	forwardsAtOnce  = 8               // of one turn
)

// errElsewhere is the error of a call for an execution that does not run here, and has not ended.
var errElsewhere = stepwell.Errorf(stepwell.CodeUnavailable, "offer it again in a moment", "the execution is not running here")

// forwarded is a worker's call on its way to the node that runs the execution. A wire.Response answers it.
type forwarded struct {
	wire.Request
	Worker   string `json:"worker"`
	Instance string `json:"instance,omitempty"`
	Caller   Caller `json:"caller"`
}

// forward has the node that runs an execution serve a call. CodeUnavailable: nobody knows whether it has.
func (d *Desk) forward(ctx context.Context, s *session, execution, name string, in, out any) error {
	if d.p.Forward == nil {
		return errElsewhere
	}
	d.mu.Lock()
	call := forwarded{Request: wire.Request{Call: name}, Worker: s.name, Instance: s.instance, Caller: s.caller}
	d.mu.Unlock()
	var raw []byte
	var answer wire.Response
	body, err := json.Marshal(in)
	if err == nil {
		call.Body = body
		raw, err = json.Marshal(call)
	}
	if err == nil {
		raw, err = d.p.Forward(ctx, execution, raw)
	}
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the execution runs on another node", Hint: "offer it again in a moment", Err: err}
	}
	if answer.Status == http.StatusOK {
		return json.Unmarshal(answer.Body, out)
	}
	var p wire.Problem
	if err := json.Unmarshal(answer.Body, &p); err != nil {
		return err
	}
	return stepwell.Errorf(p.Code, p.Hint, "%s", p.Message)
}

// forwardOutcomes offers outcomes to the nodes that run their executions. Those that are neither committed nor refused there
// are to be offered again.
func (d *Desk) forwardOutcomes(ctx context.Context, s *session, list []*wire.Outcome, out *wire.Turned) {
	if len(list) == 0 || d.p.Forward == nil {
		return
	}
	ctx, end := context.WithTimeout(ctx, forwardPatience)
	defer end()
	turns := map[string]*wire.Turn{}
	for _, o := range list {
		execution, _, _ := wire.Split(o.StepID) // read before
		if turns[execution] == nil {
			turns[execution] = &wire.Turn{}
		}
		turns[execution].Outcomes = append(turns[execution].Outcomes, *o)
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(forwardsAtOnce)
	for execution, turn := range turns {
		group.Go(func() error {
			var got wire.Turned
			err := d.forward(ctx, s, execution, "turn", turn, &got)
			if err != nil {
				d.o.Log.Debug("outcomes of an execution that another node runs are not taken now", "execution", execution, "error", err)
			}
			mu.Lock()
			defer mu.Unlock()
			out.Committed, out.Refused = append(out.Committed, got.Committed...), append(out.Refused, got.Refused...)
			return nil
		})
	}
	_ = group.Wait() // forwards return no error
}

// Serve serves a call that another node has forwarded (Parts.Forward); it goes no further.
func (d *Desk) Serve(ctx context.Context, raw []byte) ([]byte, error) {
	in, err := read[forwarded](raw)
	if err != nil {
		return nil, err
	}
	answer := response{Status: http.StatusOK}
	s, err := d.guest(in)
	if err == nil {
		answer.Body, err = d.serveForwarded(ctx, s, in)
	}
	if err != nil {
		answer.Status, answer.Body = d.problem(in.Call, err)
	}
	return json.Marshal(answer)
}

func (d *Desk) serveForwarded(ctx context.Context, s *session, in *forwarded) (any, error) {
	switch in.Call {
	case "turn":
		turn, err := read[wire.Turn](in.Body)
		if err != nil {
			return nil, err
		}
		out := &wire.Turned{}
		_, _ = d.settle(ctx, s, turn.Outcomes, false, out)
		return out, nil
	case "claim":
		claim, err := read[wire.Claim](in.Body)
		if err != nil {
			return nil, err
		}
		return d.claim(ctx, s, claim, false)
	}
	parts, err := split(in.Call)
	if err != nil || len(parts) < 3 {
		return nil, errNoCall
	}
	return d.callStep(ctx, s, parts[1:], in.Body)
}

// guest finds the worker of a forwarded call by its process, which may have another name here. One that has not joined gets no
// steps.
func (d *Desk) guest(in *forwarded) (*session, error) {
	d.mu.Lock()
	for _, s := range d.sessions {
		if in.Instance != "" && s.instance == in.Instance && s.caller.ID == in.Caller.ID {
			d.mu.Unlock()
			return s, nil
		}
	}
	d.mu.Unlock()
	s, err := d.session(in.Caller, in.Worker, in.Instance)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		s, err = d.seat(in.Caller, &wire.Join{Worker: in.Worker, Instance: in.Instance, Concurrency: maxConcurrency})
	}
	return s, err
}

// elsewhere reports whether a call is for a node elsewhere.
func elsewhere(err error) bool { return errors.Is(err, errElsewhere) }
