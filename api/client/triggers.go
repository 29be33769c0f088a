package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stepwell/stepwell/api"
)

// ValidatePipeline returns the problems of a pipeline.
func (c *Client) ValidatePipeline(ctx context.Context, document api.Document) (*api.Validation, error) {
	return send[api.Validation](ctx, c, http.MethodPost, at("pipelines", "validate"), api.ValidateRequest{Document: document})
}

// PlanPipeline shows a pipeline as a graph, with what is wrong with it. params may be nil.
func (c *Client) PlanPipeline(ctx context.Context, document api.Document, params map[string]any) (*api.PipelinePlan, error) {
	return send[api.PipelinePlan](ctx, c, http.MethodPost, at("pipelines", "plan"), api.PlanRequest{Document: document, Params: params})
}

// PipelineVersions lists the versions of the pipeline that f.ID names.
func (c *Client) PipelineVersions(ctx context.Context, f api.ListVersions) (*api.VersionList, error) {
	return get[api.VersionList](ctx, c, at("pipelines", f.ID, "versions"), queryOf(f))
}

// PipelineVersion shows a version with its document.
func (c *Client) PipelineVersion(ctx context.Context, id string, version int) (*api.PipelineVersion, error) {
	return get[api.PipelineVersion](ctx, c, at("pipelines", id, "versions", strconv.Itoa(version)), nil)
}

// ActivateVersion makes a version the one that is started where none is named. ifMatch is an ETag of the pipeline.
func (c *Client) ActivateVersion(ctx context.Context, id string, version int, ifMatch string) (*api.PipelineVersion, error) {
	return c.changeVersion(ctx, id, version, "activate", ifMatch)
}

// ArchiveVersion takes a version out of use: it is not started any more. ifMatch is an ETag of the pipeline.
func (c *Client) ArchiveVersion(ctx context.Context, id string, version int, ifMatch string) (*api.PipelineVersion, error) {
	return c.changeVersion(ctx, id, version, "archive", ifMatch)
}

// UnarchiveVersion takes a version into use again. ifMatch is an ETag of the pipeline.
func (c *Client) UnarchiveVersion(ctx context.Context, id string, version int, ifMatch string) (*api.PipelineVersion, error) {
	return c.changeVersion(ctx, id, version, "unarchive", ifMatch)
}

func (c *Client) changeVersion(ctx context.Context, id string, version int, verb, ifMatch string) (*api.PipelineVersion, error) {
	return send[api.PipelineVersion](ctx, c, http.MethodPost, at("pipelines", id, "versions", strconv.Itoa(version), verb), nil, "If-Match", ifMatch)
}

// DiffPipeline compares two versions; to 0 is the newest.
func (c *Client) DiffPipeline(ctx context.Context, id string, from, to int) (*api.PipelineDiff, error) {
	return get[api.PipelineDiff](ctx, c, at("pipelines", id, "diff"), url.Values{"from": {strconv.Itoa(from)}, "to": {strconv.Itoa(to)}})
}

// Partitions shows in which states the partitions of the pipeline are that q.ID names.
func (c *Client) Partitions(ctx context.Context, q api.ListPartitions) (*api.Partitions, error) {
	return get[api.Partitions](ctx, c, at("pipelines", q.ID, "partitions"), queryOf(q))
}

// Partition shows in which state the partition of a pipeline is that q.Partition names (partition.KeyOf).
func (c *Client) Partition(ctx context.Context, q api.GetPartition) (*api.Partition, error) {
	return get[api.Partition](ctx, c, at("pipelines", q.ID, "partitions", "one"), queryOf(q))
}

// ComparePartitions shows the same as if a document were the active version of the pipeline that it names.
func (c *Client) ComparePartitions(ctx context.Context, q api.ComparePartitions) (*api.Partitions, error) {
	return send[api.Partitions](ctx, c, http.MethodPost, at("pipelines", "partitions"), q)
}

// StartPartition starts an execution for a partition, once for each that has tried before.
func (c *Client) StartPartition(ctx context.Context, id string, q api.StartPartition) (*api.Started, error) {
	return send[api.Started](ctx, c, http.MethodPost, at("pipelines", id, "partitions", "start"), q)
}

// Matrix shows in which of the last executions of the pipeline that q.ID names which steps failed.
func (c *Client) Matrix(ctx context.Context, q api.GetMatrix) (*api.Matrix, error) {
	return get[api.Matrix](ctx, c, at("pipelines", q.ID, "matrix"), queryOf(q))
}

// WebhookDeliveries lists the last deliveries of a webhook, newest first.
func (c *Client) WebhookDeliveries(ctx context.Context, id string) (*api.WebhookDeliveryList, error) {
	return get[api.WebhookDeliveryList](ctx, c, at("webhooks", id, "deliveries"), nil)
}

// PauseJob keeps a job from firing.
func (c *Client) PauseJob(ctx context.Context, id string) (*api.Job, error) {
	return send[api.Job](ctx, c, http.MethodPost, at("scheduler", "jobs", id, "pause"), nil)
}

// ResumeJob lets a job fire again.
func (c *Client) ResumeJob(ctx context.Context, id string) (*api.Job, error) {
	return send[api.Job](ctx, c, http.MethodPost, at("scheduler", "jobs", id, "resume"), nil)
}

// TriggerJob starts a job now.
func (c *Client) TriggerJob(ctx context.Context, id string, params api.Object, key string) (*api.Started, error) {
	return send[api.Started](ctx, c, http.MethodPost, at("scheduler", "jobs", id, "trigger"), api.TriggerRequest{Params: params}, "Idempotency-Key", key)
}

// NextRuns lists the next times of a job.
func (c *Client) NextRuns(ctx context.Context, id string, count int) (*api.NextRuns, error) {
	return get[api.NextRuns](ctx, c, at("scheduler", "jobs", id, "next-runs"), url.Values{"count": {strconv.Itoa(count)}})
}

// BackfillJob fires a job for the times of a range that has passed.
func (c *Client) BackfillJob(ctx context.Context, id string, r api.BackfillRequest) (*api.Backfill, error) {
	return send[api.Backfill](ctx, c, http.MethodPost, at("scheduler", "jobs", id, "backfill"), r)
}

// Firings lists the firings of the job f.ID and their outcomes.
func (c *Client) Firings(ctx context.Context, f api.ListFirings) (*api.FiringList, error) {
	return get[api.FiringList](ctx, c, at("scheduler", "jobs", f.ID, "firings"), queryOf(f))
}

// RotateWebhook gives a webhook a new secret, once.
func (c *Client) RotateWebhook(ctx context.Context, id string, r api.RotateRequest) (*api.WebhookSecret, error) {
	return send[api.WebhookSecret](ctx, c, http.MethodPost, at("webhooks", id, "rotate-secret"), r)
}

// ValidateWebhook says whether a secret is that of a webhook.
func (c *Client) ValidateWebhook(ctx context.Context, id, secret string) (*api.WebhookChecked, error) {
	return send[api.WebhookChecked](ctx, c, http.MethodPost, at("webhooks", "validate"), api.WebhookCheck{ID: id, Secret: secret})
}

// TriggerWebhook calls a webhook that wants its secret. The same delivery sent again starts nothing more; "" is a new
// one each time.
func (c *Client) TriggerWebhook(ctx context.Context, id, secret, delivery string, payload any) (*api.Started, error) {
	return send[api.Started](ctx, c, http.MethodPost, at("webhooks", id, "trigger"), payload, "X-Webhook-Secret", secret, "X-Webhook-Id", delivery)
}

// Callback ends the step whose callback this is; token is the last part of the address that the step was given. An
// object of status, outputs and error alone says how it ends; any other object is its outputs.
func (c *Client) Callback(ctx context.Context, token string, result any) (*api.CallbackAnswer, error) {
	return send[api.CallbackAnswer](ctx, c, http.MethodPost, at("callbacks", token), result)
}

// SendEvent sends an event.
func (c *Client) SendEvent(ctx context.Context, e api.Event) (*api.EventReceived, error) {
	return send[api.EventReceived](ctx, c, http.MethodPost, at("events"), e)
}

// Approvals lists decisions that steps wait for.
func (c *Client) Approvals(ctx context.Context, f api.ListApprovals) (*api.ApprovalList, error) {
	return get[api.ApprovalList](ctx, c, at("approvals"), queryOf(f))
}

// Approval shows a decision that a step waits for.
func (c *Client) Approval(ctx context.Context, id string) (*api.Approval, error) {
	return get[api.Approval](ctx, c, at("approvals", id), nil)
}

// Approve makes a decision.
func (c *Client) Approve(ctx context.Context, id, comment string) (*api.Decision, error) {
	return send[api.Decision](ctx, c, http.MethodPost, at("approvals", id, "approve"), api.DecisionRequest{Comment: comment})
}

// Reject makes a decision.
func (c *Client) Reject(ctx context.Context, id, comment string) (*api.Decision, error) {
	return send[api.Decision](ctx, c, http.MethodPost, at("approvals", id, "reject"), api.DecisionRequest{Comment: comment})
}

// SetSecret keeps a secret.
func (c *Client) SetSecret(ctx context.Context, name, value, ifMatch string) (*api.Secret, error) {
	return send[api.Secret](ctx, c, http.MethodPut, at("secrets", name), api.SecretValue{Value: value}, "If-Match", ifMatch)
}

// RevokeKey ends an API key.
func (c *Client) RevokeKey(ctx context.Context, id string) (*api.Key, error) {
	return send[api.Key](ctx, c, http.MethodPost, at("keys", id, "revoke"), nil)
}

// Audit lists changes and their authors.
func (c *Client) Audit(ctx context.Context, f api.ListAudit) (*api.AuditList, error) {
	return get[api.AuditList](ctx, c, at("audit"), queryOf(f))
}

// Me returns the caller.
func (c *Client) Me(ctx context.Context) (*api.Me, error) {
	return get[api.Me](ctx, c, at("me"), nil)
}
