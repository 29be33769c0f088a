package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/dapr/durabletask-go/api/protos"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/dapr/profile"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
)

// The workflow that is an execution, its children that run many steps, and their activities.
const (
	RunWorkflow   = "stepwell.run"   // {pipeline|definition, params}
	StepsWorkflow = "stepwell.steps" // of stepwell.run: up to 100 steps

	prepareActivity = "stepwell.prepare"
	stepActivity    = "stepwell.step"
	batchActivity   = "stepwell.batch"
	stopActivity    = "stepwell.stop"
)

// Bounds of one history: the sidecar sends all of it in every turn.
const (
	maxDirect  = 32  // steps that are activities of the workflow of the execution; more slow ones at once become children
	maxBundle  = 25  // steps of a child: the sidecar stores none of their ends before it has scheduled all of them
	maxBundles = 4   // children at once
	maxFirst   = 16  // attempts of a step begun before the first of them has ended
	maxBatch   = 100 // attempts of one activity
	maxBatches = 4   // activities of several attempts at once
	smallBatch = 8   // attempts of one activity when they take longer than batchTime, and not four times as long

	maxBatchBytes = 1 << 20                // of params and outputs of one activity, as far as attempts resemble each other
	batchTime     = 250 * time.Millisecond // how long such an activity begins attempts
	renewAfter    = 50                     // ended attempts after which a workflow that has nothing under way continues as new
	drainAfter    = 1000                   // ended attempts after which it starts nothing until it can
	maxHistory    = 2 << 20                // bytes of outcomes, likewise
	maxCarry      = 3 << 20                // bytes that a workflow continues with
	maxEarly      = 100                    // events that came before a step has waited for them
)

// prepared is the result of stepwell.prepare: the pipeline as it runs.
type prepared struct {
	Definition json.RawMessage `json:"definition"` // a snapshot (definition.Encode)
	Params     json.RawMessage `json:"params,omitempty"`
	Revision   int             `json:"revision"` // of the engine
}

// runOrder is the input of stepwell.run.
type runOrder struct {
	Order
	// Carried is there when the workflow has continued as new.
	Carried *carried `json:"carried,omitempty"`
}

// carried is the execution so far: its log, as a database would have it.
type carried struct {
	prepared
	Log   []json.RawMessage                    `json:"log"`
	Memos map[int32]map[string]json.RawMessage `json:"memos,omitempty"`
	Early map[string]string                    `json:"early,omitempty"`
	No    int64                                `json:"no"`
}

// hosted is the state of an execution in a workflow: the fold of the workflow's history. A turn is one batch of the engine, settled at the time
// that the history gives for it, so that the same history always gives the same state and the same actions.
type hosted struct {
	h        *hosting
	instance string
	router   *protos.TaskRouter
	replays  bool // the events have been folded before, by another process or before a crash: nothing is rendered

	now  time.Time
	next int32               // id of the next action
	open map[int32]*underway // what has not ended, by id
	busy int                 // activities and children among it
	no   int64               // names the execution within processes
	work *prepared           // nil: not yet
	run  *engine.Run         // likewise
	fx   engine.Effects
	got  engine.Batch      // since the last settle
	log  []json.RawMessage // batches
	size int               // of log, in bytes

	ready  []*engine.Task
	stops  []*engine.Task
	awaits map[int32]engine.Await
	early  map[string]string
	memos  map[int32]map[string]json.RawMessage

	paces   map[*plan.Step]*pace
	bundles int // children that have not ended
	batches int // activities of several attempts, likewise
	ended   int // attempts of this history
	bytes   int // of their outcomes
	dirty   bool

	suspended, terminated bool
	verdict               *protos.OrchestratorAction
	done                  bool

	actions []*protos.OrchestratorAction
	revokes []engine.Revoke // of this turn
}

// underway is an action that has not ended: a timer of the engine, or the attempts that an activity or a child runs.
type underway struct {
	timer    *engine.Timer
	tasks    []*engine.Task
	child    bool
	batch    bool
	stop     bool
	prepares bool
}

func newHosted(h *hosting, instance string) *hosted {
	return &hosted{h: h, instance: instance, open: map[int32]*underway{}, awaits: map[int32]engine.Await{}, early: map[string]string{}, memos: map[int32]map[string]json.RawMessage{},
		paces: map[*plan.Step]*pace{}}
}

// turn folds new events in and returns what is to be done about them.
func (f *hosted) turn(fresh []*protos.HistoryEvent) (actions []*protos.OrchestratorAction, status string) {
	f.actions, f.revokes, f.replays = nil, nil, false
	for _, e := range fresh {
		f.apply(e)
	}
	f.settle()
	return f.actions, f.status()
}

// status is what Dapr's tools show.
func (f *hosted) status() string {
	if f.run == nil {
		return ""
	}
	p := f.run.Progress()
	raw, err := json.Marshal(struct {
		Status    string  `json:"status"`
		Total     int     `json:"total"`
		Completed int     `json:"completed"`
		Failed    int     `json:"failed"`
		Skipped   int     `json:"skipped"`
		Cancelled int     `json:"cancelled"`
		Running   int     `json:"running"`
		Percent   float64 `json:"percentage"`
		// Awaits are the events that steps wait for.
		Awaits []string `json:"awaits,omitempty"`
	}{f.run.Status().String(), p.Total, p.Completed, p.Failed, p.Skipped, p.Cancelled, p.Running, p.Percent, f.keys()})
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// keys are those of the events that steps wait for, at most 20.
func (f *hosted) keys() []string {
	var keys []string
	for _, a := range f.awaits {
		if a.External != "" && !slices.Contains(keys, a.External) {
			keys = append(keys, a.External)
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), 20)]
}

func (f *hosted) apply(e *protos.HistoryEvent) {
	if f.done {
		return
	}
	switch x := e.EventType.(type) {
	case *protos.HistoryEvent_OrchestratorStarted:
		f.settle() // the turn before
		f.now = e.Timestamp.AsTime()
	case *protos.HistoryEvent_ExecutionStarted:
		f.begin(e, x.ExecutionStarted)
	case *protos.HistoryEvent_TaskCompleted:
		f.completed(x.TaskCompleted.TaskScheduledId, x.TaskCompleted.Result.GetValue())
	case *protos.HistoryEvent_TaskFailed:
		f.broke(x.TaskFailed.TaskScheduledId, x.TaskFailed.FailureDetails)
	case *protos.HistoryEvent_SubOrchestrationInstanceCompleted:
		f.completed(x.SubOrchestrationInstanceCompleted.TaskScheduledId, x.SubOrchestrationInstanceCompleted.Result.GetValue())
	case *protos.HistoryEvent_SubOrchestrationInstanceFailed:
		f.broke(x.SubOrchestrationInstanceFailed.TaskScheduledId, x.SubOrchestrationInstanceFailed.FailureDetails)
	case *protos.HistoryEvent_TimerFired:
		if u := f.close(x.TimerFired.TimerId); u != nil && u.timer != nil {
			f.event(engine.Event{Kind: engine.TimerDue, Idx: u.timer.Idx, Epoch: u.timer.Epoch})
		}
	case *protos.HistoryEvent_EventRaised:
		f.signal(x.EventRaised.Name, x.EventRaised.Input.GetValue())
	case *protos.HistoryEvent_ExecutionSuspended:
		f.suspended = true
		f.event(engine.Event{Kind: engine.Pause})
	case *protos.HistoryEvent_ExecutionResumed:
		f.suspended = false
		f.event(engine.Event{Kind: engine.Resume})
	case *protos.HistoryEvent_ExecutionTerminated:
		f.suspended, f.terminated, f.dirty = false, true, true
		f.event(engine.Event{Kind: engine.Resume}) // a paused execution would end only when it is resumed
		f.event(engine.Event{Kind: engine.Cancel, Reason: "the Dapr workflow was terminated"})
	}
}

// begin takes the input in.
func (f *hosted) begin(e *protos.HistoryEvent, started *protos.ExecutionStartedEvent) {
	f.router, f.dirty = routerOf(e), true
	digest := fnv.New64a()
	fmt.Fprintf(digest, "%s\x00%s\x00%d", f.instance, started.OrchestrationInstance.GetExecutionId().GetValue(), e.Timestamp.AsTime().UnixNano())
	f.no = int64(digest.Sum64() >> 1)
	var o runOrder
	if err := json.Unmarshal([]byte(started.Input.GetValue()), &o); err != nil {
		f.fail("stepwell.invalid", `the input is not what stepwell.run takes, {"pipeline": NAME or "definition": …, "params"?: {…}}: `+err.Error())
		return
	}
	switch c := o.Carried; {
	case c != nil:
		f.no, f.memos, f.early = c.No, orEmpty(c.Memos), orEmpty(c.Early)
		f.resume(c)
	case (o.Pipeline == "") == (len(o.Definition) == 0) || o.Version != 0 || o.Project != "" || o.Priority != 0:
		f.fail("stepwell.invalid", `stepwell.run takes {"pipeline": NAME or "definition": …, "params"?: {…}}, and no version, project or priority`)
	default:
		f.schedule(prepareActivity, o.Order, &underway{prepares: true})
	}
}

func orEmpty[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}

// routerOf names the app of the workflow.
func routerOf(e *protos.HistoryEvent) *protos.TaskRouter {
	r := e.Router
	if r == nil {
		return nil
	}
	own := r.GetSourceAppID()
	if r.TargetAppID != nil {
		own = r.GetTargetAppID()
	}
	return &protos.TaskRouter{SourceAppID: own}
}

// take makes the run of a prepared pipeline.
func (f *hosted) take(p *prepared) bool {
	if p.Revision != engine.Revision {
		f.fail("stepwell.conflict", fmt.Sprintf("the execution was begun by revision %d of the engine, and this program has %d: end it with the program that began it", p.Revision, engine.Revision))
		return false
	}
	compiled, err := f.h.plan(p.Definition)
	if err != nil {
		f.fail("stepwell."+string(stepwell.CodeOf(err)), err.Error())
		return false
	}
	f.work, f.run = p, engine.New(compiled, f.no, f.instance)
	return true
}

// resume goes on from the log of the generations before. Nothing was under way.
func (f *hosted) resume(c *carried) {
	if !f.take(&c.prepared) {
		return
	}
	for i, raw := range c.Log {
		b, err := engine.DecodeBatch(int64(i+1), raw)
		if err == nil {
			f.fx.Reset()
			err = f.run.Replay(b, &f.fx)
		}
		if err != nil {
			f.fail("stepwell.conflict", "the log of the execution cannot be read: "+err.Error())
			return
		}
		f.size += len(raw)
	}
	f.fx.Reset()
	f.log = c.Log
	for _, a := range f.run.Awaiting() {
		f.awaits[a.Idx] = a
	}
	for _, t := range f.run.Pending() {
		f.timer(t)
	}
	for _, x := range f.run.Flying() {
		if t := f.run.Task(x.Idx); t != nil {
			f.ready = append(f.ready, t)
		}
	}
}

// event gives the engine an event of now. What it refuses changes nothing.
func (f *hosted) event(ev engine.Event) {
	if f.run == nil {
		return
	}
	ev.At = f.now.UnixMicro()
	if changed, err := f.run.Apply(&ev, &f.fx); err == nil && changed {
		f.got.Events = append(f.got.Events, ev)
		f.dirty = true
	}
}

// settle ends a batch, and does what the engine wants.
func (f *hosted) settle() {
	for f.dirty && !f.done {
		f.dirty = false
		if f.run != nil {
			f.run.Settle(f.now.UnixMicro(), &f.fx)
			came := f.effects()
			f.fx.Reset()
			for _, key := range came {
				text := f.early[key]
				delete(f.early, key)
				f.signal(key, text)
			}
		}
		f.dispatch()
		f.conclude()
	}
}

// effects takes over what the engine wants. It returns the keys of events that have come before a step waited for them.
func (f *hosted) effects() (came []string) {
	fx := &f.fx
	for _, t := range fx.Tasks {
		f.got.Queued = append(f.got.Queued, t.Idx)
	}
	if len(f.got.Events) > 0 {
		f.got.At = f.now.UnixMicro()
		raw, err := engine.AppendBatch(nil, &f.got)
		if err != nil {
			f.fail("stepwell.internal", "the log cannot be written: "+err.Error())
			return nil
		}
		f.log, f.size = append(f.log, raw), f.size+len(raw)
	}
	f.got = engine.Batch{}
	f.ready = append(f.ready, fx.Tasks...)
	f.stops = append(f.stops, fx.Cancels...)
	if len(fx.Revokes) > 0 {
		f.revokes = append(f.revokes, fx.Revokes...)
		f.ready = slices.DeleteFunc(f.ready, func(t *engine.Task) bool {
			return slices.ContainsFunc(fx.Revokes, func(r engine.Revoke) bool { return r.Idx == t.Idx && r.Epoch == t.Epoch })
		})
	}
	for _, t := range fx.Timers {
		f.timer(t)
	}
	for _, x := range fx.Forget {
		delete(f.memos, x.Idx)
	}
	for i := range fx.Rows {
		if fx.Rows[i].Status != stepwell.StepWaiting {
			delete(f.awaits, fx.Rows[i].Idx)
		}
		if fx.Rows[i].Status.Terminal() {
			delete(f.memos, fx.Rows[i].Idx)
		}
	}
	for _, a := range fx.Awaits {
		f.awaits[a.Idx] = a
		if _, ok := f.early[a.External]; ok && !slices.Contains(came, a.External) {
			came = append(came, a.External)
		}
	}
	if p := f.run.Progress(); p.Total > profile.MaxRun && !f.run.Status().Terminal() {
		f.fail("stepwell.limit", fmt.Sprintf("the execution has %d steps, iterations included; inside Dapr Workflow the limit is %d", p.Total, profile.MaxRun))
	}
	return came
}

// completed takes the result of an activity or a child in.
func (f *hosted) completed(id int32, result string) {
	u := f.close(id)
	switch {
	case u == nil:
		return
	case u.prepares:
		f.prepared(result)
	case u.child || u.batch:
		var list []json.RawMessage
		err := json.Unmarshal([]byte(result), &list)
		for i, t := range u.tasks {
			switch {
			case err != nil:
				f.lost(t, "the results of the steps cannot be read: "+err.Error())
			case i >= len(list):
				f.lost(t, "the step has no result")
			case u.batch && string(list[i]) == "null":
				f.ready, f.dirty = append(f.ready, t), true // not begun
			default:
				f.outcome(t, list[i])
			}
		}
	case u.stop:
		f.dirty = true
	default:
		f.outcome(u.tasks[0], []byte(result))
	}
}

func (f *hosted) prepared(result string) {
	var p prepared
	f.dirty = true
	if err := json.Unmarshal([]byte(result), &p); err != nil {
		f.fail("stepwell.internal", "the pipeline cannot be read: "+err.Error())
		return
	}
	if !f.take(&p) {
		return
	}
	f.event(engine.Event{Kind: engine.Start, Begin: &engine.Begin{Params: p.Params, Revision: p.Revision}})
	if f.suspended {
		f.event(engine.Event{Kind: engine.Pause})
	}
	if f.terminated {
		f.event(engine.Event{Kind: engine.Cancel, Reason: "the Dapr workflow was terminated"})
	}
}

// outcome takes the outcome of an attempt in.
func (f *hosted) outcome(t *engine.Task, raw []byte) {
	f.ended++
	f.bytes += len(raw)
	var o outcome
	if err := json.Unmarshal(raw, &o); err != nil {
		f.lost(t, "the outcome cannot be read: "+err.Error())
		return
	}
	f.paceOf(t).learn(&o, f.h.batchTime)
	for key, value := range o.Memos {
		if f.memos[t.Idx] == nil {
			f.memos[t.Idx] = map[string]json.RawMessage{}
		}
		f.memos[t.Idx][key] = value
	}
	for _, spawns := range o.Spawns {
		ev := engine.Event{Kind: engine.Spawned, At: f.now.UnixMicro(), Idx: t.Idx, Epoch: t.Epoch, Spawns: spawns}
		if _, err := f.run.Apply(&ev, &f.fx); err != nil {
			o = outcome{Kind: engine.Failed, Permanent: true, Failure: &engine.Failure{Code: stepwell.CodeOf(err), Message: "the spawned steps were refused: " + err.Error()}}
			break
		}
		f.got.Events = append(f.got.Events, ev)
	}
	f.event(o.event(t))
}

// lost fails an attempt that has no outcome. Another may be tried.
func (f *hosted) lost(t *engine.Task, why string) {
	f.event(engine.Event{Kind: engine.Failed, Idx: t.Idx, Epoch: t.Epoch, Failure: &engine.Failure{Code: stepwell.CodeFailed, Message: why}})
}

// broke is the failure of an activity or a child, not of a step.
func (f *hosted) broke(id int32, why *protos.TaskFailureDetails) {
	u := f.close(id)
	message := stepwell.Clip(why.GetErrorMessage(), 4000)
	switch {
	case u == nil:
		return
	case u.prepares:
		f.fail(cmp.Or(why.GetErrorType(), "stepwell.failed"), message)
	case u.stop:
		f.dirty = true // the log of the program says it
	default:
		f.ended += len(u.tasks)
		for _, t := range u.tasks {
			f.lost(t, cmp.Or(message, "the steps were terminated"))
		}
	}
}

// signal ends the steps that wait for the key, or is kept for the first that will. Decisions are not kept.
func (f *hosted) signal(key, text string) {
	if f.run == nil {
		if len(f.early) < maxEarly && !strings.HasPrefix(key, "approval:") {
			f.early[key] = text
		}
		return
	}
	found := false
	for _, idx := range sortedKeys(f.awaits) {
		a := f.awaits[idx]
		if a.External != key {
			continue
		}
		found = true
		f.event(answerEvent(&a, text))
	}
	if !found && len(f.early) < maxEarly && !strings.HasPrefix(key, "approval:") && engine.CheckKey(key) == nil {
		f.early[key] = text
	}
}

func sortedKeys[V any](m map[int32]V) []int32 {
	keys := make([]int32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// conclude ends the workflow when the execution has ended, and nothing of it is left to be stopped. A suspended one ends when it is resumed: Dapr
// shows one that has ended before as suspended for good.
func (f *hosted) conclude() {
	if f.verdict == nil && f.run != nil && f.run.Status().Terminal() && f.busy == 0 {
		f.verdict = f.end()
	}
	if f.verdict == nil || f.suspended {
		return
	}
	f.actions, f.done = append(f.actions, f.verdict), true
}

// end is how the workflow of an execution that has ended ends.
func (f *hosted) end() *protos.OrchestratorAction {
	status := f.run.Status()
	why := &protos.TaskFailureDetails{ErrorType: "stepwell." + status.String(), ErrorMessage: "the execution is " + status.String(), IsNonRetriable: true}
	if x := f.run.Failure(); x != nil {
		why.ErrorMessage += ": " + x.Message
		if x.Step != "" {
			why.ErrorMessage += " (step " + x.Step + ")"
		}
	}
	switch {
	case f.terminated:
		return ending(f.next, f.router, protos.OrchestrationStatus_ORCHESTRATION_STATUS_TERMINATED, nil, why)
	case status == stepwell.ExecutionCompleted || status == stepwell.ExecutionCompletedWithFailures:
		return ending(f.next, f.router, protos.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED, f.run.Outputs(), nil)
	}
	return ending(f.next, f.router, protos.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED, nil, why)
}

// planOf compiles a snapshot.
func planOf(snapshot []byte, catalog plan.Catalog) (*plan.Plan, error) {
	d, err := definition.Decode(snapshot)
	if err != nil {
		return nil, err
	}
	return plan.Compile(d, catalog)
}
