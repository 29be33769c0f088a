// Package project keeps projects: what executions and other programs count processed items for. How far one is says package
// progress; a project here is what people create, list and delete. Nothing is held in memory, so that any number of processes
// share a database. Stability: experimental until version 1.
package project

import (
	"context"
	"encoding/json"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// kind is that of the objects in which projects are stored.
const kind = "project"

// IDPattern is what the id of a project looks like, in at most 200 characters.
const IDPattern = "^[A-Za-z0-9][A-Za-z0-9._:@-]*$"

// Draft is a project to be created.
type Draft struct {
	ID string `json:"id" minLength:"1" maxLength:"200" pattern:"^[A-Za-z0-9][A-Za-z0-9._:@-]*$" patternDescription:"letters, digits and . _ : @ -, beginning with a letter or digit" example:"survey-7" doc:"Letters, digits and . _ : @ -, beginning with a letter or digit."`
}

// Project is a project as it is shown.
type Project struct {
	ID string       `json:"id"`
	By resource.Ref `json:"created_by"`
	resource.Meta
}

// Identity is the id.
func (p *Project) Identity() string { return p.ID }

// Shown is the project itself: a new one is shown as any other.
func (p *Project) Shown() *Project { return p }

// record is a stored project.
type record struct {
	By string `json:"created_by,omitempty"`
}

// Filter selects projects, in order of id.
type Filter struct{ resource.Page }

// Projects are the projects of a store. Its methods may be called from many goroutines, and from many processes.
type Projects struct {
	objects store.Objects
	*progress.Tracker
}

// New keeps projects in a store; the tracker has their progress.
func New(objects store.Objects, tracker *progress.Tracker) *Projects {
	return &Projects{objects: objects, Tracker: tracker}
}

// Kind names the kind.
func (p *Projects) Kind() resource.Kind {
	return resource.Kind{Name: kind, Noun: "project", Path: "projects", Param: "project_id", List: "projects"}
}

// Create stores a project, whose progress begins INITIALIZING; a state server that is away does not keep it from that.
// CodeInvalid; CodeConflict when there is one with the id.
func (p *Projects) Create(ctx context.Context, d *Draft, actor string) (*Project, error) {
	if err := resource.Check(d); err != nil {
		return nil, err
	}
	if _, err := p.objects.Object(ctx, kind, d.ID); err == nil {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the project " + d.ID + " exists already", Hint: "use another id, or reset its progress"}
	} else if stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return nil, err
	}
	body, err := json.Marshal(record{actor})
	if err != nil {
		return nil, err
	}
	if _, err := p.Tracker.Create(ctx, d.ID); err != nil { // first: a project always has progress
		return nil, err
	}
	list, err := p.objects.PutObjects(ctx, store.Object{Kind: kind, ID: d.ID, Body: body})
	if err != nil {
		return nil, err
	}
	return shown(&list[0])
}

// Get finds a project: CodeNotFound.
func (p *Projects) Get(ctx context.Context, id string) (*Project, error) {
	o, err := p.objects.Object(ctx, kind, id)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return nil, unknown(id)
	}
	if err != nil {
		return nil, err
	}
	return shown(o)
}

// Check is CodeNotFound for a project that there is not.
func (p *Projects) Check(ctx context.Context, id string) error {
	_, err := p.Get(ctx, id)
	return err
}

// List lists projects.
func (p *Projects) List(ctx context.Context, f *Filter) ([]Project, error) {
	list, err := p.objects.Objects(ctx, store.ObjectFilter{Kind: kind, After: f.Cursor, Limit: f.Limit})
	if err != nil {
		return nil, err
	}
	out := make([]Project, 0, len(list))
	for i := range list {
		one, err := shown(&list[i])
		if err != nil {
			return nil, err
		}
		out = append(out, *one)
	}
	return out, nil
}

// Update is not offered: a project has nothing yet that changes.
func (p *Projects) Update(context.Context, string, int64, func(*struct{}) error) (*Project, error) {
	return nil, stepwell.Invalid("its progress has operations of its own", "a project has nothing that can be changed")
}

// Delete deletes a project and its progress; executions stay and count no more. CodeNotFound, CodeConflict for another revision.
func (p *Projects) Delete(ctx context.Context, id string, revision int64) error {
	if err := p.objects.DeleteObject(ctx, kind, id, revision); err != nil {
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			return unknown(id)
		}
		return err
	}
	return p.Tracker.Delete(ctx, id)
}

func unknown(id string) error {
	return &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no project " + stepwell.Clip(id, 80), Hint: "create it first"}
}

func shown(o *store.Object) (*Project, error) {
	var r record
	if err := json.Unmarshal(o.Body, &r); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the stored project " + o.ID + " cannot be read", Err: err}
	}
	return &Project{ID: o.ID, By: resource.Ref(r.By), Meta: resource.MetaOf(o)}, nil
}
