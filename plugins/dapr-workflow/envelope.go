package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dapr/durabletask-go/api/protos"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The workflows that this program hosts.
const (
	PipelineWorkflow   = "stepwell.pipeline"   // {pipeline, version?, params}
	DefinitionWorkflow = "stepwell.definition" // {definition, params}
	CallWorkflow       = "stepwell.call"       // {app_id, name, input}
)

// cancelEvent ends stepwell.call without the workflow that it calls: Dapr 1.16.0 can terminate neither a workflow of another app nor one that
// awaits such a one.
const cancelEvent = "stepwell.cancel"

// The activities by which they reach a server.
const (
	startActivity   = "stepwell.start"
	awaitActivity   = "stepwell.await"
	controlActivity = "stepwell.control"
)

// Order is the input of stepwell.pipeline and stepwell.definition.
type Order struct {
	Pipeline   string          `json:"pipeline,omitempty"`
	Version    int             `json:"version,omitempty"`
	Definition json.RawMessage `json:"definition,omitempty"` // an object, or a text of YAML or JSON
	Params     json.RawMessage `json:"params,omitempty"`
	Project    string          `json:"project,omitempty"`
	Priority   int             `json:"priority,omitempty"`
	// Key is that of the start. Set by the workflow.
	Key string `json:"key,omitempty"`
	// Execution is there when the workflow has continued as new.
	Execution string `json:"execution,omitempty"`
}

// verb is what is done to an execution.
type verb string

const (
	resume verb = "resume"
	pause  verb = "pause"
	cancel verb = "cancel"
)

// target is the input of the activities stepwell.await and stepwell.control, and with Execution alone the result of stepwell.start.
type target struct {
	Execution string `json:"execution"`
	Verb      verb   `json:"verb,omitempty"`
}

// verdict is the result of stepwell.await.
type verdict struct {
	Ended  bool            `json:"ended"`
	Status string          `json:"status,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// The pauses between two tries of an activity that has failed, and how many awaits a history has before it begins anew.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	maxAwaits    = 200
)

// kind is what an action of the workflow is about.
type kind int

const (
	starting kind = iota
	awaiting
	controlling
	calling
)

// envelope is the state of one workflow: the fold of its history. The same events always give the same state and the same actions, so
// a turn is folding all of it and answering with the actions of the new events.
type envelope struct {
	instance string
	order    Order
	router   *protos.TaskRouter
	callee   string // app of stepwell.call; "": another workflow

	now       time.Time
	next      int32                      // id of the next action
	open      map[int32]kind             // activities, children and timers that have not ended
	tries     map[kind]int               // failures in a row
	execution string                     // "": not started
	wanted    verb                       // by the last suspend, resume or terminate
	applied   verb                       // told to the server last
	suspended bool                       // the end waits until the workflow is resumed
	awaits    int                        // rounds
	verdict   *protos.OrchestratorAction // how it ends

	actions []*protos.OrchestratorAction
	failure string // of an activity that is tried again
	done    bool
}

// turn folds a history and returns the actions of its new events, and the status that Dapr's tools show: the execution, or why the server
// is asked again.
func turn(instance string, past, fresh []*protos.HistoryEvent) (actions []*protos.OrchestratorAction, status string) {
	e := &envelope{instance: instance, open: map[int32]kind{}, tries: map[kind]int{}, wanted: resume, applied: resume}
	for _, h := range past {
		e.apply(h)
	}
	e.actions = nil
	for _, h := range fresh {
		e.apply(h)
	}
	if e.failure != "" {
		return e.actions, "asking again: " + e.failure
	}
	return e.actions, e.execution
}

func (e *envelope) apply(h *protos.HistoryEvent) {
	if e.done {
		return
	}
	switch x := h.EventType.(type) {
	case *protos.HistoryEvent_OrchestratorStarted:
		e.now = h.Timestamp.AsTime()
	case *protos.HistoryEvent_ExecutionStarted:
		e.begin(h, x.ExecutionStarted)
	case *protos.HistoryEvent_TaskCompleted:
		e.succeeded(x.TaskCompleted.TaskScheduledId, x.TaskCompleted.Result.GetValue())
	case *protos.HistoryEvent_TaskFailed:
		e.failed(x.TaskFailed.TaskScheduledId, x.TaskFailed.FailureDetails)
	case *protos.HistoryEvent_SubOrchestrationInstanceCompleted:
		e.childEnded(x.SubOrchestrationInstanceCompleted.TaskScheduledId, x.SubOrchestrationInstanceCompleted.Result, nil)
	case *protos.HistoryEvent_SubOrchestrationInstanceFailed:
		e.childEnded(x.SubOrchestrationInstanceFailed.TaskScheduledId, nil, failureOr(x.SubOrchestrationInstanceFailed.FailureDetails, "the workflow was terminated"))
	case *protos.HistoryEvent_TimerFired:
		if k, ok := e.close(x.TimerFired.TimerId); ok {
			e.try(k)
		}
	case *protos.HistoryEvent_ExecutionSuspended:
		e.suspended = true
		e.want(pause)
	case *protos.HistoryEvent_ExecutionResumed:
		e.suspended = false
		e.want(resume)
	case *protos.HistoryEvent_ExecutionTerminated:
		e.suspended = false
		if e.want(cancel); e.callee != "" { // Dapr terminates the child
			e.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_TERMINATED, nil, failureOr(nil, "the workflow was terminated"))
		}
	case *protos.HistoryEvent_EventRaised:
		if x.EventRaised.Name == cancelEvent && e.callee != "" && e.wanted != cancel {
			e.wanted = cancel
			e.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_TERMINATED, nil, failureOr(nil, "given up; "+e.child()+" of the app "+e.callee+" continues"))
		}
	}
	if e.verdict != nil && !e.suspended {
		e.actions, e.done = append(e.actions, e.verdict), true
	}
}

// begin reads the input, and starts the execution or the other workflow.
func (e *envelope) begin(h *protos.HistoryEvent, started *protos.ExecutionStartedEvent) {
	e.router = routerOf(h)
	input := []byte(started.Input.GetValue())
	if len(input) > maxValue { // to pass it on would fail in every turn
		e.refuse(fmt.Sprintf("the input has %d bytes, and a workflow takes at most %d: store the pipeline on the server, and large params elsewhere", len(input), maxValue))
		return
	}
	switch started.Name {
	case CallWorkflow:
		e.beginCall(input)
		return
	case PipelineWorkflow, DefinitionWorkflow:
	default:
		e.refuse(fmt.Sprintf("there is no workflow %q; there are %s, %s and %s", started.Name, PipelineWorkflow, DefinitionWorkflow, CallWorkflow))
		return
	}
	if err := json.Unmarshal(input, &e.order); err != nil {
		e.refuse("the input is not what " + started.Name + " takes: " + err.Error())
		return
	}
	byName := started.Name == PipelineWorkflow
	if byName == (e.order.Pipeline == "") || byName == (len(e.order.Definition) > 0) {
		e.refuse(map[bool]string{true: `stepwell.pipeline takes {"pipeline": NAME, "version"?, "params"?}`, false: `stepwell.definition takes {"definition": …, "params"?}`}[byName])
		return
	}
	e.order.Key = startKey(e.instance)
	if e.execution = e.order.Execution; e.execution != "" { // it has continued as new
		e.try(awaiting)
		return
	}
	e.try(starting)
}

func (e *envelope) beginCall(input []byte) {
	var c struct {
		App   string          `json:"app_id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(input, &c); err != nil || c.App == "" || c.Name == "" {
		e.refuse(`stepwell.call takes {"app_id": APP, "name": WORKFLOW, "input": …}`)
		return
	}
	e.callee = c.App
	a := e.action(calling)
	a.Router = &protos.TaskRouter{SourceAppID: e.router.GetSourceAppID(), TargetAppID: &c.App}
	child := &protos.CreateSubOrchestrationAction{Name: c.Name, InstanceId: e.child(), Router: a.Router}
	if len(c.Input) > 0 && string(c.Input) != "null" {
		child.Input = wrapperspb.String(string(c.Input))
	}
	a.OrchestratorActionType = &protos.OrchestratorAction_CreateSubOrchestration{CreateSubOrchestration: child}
}

func (e *envelope) child() string { return e.instance + "-call" }

// action adds an action that ends with an event that names it.
func (e *envelope) action(k kind) *protos.OrchestratorAction {
	a := &protos.OrchestratorAction{Id: e.next, Router: e.router}
	e.open[e.next] = k
	e.next++
	e.actions = append(e.actions, a)
	return a
}

// close forgets an action that has ended. One that is not known has ended before.
func (e *envelope) close(id int32) (kind, bool) {
	k, ok := e.open[id]
	delete(e.open, id)
	return k, ok
}

func (e *envelope) isOpen(k kind) bool {
	for _, o := range e.open {
		if o == k {
			return true
		}
	}
	return false
}

// try schedules an activity.
func (e *envelope) try(k kind) {
	var name string
	var input any
	switch k {
	case starting:
		name, input = startActivity, e.order
	case awaiting:
		name, input = awaitActivity, target{Execution: e.execution}
		e.awaits++
	case controlling:
		if e.wanted == e.applied {
			return
		}
		e.applied = e.wanted
		name, input = controlActivity, target{e.execution, e.wanted}
	}
	raw, _ := encode(input) // of structs that always can be
	e.action(k).OrchestratorActionType = &protos.OrchestratorAction_ScheduleTask{ScheduleTask: &protos.ScheduleTaskAction{Name: name, Input: wrapperspb.String(raw), Router: e.router}}
}

// want tells the server what has become of the workflow, as soon as it knows of the execution and one word after the other.
// Nothing follows a cancel.
func (e *envelope) want(v verb) {
	if e.wanted == cancel {
		return
	}
	e.wanted = v
	e.control()
}

func (e *envelope) control() {
	if e.execution != "" && !e.isOpen(controlling) {
		e.try(controlling)
	}
}

func (e *envelope) succeeded(id int32, result string) {
	k, ok := e.close(id)
	if !ok {
		return
	}
	e.tries[k], e.failure = 0, ""
	switch k {
	case starting:
		var t target
		if err := json.Unmarshal([]byte(result), &t); err != nil || t.Execution == "" {
			e.refuse("the start gave no execution")
			return
		}
		e.execution = t.Execution
		e.try(awaiting)
		e.control()
	case controlling:
		e.control() // it may have changed meanwhile
	case awaiting:
		var v verdict
		if err := json.Unmarshal([]byte(result), &v); err != nil {
			e.refuse("the end of the execution cannot be read: " + err.Error())
			return
		}
		e.awaited(&v)
	}
}

func (e *envelope) awaited(v *verdict) {
	switch {
	case !v.Ended && e.awaits >= maxAwaits && len(e.open) == 0 && e.wanted == resume && e.applied == resume:
		e.order.Execution = e.execution
		raw, _ := encode(e.order) // of a struct that always can be
		e.verdict = ending(e.next, e.router, protos.OrchestrationStatus_ORCHESTRATION_STATUS_CONTINUED_AS_NEW, []byte(raw), nil)
	case !v.Ended:
		e.try(awaiting)
	case e.wanted == cancel:
		e.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_TERMINATED, v.Result, failureOr(nil, "the workflow was terminated; the execution "+e.execution+" is "+v.Status))
	case v.Error == "" && (v.Status == "completed" || v.Status == "completed_with_failures"):
		e.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED, v.Result, nil)
	default:
		message := fmt.Sprintf("the execution %s %s", e.execution, v.Status)
		if v.Error != "" {
			message += ": " + v.Error
		}
		e.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED, nil, &protos.TaskFailureDetails{ErrorType: "stepwell." + v.Status, ErrorMessage: message, IsNonRetriable: true})
	}
}

// failed tries an activity again after a pause, or ends the workflow when that is of no use.
func (e *envelope) failed(id int32, why *protos.TaskFailureDetails) {
	k, ok := e.close(id)
	if !ok {
		return
	}
	if why.GetIsNonRetriable() {
		if k == controlling { // the execution has ended: the end is what counts
			e.control()
			return
		}
		e.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED, nil, why)
		return
	}
	if k == controlling {
		e.applied = "" // it was not told
	}
	e.failure = why.GetErrorMessage()
	pause := min(firstPause<<min(e.tries[k], 10), longestPause)
	e.tries[k]++
	e.action(k).OrchestratorActionType = &protos.OrchestratorAction_CreateTimer{CreateTimer: &protos.CreateTimerAction{FireAt: timestamppb.New(e.now.Add(pause))}}
}

// childEnded ends stepwell.call as the other workflow has ended.
func (e *envelope) childEnded(id int32, result *wrapperspb.StringValue, why *protos.TaskFailureDetails) {
	if _, ok := e.close(id); !ok {
		return
	}
	if why != nil {
		e.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED, nil, why)
		return
	}
	var raw []byte
	if result != nil {
		raw = []byte(result.Value)
	}
	e.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED, raw, nil)
}

func (e *envelope) refuse(why string) {
	e.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED, nil, &protos.TaskFailureDetails{ErrorType: "stepwell.invalid", ErrorMessage: why, IsNonRetriable: true})
}

// end fixes how the workflow ends. A suspended one ends when it is resumed: Dapr shows one that has ended before as suspended for good.
func (e *envelope) end(status protos.OrchestrationStatus, result []byte, why *protos.TaskFailureDetails) {
	if e.verdict != nil {
		return
	}
	e.verdict = ending(e.next, e.router, status, result, why)
	e.next++
}

// ending is the action that ends a workflow.
func ending(id int32, router *protos.TaskRouter, status protos.OrchestrationStatus, result []byte, why *protos.TaskFailureDetails) *protos.OrchestratorAction {
	c := &protos.CompleteOrchestrationAction{OrchestrationStatus: status, FailureDetails: why}
	if len(result) > 0 && why == nil {
		c.Result = wrapperspb.String(string(result))
	}
	return &protos.OrchestratorAction{Id: id, Router: router, OrchestratorActionType: &protos.OrchestratorAction_CompleteOrchestration{CompleteOrchestration: c}}
}

func failureOr(given *protos.TaskFailureDetails, message string) *protos.TaskFailureDetails {
	if given != nil {
		return given
	}
	return &protos.TaskFailureDetails{ErrorType: "stepwell.terminated", ErrorMessage: message}
}
