package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// CreatePipeline stores a pipeline.
func (c *Client) CreatePipeline(ctx context.Context, p NewPipeline) (*PipelineSaved, error) {
	return send[PipelineSaved](ctx, c, http.MethodPost, at("pipelines"), p)
}

// Pipelines lists stored pipelines.
func (c *Client) Pipelines(ctx context.Context, f ListPipelines) (*PipelineList, error) {
	return get[PipelineList](ctx, c, at("pipelines"), queryOf(f))
}

// Pipeline shows a stored pipeline, by id or name, with its ETag.
func (c *Client) Pipeline(ctx context.Context, id string) (p *PipelineDetail, tag string, err error) {
	return getTagged[PipelineDetail](ctx, c, at("pipelines", id))
}

// getTagged asks for something that has an ETag.
func getTagged[T any](ctx context.Context, c *Client, path string) (*T, string, error) {
	var out T
	tag, err := c.CallIf(ctx, http.MethodGet, path, "", nil, &out)
	if err != nil {
		return nil, "", err
	}
	return &out, tag, nil
}

// UpdatePipeline changes a stored pipeline.
func (c *Client) UpdatePipeline(ctx context.Context, id string, p PipelineChange, ifMatch string) (*PipelineSaved, error) {
	return send[PipelineSaved](ctx, c, http.MethodPut, at("pipelines", id), p, "If-Match", ifMatch)
}

// DeletePipeline removes a stored pipeline.
func (c *Client) DeletePipeline(ctx context.Context, id, ifMatch string) error {
	return c.delete(ctx, ifMatch, "pipelines", id)
}

func (c *Client) delete(ctx context.Context, ifMatch string, path ...string) error {
	_, err := c.CallIf(ctx, http.MethodDelete, at(path...), ifMatch, nil, nil)
	return err
}

// ValidatePipeline returns the problems of a pipeline.
func (c *Client) ValidatePipeline(ctx context.Context, document Document) (*Validation, error) {
	return send[Validation](ctx, c, http.MethodPost, at("pipelines", "validate"), ValidateRequest{document})
}

// PipelineVersions lists the versions of the pipeline that f.ID names.
func (c *Client) PipelineVersions(ctx context.Context, f ListVersions) (*VersionList, error) {
	return get[VersionList](ctx, c, at("pipelines", f.ID, "versions"), queryOf(f))
}

// PipelineVersion shows a version with its document.
func (c *Client) PipelineVersion(ctx context.Context, id string, version int) (*PipelineVersion, error) {
	return get[PipelineVersion](ctx, c, at("pipelines", id, "versions", strconv.Itoa(version)), nil)
}

// DiffPipeline compares two versions; to 0 is the newest.
func (c *Client) DiffPipeline(ctx context.Context, id string, from, to int) (*PipelineDiff, error) {
	return get[PipelineDiff](ctx, c, at("pipelines", id, "diff"), url.Values{"from": {strconv.Itoa(from)}, "to": {strconv.Itoa(to)}})
}

// CreateJob schedules a job.
func (c *Client) CreateJob(ctx context.Context, j NewJob) (*Job, error) {
	return send[Job](ctx, c, http.MethodPost, at("scheduler", "jobs"), j)
}

// Jobs lists jobs.
func (c *Client) Jobs(ctx context.Context, f ListJobs) (*JobList, error) {
	return get[JobList](ctx, c, at("scheduler", "jobs"), queryOf(f))
}

// Job shows a job, by id or name, with its ETag.
func (c *Client) Job(ctx context.Context, id string) (j *Job, tag string, err error) {
	return getTagged[Job](ctx, c, at("scheduler", "jobs", id))
}

// UpdateJob changes a job.
func (c *Client) UpdateJob(ctx context.Context, id string, j Fields, ifMatch string) (*Job, error) {
	return send[Job](ctx, c, http.MethodPut, at("scheduler", "jobs", id), j, "If-Match", ifMatch)
}

// DeleteJob removes a job.
func (c *Client) DeleteJob(ctx context.Context, id, ifMatch string) error {
	return c.delete(ctx, ifMatch, "scheduler", "jobs", id)
}

// PauseJob keeps a job from firing.
func (c *Client) PauseJob(ctx context.Context, id string) (*Job, error) {
	return send[Job](ctx, c, http.MethodPost, at("scheduler", "jobs", id, "pause"), nil)
}

// ResumeJob lets a job fire again.
func (c *Client) ResumeJob(ctx context.Context, id string) (*Job, error) {
	return send[Job](ctx, c, http.MethodPost, at("scheduler", "jobs", id, "resume"), nil)
}

// TriggerJob starts a job now.
func (c *Client) TriggerJob(ctx context.Context, id string, params Object, key string) (*Started, error) {
	return send[Started](ctx, c, http.MethodPost, at("scheduler", "jobs", id, "trigger"), TriggerRequest{params}, "Idempotency-Key", key)
}

// NextRuns lists the next times of a job.
func (c *Client) NextRuns(ctx context.Context, id string, count int) (*NextRuns, error) {
	return get[NextRuns](ctx, c, at("scheduler", "jobs", id, "next-runs"), url.Values{"count": {strconv.Itoa(count)}})
}

// BackfillJob fires a job for the times of a range that has passed.
func (c *Client) BackfillJob(ctx context.Context, id string, r BackfillRequest) (*Backfill, error) {
	return send[Backfill](ctx, c, http.MethodPost, at("scheduler", "jobs", id, "backfill"), r)
}

// Firings lists the firings of the job f.ID and their outcomes.
func (c *Client) Firings(ctx context.Context, f ListFirings) (*FiringList, error) {
	return get[FiringList](ctx, c, at("scheduler", "jobs", f.ID, "firings"), queryOf(f))
}

// CreateWebhook makes a webhook and gives its secret, once.
func (c *Client) CreateWebhook(ctx context.Context, w NewWebhook) (*WebhookMade, error) {
	return send[WebhookMade](ctx, c, http.MethodPost, at("webhooks"), w)
}

// Webhooks lists webhooks.
func (c *Client) Webhooks(ctx context.Context, f ListWebhooks) (*WebhookList, error) {
	return get[WebhookList](ctx, c, at("webhooks"), queryOf(f))
}

// Webhook shows a webhook, by id or name, with its ETag.
func (c *Client) Webhook(ctx context.Context, id string) (w *Webhook, tag string, err error) {
	return getTagged[Webhook](ctx, c, at("webhooks", id))
}

// UpdateWebhook changes a webhook.
func (c *Client) UpdateWebhook(ctx context.Context, id string, w Fields, ifMatch string) (*Webhook, error) {
	return send[Webhook](ctx, c, http.MethodPut, at("webhooks", id), w, "If-Match", ifMatch)
}

// DeleteWebhook removes a webhook.
func (c *Client) DeleteWebhook(ctx context.Context, id, ifMatch string) error {
	return c.delete(ctx, ifMatch, "webhooks", id)
}

// RotateWebhook gives a webhook a new secret, once.
func (c *Client) RotateWebhook(ctx context.Context, id string, r RotateRequest) (*WebhookSecret, error) {
	return send[WebhookSecret](ctx, c, http.MethodPost, at("webhooks", id, "rotate-secret"), r)
}

// ValidateWebhook says whether a secret is that of a webhook.
func (c *Client) ValidateWebhook(ctx context.Context, id, secret string) (*WebhookChecked, error) {
	return send[WebhookChecked](ctx, c, http.MethodPost, at("webhooks", "validate"), WebhookCheck{id, secret})
}

// TriggerWebhook calls a webhook that wants its secret. The same delivery sent again starts nothing more; "" is a new
// one each time.
func (c *Client) TriggerWebhook(ctx context.Context, id, secret, delivery string, payload any) (*Started, error) {
	return send[Started](ctx, c, http.MethodPost, at("webhooks", id, "trigger"), payload, "X-Webhook-Secret", secret, "X-Webhook-Id", delivery)
}

// Callback ends the step whose callback this is; token is the last part of the address that the step was given. An
// object of status, outputs and error alone says how it ends; any other object is its outputs.
func (c *Client) Callback(ctx context.Context, token string, result any) (*CallbackAnswer, error) {
	return send[CallbackAnswer](ctx, c, http.MethodPost, at("callbacks", token), result)
}

// SendEvent sends an event.
func (c *Client) SendEvent(ctx context.Context, e Event) (*EventReceived, error) {
	return send[EventReceived](ctx, c, http.MethodPost, at("events"), e)
}

// CreateEventTrigger makes an event trigger.
func (c *Client) CreateEventTrigger(ctx context.Context, t NewEventTrigger) (*EventTrigger, error) {
	return send[EventTrigger](ctx, c, http.MethodPost, at("event-triggers"), t)
}

// EventTriggers lists event triggers.
func (c *Client) EventTriggers(ctx context.Context, f ListEventTriggers) (*EventTriggerList, error) {
	return get[EventTriggerList](ctx, c, at("event-triggers"), queryOf(f))
}

// EventTrigger shows an event trigger, by id or name, with its ETag.
func (c *Client) EventTrigger(ctx context.Context, id string) (t *EventTrigger, tag string, err error) {
	return getTagged[EventTrigger](ctx, c, at("event-triggers", id))
}

// UpdateEventTrigger changes an event trigger.
func (c *Client) UpdateEventTrigger(ctx context.Context, id string, t Fields, ifMatch string) (*EventTrigger, error) {
	return send[EventTrigger](ctx, c, http.MethodPut, at("event-triggers", id), t, "If-Match", ifMatch)
}

// DeleteEventTrigger removes an event trigger.
func (c *Client) DeleteEventTrigger(ctx context.Context, id, ifMatch string) error {
	return c.delete(ctx, ifMatch, "event-triggers", id)
}

// Approvals lists decisions that steps wait for.
func (c *Client) Approvals(ctx context.Context, f ListApprovals) (*ApprovalList, error) {
	return get[ApprovalList](ctx, c, at("approvals"), queryOf(f))
}

// Approval shows a decision that a step waits for.
func (c *Client) Approval(ctx context.Context, id string) (*Approval, error) {
	return get[Approval](ctx, c, at("approvals", id), nil)
}

// Approve makes a decision.
func (c *Client) Approve(ctx context.Context, id, comment string) (*Decision, error) {
	return send[Decision](ctx, c, http.MethodPost, at("approvals", id, "approve"), DecisionRequest{comment})
}

// Reject makes a decision.
func (c *Client) Reject(ctx context.Context, id, comment string) (*Decision, error) {
	return send[Decision](ctx, c, http.MethodPost, at("approvals", id, "reject"), DecisionRequest{comment})
}
