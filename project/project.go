// Package project keeps projects and their lessons. A project is what executions and other programs count processed items for:
// how far one is says package progress. A lesson belongs to one project and has a media file, which pipelines process. Both are
// what people create, list, change and delete. Nothing is held in memory, so that any number of processes share a database.
// Stability: experimental until version 1.
package project

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// kind is that of the objects in which projects are stored.
const kind = "project"

// IDPattern is what the id of a project or lesson looks like, in at most 200 characters.
const IDPattern = "^[A-Za-z0-9][A-Za-z0-9._:@-]*$"

// Draft is a project to be created.
type Draft struct {
	ID   string `json:"id,omitempty" minLength:"1" maxLength:"200" pattern:"^[A-Za-z0-9][A-Za-z0-9._:@-]*$" patternDescription:"letters, digits and . _ : @ -, beginning with a letter or digit" example:"survey-7" doc:"Letters, digits and . _ : @ -, beginning with a letter or digit. Defaults to a new UUID."`
	Name string `json:"name,omitempty" maxLength:"500" doc:"What people call it."`
	Tags string `json:"tags,omitempty" maxLength:"2000" example:"physics, grade 7" doc:"Tags, separated by commas."`
}

// Change is a change of a project.
type Change struct {
	Name string `json:"name,omitempty" maxLength:"500" doc:"What people call it."`
	Tags string `json:"tags,omitempty" maxLength:"2000" doc:"Tags, separated by commas."`
}

// Project is a project as it is shown.
type Project struct {
	ID   string       `json:"id"`
	Name string       `json:"name"`
	Tags string       `json:"tags"`
	By   resource.Ref `json:"created_by"`
	resource.Meta
}

// Identity is the id.
func (p *Project) Identity() string { return p.ID }

// Shown is the project itself: a new one is shown as any other.
func (p *Project) Shown() *Project { return p }

// record is a stored project.
type record struct {
	By   string `json:"created_by,omitempty"`
	Name string `json:"name,omitempty"`
	Tags string `json:"tags,omitempty"`
	// Deleting is when its deletion began: no lesson is created in it since.
	Deleting *time.Time `json:"deleting,omitempty"`
}

// Filter selects projects, in order of id.
type Filter struct {
	resource.Page
	Word string `query:"word" maxLength:"200" doc:"Projects with this word in their name or tags. Upper and lower case are the same."`
}

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
	id, err := resource.NewID(d.ID)
	if err != nil {
		return nil, err
	}
	if _, err := p.objects.Object(ctx, kind, id); err == nil {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the project " + id + " exists already", Hint: "use another id, or reset its progress"}
	} else if stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return nil, err
	}
	if _, err := p.Tracker.Create(ctx, id); err != nil { // first: a project always has progress
		return nil, err
	}
	return p.put(ctx, id, 0, record{By: actor, Name: d.Name, Tags: d.Tags})
}

func (p *Projects) put(ctx context.Context, id string, revision int64, r record) (*Project, error) {
	o, err := put(ctx, p.objects, store.Object{Kind: kind, ID: id, Revision: revision}, r)
	if err != nil {
		return nil, err
	}
	return shown(o)
}

// put stores a body.
func put[T any](ctx context.Context, objects store.Objects, o store.Object, body T) (*store.Object, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	o.Body = raw
	list, err := objects.PutObjects(ctx, o)
	if err != nil {
		return nil, err
	}
	return &list[0], nil
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

// List lists projects. A filter by word reads projects until it has a page.
func (p *Projects) List(ctx context.Context, f *Filter) ([]Project, error) {
	words := wordsOf(f.Word)
	return pages(ctx, p.objects, store.ObjectFilter{Kind: kind, After: f.Cursor}, f.Limit, len(words) == 0, shown, func(one *Project) bool {
		return hasWords(one.Name+" "+one.Tags, words)
	})
}

// scanPage is how many objects a filtered list reads at once.
const scanPage = 1000

// pages lists objects that pick selects, up to limit; all: that is each of them.
func pages[T any](ctx context.Context, objects store.Objects, f store.ObjectFilter, limit int, all bool, read func(*store.Object) (*T, error), pick func(*T) bool) ([]T, error) {
	limit = cmp.Or(max(limit, 0), 100)
	f.Limit = limit
	if !all {
		f.Limit = scanPage
	}
	out := []T{}
	for {
		list, err := objects.Objects(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range list {
			one, err := read(&list[i])
			if err != nil {
				return nil, err
			}
			if pick(one) {
				out = append(out, *one)
			}
			if len(out) == limit {
				return out, nil
			}
		}
		if len(list) < f.Limit {
			return out, nil
		}
		f.After = list[len(list)-1].ID
	}
}

// wordsOf takes a text apart, in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) })
}

// hasWords reports whether a text has all words.
func hasWords(text string, words []string) bool {
	if len(words) == 0 {
		return true
	}
	has := wordsOf(text)
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(has, w) })
}

// Tag is a tag of projects.
type Tag struct {
	Tag      string `json:"tag"`
	Projects int    `json:"projects" doc:"How many projects have it."`
}

// Tags lists the tags of all projects by the alphabet. Tags that differ in case are listed apart.
func (p *Projects) Tags(ctx context.Context) ([]Tag, error) {
	counts := map[string]int{}
	err := resource.Each(ctx, p.objects, kind, func(o *store.Object) error {
		one, err := shown(o)
		if err != nil {
			return err
		}
		for _, tag := range tagsOf(one.Tags) {
			counts[tag]++
		}
		return nil
	})
	out := make([]Tag, 0, len(counts))
	for tag, n := range counts {
		out = append(out, Tag{tag, n})
	}
	slices.SortFunc(out, func(a, b Tag) int { return strings.Compare(a.Tag, b.Tag) })
	return out, err
}

// tagsOf takes a text of tags apart; each is there once.
func tagsOf(text string) (tags []string) {
	for tag := range strings.SplitSeq(text, ",") {
		if tag = strings.TrimSpace(tag); tag != "" && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// Update changes the name and the tags. CodeNotFound, CodeInvalid, CodeConflict for another revision.
func (p *Projects) Update(ctx context.Context, id string, revision int64, edit func(*Change) error) (*Project, error) {
	return changed(ctx, p.objects, kind, id, unknown, revision, func(r *record) error {
		c := Change{r.Name, r.Tags}
		if err := edited(&c, edit); err != nil {
			return err
		}
		r.Name, r.Tags = c.Name, c.Tags
		return nil
	}, shown)
}

// edited applies an edit and checks the result.
func edited[C any](c *C, edit func(*C) error) error {
	if err := edit(c); err != nil {
		return err
	}
	return resource.Check(c)
}

// maxTries bounds how often a change is made again because somebody else has changed the object meanwhile.
const maxTries = 20

// changed applies edit to the body of an object. revision is the expected one, or store.AnyRevision: then a change that
// comes between is kept, and the edit is applied to its result.
func changed[R, T any](ctx context.Context, objects store.Objects, kind, id string, missing func(string) error, revision int64, edit func(*R) error, read func(*store.Object) (*T, error)) (*T, error) {
	for try := 1; ; try++ {
		o, err := objects.Object(ctx, kind, id)
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			return nil, missing(id)
		}
		if err != nil {
			return nil, err
		}
		if revision != store.AnyRevision && revision != o.Revision {
			return nil, resource.Changed(kind)
		}
		var r R
		if err := json.Unmarshal(o.Body, &r); err != nil {
			return nil, unreadable(o, err)
		}
		if err := edit(&r); err != nil {
			return nil, err
		}
		stored, err := put(ctx, objects, store.Object{Kind: kind, ID: o.ID, Name: o.Name, Revision: o.Revision}, r)
		if err == nil {
			return read(stored)
		}
		if stepwell.CodeOf(err) != stepwell.CodeConflict || revision != store.AnyRevision || try == maxTries {
			return nil, err
		}
	}
}

// deletionMark is how long the mark of a deletion counts: the process that set it may have died.
const deletionMark = time.Minute

// Delete deletes a project and its progress; executions stay and count no more. CodeNotFound; CodeConflict for another
// revision, or if the project has lessons.
func (p *Projects) Delete(ctx context.Context, id string, revision int64) error {
	if err := p.empty(ctx, id); err != nil {
		return err
	}
	// The mark comes before the second look: a lesson that is created meanwhile is found by it, or finds the mark.
	_, err := changed(ctx, p.objects, kind, id, unknown, revision, func(r *record) error {
		now := time.Now()
		r.Deleting = &now
		return nil
	}, shown)
	if err != nil {
		return err
	}
	if err := p.empty(ctx, id); err != nil {
		_, undo := changed(ctx, p.objects, kind, id, unknown, store.AnyRevision, func(r *record) error {
			r.Deleting = nil
			return nil
		}, shown)
		return errors.Join(err, undo)
	}
	if err := p.objects.DeleteObject(ctx, kind, id, store.AnyRevision); err != nil {
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			return unknown(id)
		}
		return err
	}
	return p.Tracker.Delete(ctx, id)
}

// empty is CodeConflict for a project that has lessons.
func (p *Projects) empty(ctx context.Context, id string) error {
	lessons, err := p.objects.Objects(ctx, store.ObjectFilter{Kind: lessonKind, Prefix: id + "/", Limit: 1})
	if err == nil && len(lessons) > 0 {
		err = &stepwell.Error{Code: stepwell.CodeConflict, Message: "the project " + id + " has lessons", Hint: "delete its lessons first"}
	}
	return err
}

func unknown(id string) error {
	return &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no project " + stepwell.Clip(id, 80), Hint: "create it first"}
}

func shown(o *store.Object) (*Project, error) {
	var r record
	if err := json.Unmarshal(o.Body, &r); err != nil {
		return nil, unreadable(o, err)
	}
	return &Project{ID: o.ID, Name: r.Name, Tags: r.Tags, By: resource.Ref(r.By), Meta: resource.MetaOf(o)}, nil
}

func unreadable(o *store.Object, err error) error {
	return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the stored " + o.Kind + " " + o.ID + " cannot be read", Err: err}
}
