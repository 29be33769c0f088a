package project_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
	"github.com/stepwell/stepwell/store/sqlite"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// rig is projects and lessons of one database.
type rig struct {
	*testing.T
	store    store.Store
	projects *project.Projects
	lessons  *project.Lessons
	running  map[string]bool // lessons with executions
}

func both(t *testing.T, f func(r *rig)) {
	t.Run("sqlite", func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "s.db"), Synchronous: "normal"})
		if err != nil {
			t.Fatal(err)
		}
		f(newRig(t, s))
	})
	t.Run("postgres", func(t *testing.T) {
		url, err := postgrestest.Create(postgrestest.URL(t), "")
		if err != nil {
			t.Fatal(err)
		}
		s, err := postgres.Open(t.Context(), postgres.Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		f(newRig(t, s))
	})
}

func newRig(t *testing.T, s store.Store) *rig {
	r := &rig{T: t, store: s, running: map[string]bool{}}
	tracker, err := progress.New(progress.Options{Store: s})
	r.good(err)
	t.Cleanup(func() {
		r.good(tracker.Close())
		r.good(s.Close())
	})
	r.projects = project.New(s, tracker)
	r.lessons = r.of()
	return r
}

// of are the lessons as another process sees them.
func (r *rig) of() *project.Lessons {
	return project.NewLessons(project.LessonOptions{Objects: r.store, Projects: r.projects, Address: func() string { return "http://here" },
		Unfinished: func(_ context.Context, id string) (bool, error) { return r.running[id], nil }})
}

func (r *rig) good(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) refused(code stepwell.Code, err error) {
	r.Helper()
	if stepwell.CodeOf(err) != code {
		r.Errorf("%v is not %s", err, code)
	}
}

func (r *rig) project(id, name, tags string) {
	r.Helper()
	_, err := r.projects.Create(r.Context(), &project.Draft{ID: id, Name: name, Tags: tags}, "me")
	r.good(err)
}

func (r *rig) lesson(of, id string) {
	r.Helper()
	_, err := r.lessons.Create(r.Context(), &project.LessonDraft{Project: of, ID: id, Name: "About " + id, Tag: "t"}, "me")
	r.good(err)
}

func ids[T any](list []T, id func(*T) string) string {
	out := []string{}
	for i := range list {
		out = append(out, id(&list[i]))
	}
	return fmt.Sprint(out)
}

// TestProjects: projects have a name and tags, are changed, found by their words, and their tags are listed.
func TestProjects(t *testing.T) {
	both(t, func(r *rig) {
		r.project("a", "Physics for all", "grade 7, light ")
		r.project("b", "Chemistry", "Grade 8,light,light")
		r.project("c", "", "")
		made, err := r.projects.Create(r.Context(), &project.Draft{Name: "no id"}, "me")
		r.good(err)
		if len(made.ID) != 36 {
			r.Errorf("its id is %q", made.ID)
		}
		for word, want := range map[string]string{"grade": "[a b]", "LIGHT": "[a b]", "physics": "[a]", "phys": "[]", "light 8": "[b]", ",": "[a b c]"} {
			list, err := r.projects.List(r.Context(), &project.Filter{Word: word, Page: resource.Page{Limit: 4}})
			r.good(err)
			if word == "," { // no word: all
				list = slicesWithout(list, made.ID)
			}
			if got := ids(list, (*project.Project).Identity); got != want {
				r.Errorf("%s: %s, not %s", word, got, want)
			}
		}
		tags, err := r.projects.Tags(r.Context())
		r.good(err)
		if got, want := fmt.Sprint(tags), "[{Grade 8 1} {grade 7 1} {light 2}]"; got != want {
			r.Errorf("tags %s, not %s", got, want)
		}
		changed, err := r.projects.Update(r.Context(), "c", 1, func(c *project.Change) error { c.Name = "Now"; return nil })
		r.good(err)
		if changed.Name != "Now" || changed.By != "me" || changed.Revision != 2 {
			r.Errorf("changed %+v", changed)
		}
		_, err = r.projects.Update(r.Context(), "c", 1, func(*project.Change) error { return nil })
		r.refused(stepwell.CodeConflict, err)
		_, err = r.projects.Update(r.Context(), "c", store.AnyRevision, func(c *project.Change) error { c.Tags = string(make([]byte, 3000)); return nil })
		r.refused(stepwell.CodeInvalid, err)
		_, err = r.projects.Update(r.Context(), "none", store.AnyRevision, func(*project.Change) error { return nil })
		r.refused(stepwell.CodeNotFound, err)
	})
}

func slicesWithout(list []project.Project, id string) (out []project.Project) {
	for i := range list {
		if list[i].ID != id {
			out = append(out, list[i])
		}
	}
	return out
}

// TestLessons: a lesson belongs to one project, is found by its id alone, and those of a project are paged.
func TestLessons(t *testing.T) {
	both(t, func(r *rig) {
		r.project("p", "Physics", "grade 7")
		r.project("p2", "", "")
		for _, id := range []string{"l1", "l2", "l3"} {
			r.lesson("p", id)
		}
		r.lesson("p2", "m1")
		_, err := r.lessons.Create(r.Context(), &project.LessonDraft{Project: "p2", ID: "l1"}, "me")
		r.refused(stepwell.CodeConflict, err)
		_, err = r.lessons.Create(r.Context(), &project.LessonDraft{Project: "none", ID: "x"}, "me")
		r.refused(stepwell.CodeNotFound, err)
		_, err = r.lessons.Create(r.Context(), &project.LessonDraft{Project: "p", ID: "a/b"}, "me")
		r.refused(stepwell.CodeInvalid, err)
		_, err = r.lessons.Get(r.Context(), "p/l1")
		r.refused(stepwell.CodeNotFound, err)
		list, err := r.lessons.List(r.Context(), &project.LessonFilter{Project: "p", Page: resource.Page{Limit: 2}})
		r.good(err)
		rest, err := r.lessons.List(r.Context(), &project.LessonFilter{Project: "p", Page: resource.Page{Limit: 2, Cursor: list[1].Place()}})
		r.good(err)
		if got := ids(append(list, rest...), (*project.Lesson).Identity); got != "[l1 l2 l3]" {
			r.Errorf("the lessons of p are %s", got)
		}
		list, err = r.lessons.List(r.Context(), &project.LessonFilter{Word: "m1", Tag: "t"})
		r.good(err)
		if got := ids(list, (*project.Lesson).Identity); got != "[m1]" {
			r.Errorf("found %s", got)
		}
		changed, err := r.lessons.Update(r.Context(), "l1", 1, func(c *project.LessonChange) error { c.Tag = "u"; return nil })
		r.good(err)
		if changed.Tag != "u" || changed.Name != "About l1" || changed.Project != "p" {
			r.Errorf("changed %+v", changed)
		}
		_, err = r.lessons.SetMedia(r.Context(), "l1", &project.Media{File: project.File{Name: "a b.mp3", Type: "audio/mpeg", Bytes: 3, SHA256: "00"}, Ref: "@sha256:00:1", Upload: "u"})
		r.good(err)
		about, one, err := r.lessons.About(r.Context(), "l1")
		r.good(err)
		want := `{"project":{"id":"p","name":"Physics","tags":"grade 7"},"lesson":{"id":"l1","name":"About l1","tag":"u","media":{"path":"media:@sha256:00:1/a b.mp3","url":"http://here/api/v1/lessons/l1/media","type":"audio/mpeg","bytes":3}}}`
		if string(about) != want || one.Media.Upload != "u" || one.Revision != 3 {
			r.Errorf("about %s", about)
		}
		shown, err := json.Marshal(one)
		r.good(err)
		var members struct{ Media map[string]any }
		r.good(json.Unmarshal(shown, &members))
		if len(members.Media) != 6 { // neither the blob nor the upload
			r.Errorf("shown %s", shown)
		}
		_, _, err = r.lessons.About(r.Context(), "none")
		r.refused(stepwell.CodeNotFound, err)
	})
}

// TestDeletion: a project with lessons and a lesson with executions stay; a lesson that is created while its project is deleted
// is refused or keeps it.
func TestDeletion(t *testing.T) {
	both(t, func(r *rig) {
		r.project("p", "", "")
		r.lesson("p", "l")
		r.refused(stepwell.CodeConflict, r.projects.Delete(r.Context(), "p", store.AnyRevision))
		r.running["l"] = true
		r.refused(stepwell.CodeConflict, r.lessons.Delete(r.Context(), "l", store.AnyRevision))
		delete(r.running, "l")
		r.refused(stepwell.CodeConflict, r.lessons.Delete(r.Context(), "l", 7))
		r.good(r.lessons.Delete(r.Context(), "l", 1))
		r.refused(stepwell.CodeNotFound, r.lessons.Delete(r.Context(), "l", store.AnyRevision))
		r.refused(stepwell.CodeConflict, r.projects.Delete(r.Context(), "p", 7))
		r.good(r.projects.Delete(r.Context(), "p", 1))
		r.refused(stepwell.CodeNotFound, r.projects.Delete(r.Context(), "p", store.AnyRevision))
		for n := range 20 {
			id := fmt.Sprint("race", n)
			r.project(id, "", "")
			var created, deleted error
			var all sync.WaitGroup
			all.Go(func() {
				_, created = r.lessons.Create(r.Context(), &project.LessonDraft{Project: id, ID: id}, "me")
			})
			all.Go(func() { deleted = r.projects.Delete(r.Context(), id, store.AnyRevision) })
			all.Wait()
			_, there := r.lessons.Get(r.Context(), id)
			if (created == nil) != (there == nil) || created == nil && deleted == nil {
				r.Errorf("created %v, deleted %v, found %v", created, deleted, there)
			}
		}
	})
}

// TestManyLessons: the lessons of a project are visited in order, each once, also where there are more than in a page.
func TestManyLessons(t *testing.T) {
	both(t, func(r *rig) {
		r.project("p", "", "")
		r.project("q", "", "")
		r.lesson("q", "other")
		const n = 2500
		var list []store.Object
		for i := range n {
			id := fmt.Sprintf("%05d", i)
			list = append(list, store.Object{Kind: "lesson", ID: "p/" + id, Name: id, Body: []byte(`{}`)})
		}
		_, err := r.store.PutObjects(r.Context(), list...)
		r.good(err)
		seen, last := 0, ""
		r.good(r.lessons.Each(r.Context(), "p", func(l *project.Lesson) error {
			if l.ID <= last || l.Project != "p" {
				return fmt.Errorf("%s follows %s", l.Place(), last)
			}
			seen, last = seen+1, l.ID
			return nil
		}))
		if seen != n {
			r.Errorf("%d lessons", seen)
		}
	})
}
