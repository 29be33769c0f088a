package client

import (
	"context"
	"net/http"

	"github.com/stepwell/stepwell/api"
)

// StartRun starts a run of a pipeline for a lesson.
func (c *Client) StartRun(ctx context.Context, r api.StartPipelineRun, key string) (*api.PipelineRun, error) {
	return dataOf(send[api.Data[api.PipelineRun]](ctx, c, http.MethodPost, at("pipeline-runs"), r, "Idempotency-Key", key))
}

// StartRuns starts a run for each lesson of a project. With the same key it goes on where it was interrupted.
func (c *Client) StartRuns(ctx context.Context, r api.StartPipelineRun, key string) (*api.PipelineRunBulk, error) {
	return dataOf(send[api.Data[api.PipelineRunBulk]](ctx, c, http.MethodPost, at("pipeline-runs"), r, "Idempotency-Key", key))
}

// PreviewRuns says what StartRun or StartRuns would do, lesson by lesson.
func (c *Client) PreviewRuns(ctx context.Context, r api.StartPipelineRun, limit int, cursor string) (*api.PipelineRunPreview, error) {
	var out api.PipelineRunPreview
	err := c.Call(ctx, http.MethodPost, at("pipeline-runs", "preview"), queryOf(api.ListPipelineRuns{Limit: limit, Cursor: cursor}), r, &out)
	return &out, err
}

// Runs lists pipeline runs, newest first, without results and errors.
func (c *Client) Runs(ctx context.Context, f api.ListPipelineRuns) (*api.PipelineRunList, error) {
	return get[api.PipelineRunList](ctx, c, at("pipeline-runs"), queryOf(f))
}

// RunQueue lists the runs that are queued or running, oldest first, without results and errors.
func (c *Client) RunQueue(ctx context.Context, limit int, cursor string) (*api.PipelineRunList, error) {
	return get[api.PipelineRunList](ctx, c, at("pipeline-runs", "queue"), queryOf(api.ListPipelineRuns{Limit: limit, Cursor: cursor}))
}

// Run shows a pipeline run with the results of its steps.
func (c *Client) Run(ctx context.Context, id string) (*api.PipelineRun, error) {
	return dataOf(get[api.Data[api.PipelineRun]](ctx, c, at("pipeline-runs", id), nil))
}

// RestartRun runs a step, named by its id, and all after it again.
func (c *Client) RestartRun(ctx context.Context, id, step string) (*api.PipelineRun, error) {
	return c.changeRun(ctx, id, "restart", api.RestartPipelineRun{Step: step})
}

// PauseRun lets the running step finish and starts no other.
func (c *Client) PauseRun(ctx context.Context, id string) (*api.PipelineRun, error) {
	return c.changeRun(ctx, id, "pause", nil)
}

// StopRun pauses a run at once: the step that is running begins anew with ResumeRun.
func (c *Client) StopRun(ctx context.Context, id string) (*api.PipelineRun, error) {
	return c.changeRun(ctx, id, "stop", nil)
}

// ResumeRun goes on with a paused run, or with a failed one from its first step that is not done.
func (c *Client) ResumeRun(ctx context.Context, id string) (*api.PipelineRun, error) {
	return c.changeRun(ctx, id, "start", nil)
}

func (c *Client) changeRun(ctx context.Context, id, verb string, body any) (*api.PipelineRun, error) {
	return dataOf(send[api.Data[api.PipelineRun]](ctx, c, http.MethodPost, at("pipeline-runs", id, verb), body))
}

// dataOf unwraps an answer in the form of pipeline-runs.
func dataOf[T any](of *api.Data[T], err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &of.Data, nil
}
