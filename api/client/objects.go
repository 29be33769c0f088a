package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stepwell/stepwell/api"
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
func (o Objects[D, C, M, S, F]) List(ctx context.Context, f F) (*api.Page[S], error) {
	return get[api.Page[S]](ctx, o.client, o.path, queryOf(f))
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
	PipelineObjects     = Objects[api.NewPipeline, api.PipelineChange, api.Pipeline, api.Pipeline, api.ListPipelines]
	JobObjects          = Objects[api.NewJob, api.Fields, api.Job, api.Job, api.ListJobs]
	WebhookObjects      = Objects[api.NewWebhook, api.Fields, api.WebhookMade, api.Webhook, api.ListWebhooks]
	EventTriggerObjects = Objects[api.NewEventTrigger, api.Fields, api.EventTrigger, api.EventTrigger, api.ListEventTriggers]
	ProjectObjects      = Objects[api.NewProject, api.Fields, api.Project, api.Project, api.ListProjects]
	LessonObjects       = Objects[api.NewLesson, api.Fields, api.Lesson, api.Lesson, api.ListLessons]
	KeyObjects          = Objects[api.NewKey, api.Fields, api.KeyMade, api.Key, api.All]
	SecretObjects       = Objects[api.Fields, api.Fields, api.Secret, api.Secret, api.All]
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

// Lessons are the lessons. Upload and SetMedia give one its media.
func (c *Client) Lessons() LessonObjects { return LessonObjects{c, at("lessons")} }

// ProjectProgress tells how far a project is: CodeNotFound.
func (c *Client) ProjectProgress(ctx context.Context, id string) (*api.ProjectProgress, error) {
	return get[api.ProjectProgress](ctx, c, at("projects", id, "progress"), nil)
}

// ProjectUsage tells what models have used for the lessons of a project: CodeNotFound.
func (c *Client) ProjectUsage(ctx context.Context, id string) (*api.UsageSum, error) {
	return get[api.UsageSum](ctx, c, at("projects", id, "usage"), nil)
}

// LessonUsage tells what models have used for a lesson: CodeNotFound.
func (c *Client) LessonUsage(ctx context.Context, id string) (*api.UsageSum, error) {
	return get[api.UsageSum](ctx, c, at("lessons", id, "usage"), nil)
}

// VersionUsage tells what models have used in runs of a version of a pipeline: CodeNotFound.
func (c *Client) VersionUsage(ctx context.Context, pipeline string, version int) (*api.UsageSum, error) {
	return get[api.UsageSum](ctx, c, at("pipelines", pipeline, "versions", strconv.Itoa(version), "usage"), nil)
}

// CountItems counts processed items of a project. Without keys every call counts, so one whose answer is lost may have counted.
func (c *Client) CountItems(ctx context.Context, id string, n api.ProcessedItems) (*api.CountedItems, error) {
	return send[api.CountedItems](ctx, c, http.MethodPost, at("projects", id, "items"), n)
}

// SetProjectTotal sets the number of items of a project.
func (c *Client) SetProjectTotal(ctx context.Context, id string, total int64) (*api.ProjectProgress, error) {
	return send[api.ProjectProgress](ctx, c, http.MethodPut, at("projects", id, "total"), api.ProjectTotal{Total: total})
}

// SetProjectStatus sets the status of a project.
func (c *Client) SetProjectStatus(ctx context.Context, id, status string) (*api.ProjectProgress, error) {
	return send[api.ProjectProgress](ctx, c, http.MethodPut, at("projects", id, "status"), api.ProjectStatus{Status: status})
}

// FinishDiscovery says that all items of a project are found, and how many there are.
func (c *Client) FinishDiscovery(ctx context.Context, id string, total int64) (*api.ProjectProgress, error) {
	return send[api.ProjectProgress](ctx, c, http.MethodPost, at("projects", id, "discovered"), api.ProjectTotal{Total: total})
}

// ResetProject begins the progress of a project anew.
func (c *Client) ResetProject(ctx context.Context, id string) (*api.ProjectProgress, error) {
	return send[api.ProjectProgress](ctx, c, http.MethodPost, at("projects", id, "reset"), struct{}{})
}

// Keys are the API keys; the answer to a new one has its token. They are revoked, not updated.
func (c *Client) Keys() KeyObjects { return KeyObjects{c, at("keys")} }

// Secrets are the secrets, without their values, by their names. SetSecret stores one.
func (c *Client) Secrets() SecretObjects { return SecretObjects{c, at("secrets")} }

// Queue shows what waits, and why: at most so many executions.
func (c *Client) Queue(ctx context.Context, limit, holders int) (*api.Queue, error) {
	return get[api.Queue](ctx, c, at("queue"), queryOf(api.ShowQueue{Limit: limit, Holders: holders}))
}

// Workers lists those that run steps.
func (c *Client) Workers(ctx context.Context) (*api.WorkerList, error) {
	return get[api.WorkerList](ctx, c, at("workers"), nil)
}

// DrainWorker has a worker finish what it holds and end.
func (c *Client) DrainWorker(ctx context.Context, name string) error {
	return c.Call(ctx, http.MethodPost, at("workers")+"/"+url.PathEscape(name)+"/drain", nil, nil, nil)
}
