package project

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// lessonKind is that of the objects in which lessons are stored: their id is PROJECT/LESSON, so that the lessons of a project
// are one range, and their name is LESSON.
const lessonKind = "lesson"

// LessonDraft is a lesson to be created.
type LessonDraft struct {
	ID      string `json:"id,omitempty" minLength:"1" maxLength:"200" pattern:"^[A-Za-z0-9][A-Za-z0-9._:@-]*$" patternDescription:"letters, digits and . _ : @ -, beginning with a letter or digit" example:"lesson-1" doc:"Letters, digits and . _ : @ -, beginning with a letter or digit; no two lessons have the same, of whichever project. Defaults to a new UUID."`
	Project string `json:"project_id" minLength:"1" maxLength:"200" example:"survey-7" doc:"The project that it belongs to."`
	Name    string `json:"name,omitempty" maxLength:"500" doc:"What people call it."`
	Tag     string `json:"tag,omitempty" maxLength:"200"`
}

// LessonChange is a change of a lesson.
type LessonChange struct {
	Name string `json:"name,omitempty" maxLength:"500" doc:"What people call it."`
	Tag  string `json:"tag,omitempty" maxLength:"200"`
}

// Lesson is a lesson as it is shown.
type Lesson struct {
	ID      string       `json:"id"`
	Project string       `json:"project_id"`
	Name    string       `json:"name"`
	Tag     string       `json:"tag"`
	Media   *Media       `json:"media,omitempty" doc:"Its file, when it has one."`
	By      resource.Ref `json:"created_by"`
	Latest  *Outcome     `json:"latest,omitempty" doc:"In lists that ask for outcomes: the newest execution that was started for it; missing when there is none."`
	resource.Meta
}

// Outcome is what became of a lesson, or becomes of it.
type Outcome struct {
	Execution string        `json:"execution_id"`
	Pipeline  string        `json:"pipeline"`
	Status    string        `json:"status" enum:"pending,running,paused,cancelling,completed,completed_with_failures,failed,cancelled,timed_out"`
	Created   resource.Time `json:"created_at"`
	Total     int           `json:"total" doc:"Steps."`
	Completed int           `json:"completed" doc:"Steps that have completed."`
	Failed    int           `json:"failed" doc:"Steps that have failed."`
}

// File is what is known of the file of a lesson.
type File struct {
	Name   string        `json:"name" doc:"The name of the file."`
	Type   string        `json:"type" doc:"Its media type."`
	Bytes  int64         `json:"bytes"`
	SHA256 string        `json:"sha256" doc:"Of its content, in hexadecimal."`
	At     resource.Time `json:"uploaded_at"`
}

// Media is the file of a lesson. Its Ref is the blob that lists its parts, which the upload with the id Upload holds.
type Media struct {
	File
	URL    string `json:"url" doc:"Where it is served."`
	Ref    string `json:"-"`
	Upload string `json:"-"`
}

// Identity is the id.
func (l *Lesson) Identity() string { return l.ID }

// Shown is the lesson itself: a new one is shown as any other.
func (l *Lesson) Shown() *Lesson { return l }

// Place is where a list goes on behind the lesson (resource.Page.Cursor).
func (l *Lesson) Place() string { return l.Project + "/" + l.ID }

// lessonRecord is a stored lesson.
type lessonRecord struct {
	By    string       `json:"created_by,omitempty"`
	Name  string       `json:"name,omitempty"`
	Tag   string       `json:"tag,omitempty"`
	Media *mediaRecord `json:"media,omitempty"`
}

// mediaRecord is stored media.
type mediaRecord struct {
	File
	Ref    string `json:"ref"`
	Upload string `json:"upload"`
}

// LessonFilter selects lessons, by project and id. Cursor is the Place of the last lesson of the page before.
type LessonFilter struct {
	resource.Page
	Project string `query:"project_id" maxLength:"200" doc:"Lessons of the project."`
	Tag     string `query:"tag" maxLength:"200" doc:"Lessons with this tag."`
	Word    string `query:"word" maxLength:"200" doc:"Lessons with this word in their name or tag. Upper and lower case are the same."`
	// Outcomes is for the API, which knows executions.
	Outcomes bool `query:"outcomes" doc:"With each lesson its newest execution (latest)."`
}

// LessonOptions configure Lessons. Objects and Projects are required.
type LessonOptions struct {
	Objects  store.Objects
	Projects *Projects
	// Unfinished reports whether a lesson has executions that have not ended. Defaults to none.
	Unfinished func(ctx context.Context, lesson string) (bool, error)
	// Deleted removes what belongs to a lesson that has been deleted. Defaults to nothing.
	Deleted func(ctx context.Context, lesson string) error
	// Address is that of the server, before the paths of the API: http://127.0.0.1:8010. Defaults to none: URLs begin with the path.
	Address func() string
}

// Lessons are the lessons of a store. Its methods may be called from many goroutines, and from many processes.
type Lessons struct{ o LessonOptions }

// NewLessons keeps lessons in a store.
func NewLessons(o LessonOptions) *Lessons {
	if o.Unfinished == nil {
		o.Unfinished = func(context.Context, string) (bool, error) { return false, nil }
	}
	if o.Deleted == nil {
		o.Deleted = func(context.Context, string) error { return nil }
	}
	if o.Address == nil {
		o.Address = func() string { return "" }
	}
	return &Lessons{o}
}

// Kind names the kind.
func (l *Lessons) Kind() resource.Kind {
	return resource.Kind{Name: lessonKind, Noun: "lesson", Path: "lessons", Param: "lesson_id", List: "lessons"}
}

// Create stores a lesson. CodeInvalid; CodeNotFound when there is no such project; CodeConflict when a lesson has the id.
func (l *Lessons) Create(ctx context.Context, d *LessonDraft, actor string) (*Lesson, error) {
	if err := resource.Check(d); err != nil {
		return nil, err
	}
	id, err := resource.NewID(d.ID)
	if err == nil {
		err = l.open(ctx, d.Project)
	}
	if err != nil {
		return nil, err
	}
	o, err := put(ctx, l.o.Objects, store.Object{Kind: lessonKind, ID: d.Project + "/" + id, Name: id}, lessonRecord{By: actor, Name: d.Name, Tag: d.Tag})
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the lesson " + id + " exists already", Hint: "update it, or use another id"}
	}
	if err != nil {
		return nil, err
	}
	if err := l.open(ctx, d.Project); err != nil { // it has been deleted meanwhile, see Projects.Delete
		if undo := l.o.Objects.DeleteObject(ctx, lessonKind, o.ID, o.Revision); undo != nil && stepwell.CodeOf(undo) != stepwell.CodeNotFound {
			return nil, undo
		}
		return nil, err
	}
	return l.shown(o)
}

// open is CodeNotFound for a project that there is not, and CodeConflict for one that is being deleted.
func (l *Lessons) open(ctx context.Context, project string) error {
	o, err := l.o.Projects.objects.Object(ctx, kind, project)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return unknown(project)
	}
	if err != nil {
		return err
	}
	var r record
	if err := json.Unmarshal(o.Body, &r); err != nil {
		return unreadable(o, err)
	}
	if r.Deleting != nil && time.Since(*r.Deleting) < deletionMark {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the project " + project + " is being deleted", Hint: "create the lesson in another project"}
	}
	return nil
}

// Get finds a lesson: CodeNotFound.
func (l *Lessons) Get(ctx context.Context, id string) (*Lesson, error) {
	o, err := l.object(ctx, id)
	if err != nil {
		return nil, err
	}
	return l.shown(o)
}

func (l *Lessons) object(ctx context.Context, id string) (*store.Object, error) {
	if strings.Contains(id, "/") { // that would be found by its place
		return nil, unknownLesson(id)
	}
	o, err := l.o.Objects.Object(ctx, lessonKind, id)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return nil, unknownLesson(id)
	}
	return o, err
}

// List lists lessons; those of a project are one range of the store. A filter by tag or word reads lessons until it has a page.
func (l *Lessons) List(ctx context.Context, f *LessonFilter) ([]Lesson, error) {
	of, words := store.ObjectFilter{Kind: lessonKind, After: f.Cursor}, wordsOf(f.Word)
	if f.Project != "" {
		of.Prefix = f.Project + "/"
	}
	return pages(ctx, l.o.Objects, of, f.Limit, len(words) == 0 && f.Tag == "", l.shown, func(one *Lesson) bool {
		return (f.Tag == "" || one.Tag == f.Tag) && hasWords(one.Name+" "+one.Tag, words)
	})
}

// Each visits the lessons of a project, in order of id, a thousand in one read.
func (l *Lessons) Each(ctx context.Context, project string, visit func(*Lesson) error) error {
	for f := (LessonFilter{Project: project, Page: resource.Page{Limit: scanPage}}); ; {
		list, err := l.List(ctx, &f)
		if err != nil {
			return err
		}
		for i := range list {
			if err := visit(&list[i]); err != nil {
				return err
			}
		}
		if len(list) < scanPage {
			return nil
		}
		f.Cursor = list[len(list)-1].Place()
	}
}

// Update changes the name and the tag. CodeNotFound, CodeInvalid, CodeConflict for another revision.
func (l *Lessons) Update(ctx context.Context, id string, revision int64, edit func(*LessonChange) error) (*Lesson, error) {
	return changed(ctx, l.o.Objects, lessonKind, id, unknownLesson, revision, func(r *lessonRecord) error {
		c := LessonChange{r.Name, r.Tag}
		if err := edited(&c, edit); err != nil {
			return err
		}
		r.Name, r.Tag = c.Name, c.Tag
		return nil
	}, l.shown)
}

// SetMedia makes a file that of a lesson, nil: it has none, and stores further objects in the same transaction. CodeNotFound;
// CodeConflict when one of those has been changed meanwhile.
func (l *Lessons) SetMedia(ctx context.Context, id string, m *Media, also ...store.Object) (*Lesson, error) {
	for try := 1; ; try++ {
		o, err := l.object(ctx, id)
		if err != nil {
			return nil, err
		}
		var r lessonRecord
		if err := json.Unmarshal(o.Body, &r); err != nil {
			return nil, unreadable(o, err)
		}
		if r.Media = nil; m != nil {
			r.Media = &mediaRecord{m.File, m.Ref, m.Upload}
		}
		changed := *o
		if changed.Body, err = json.Marshal(r); err != nil {
			return nil, err
		}
		list, err := l.o.Objects.PutObjects(ctx, append([]store.Object{changed}, also...)...)
		if err == nil {
			return l.shown(&list[0])
		}
		if stepwell.CodeOf(err) != stepwell.CodeConflict || try == maxTries {
			return nil, err
		}
		if now, again := l.object(ctx, id); again != nil || now.Revision == o.Revision { // it is one of the others
			return nil, errors.Join(err, again)
		}
	}
}

// Delete deletes a lesson; executions that have ended stay. CodeNotFound; CodeConflict for another revision, or while an
// execution of it has not ended.
func (l *Lessons) Delete(ctx context.Context, id string, revision int64) error {
	o, err := l.object(ctx, id)
	if err != nil {
		return err
	}
	runs, err := l.o.Unfinished(ctx, id)
	if err != nil {
		return err
	}
	if runs {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the lesson " + id + " has executions that have not ended", Hint: "cancel them, or wait for their end"}
	}
	if revision == store.AnyRevision {
		revision = o.Revision
	}
	if err := l.o.Objects.DeleteObject(ctx, lessonKind, o.ID, revision); stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return unknownLesson(id)
	} else if err != nil {
		return err
	}
	return l.o.Deleted(ctx, id)
}

// About is the snapshot of a lesson and its project that an execution gets at its start:
// {"project": {id, name, tags}, "lesson": {id, name, tag, media: {path, url, type, bytes}}}. path stands for a local file where a
// step runs. CodeNotFound.
func (l *Lessons) About(ctx context.Context, lesson string) (json.RawMessage, *Lesson, error) {
	one, err := l.Get(ctx, lesson)
	if err != nil {
		return nil, nil, err
	}
	of, err := l.o.Projects.Get(ctx, one.Project)
	if err != nil {
		return nil, nil, err
	}
	about, err := AboutOf(of, one)
	return about, one, err
}

// AboutOf is the snapshot of a lesson and its project, see About.
func AboutOf(of *Project, one *Lesson) (json.RawMessage, error) {
	type file struct {
		Path  string `json:"path"`
		URL   string `json:"url"`
		Type  string `json:"type"`
		Bytes int64  `json:"bytes"`
	}
	var about struct {
		Project struct {
			ID   string `json:"id"`
			Name string `json:"name"`
			Tags string `json:"tags"`
		} `json:"project"`
		Lesson struct {
			ID    string `json:"id"`
			Name  string `json:"name"`
			Tag   string `json:"tag"`
			Media *file  `json:"media,omitempty"`
		} `json:"lesson"`
	}
	about.Project.ID, about.Project.Name, about.Project.Tags = of.ID, of.Name, of.Tags
	about.Lesson.ID, about.Lesson.Name, about.Lesson.Tag = one.ID, one.Name, one.Tag
	if m := one.Media; m != nil {
		about.Lesson.Media = &file{"media:" + m.Ref + "/" + m.Name, m.URL, m.Type, m.Bytes}
	}
	return json.Marshal(about)
}

func unknownLesson(id string) error {
	return &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no lesson " + stepwell.Clip(id, 80), Hint: "create it first"}
}

func (l *Lessons) shown(o *store.Object) (*Lesson, error) {
	var r lessonRecord
	if err := json.Unmarshal(o.Body, &r); err != nil {
		return nil, unreadable(o, err)
	}
	of, id, _ := strings.Cut(o.ID, "/")
	one := &Lesson{ID: id, Project: of, Name: r.Name, Tag: r.Tag, By: resource.Ref(r.By), Meta: resource.MetaOf(o)}
	if m := r.Media; m != nil {
		one.Media = &Media{File: m.File, Ref: m.Ref, Upload: m.Upload, URL: l.o.Address() + "/api/v1/lessons/" + url.PathEscape(id) + "/media"}
	}
	return one, nil
}
