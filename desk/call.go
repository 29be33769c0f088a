package desk

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/expr"
)

// maxBodies bounds, in bytes, the calls of all workers that are being served.
const maxBodies = 256 << 20

// budget counts the bytes of calls that are being served.
type budget struct {
	mu   sync.Mutex
	used int64
}

func (b *budget) take(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used > 0 && b.used+n > maxBodies {
		return stepwell.Errorf(stepwell.CodeUnavailable, "offer it again in a moment", "workers have %d MiB under way here", maxBodies>>20)
	}
	b.used += n
	return nil
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}

// answered is what a call gives; undo takes it back when it does not reach the worker.
type answered struct {
	body any
	undo func()
}

var errNoCall = stepwell.Errorf(stepwell.CodeNotFound, "join, turn, claim, steps/{id}/spawn, log, progress, memo, own, media, callback or outputs/{key}", "there is no such call")

// serve serves one call, named by what follows wire.Path. HTTP and streams share it.
func (d *Desk) serve(ctx context.Context, caller Caller, name string, body []byte) (answered, error) {
	parts, err := split(name)
	switch {
	case err != nil:
		return answered{}, err
	case name == "join":
		in, err := read[wire.Join](body)
		if err != nil {
			return answered{}, err
		}
		out, err := d.join(ctx, caller, in)
		return answered{body: out}, err
	case name == "turn":
		return d.serveTurn(ctx, caller, body)
	case name == "claim":
		return d.serveClaim(ctx, caller, body)
	case len(parts) == 3 && parts[0] == "steps", len(parts) == 4 && parts[0] == "steps" && parts[2] == "outputs":
		return d.serveStep(ctx, caller, name, body)
	}
	return answered{}, errNoCall
}

// split takes the name of a call apart.
func split(name string) (parts []string, err error) {
	parts = strings.Split(name, "/")
	for i := range parts {
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return nil, errNoCall
		}
	}
	return parts, nil
}

// read reads a call's document.
func read[T any](body []byte) (*T, error) {
	var in T
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, stepwell.Invalid("", "the body is not the JSON of this call: %v", err)
	}
	return &in, nil
}

func (d *Desk) serveTurn(ctx context.Context, caller Caller, body []byte) (answered, error) {
	in, err := read[wire.Turn](body)
	if err != nil {
		return answered{}, err
	}
	s, err := d.session(caller, in.Worker, in.Instance)
	if err != nil {
		return answered{}, err
	}
	out, err := d.turn(ctx, s, in)
	if err != nil {
		return answered{}, err
	}
	undo := func() {
		ids := make([]wire.ID, len(out.Tasks))
		for i := range out.Tasks {
			ids[i] = out.Tasks[i].ID
		}
		_ = d.giveBack(ctx, s, ids) // ids of our own
		d.mu.Lock()
		defer d.mu.Unlock()
		s.nodes = -1 // the next turn tells of them again
		d.undoCancels(s, out.Cancels)
	}
	return answered{out, undo}, nil
}

// serveClaim lets an attempt begin that a worker holds, or gives it one that it knows of from elsewhere.
func (d *Desk) serveClaim(ctx context.Context, caller Caller, body []byte) (answered, error) {
	in, err := read[wire.Claim](body)
	if err != nil {
		return answered{}, err
	}
	s, err := d.claimant(caller, in.Worker)
	if err != nil {
		return answered{}, err
	}
	out, err := d.claim(ctx, s, in, true)
	if elsewhere(err) {
		execution, _, _ := wire.Split(in.StepID) // read before
		var raw json.RawMessage
		err = d.forward(ctx, s, execution, "claim", in, &raw)
		out = raw
	}
	return answered{body: out}, err
}

// claim is serveClaim for an execution that runs here; direct says that the answer goes to the worker's own link.
func (d *Desk) claim(ctx context.Context, s *session, in *wire.Claim, direct bool) (out any, err error) {
	k, err := idOf(wire.ID{StepID: in.StepID, Epoch: in.Epoch})
	if err != nil {
		return nil, err
	}
	a, fresh := d.claimable(s, k)
	if a == nil {
		return nil, d.unclaimable(ctx, k, in.Take)
	}
	out = struct{}{}
	if fresh || in.Take || in.Epoch == 0 { // the worker may not have heard the answer to its first claim
		t, ok := d.finish(ctx, a, s, direct)
		if !ok {
			return nil, stepwell.Errorf(stepwell.CodeConflict, "", "the step cannot begin, or has secrets and this link is not encrypted")
		}
		out = t
	}
	if in.Take {
		return out, nil
	}
	return out, d.begin(ctx, s, a, in)
}

// unclaimable says why an attempt is not given to a worker: CodeConflict, or for now, CodeUnavailable. One that is only to be taken is
// offered again by whoever runs its execution. A claim without an epoch goes there too: only its names have the attempt.
func (d *Desk) unclaimable(ctx context.Context, k id, take bool) error {
	d.mu.Lock()
	known := d.attempts[k] != nil
	d.mu.Unlock()
	if !known && !take {
		if t, err := d.task(ctx, k); elsewhere(err) {
			return err
		} else if t != nil {
			return stepwell.Errorf(stepwell.CodeUnavailable, "claim it again in a moment", "the execution is being taken over")
		}
	}
	return stepwell.Errorf(stepwell.CodeConflict, "", "attempt %d of %s belongs to another owner, or is no longer wanted", k.epoch, wire.Step(k.execution, k.idx))
}

// claimant finds the worker of a claim. One that has not joined, because it knows of the step from a list, gets no other
// steps.
func (d *Desk) claimant(caller Caller, name string) (*session, error) {
	s, err := d.session(caller, name, "")
	if d.o.Lists == nil || stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return s, err
	}
	if name == "" || len(name) > wire.MaxName {
		return nil, stepwell.Invalid("", "worker is a name of 1 to %d bytes", wire.MaxName)
	}
	if _, err := d.seat(caller, &wire.Join{Worker: name, Concurrency: maxConcurrency}); err != nil {
		return nil, err
	}
	return d.session(caller, name, "")
}

// claimable finds the attempt of a claim, which is the worker's then; fresh says that it was not before.
func (d *Desk) claimable(s *session, k id) (a *attempt, fresh bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k.epoch == 0 {
		k = d.out.names[wire.Step(k.execution, k.idx)]
	}
	a = d.attempts[k]
	fresh = a != nil && a.holder != s
	switch {
	case a == nil || a.settling || a.revoked, fresh && len(s.held) >= s.concurrency+maxCredit:
		return nil, false
	case d.adopt(a, s):
		return a, fresh
	case a.state == waiting && d.suits(a.task, s):
		d.hold(a, s, a.lease)
		return a, true
	}
	return nil, false
}

// begin records that a held attempt runs.
func (d *Desk) begin(ctx context.Context, s *session, a *attempt, in *wire.Claim) error {
	since := d.o.Now().Add(-time.Duration(min(max(in.RanMS, 0), 1e12) * float64(time.Millisecond)))
	d.mu.Lock()
	begun := a.claimed
	d.mu.Unlock()
	if begun {
		return nil // the same worker asks again, because it has not heard the answer
	}
	ev := d.remote(ctx, a).Running(s.name, since)
	if err := d.p.Conductor.ReportAll(ctx, []conductor.RunEvent{{Run: a.task.Run, Event: ev}}); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a.claimed = true
	return nil
}

// stepCall are the members that all calls on steps have.
type stepCall struct {
	Worker string `json:"worker"`
	Epoch  uint32 `json:"epoch"`
}

// serveStep serves a call on a step, here or where its execution runs.
func (d *Desk) serveStep(ctx context.Context, caller Caller, name string, body []byte) (answered, error) {
	in, err := read[stepCall](body)
	if err != nil {
		return answered{}, err
	}
	s, err := d.session(caller, in.Worker, "")
	if err != nil {
		return answered{}, err
	}
	parts, _ := split(name) // as before
	out, err := d.callStep(ctx, s, parts[1:], body)
	if elsewhere(err) {
		execution, _, _ := wire.Split(parts[1]) // likewise
		var raw json.RawMessage
		err = d.forward(ctx, s, execution, name, json.RawMessage(body), &raw)
		out = raw
	}
	return answered{body: out}, err
}

// held finds the attempt of a call, which becomes the worker's if nobody holds it. CodeConflict: it is not the worker's.
func (d *Desk) held(ctx context.Context, s *session, k id) (*attempt, error) {
	d.mu.Lock()
	a := d.attempts[k]
	d.mu.Unlock()
	if a == nil {
		if _, err := d.recall(ctx, k); err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if a = d.attempts[k]; a == nil || a.settling || !d.adopt(a, s) {
		return nil, stepwell.Errorf(stepwell.CodeConflict, "", "attempt %d of %s is not this worker's", k.epoch, wire.Step(k.execution, k.idx))
	}
	return a, nil
}

// callStep serves what action.Host offers in process, for an execution that runs here.
func (d *Desk) callStep(ctx context.Context, s *session, parts []string, body []byte) (out any, err error) {
	in, err := read[stepCall](body)
	if err != nil {
		return nil, err
	}
	k, err := idOf(wire.ID{StepID: parts[0], Epoch: in.Epoch})
	if err != nil {
		return nil, err
	}
	a, err := d.held(ctx, s, k)
	if err != nil {
		return nil, err
	}
	key := ""
	if len(parts) == 3 {
		key = parts[2]
	}
	h := d.remote(ctx, a).Host()
	out = struct{}{}
	switch parts[1] {
	case "spawn":
		err = spawn(ctx, h, body)
	case "log":
		err = log(h, body)
	case "progress":
		err = progress(h, body)
	case "memo":
		out, err = memo(ctx, h, body)
	case "own":
		err = own(ctx, h, body)
	case "callback":
		var to wire.Address
		to.Key, to.URL, err = d.remote(ctx, a).Callback(ctx)
		out = to
	case "media":
		out, err = d.media(ctx, a, body)
	case "outputs":
		out, err = outputs(ctx, h, key)
	default:
		err = errNoCall
	}
	return out, err
}

// media gives a part of the file of the lesson that the attempt's execution is about, and of no other.
func (d *Desk) media(ctx context.Context, a *attempt, body []byte) (out wire.MediaPart, err error) {
	in, err := read[wire.Media](body)
	if err == nil {
		out.Data, out.Size, err = d.p.Runner.MediaPart(ctx, a.task, in.Offset, wire.MaxMedia)
	}
	return out, err
}

func spawn(ctx context.Context, h action.Host, body []byte) error {
	in, err := read[wire.Spawn](body)
	if err != nil {
		return err
	}
	steps := make([]action.NewStep, len(in.Steps))
	for i := range in.Steps {
		n := &in.Steps[i]
		steps[i] = n.NewStep
		steps[i].DependsOn, steps[i].Params = n.DependsOn, nil
		steps[i].Timeout = time.Duration(min(max(n.TimeoutSeconds, 0), 1e9) * float64(time.Second))
		if len(n.Params) == 0 || string(n.Params) == "null" {
			continue
		}
		v, err := expr.Decode(n.Params)
		params, ok := v.(map[string]any)
		if err != nil || !ok {
			return stepwell.Invalid("", "params of %s are not an object that can be read", stepwell.Head(n.Name, wire.MaxName))
		}
		steps[i].Params = params
	}
	return h.Spawn(ctx, steps)
}

func log(h action.Host, body []byte) error {
	in, err := read[wire.Log](body)
	if err != nil {
		return err
	}
	if len(in.Lines) > maxLines {
		return stepwell.Errorf(stepwell.CodeLimit, "", "a call carries at most %d lines", maxLines)
	}
	logLines(h, in.Lines)
	return nil
}

func progress(h action.Host, body []byte) error {
	in, err := read[wire.Progress](body)
	if err != nil {
		return err
	}
	if in.Advanced {
		h.Advance()
	}
	for i := range in.Members {
		m := &in.Members[i]
		m.Counts.Total = m.Total
		to := h.Member(m.ID)
		if to.Count(m.Counts); m.Fraction > 0 {
			to.Progress(m.Fraction, "")
		}
	}
	if len(in.Members) == 0 && !in.Advanced || in.Fraction > 0 {
		h.Progress(in.Fraction, in.Note)
	}
	return nil
}

func memo(ctx context.Context, h action.Host, body []byte) (*wire.Value, error) {
	in, err := read[wire.Memo](body)
	if err != nil {
		return nil, err
	}
	if len(in.Value) > 0 {
		return &wire.Value{Found: true}, h.Record(ctx, in.Key, in.Value)
	}
	raw, ok, err := h.Recall(ctx, in.Key)
	return &wire.Value{Found: ok, Value: raw}, err
}

func own(ctx context.Context, h action.Host, body []byte) error {
	in, err := read[wire.Own](body)
	if err == nil {
		err = h.Own(ctx, in.State)
	}
	return err
}

func outputs(ctx context.Context, h action.Host, key string) (*wire.Value, error) {
	raw, err := []byte(nil), error(nil)
	if key != "" {
		raw, err = h.Outputs(ctx, key)
	} else if all, failed := h.Data(ctx); failed == nil {
		raw, err = json.Marshal(all)
	} else {
		err = failed
	}
	switch {
	case err != nil:
		return nil, err
	case len(raw) > wire.MaxBody:
		return nil, stepwell.Errorf(stepwell.CodeLimit, "ask for the outputs of single steps", "the outputs are more than %d MiB", wire.MaxBody>>20)
	}
	return &wire.Value{Found: len(raw) > 0, Value: raw}, nil
}

// problem is an error as a worker gets it, with its HTTP status.
func (d *Desk) problem(name string, err error) (int, wire.Problem) {
	code := stepwell.CodeOf(err)
	status, ok := statuses[code]
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return statuses[stepwell.CodeUnavailable], wire.Problem{Code: stepwell.CodeUnavailable, Message: "cut off: offer it again"}
	case !ok:
		d.o.Log.Error("a worker's call failed", "call", name, "error", err)
		return 500, wire.Problem{Code: stepwell.CodeInternal, Message: "the call failed: see the node's log"}
	}
	return status, wire.Problem{Code: code, Message: err.Error(), Hint: stepwell.HintOf(err)}
}
