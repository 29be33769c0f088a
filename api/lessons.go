package api

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	media "github.com/stepwell/stepwell/upload"
)

// The shapes of lessons.
type (
	NewLesson    = project.LessonDraft
	LessonChange = project.LessonChange
	Lesson       = project.Lesson
	LessonList   = Page[Lesson]
	ListLessons  = project.LessonFilter
	MediaPlace   = media.Place
)

// UploadList lists the unfinished uploads of a lesson.
type UploadList struct {
	Uploads []media.Upload `json:"uploads" nullable:"false"`
}

// lessons are the lessons with their media.
type lessons struct {
	*kindOf[NewLesson, LessonChange, Lesson, Lesson, ListLessons]
	*server
	media media.Handler
}

// Lessons serves lessons, their media and the uploads of those.
func Lessons(list *project.Lessons, files *media.Store) Kind {
	k := &lessons{kindOf: &kindOf[NewLesson, LessonChange, Lesson, Lesson, ListLessons]{Resource: list}, media: media.Handler{Store: files}}
	longest := 200
	k.id = &huma.Schema{Type: "string", MaxLength: &longest, Pattern: project.IDPattern}
	return k
}

func (k *lessons) serve(s *server) {
	k.server = s
	k.media.Fail = func(w http.ResponseWriter, r *http.Request, err error) {
		callOf(r.Context()).code = problemOf(r.Context(), s.o.Log, err).Code
		s.refuse(w, r, err)
	}
	k.listed = k.outcomes
	k.kindOf.serve(s)
	k.usage("lesson.usage", store.UsageOfLesson)
	k.raw("lesson.media", "lesson_id", k.media.Serve, served)
	k.raw("lesson.media.options", "lesson_id", func(w http.ResponseWriter, r *http.Request, _ string) { k.media.Options(w, r) }, empty)
	k.raw("lesson.media.set", "lesson_id", k.set, k.describeSet)
	handle(s, "lesson.media.delete", func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		id, err := s.nameIn(ctx, "lesson_id")
		if err != nil {
			return nil, err
		}
		return nil, k.media.Remove(ctx, id)
	}, s.named("lesson_id"))
	handle(s, "lesson.uploads", func(ctx context.Context, _ *struct{}) (*answer[UploadList], error) {
		id, err := s.nameIn(ctx, "lesson_id")
		if err != nil {
			return nil, err
		}
		list, err := k.media.List(ctx, id)
		return reply(UploadList{list}, err)
	}, s.named("lesson_id"))
	k.raw("upload.get", "upload_id", k.media.Head, empty)
	k.raw("upload.append", "upload_id", k.media.Patch, appended)
	k.raw("upload.delete", "upload_id", k.media.Terminate, empty)
}

// outcomes adds the newest execution of each lesson, found by the index of lessons.
func (k *lessons) outcomes(ctx context.Context, in *ListLessons, rows []Lesson) error {
	for i := 0; in.Outcomes && i < len(rows); i++ {
		list, err := k.o.Store.Executions(ctx, store.Filter{Lesson: rows[i].ID, Limit: 1})
		if err != nil {
			return err
		}
		for j := range list {
			x := &list[j]
			rows[i].Latest = &project.Outcome{Execution: x.ID, Pipeline: x.Pipeline, Status: x.Status.String(), Created: resource.At(x.Created), Total: x.Progress.Total, Completed: x.Progress.Completed, Failed: x.Progress.Failed}
		}
	}
	return nil
}

// raw serves an operation that reads and writes bodies by itself. fn gets the id in the path.
func (k *lessons) raw(id, param string, fn func(w http.ResponseWriter, r *http.Request, name string), adjust func(*huma.Operation)) {
	serve := k.passOn(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, err := k.nameIn(r.Context(), param)
		if err != nil {
			k.media.Fail(w, r, err)
			return
		}
		fn(w, r, name)
	}))
	handle(k.server, id, func(context.Context, *struct{}) (*streamed, error) { return &streamed{serve}, nil }, k.named(param), adjust)
}

// set takes a file for a lesson, in whichever way it comes.
func (k *lessons) set(w http.ResponseWriter, r *http.Request, id string) {
	if media.Resumable(r) {
		k.media.Post(w, r, id)
		return
	}
	k.media.Receive(w, r, id, func(l *project.Lesson) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", etag(l.Revision))
		w.WriteHeader(http.StatusCreated)
		if err := marshal(w, l); err != nil {
			k.server.o.Log.Debug("an answer was not sent", "error", err)
		}
	})
}

var binary = &huma.Schema{Type: "string", Format: "binary"}

func served(op *huma.Operation) {
	op.Description = "Ranges, If-None-Match and HEAD as usual. It is an attachment, and types that a browser would run are application/octet-stream."
	op.Responses["200"] = &huma.Response{Description: "The file", Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: binary}}}
}

func empty(op *huma.Operation) {
	op.DefaultStatus = http.StatusNoContent
	op.Description = "A request of tus 1.0 (https://tus.io/protocols/resumable-upload)."
}

func appended(op *huma.Operation) {
	empty(op)
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/offset+octet-stream": {Schema: binary}}}
}

func (k *lessons) describeSet(op *huma.Operation) {
	op.Description = "With the header Tus-Resumable it begins an upload (tus 1.0: creation, creation-with-upload, checksum, expiration, termination), whose Location takes the bytes. Otherwise the body is multipart/form-data with the file, or JSON that names a file of the server's machine or one behind a URL; the answer is the lesson."
	form := &huma.Schema{Type: "object", Properties: map[string]*huma.Schema{"file": binary}}
	op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: k.schemaOf(reflect.TypeFor[MediaPlace]())}, "multipart/form-data": {Schema: form},
		"application/offset+octet-stream": {Schema: binary}}}
	op.DefaultStatus = http.StatusCreated
	op.Responses["201"] = &huma.Response{Description: "The lesson, or with tus an empty answer", Content: map[string]*huma.MediaType{"application/json": {Schema: k.schemaOf(reflect.TypeFor[Lesson]())}}}
}
