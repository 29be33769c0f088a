package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

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

// SetSecret keeps a secret.
func (c *Client) SetSecret(ctx context.Context, name, value, ifMatch string) (*Secret, error) {
	return send[Secret](ctx, c, http.MethodPut, at("secrets", name), SecretValue{value}, "If-Match", ifMatch)
}

// RevokeKey ends an API key.
func (c *Client) RevokeKey(ctx context.Context, id string) (*Key, error) {
	return send[Key](ctx, c, http.MethodPost, at("keys", id, "revoke"), nil)
}

// Audit lists changes and their authors.
func (c *Client) Audit(ctx context.Context, f ListAudit) (*AuditList, error) {
	return get[AuditList](ctx, c, at("audit"), queryOf(f))
}

// Me returns the caller.
func (c *Client) Me(ctx context.Context) (*Me, error) {
	return get[Me](ctx, c, at("me"), nil)
}
