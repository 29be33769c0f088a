package api

import (
	"context"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/live"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/store"
)

// The shapes of projects.
type (
	NewProject      = project.Draft
	ProjectChange   = project.Change
	Project         = project.Project
	ProjectList     = Page[Project]
	ListProjects    = project.Filter
	ProjectProgress = progress.Progress
)

// ProjectTotal says how many items a project has.
type ProjectTotal struct {
	Total int64 `json:"total" minimum:"0" maximum:"1000000000000" doc:"Number of items; 0: not known yet."`
}

// ProjectStatus is a status of a project.
type ProjectStatus struct {
	Status string `json:"status" minLength:"1" maxLength:"32" pattern:"^[A-Z_]+$" doc:"INITIALIZING, CRAWLING (total is not final: the project does not finish), PROCESSING, DONE (finishes it), or another one of capital letters and underscores."`
}

// ProcessedItems are items to be counted.
type ProcessedItems struct {
	Done   int64           `json:"done,omitempty" minimum:"1" maximum:"1000000000" doc:"How many were processed, failed ones included. Defaults to errors, at least 1."`
	Errors int64           `json:"errors,omitempty" minimum:"0" maximum:"1000000000" doc:"How many of them failed."`
	Items  []ProcessedItem `json:"items,omitempty" maxItems:"1000" nullable:"false" doc:"Items by their keys instead: each key counts once, so the request can be sent again."`
}

// ProcessedItem is one item.
type ProcessedItem struct {
	Key    string `json:"key" minLength:"1" maxLength:"200"`
	Failed bool   `json:"failed,omitempty"`
}

// CountedItems is the progress of a project after items were counted.
type CountedItems struct {
	ProjectProgress
	Finished bool  `json:"completed" doc:"This request has finished the project: job.completed is on its way."`
	Repeats  int64 `json:"repeated" doc:"How many of the keys were counted before."`
}

// ProjectTagList lists the tags of projects.
type ProjectTagList struct {
	Tags []project.Tag `json:"tags" nullable:"false"`
}

// projects are the projects with the operations of their progress.
type projects struct {
	*kindOf[NewProject, ProjectChange, Project, Project, ListProjects]
	*server
	list *project.Projects
}

// Projects serves projects.
func Projects(list *project.Projects) Kind {
	k := &projects{kindOf: &kindOf[NewProject, ProjectChange, Project, Project, ListProjects]{Resource: list}, list: list}
	longest := 200
	k.id = &huma.Schema{Type: "string", MaxLength: &longest, Pattern: project.IDPattern}
	return k
}

func (k *projects) serve(s *server) {
	k.server, s.moving = s, k.list.Moving
	k.kindOf.serve(s)
	one := s.named("project_id")
	k.usage("project.usage", store.UsageOfProject)
	handle(s, "project.tags", func(ctx context.Context, _ *struct{}) (*answer[ProjectTagList], error) {
		tags, err := k.list.Tags(ctx)
		return reply(ProjectTagList{tags}, err)
	})
	handle(s, "project.progress", k.progress, one)
	handle(s, "project.events", k.follow, one, followed)
	handle(s, "project.total", k.setTotal, one)
	handle(s, "project.status", k.setStatus, one)
	handle(s, "project.discovered", k.discovered, one)
	handle(s, "project.items", k.count, one)
	handle(s, "project.reset", k.reset, one)
}

func (k *projects) progress(ctx context.Context, _ *struct{}) (*answer[ProjectProgress], error) {
	id, err := k.nameIn(ctx, "project_id")
	if err != nil {
		return nil, err
	}
	p, err := k.list.Read(ctx, id)
	if err == nil && p.Status == progress.NotFound {
		err = notFound("NOT_FOUND: there is no project %s", stepwell.Clip(id, 80))
	}
	return reply(p, err)
}

type followInput struct {
	Last string `header:"Last-Event-ID" maxLength:"100"`
}

// follow streams how far a project is.
func (k *projects) follow(ctx context.Context, _ *followInput) (*streamed, error) {
	id, err := k.nameIn(ctx, "project_id")
	if err == nil {
		err = k.list.Check(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	return &streamed{k.passOn(live.Project(k.list, id, k.o.Stopping, live.Options{}))}, nil
}

// followed describes the stream of a project.
func followed(op *huma.Operation) {
	op.Description = "The event progress has how far the project is, at once and when that has changed, at most once a second; its status is NOT_FOUND while the project has no progress. job.completed {event_id, timestamp, payload} ends the stream; its id is the event_id. 204: a client that comes back with it has everything."
	op.Responses["200"] = &huma.Response{Description: "The stream", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}
	op.Responses["204"] = &huma.Response{Description: "The client has everything"}
}

// changed makes a change of the progress of the project in the path.
func (k *projects) changed(ctx context.Context, change func(id string) (ProjectProgress, error)) (*answer[ProjectProgress], error) {
	id, err := k.nameIn(ctx, "project_id")
	if err != nil {
		return nil, err
	}
	return reply(change(id))
}

func (k *projects) setTotal(ctx context.Context, in *bodyInput[ProjectTotal]) (*answer[ProjectProgress], error) {
	return k.changed(ctx, func(id string) (ProjectProgress, error) { return k.list.SetTotal(ctx, id, in.Body.Total) })
}

func (k *projects) setStatus(ctx context.Context, in *bodyInput[ProjectStatus]) (*answer[ProjectProgress], error) {
	return k.changed(ctx, func(id string) (ProjectProgress, error) { return k.list.SetStatus(ctx, id, in.Body.Status) })
}

func (k *projects) discovered(ctx context.Context, in *bodyInput[ProjectTotal]) (*answer[ProjectProgress], error) {
	return k.changed(ctx, func(id string) (ProjectProgress, error) { return k.list.FinishDiscovery(ctx, id, in.Body.Total) })
}

func (k *projects) reset(ctx context.Context, _ *struct{}) (*answer[ProjectProgress], error) {
	return k.changed(ctx, func(id string) (ProjectProgress, error) { return k.list.Reset(ctx, id) })
}

// count counts processed items.
func (k *projects) count(ctx context.Context, in *bodyInput[*ProcessedItems]) (*answer[CountedItems], error) {
	id, err := k.nameIn(ctx, "project_id")
	if err != nil {
		return nil, err
	}
	b := &ProcessedItems{}
	if in.Body != nil {
		b = in.Body
	}
	if len(b.Items) == 0 {
		p, err := k.list.Add(ctx, store.Count{Project: id, Done: max(b.Done, b.Errors, 1), Errors: b.Errors}, "")
		return reply(CountedItems{ProjectProgress: p, Finished: p.Completed}, err)
	}
	if b.Done != 0 || b.Errors != 0 {
		return nil, stepwell.Invalid("give items, or done and errors", "the request counts items by their keys and by their number")
	}
	return reply(k.countKeys(ctx, id, b.Items))
}

// countKeys counts items by their keys: at once, so that they are stored together.
func (k *projects) countKeys(ctx context.Context, id string, items []ProcessedItem) (out CountedItems, err error) {
	var group errgroup.Group
	var finished atomic.Bool
	var repeats atomic.Int64
	for _, it := range items {
		group.Go(func() error {
			n := store.Count{Project: id, Done: 1}
			if it.Failed {
				n.Errors = 1
			}
			p, err := k.list.Add(ctx, n, it.Key)
			if p.Completed {
				finished.Store(true)
			}
			if p.Repeated {
				repeats.Add(1)
			}
			return err
		})
	}
	if err = group.Wait(); err == nil {
		out.ProjectProgress, err = k.list.Read(ctx, id)
	}
	out.Finished, out.Repeats = finished.Load(), repeats.Load()
	return out, err
}
