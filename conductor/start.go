package conductor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/store"
)

// Request asks for an execution.
type Request struct {
	Pipeline *Pipeline
	Params   map[string]any
	Parent   string // the execution that this one retries
	Trigger  string // Defaults to "manual"
	Dir      string // directory for relative paths of the steps
	// About is an object with the project and the lesson as templates see them, as they are at the start: {"project":
	// {…}, "lesson": {…}}. Defaults to neither.
	About json.RawMessage
	// Origin says where it comes from; see StartOnce for its Key. Concurrency is set by the conductor. Priority
	// defaults to the pipeline's.
	store.Origin
	// Window, above 0, is how many executions with the same Concurrency run at once; the caller sets that then. CodeInvalid for a pipeline
	// with settings.concurrency of its own.
	Window int
	// Uncounted leaves the execution out of the progress of its Project.
	Uncounted bool
	// Reuse are the ids of executions that have ended: the new one takes over the longest beginning that PreviewReuse finds. Defaults to
	// none.
	Reuse []string
	// Until is a step at the top level: it, the steps before it and the handlers run, all others are skipped. Defaults to all steps.
	Until string
	// Given is an execution that has ended: what completed in it is taken over by key, whatever the steps did there; with Until only
	// for steps before that one. Not with Reuse. Defaults to none.
	Given string
	// Row is filled in with the row of a new execution, as it is when the execution is durable. Defaults to nowhere.
	Row      *store.Execution
	seeds    []engine.Seed
	reused   string        // the execution that seeds are from, unless it is Parent
	revision int           // engine.Revision, or that of the execution it retries
	claim    chan struct{} // on Key
	id       string        // of the execution; "": a new one
}

// Start begins an execution and returns its id once it is durable. Parameters are checked against the pipeline's and
// defaults filled in; CodeInvalid lists all problems. An id with an error: ctx or the conductor ended before the
// commit was known; ask Wait, or after a stop the store. See StartOnce for more.
func (c *Conductor) Start(ctx context.Context, req Request) (string, error) {
	id, _, err := c.StartOnce(ctx, req)
	return id, err
}

// start begins an execution whose key, if any, is claimed.
func (c *Conductor) start(ctx context.Context, req Request) (string, error) {
	l, raw, err := c.newLive(ctx, &req)
	if err != nil {
		c.release(req.Key, req.claim)
		return "", err
	}
	id := l.run.ID
	ev := c.startEvent(&req, raw)
	if err = checkSize(&ev); err == nil {
		err = c.ask(ctx, item{run: l.run.No, on: l, ev: ev, size: eventSize(&ev)})
	}
	if err != nil && ctx.Err() == nil && !c.Stopped() { // refused
		c.release(req.Key, req.claim)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.byID, id)
		return "", err
	}
	return id, err
}

// startEvent begins an execution whose request is complete, with its recorded parameters.
func (c *Conductor) startEvent(req *Request, params json.RawMessage) engine.Event {
	begin := &engine.Begin{Params: params, About: req.About, Window: c.o.Window, Parent: req.Parent, Seeds: req.seeds, Reused: req.reused, Priority: req.Priority, Revision: cmp.Or(req.revision, engine.Revision)}
	if req.Parent == "" && !req.Uncounted { // a retry is of the project, and counts nothing
		begin.Project = req.Project
	}
	return engine.Event{Kind: engine.Start, At: c.now(), Begin: begin}
}

// newLive checks the request and makes an execution of it.
func (c *Conductor) newLive(ctx context.Context, req *Request) (*live, json.RawMessage, error) {
	id, err := req.id, error(nil)
	if id == "" {
		if id, err = c.o.NewID(); err != nil {
			return nil, nil, err
		}
	}
	params, err := c.checkParams(id, req)
	if err != nil {
		return nil, nil, err
	}
	if err := checkAbout(req.Pipeline.plan, req.About); err != nil {
		return nil, nil, err
	}
	req.Partition = ""
	if setting := req.Pipeline.plan.Partition; setting != nil && req.Workflow != "" {
		req.Partition, _ = setting.Key(params) // "": it makes none
	}
	raw, err := c.record(ctx, id, req, params)
	if err == nil {
		err = c.takeOver(ctx, id, req, params)
	}
	if err == nil {
		err = c.part(ctx, req)
	}
	if err != nil {
		c.o.Secrets.Forget(id)
		return nil, nil, err
	}
	if req.Priority == 0 {
		req.Priority = req.Pipeline.plan.Priority
	}
	no, err := c.takeNumber(ctx)
	if err != nil {
		c.o.Secrets.Forget(id)
		return nil, nil, err
	}
	return c.begin(no, id, *req, raw), raw, nil
}

// checkParams checks the parameters of a request and fills in defaults.
func (c *Conductor) checkParams(id string, req *Request) (map[string]any, error) {
	params, problems := req.Pipeline.params.Check(req.Params)
	if problems.Err() != nil {
		c.hideProblems(id, req.Pipeline, req.Params, problems)
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "parameters", Err: problems.Err()}
	}
	return params, nil
}

// checkAbout checks what an execution is about: it must have all that the pipeline's templates need.
func checkAbout(p *plan.Plan, raw json.RawMessage) error {
	if len(raw) > maxAbout {
		return stepwell.Errorf(stepwell.CodeLimit, "", "the project and the lesson are %d bytes, the limit is %d KiB", len(raw), maxAbout>>10)
	}
	about, err := decodeObject(raw)
	if err != nil {
		return stepwell.Invalid("", "the project and the lesson: %v", err)
	}
	return p.CheckAbout(about)
}

// record gives parameters, checked and complete, as they are recorded, and fills in the concurrency key.
func (c *Conductor) record(ctx context.Context, id string, req *Request, params map[string]any) (json.RawMessage, error) {
	sealed, err := c.sealParams(id, req.Pipeline, params)
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "parameters", Err: err}
	}
	if err := c.concur(ctx, id, req, params, sealed); err != nil {
		return nil, err
	}
	raw, err := expr.Marshal(sealed)
	if len(raw) > maxParams {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the parameters are %d bytes, the limit is %d MiB", len(raw), maxParams>>20), Hint: "hand large values over in files"}
	}
	return raw, err
}

// concur fills in the concurrency key: the pipeline's, or that of the request's window.
func (c *Conductor) concur(ctx context.Context, id string, req *Request, params, sealed map[string]any) (err error) {
	switch own := req.Pipeline.plan.Concurrency != nil; {
	case own && req.Window > 0:
		return stepwell.Invalid("leave the window out", "the pipeline %s has settings.concurrency of its own", req.Pipeline.Name)
	case own:
		if req.Concurrency, err = c.concurrencyKey(ctx, id, req.Pipeline, params, sealed); err != nil {
			return err
		}
	case req.Window > 0:
		req.Concurrency = windowKey(req.Window, req.Concurrency)
	default:
		req.Concurrency = ""
		return nil
	}
	return c.recovery(ctx)
}

// Stopped reports whether nothing is decided any more: Run or End has returned, or the store has failed for good.
func (c *Conductor) Stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

func (c *Conductor) begin(no int64, id string, req Request, params json.RawMessage) *live {
	trigger := req.Trigger
	if trigger == "" {
		trigger = "manual"
	}
	l := &live{run: engine.New(req.Pipeline.plan, no, id), create: true, done: make(chan struct{}), pipeline: req.Pipeline, claim: req.claim, created: req.Row,
		row: store.Execution{No: no, ID: id, Pipeline: req.Pipeline.Name, Definition: req.Pipeline.Hash[:], Params: params,
			Parent: req.Parent, Trigger: trigger, Origin: req.Origin, Dir: req.Dir, Owner: c.o.Owner, Created: c.o.Now()}}
	l.run.Dir = req.Dir
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID[id] = l // at once, so that an execution is never durable and not to be found
	return l
}

// Wait returns when the execution is terminal and durable, with its row. An execution that is not
// in memory is looked up in the store; CodeConflict when it has not ended there either: no one here
// would end it (see Recover).
func (c *Conductor) Wait(ctx context.Context, id string) (*store.Execution, error) {
	l := c.live(id)
	if l == nil {
		row, err := c.o.Store.Execution(ctx, id)
		if err != nil || row.Status.Terminal() {
			return row, err
		}
		if l = c.live(row.ID); l == nil {
			return c.ended(ctx, row.ID)
		}
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.stop:
		select {
		case <-l.done: // both were there
		default:
			return nil, c.stopped()
		}
	}
	if l.refused != nil {
		return nil, l.refused
	}
	row := l.row
	return &row, nil
}

// ended finds an execution that is not in memory; it may have left it between two looks.
func (c *Conductor) ended(ctx context.Context, id string) (*store.Execution, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err == nil && !row.Status.Terminal() {
		return nil, errGone
	}
	return row, err
}

// Active are the ids of the executions in memory.
func (c *Conductor) Active() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]string, 0, len(c.byID))
	for id := range c.byID {
		ids = append(ids, id)
	}
	return ids
}

func decodeObject(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := expr.Decode(raw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "a stored value is not an object"}
	}
	return m, nil
}
