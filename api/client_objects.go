package api

import (
	"context"
	"net/http"
	"net/url"
)

// Objects are the calls for the objects of one kind: D creates one, C changes one, F selects some, S is an object as it
// is shown, and M the answer to its creation, with what is shown only once. Objects are named by their id, or by their
// name if no other has it. A kind that lacks an operation answers CodeNotFound or CodeInvalid.
type Objects[D, C, M, S, F any] struct {
	client *Client
	path   string
}

// Create makes one.
func (o Objects[D, C, M, S, F]) Create(ctx context.Context, draft D) (*M, error) {
	return send[M](ctx, o.client, http.MethodPost, o.path, draft)
}

// List lists a page.
func (o Objects[D, C, M, S, F]) List(ctx context.Context, f F) (*Page[S], error) {
	return get[Page[S]](ctx, o.client, o.path, queryOf(f))
}

// Get shows one, with its ETag.
func (o Objects[D, C, M, S, F]) Get(ctx context.Context, id string) (of *S, tag string, err error) {
	of = new(S)
	tag, err = o.client.CallIf(ctx, http.MethodGet, o.at(id), "", nil, of)
	return of, tag, err
}

// Update changes one. What the change leaves out stays as it is.
func (o Objects[D, C, M, S, F]) Update(ctx context.Context, id string, change C, ifMatch string) (*S, error) {
	return send[S](ctx, o.client, http.MethodPut, o.at(id), change, "If-Match", ifMatch)
}

// Delete removes one.
func (o Objects[D, C, M, S, F]) Delete(ctx context.Context, id, ifMatch string) error {
	_, err := o.client.CallIf(ctx, http.MethodDelete, o.at(id), ifMatch, nil, nil)
	return err
}

func (o Objects[D, C, M, S, F]) at(id string) string { return o.path + "/" + url.PathEscape(id) }

// The kinds of objects.
type (
	PipelineObjects     = Objects[NewPipeline, PipelineChange, Pipeline, Pipeline, ListPipelines]
	JobObjects          = Objects[NewJob, Fields, Job, Job, ListJobs]
	WebhookObjects      = Objects[NewWebhook, Fields, WebhookMade, Webhook, ListWebhooks]
	EventTriggerObjects = Objects[NewEventTrigger, Fields, EventTrigger, EventTrigger, ListEventTriggers]
	ProjectObjects      = Objects[NewProject, struct{}, Project, Project, ListProjects]
	KeyObjects          = Objects[NewKey, Fields, KeyMade, Key, All]
	SecretObjects       = Objects[Fields, Fields, Secret, Secret, All]
)

// Pipelines are the stored pipelines.
func (c *Client) Pipelines() PipelineObjects { return PipelineObjects{c, at("pipelines")} }

// Jobs are the jobs of the scheduler.
func (c *Client) Jobs() JobObjects { return JobObjects{c, at("scheduler", "jobs")} }

// Webhooks are the webhooks.
func (c *Client) Webhooks() WebhookObjects { return WebhookObjects{c, at("webhooks")} }

// EventTriggers are the event triggers.
func (c *Client) EventTriggers() EventTriggerObjects {
	return EventTriggerObjects{c, at("event-triggers")}
}

// Projects are the projects.
func (c *Client) Projects() ProjectObjects { return ProjectObjects{c, at("projects")} }

// ProjectProgress tells how far a project is: CodeNotFound.
func (c *Client) ProjectProgress(ctx context.Context, id string) (*ProjectProgress, error) {
	return get[ProjectProgress](ctx, c, at("projects", id, "progress"), nil)
}

// CountItems counts processed items of a project. Without keys every call counts, so one whose answer is lost may have counted.
func (c *Client) CountItems(ctx context.Context, id string, n ProcessedItems) (*CountedItems, error) {
	return send[CountedItems](ctx, c, http.MethodPost, at("projects", id, "items"), n)
}

// SetProjectTotal sets the number of items of a project.
func (c *Client) SetProjectTotal(ctx context.Context, id string, total int64) (*ProjectProgress, error) {
	return send[ProjectProgress](ctx, c, http.MethodPut, at("projects", id, "total"), ProjectTotal{total})
}

// SetProjectStatus sets the status of a project.
func (c *Client) SetProjectStatus(ctx context.Context, id, status string) (*ProjectProgress, error) {
	return send[ProjectProgress](ctx, c, http.MethodPut, at("projects", id, "status"), ProjectStatus{status})
}

// FinishDiscovery says that all items of a project are found, and how many there are.
func (c *Client) FinishDiscovery(ctx context.Context, id string, total int64) (*ProjectProgress, error) {
	return send[ProjectProgress](ctx, c, http.MethodPost, at("projects", id, "discovered"), ProjectTotal{total})
}

// ResetProject begins the progress of a project anew.
func (c *Client) ResetProject(ctx context.Context, id string) (*ProjectProgress, error) {
	return send[ProjectProgress](ctx, c, http.MethodPost, at("projects", id, "reset"), struct{}{})
}

// Keys are the API keys; the answer to a new one has its token. They are revoked, not updated.
func (c *Client) Keys() KeyObjects { return KeyObjects{c, at("keys")} }

// Secrets are the secrets, without their values, by their names. SetSecret stores one.
func (c *Client) Secrets() SecretObjects { return SecretObjects{c, at("secrets")} }
