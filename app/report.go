package app

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/report"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
)

// receivers are the services that are told what happens to executions. A new one is one line here, and one in reporting.
func (s *Server) receivers() (list []report.Receiver, err error) {
	if s.o.Reports.any() {
		client, err := s.serviceClient(&s.o.Options)
		if err != nil {
			return nil, err
		}
		if list, err = s.o.Reports.receivers(s, client); err != nil {
			return nil, err
		}
	}
	if len(s.o.Dapr.Publish) > 0 {
		list = append(list, s.platform.Publisher())
	}
	if s.o.Dapr.StateStore != "" {
		list = append(list, s.platform.Mirror())
	}
	return list, nil
}

// reporting says, before there are receivers, whether there will be any.
func (o *ServerOptions) reporting() bool {
	return len(o.Dapr.Publish) > 0 || o.Dapr.StateStore != "" || o.Reports.any()
}

// buildReports makes a reporter for each receiver.
func (s *Server) buildReports() error {
	list, err := s.receivers()
	for _, to := range list {
		s.reports = append(s.reports, report.New(report.Options{Store: s.Store, Receiver: to, Shared: s.node != nil, Now: s.now, Log: s.log}))
	}
	return err
}

// begun says whether the beginning of an execution goes into the outbox.
func (s *Server) begun() bool {
	if !s.o.reporting() {
		return false
	}
	s.outgoing.Store(true)
	return true
}

// reported tells the reporters of a commit.
func (s *Server) reported(u *conductor.Update) {
	for _, r := range s.reports {
		r.Observe(u.Execution.ID)
	}
}

const (
	mirroredSteps  = 1000
	mirroredValues = 256 << 10 // bytes of params and outputs each; larger ones are left out
)

// mirrored is an execution as others see it in the state store.
func (s *Server) mirrored(ctx context.Context, x *store.Execution) (*dapr.Document, error) {
	rows, err := s.Store.Steps(ctx, x.No, store.StepFilter{Limit: mirroredSteps + 1})
	if err != nil {
		return nil, err
	}
	params, err := api.ShownParams(ctx, s.Store, x)
	if err != nil {
		return nil, err
	}
	doc := &dapr.Document{Execution: x.ID, Workflow: x.Workflow, Pipeline: x.Pipeline, Status: x.Status.String(), Params: s.shownValue(x.ID, params), Outputs: s.shownValue(x.ID, x.Outputs),
		Steps: map[string]dapr.DocumentStep{}, Started: timeText(x.Started), Completed: timeText(x.Ended), Updated: timeText(s.now()), Error: s.shownFailure(x.ID, x.Failure), Version: x.Version}
	for i := range rows {
		if doc.MoreSteps = i == mirroredSteps; doc.MoreSteps {
			break
		}
		row := &rows[i]
		doc.Steps[row.Key] = dapr.DocumentStep{Status: row.Status.String(), Attempt: row.Attempt, Started: microText(row.Started), Completed: microText(row.Ended), Error: s.shownFailure(x.ID, row.Error)}
		if doc.CurrentStep == "" && !row.Status.Terminal() {
			doc.CurrentStep = row.Key
		}
	}
	return doc, nil
}

// shownValue is a value without secrets; none when it is large.
func (s *Server) shownValue(execution string, raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || len(raw) > mirroredValues || engine.IsRef(raw) {
		return nil
	}
	return s.Secrets.JSON(execution, secret.Mask(raw))
}

func (s *Server) shownFailure(execution string, f *engine.Failure) *dapr.DocumentError {
	if f == nil {
		return nil
	}
	return &dapr.DocumentError{Code: f.Code, Message: s.Secrets.Text(execution, secret.MaskText(f.Message))}
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func microText(us int64) string {
	if us == 0 {
		return ""
	}
	return timeText(time.UnixMicro(us))
}
