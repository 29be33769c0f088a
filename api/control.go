package api

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// control are the operations that change executions.
func (s *server) control() {
	handle(s, "execution.cancel", s.cancel)
	handle(s, "execution.pause", s.pause)
	handle(s, "execution.resume", s.resume)
	handle(s, "execution.retry", s.retry)
	handle(s, "execution.retry.preview", s.previewRetry)
	handle(s, "execution.why", s.why)
	handle(s, "execution.what_if", s.whatIf)
	handle(s, "execution.restart", s.restart)
	handle(s, "execution.restart.preview", s.previewRestart)
}

// StatusAnswer is the status after a change.
type StatusAnswer struct {
	Status string `json:"status" doc:"The execution's status now." example:"cancelling"`
}

// ExecutionRef names an execution and its status.
type ExecutionRef struct {
	ID     string `json:"execution_id"`
	Status string `json:"status"`
}

// CancelRequest is the body of a cancel; it may be left out.
type CancelRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Goes into the record."`
}

func (s *server) cancel(ctx context.Context, in *executionBody[*CancelRequest]) (*answer[StatusAnswer], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	return s.changed(ctx, in.ID, func(id string) error { return s.o.Control.Cancel(ctx, id, reason) })
}

func (s *server) pause(ctx context.Context, in *ExecutionPath) (*answer[StatusAnswer], error) {
	return s.changed(ctx, in.ID, func(id string) error { return s.o.Control.Pause(ctx, id) })
}

func (s *server) resume(ctx context.Context, in *ExecutionPath) (*answer[StatusAnswer], error) {
	return s.changed(ctx, in.ID, func(id string) error { return s.o.Control.Resume(ctx, id) })
}

// changed applies do to an execution and returns the new status.
func (s *server) changed(ctx context.Context, id string, do func(id string) error) (*answer[StatusAnswer], error) {
	x, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := do(x.ID); err != nil {
		return nil, err
	}
	if x, err = s.o.Store.Execution(ctx, x.ID); err != nil {
		return nil, err
	}
	return reply(StatusAnswer{x.Status.String()}, nil)
}

// RetryRequest is the body of a retry; it may be left out.
type RetryRequest struct {
	From string `json:"from_step,omitempty" maxLength:"300" doc:"A step at top level that is repeated whole, with all after it, besides what did not complete."`
}

type retryInput struct {
	ExecutionPath
	Key  string `header:"Idempotency-Key" maxLength:"257"`
	Body *RetryRequest
}

func (s *server) retry(ctx context.Context, in *retryInput) (*made[ExecutionRef], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	from := ""
	if in.Body != nil {
		from = in.Body.From
	}
	key, hash, err := s.once(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	id, fresh, err := s.o.Control.RetryOnce(ctx, x.ID, from, store.Origin{Actor: access.Of(ctx).Actor(), Key: key, KeyHash: hash})
	if err != nil {
		return nil, err
	}
	if fresh {
		s.link(ctx, id)
	}
	if x, err = s.o.Store.Execution(ctx, id); err != nil {
		return nil, err
	}
	return &made[ExecutionRef]{Status: statusOf(fresh), Location: prefix + "/executions/" + id, Body: ExecutionRef{id, x.Status.String()}}, nil
}

// RestartRequest is the body of a restart.
type RestartRequest struct {
	Step       string `json:"step_id" minLength:"1" maxLength:"300" doc:"The step that runs again, with all after it."`
	FailedOnly bool   `json:"failed_only,omitempty" doc:"Repeats only what did not complete inside the step: iterations, inner steps, items of a stream."`
}

func (s *server) restart(ctx context.Context, in *executionBody[RestartRequest]) (*answer[ExecutionRef], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := s.o.Control.Restart(ctx, x.ID, in.Body.Step, in.Body.FailedOnly); err != nil {
		return nil, err
	}
	if x, err = s.o.Store.Execution(ctx, x.ID); err != nil {
		return nil, err
	}
	return reply(ExecutionRef{x.ID, x.Status.String()}, nil)
}

// WhyAnswer says why something is in its state.
type WhyAnswer struct {
	Reasons []Reason `json:"reasons" nullable:"false"`
	Version int64    `json:"version,omitempty" doc:"Of a moment in the past: the last commit that counts."`
}

// Reason is one reason.
type Reason struct {
	Code    string   `json:"code" doc:"What kind of reason it is."`
	Message string   `json:"message"`
	Steps   []string `json:"steps" nullable:"false" doc:"Keys of the steps that are the reason."`
}

type whyInput struct {
	ExecutionPath
	Step string `query:"step_id" maxLength:"300" doc:"Defaults to the execution itself."`
	Moment
}

func (s *server) why(ctx context.Context, in *whyInput) (*answer[WhyAnswer], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.past() {
		reasons, version, err := s.o.Forecast.WhyAt(ctx, x.ID, in.Step, in.Version, in.At)
		if err != nil {
			return nil, err
		}
		return reply(WhyAnswer{s.reasons(x.ID, reasons), version}, nil)
	}
	reasons, err := s.o.Forecast.Why(ctx, x.ID, in.Step)
	if err != nil {
		return nil, err
	}
	if reasons, err = s.answerable(ctx, x.ID, in.Step, reasons); err != nil {
		return nil, err
	}
	if in.Step != "" {
		err = s.tolerated(ctx, x, in.Step, reasons)
	}
	return reply(WhyAnswer{Reasons: s.reasons(x.ID, reasons)}, err)
}

// tolerated adds to the reason of a stream step that completed how many of its items failed: the engine does not count them.
func (s *server) tolerated(ctx context.Context, x *store.Execution, step string, reasons []engine.Reason) error {
	for i := range reasons {
		if reasons[i].Code != engine.WhyCompleted {
			continue
		}
		rows, err := s.o.Store.Steps(ctx, x.No, store.StepFilter{Key: step, Limit: 1})
		if err != nil {
			return err
		}
		if len(rows) == 0 || rows[0].Items() == nil {
			return nil
		}
		if n := rows[0].Items(); n.Failed > 0 {
			reasons[i].Message = fmt.Sprintf("completed: %d of %d items failed and were tolerated", n.Failed, max(n.In, n.Out+n.Failed))
		}
		return nil
	}
	return nil
}

// reasons are shown reasons.
func (s *server) reasons(execution string, list []engine.Reason) []Reason {
	out := make([]Reason, 0, len(list))
	for _, r := range list {
		if r.Steps == nil {
			r.Steps = []string{}
		}
		out = append(out, Reason{Code: r.Code, Message: s.text(execution, r.Message), Steps: r.Steps[:min(len(r.Steps), 1000)]})
	}
	return out
}
