package app

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/report"
	"github.com/stepwell/stepwell/store"
)

// Reports names services of the table that are told what happens to executions: their statuses and history, and their log lines
// (budpipeline §3.5).
type Reports struct {
	Executions Report `json:"executions"`
	Logs       Report `json:"logs"`
}

// Report is where reports go; without a service, none do.
type Report struct {
	Service string `json:"service"`
	Path    string `json:"path"`
}

const (
	executionsPath = "/api/v1/executions/{execution_id}/status"
	logsPath       = "/api/v1/logs/ingest"
)

// any reports whether there is one.
func (r *Reports) any() bool { return r.Executions.Service != "" || r.Logs.Service != "" }

// receivers are those of the reports. CodeInvalid when nothing says where a service is.
func (r *Reports) receivers(s *Server, client *service.Client) (list []report.Receiver, err error) {
	for _, to := range []struct {
		key  string
		of   *Report
		path string
		make func(*Report, *Server, *service.Client) report.Receiver
	}{{"executions", &r.Executions, executionsPath, executionReceiver}, {"logs", &r.Logs, logsPath, logReceiver}} {
		if to.of.Service == "" {
			continue
		}
		to.of.Path = cmp.Or(to.of.Path, to.path)
		err := client.Located(to.of.Service)
		if err == nil && !strings.HasPrefix(to.of.Path, "/") {
			err = stepwell.Invalid("such as "+to.path, "the path %q does not begin with /", to.of.Path)
		}
		if err != nil {
			return nil, stepwell.Invalid(stepwell.HintOf(err), "reports.%s: %s", to.key, err)
		}
		list = append(list, to.make(to.of, s, client))
	}
	return list, nil
}

// executionReport is the body of a report about an execution: as it is now, and what has happened since the last report.
type executionReport struct {
	*dapr.Document
	JobID   string         `json:"job_id,omitempty"`
	History []historyEntry `json:"history"`
}

// historyEntry is one change of a status; a repetition has the same id.
type historyEntry struct {
	ID     string `json:"id"`
	At     string `json:"timestamp"`
	Step   string `json:"step_id,omitempty"` // "": of the execution
	Status string `json:"status"`
}

func executionReceiver(to *Report, s *Server, client *service.Client) report.Receiver {
	return report.Receiver{Name: "service-executions", Take: func(ctx context.Context, x *store.Execution, changes []report.Change) error {
		doc, err := s.mirrored(ctx, x)
		if err != nil {
			return err
		}
		body := executionReport{Document: doc, JobID: x.Job, History: make([]historyEntry, len(changes))}
		for i, c := range changes {
			body.History[i] = historyEntry{ID: c.ID, At: timeText(c.At), Step: c.Step, Status: c.Status}
		}
		return sendReport(ctx, client, to, x.ID, changes[0].ID, body)
	}}
}

// lineReport is a log line (budpipeline §7.2); a repetition has the same id.
type lineReport struct {
	ID        string          `json:"id"`
	Timestamp string          `json:"timestamp"`
	Execution string          `json:"execution_id"`
	Step      string          `json:"step_id"`
	Level     string          `json:"level"`
	Message   string          `json:"message"`
	Metadata  json.RawMessage `json:"metadata"`
}

// lineBatch bounds the bytes of the lines of one request.
const lineBatch = 1 << 20

func logReceiver(to *Report, _ *Server, client *service.Client) report.Receiver {
	return report.Receiver{Name: "service-logs", Lines: true, Take: func(ctx context.Context, x *store.Execution, changes []report.Change) error {
		var batch []lineReport
		size := 0
		send := func() error {
			if len(batch) == 0 {
				return nil
			}
			err := sendReport(ctx, client, to, x.ID, batch[0].ID, struct {
				Logs []lineReport `json:"logs"`
			}{batch})
			batch, size = nil, 0
			return err
		}
		for _, c := range changes {
			if c.Line == nil {
				continue
			}
			metadata := c.Line.Attrs
			if len(metadata) == 0 {
				metadata = json.RawMessage("{}")
			}
			if size += len(c.Line.Message) + len(metadata) + 200; size > lineBatch {
				if err := send(); err != nil {
					return err
				}
			}
			batch = append(batch, lineReport{c.ID, timeText(c.At), x.ID, c.Step, c.Line.Level, c.Line.Message, metadata})
		}
		return send()
	}}
}

// sendReport calls a service. What is reported was redacted before.
func sendReport(ctx context.Context, client *service.Client, to *Report, execution, first string, body any) error {
	_, err := client.Call(ctx, service.Request{App: to.Service, Path: to.Path, Values: map[string]any{"execution_id": execution}, Body: body, Timeout: 30 * time.Second,
		Header: http.Header{"X-Execution-Id": {execution}, "Idempotency-Key": {first}}})
	return err
}
