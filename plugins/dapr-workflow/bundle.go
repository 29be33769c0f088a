package main

import (
	"encoding/json"
	"fmt"

	"github.com/dapr/durabletask-go/api/protos"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

// bundleTurn answers a turn of stepwell.steps: each of its calls is an activity, and it ends with their outcomes in order when all have one.
func bundleTurn(_ string, past, fresh []*protos.HistoryEvent) (actions []*protos.OrchestratorAction, status string) {
	var b bundle
	for _, e := range past {
		b.apply(e)
	}
	b.actions = nil
	for _, e := range fresh {
		b.apply(e)
	}
	return b.actions, fmt.Sprintf("%d of %d steps have ended", len(b.outcomes)-b.open, len(b.outcomes))
}

type bundle struct {
	router   *protos.TaskRouter
	outcomes []json.RawMessage
	open     int
	size     int
	done     bool
	actions  []*protos.OrchestratorAction
}

func (b *bundle) apply(e *protos.HistoryEvent) {
	if b.done {
		return
	}
	switch x := e.EventType.(type) {
	case *protos.HistoryEvent_ExecutionStarted:
		b.begin(e, x.ExecutionStarted.Input.GetValue())
	case *protos.HistoryEvent_TaskCompleted:
		b.ended(x.TaskCompleted.TaskScheduledId, []byte(x.TaskCompleted.Result.GetValue()))
	case *protos.HistoryEvent_TaskFailed:
		b.ended(x.TaskFailed.TaskScheduledId, failedOutcome(stepwell.CodeFailed, x.TaskFailed.FailureDetails.GetErrorMessage()))
	case *protos.HistoryEvent_ExecutionTerminated:
		b.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_TERMINATED, nil, "stepwell.terminated", "the steps were terminated")
	}
}

func (b *bundle) begin(e *protos.HistoryEvent, input string) {
	b.router = routerOf(e)
	var calls []json.RawMessage
	if err := json.Unmarshal([]byte(input), &calls); err != nil || len(calls) == 0 || len(calls) > maxBundle {
		b.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED, nil, "stepwell.invalid", fmt.Sprintf("stepwell.steps is started by stepwell.run alone, with 1 to %d steps", maxBundle))
		return
	}
	b.outcomes, b.open = make([]json.RawMessage, len(calls)), len(calls)
	for i, c := range calls {
		b.actions = append(b.actions, &protos.OrchestratorAction{Id: int32(i), Router: b.router, OrchestratorActionType: &protos.OrchestratorAction_ScheduleTask{
			ScheduleTask: &protos.ScheduleTaskAction{Name: stepActivity, Input: wrapperspb.String(string(c)), Router: b.router}}})
	}
}

// ended takes the outcome of a step in. Those that no longer fit into one message fail.
func (b *bundle) ended(id int32, outcome []byte) {
	if id < 0 || int(id) >= len(b.outcomes) || b.outcomes[id] != nil {
		return
	}
	if !json.Valid(outcome) {
		outcome = failedOutcome(stepwell.CodeFailed, "the outcome of the step cannot be read")
	}
	if b.size += len(outcome); b.size > maxCarry {
		outcome = failedOutcome(stepwell.CodeLimit, fmt.Sprintf("the outputs of %d steps that run together are more than %d MiB", len(b.outcomes), maxCarry>>20))
	}
	b.outcomes[id] = outcome
	if b.open--; b.open == 0 {
		b.end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED, []byte(jsonOf(b.outcomes)), "", "")
	}
}

// failedOutcome is that of a step which has none of its own.
func failedOutcome(code stepwell.Code, why string) []byte {
	return []byte(jsonOf(outcome{Kind: engine.Failed, Permanent: code == stepwell.CodeLimit, Failure: &engine.Failure{Code: code, Message: stepwell.Clip(why, 4000)}}))
}

func (b *bundle) end(status protos.OrchestrationStatus, result []byte, kind, why string) {
	var details *protos.TaskFailureDetails
	if why != "" {
		details = &protos.TaskFailureDetails{ErrorType: kind, ErrorMessage: why, IsNonRetriable: true}
	}
	b.actions, b.done = append(b.actions, ending(int32(len(b.outcomes)), b.router, status, result, details)), true
}
