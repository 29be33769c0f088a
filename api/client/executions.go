package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/columns"
)

// Execute starts an execution.
func (c *Client) Execute(ctx context.Context, r api.ExecuteRequest, key string) (*api.Started, error) {
	return send[api.Started](ctx, c, http.MethodPost, at("execute"), r, "Idempotency-Key", key)
}

// Search finds pipelines, executions, schedules, projects and steps by a text.
func (c *Client) Search(ctx context.Context, text string) (*api.SearchResult, error) {
	return get[api.SearchResult](ctx, c, at("search"), queryOf(api.SearchText{Text: text}))
}

// Executions lists executions.
func (c *Client) Executions(ctx context.Context, f api.ListExecutions) (*api.ExecutionList, error) {
	return get[api.ExecutionList](ctx, c, at("executions"), queryOf(f))
}

// Execution shows an execution, found by its id or the beginning of it.
func (c *Client) Execution(ctx context.Context, id string) (*api.ExecutionDetail, error) {
	return get[api.ExecutionDetail](ctx, c, at("executions", id), nil)
}

// Wait shows an execution when it has ended. It asks again and again, so only ctx bounds it.
func (c *Client) Wait(ctx context.Context, id string) (*api.ExecutionDetail, error) {
	for {
		asked := time.Now()
		x, err := get[api.ExecutionDetail](ctx, c, at("executions", id), url.Values{"wait_seconds": {"60"}})
		if err != nil {
			return nil, err
		}
		var status stepwell.ExecutionStatus
		if err := status.UnmarshalText([]byte(x.Status)); err != nil || status.Terminal() {
			return x, err
		}
		select { // a server that cannot wait answers at once
		case <-time.After(time.Until(asked.Add(time.Second))):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Steps lists the steps of the execution that f.ID names.
func (c *Client) Steps(ctx context.Context, f api.ListSteps) (*api.StepList, error) {
	return get[api.StepList](ctx, c, at("executions", f.ID, "steps"), queryOf(f))
}

// Logs lists log lines of the execution that f.ID names.
func (c *Client) Logs(ctx context.Context, f api.ListLogs) (*api.LogList, error) {
	return get[api.LogList](ctx, c, at("executions", f.ID, "logs"), queryOf(f))
}

// Compare compares the executions that f.ID and f.Other name.
func (c *Client) Compare(ctx context.Context, f api.CompareExecutions) (*api.Comparison, error) {
	return get[api.Comparison](ctx, c, at("executions", f.ID, "compare", f.Other), queryOf(f))
}

// Streams shows the streams of the execution f.ID.
func (c *Client) Streams(ctx context.Context, f api.ListStreams) (*api.StreamList, error) {
	return get[api.StreamList](ctx, c, at("executions", f.ID, "streams"), queryOf(f))
}

// StreamFailures groups the failed items of the streams of the execution f.ID.
func (c *Client) StreamFailures(ctx context.Context, f api.ListStreamFailures) (*api.FailureGroups, error) {
	return get[api.FailureGroups](ctx, c, at("executions", f.ID, "streams", "failures"), queryOf(f))
}

// LogHistogram counts the log lines of the execution that f.ID names.
func (c *Client) LogHistogram(ctx context.Context, f api.GetLogHistogram) (*api.LogHistogram, error) {
	return get[api.LogHistogram](ctx, c, at("executions", f.ID, "logs", "histogram"), queryOf(f))
}

// History lists the events of the execution f.ID.
func (c *Client) History(ctx context.Context, f api.ListHistory) (*api.HistoryList, error) {
	return get[api.HistoryList](ctx, c, at("executions", f.ID, "history"), queryOf(f))
}

// Definition is the definition that an execution runs, as JSON.
func (c *Client) Definition(ctx context.Context, id string) (json.RawMessage, error) {
	out, err := get[json.RawMessage](ctx, c, at("executions", id, "definition"), nil)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// Source is the document that an execution runs, as it was written.
func (c *Client) Source(ctx context.Context, id string) (*api.ExecutionSource, error) {
	return get[api.ExecutionSource](ctx, c, at("executions", id, "source"), nil)
}

// Graph is the execution f.ID as few nodes.
func (c *Client) Graph(ctx context.Context, f api.GetGraph) (*api.Graph, error) {
	return get[api.Graph](ctx, c, at("executions", f.ID, "graph"), queryOf(f))
}

// Field is columns of the steps of the execution f.ID.
func (c *Client) Field(ctx context.Context, f api.GetField) (*columns.Table, error) {
	return c.table(ctx, at("executions", f.ID, "field"), queryOf(f))
}

// Attempts lists attempts of an execution's steps, in the order in which they were queued.
func (c *Client) Attempts(ctx context.Context, of api.ListAttempts) (*api.AttemptList, error) {
	return get[api.AttemptList](ctx, c, at("executions", of.ID, "attempts"), queryOf(of))
}

// AttemptColumns gives attempts of an execution's steps as columns, in the order in which they were queued.
func (c *Client) AttemptColumns(ctx context.Context, of api.GetAttemptColumns) (*columns.Table, error) {
	return c.table(ctx, at("executions", of.ID, "attempts.columns"), queryOf(of))
}

// Changes gives changes of an execution's steps, in the order of its commits.
func (c *Client) Changes(ctx context.Context, of api.GetChanges) (*columns.Table, error) {
	return c.table(ctx, at("executions", of.ID, "events.columns"), queryOf(of))
}

func (c *Client) table(ctx context.Context, path string, query url.Values) (*columns.Table, error) {
	res, err := c.open(ctx, http.MethodGet, path, query, http.Header{"Accept": {columns.MediaType}}, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the answer broke off", Err: err}
	}
	return columns.Decode(raw)
}

// Footprints is where the items of the streams of the execution f.ID are: columns west, south, east, north and state.
func (c *Client) Footprints(ctx context.Context, f api.GetFootprints) (*columns.Table, error) {
	return c.table(ctx, at("executions", f.ID, "footprints"), queryOf(f))
}

// FootprintItems lists items of the streams of the execution f.ID by where they are.
func (c *Client) FootprintItems(ctx context.Context, f api.ListFootprintItems) (*api.FootprintItems, error) {
	return get[api.FootprintItems](ctx, c, at("executions", f.ID, "footprints", "items"), queryOf(f))
}

// FootprintItem shows an item of the streams of the execution f.ID.
func (c *Client) FootprintItem(ctx context.Context, f api.FindFootprintItem) (*api.FootprintDocument, error) {
	return get[api.FootprintDocument](ctx, c, at("executions", f.ID, "footprints", "item"), queryOf(f))
}

// Cancel stops an execution and gives its status then.
func (c *Client) Cancel(ctx context.Context, id, reason string) (string, error) {
	return c.status(ctx, id, "cancel", api.CancelRequest{Reason: reason})
}

// Pause pauses an execution and gives its status then.
func (c *Client) Pause(ctx context.Context, id string) (string, error) {
	return c.status(ctx, id, "pause", nil)
}

// Resume goes on with an execution and gives its status then.
func (c *Client) Resume(ctx context.Context, id string) (string, error) {
	return c.status(ctx, id, "resume", nil)
}

func (c *Client) status(ctx context.Context, id, verb string, body any) (string, error) {
	out, err := send[api.StatusAnswer](ctx, c, http.MethodPost, at("executions", id, verb), body)
	if err != nil {
		return "", err
	}
	return out.Status, nil
}

// Retry starts an execution that reuses the completed steps, except from the step on; "" reuses all.
func (c *Client) Retry(ctx context.Context, id, from, key string) (*api.ExecutionRef, error) {
	return send[api.ExecutionRef](ctx, c, http.MethodPost, at("executions", id, "retry"), api.RetryRequest{From: from}, "Idempotency-Key", key)
}

// Restart runs a step and all after it again, in place.
func (c *Client) Restart(ctx context.Context, id string, r api.RestartRequest) (*api.ExecutionRef, error) {
	return send[api.ExecutionRef](ctx, c, http.MethodPost, at("executions", id, "restart"), r)
}

// PreviewRetry previews a Retry.
func (c *Client) PreviewRetry(ctx context.Context, id, from string) (*api.PreviewAnswer, error) {
	return get[api.PreviewAnswer](ctx, c, at("executions", id, "retry", "preview"), url.Values{"from_step": {from}})
}

// PreviewRestart previews a Restart.
func (c *Client) PreviewRestart(ctx context.Context, id string, r api.RestartRequest) (*api.PreviewAnswer, error) {
	return get[api.PreviewAnswer](ctx, c, at("executions", id, "restart", "preview"),
		url.Values{"step_id": {r.Step}, "failed_only": {strconv.FormatBool(r.FailedOnly)}})
}

// Why says why a step, or with "" the execution, is in its state.
func (c *Client) Why(ctx context.Context, id, step string) ([]api.Reason, error) {
	query := url.Values{}
	if step != "" {
		query.Set("step_id", step)
	}
	out, err := get[api.WhyAnswer](ctx, c, at("executions", id, "why"), query)
	if err != nil {
		return nil, err
	}
	return out.Reasons, nil
}

// WhyAt is Why for a moment in the past: after the commit with a version, or at a time; 0 and the zero time: none.
func (c *Client) WhyAt(ctx context.Context, id, step string, version int64, moment time.Time) (*api.WhyAnswer, error) {
	query := url.Values{}
	if step != "" {
		query.Set("step_id", step)
	}
	if version > 0 {
		query.Set("version", strconv.FormatInt(version, 10))
	}
	if !moment.IsZero() {
		query.Set("at", moment.UTC().Format(time.RFC3339Nano))
	}
	return get[api.WhyAnswer](ctx, c, at("executions", id, "why"), query)
}

// WhatIf tells what would come of something that is assumed of an execution, such as "restart deploy": now, or at a moment of WhyAt. It
// does nothing.
func (c *Client) WhatIf(ctx context.Context, id, assume string, version int64, moment time.Time) (*api.WhatIf, error) {
	query := url.Values{"assume": {assume}}
	if version > 0 {
		query.Set("version", strconv.FormatInt(version, 10))
	}
	if !moment.IsZero() {
		query.Set("at", moment.UTC().Format(time.RFC3339Nano))
	}
	return get[api.WhatIf](ctx, c, at("executions", id, "what-if"), query)
}

// Actions describes all actions.
func (c *Client) Actions(ctx context.Context) (*api.ActionList, error) {
	return get[api.ActionList](ctx, c, at("actions"), nil)
}

// Action describes an action.
func (c *Client) Action(ctx context.Context, name string) (*api.ActionDetail, error) {
	return get[api.ActionDetail](ctx, c, at("actions", name), nil)
}

// Modules describes all stream modules.
func (c *Client) Modules(ctx context.Context) (*api.ModuleList, error) {
	return get[api.ModuleList](ctx, c, at("modules"), nil)
}

// Module describes a stream module.
func (c *Client) Module(ctx context.Context, name string) (*api.ActionDetail, error) {
	return get[api.ActionDetail](ctx, c, at("modules", name), nil)
}

// Schema is the JSON Schema of pipelines, with the actions that the server has.
func (c *Client) Schema(ctx context.Context) (json.RawMessage, error) {
	out, err := get[json.RawMessage](ctx, c, at("schema"), nil)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// Health says how the server is.
func (c *Client) Health(ctx context.Context) (*api.Health, error) {
	return get[api.Health](ctx, c, at("health"), nil)
}

// Ready is nil when the server can take work, CodeUnavailable when it cannot.
func (c *Client) Ready(ctx context.Context) error {
	return c.Call(ctx, http.MethodGet, at("ready"), nil, nil, nil)
}

// Metrics counts executions and schedules.
func (c *Client) Metrics(ctx context.Context) (*api.Metrics, error) {
	return get[api.Metrics](ctx, c, at("metrics"), nil)
}
