package api

import (
	"context"
	"encoding/json"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// The façade of specification pipeline-steps: its words, over the same executions.

func (s *server) facade() {
	handle(s, "steps.get", s.getStepsExecution)
	handle(s, "steps.retry", s.retryStepsExecution)
}

// StepsExecution is an execution in the words of pipeline-steps.
type StepsExecution struct {
	ID       string      `json:"execution_id"`
	Pipeline string      `json:"pipeline_type"`
	Status   string      `json:"status" enum:"pending,running,completed,failed,cancelled"`
	Progress float64     `json:"progress" minimum:"0" maximum:"100" doc:"Percent."`
	Steps    []StepsStep `json:"steps" nullable:"false" doc:"The first 1,000."`
	Error    Ref         `json:"error_message"`
	Created  Time        `json:"created_at"`
	Started  Time        `json:"started_at"`
	Ended    Time        `json:"completed_at"`
}

// StepsStep is a step in the words of pipeline-steps.
type StepsStep struct {
	Key     string          `json:"step_key"`
	Name    string          `json:"step_name"`
	Status  string          `json:"status" enum:"pending,queued,running,completed,failed"`
	Params  json.RawMessage `json:"params" doc:"The rendered parameters; null when they are those of the definition."`
	Output  json.RawMessage `json:"output_data" doc:"The outputs; null while there are none."`
	Worker  Ref             `json:"worker_id"`
	Error   Ref             `json:"error_message"`
	Attempt int             `json:"attempt"`
	Queued  Time            `json:"queued_at"`
	Started Time            `json:"started_at"`
	Ended   Time            `json:"completed_at"`
}

// stepsExecutionStatus is the status of an execution in that API.
func stepsExecutionStatus(s stepwell.ExecutionStatus) string {
	switch s {
	case stepwell.ExecutionPending:
		return "pending"
	case stepwell.ExecutionRunning, stepwell.ExecutionPaused, stepwell.ExecutionCancelling:
		return "running"
	case stepwell.ExecutionCompleted, stepwell.ExecutionCompletedWithFailures:
		return "completed"
	case stepwell.ExecutionCancelled:
		return "cancelled"
	}
	return "failed"
}

// stepsStepStatus is the status of a step in that API. It has no "skipped": steps not run because another step failed
// are pending, other skipped steps are done.
func stepsStepStatus(s stepwell.StepStatus, failed bool) string {
	switch s {
	case stepwell.StepPending:
		return "pending"
	case stepwell.StepQueued, stepwell.StepRetrying:
		return "queued"
	case stepwell.StepRunning, stepwell.StepWaiting:
		return "running"
	case stepwell.StepCompleted:
		return "completed"
	case stepwell.StepSkipped:
		if failed {
			return "pending"
		}
		return "completed"
	}
	return "failed"
}

func (s *server) getStepsExecution(ctx context.Context, in *ExecutionPath) (*answer[StepsExecution], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	rows, err := s.o.Store.Steps(ctx, x.No, store.StepFilter{Limit: detailSteps})
	if err != nil {
		return nil, err
	}
	out := StepsExecution{ID: x.ID, Pipeline: x.Pipeline, Status: stepsExecutionStatus(x.Status), Progress: x.Progress.Percent, Steps: []StepsStep{},
		Created: resource.At(x.Created), Started: resource.At(x.Started), Ended: resource.At(x.Ended)}
	if x.Failure != nil {
		out.Error = Ref(s.text(x.ID, x.Failure.Message))
	}
	size := 0
	for i := range rows {
		r := &rows[i]
		v := StepsStep{Key: r.Key, Name: r.Name, Status: stepsStepStatus(r.Status, out.Status == "failed"), Params: s.json(x.ID, r.Input), Worker: Ref(r.Worker), Attempt: r.Attempt,
			Queued: micro(r.Queued), Started: micro(r.Started), Ended: micro(r.Ended)}
		if r.Error != nil {
			v.Error = Ref(s.text(x.ID, r.Error.Message))
		}
		if size < maxOutputs {
			if v.Output, err = s.value(ctx, x.ID, r.Output); err != nil {
				return nil, err
			}
			size += len(v.Output) + len(v.Params)
		}
		out.Steps = append(out.Steps, v)
	}
	return reply(out, nil)
}

// retryStepsExecution resets the first step that failed, which runs again with all after it, in place.
func (s *server) retryStepsExecution(ctx context.Context, in *ExecutionPath) (*answer[ExecutionRef], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if x.Status != stepwell.ExecutionFailed && x.Status != stepwell.ExecutionTimedOut {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution has not failed: it is " + stepsExecutionStatus(x.Status)}
	}
	rows, err := s.o.Store.Steps(ctx, x.No, store.StepFilter{Statuses: []stepwell.StepStatus{stepwell.StepFailed, stepwell.StepTimedOut, stepwell.StepCancelled}, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "no step of the execution has failed", Hint: "POST " + prefix + "/executions/" + x.ID + "/retry starts it again"}
	}
	if err := s.o.Control.Restart(ctx, x.ID, rows[0].Key, false); err != nil {
		return nil, err
	}
	if x, err = s.o.Store.Execution(ctx, x.ID); err != nil {
		return nil, err
	}
	return reply(ExecutionRef{x.ID, stepsExecutionStatus(x.Status)}, nil)
}
