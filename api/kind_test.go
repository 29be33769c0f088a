package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// The types from here to noJobs are the whole package of a new kind of trigger. Everything else is one line in the list of
// kinds.

// Watch starts something when a file comes into a folder.
type Watch struct {
	ID string `json:"watch_id" required:"false" shown:"always" change:"never" maxLength:"128"`
	trigger.Head
	Folder string          `json:"folder" minLength:"1" maxLength:"100" doc:"Which one."`
	Labels resource.Object `json:"labels,omitempty"`
}

func (w *Watch) Texts() map[string]*resource.Object {
	return map[string]*resource.Object{"labels": &w.Labels}
}

// watchStatus is a watch and what became of it.
type watchStatus struct {
	Watch
	trigger.Counted
}

func (s *watchStatus) Identity() string    { return s.ID }
func (s *watchStatus) Shown() *watchStatus { return s }

type watchFilter struct {
	Folder string `query:"folder"`
	resource.Page
}

// watches keeps watches.
type watches struct {
	set  *resource.Set[Watch]
	jobs trigger.Jobs
}

func (w *watches) Kind() resource.Kind {
	return resource.Kind{Name: "watch", Noun: "folder watch", Path: "watches", Param: "watch_id", List: "watches"}
}

func (w *watches) status(i resource.Item[Watch]) *watchStatus {
	return &watchStatus{i.Value, trigger.CountedOf(resource.Count{}, "", i.Meta)}
}

func (w *watches) Create(ctx context.Context, d *Watch, _ string) (_ *watchStatus, err error) {
	if d.ID, err = resource.NewID(d.ID); err != nil {
		return nil, err
	}
	if err := d.Head.Check("watch", d.Labels, w.jobs); err != nil {
		return nil, err
	}
	item, err := w.set.Create(ctx, d.ID, *d)
	return w.status(item), err
}

func (w *watches) Get(_ context.Context, idOrName string) (*watchStatus, error) {
	item, err := w.set.Find(idOrName)
	return w.status(item), err
}

func (w *watches) List(_ context.Context, f *watchFilter) (list []watchStatus, _ error) {
	for _, item := range w.set.List(f.Cursor, f.Limit, func(i *resource.Item[Watch]) bool { return f.Folder == "" || i.Value.Folder == f.Folder }) {
		list = append(list, *w.status(item))
	}
	return list, nil
}

func (w *watches) Update(ctx context.Context, id string, revision int64, edit func(*Watch) error) (*watchStatus, error) {
	item, err := w.set.Update(ctx, id, revision, func(v *Watch) error {
		if err := edit(v); err != nil {
			return err
		}
		return v.Head.Check("watch", v.Labels, w.jobs)
	})
	return w.status(item), err
}

func (w *watches) Delete(ctx context.Context, id string, revision int64) error {
	_, err := w.set.Delete(ctx, id, revision)
	return err
}

// noJobs are no jobs.
type noJobs struct{ trigger.Jobs }

func (noJobs) Job(string) (*trigger.Status, error) {
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no job"}
}

func (noJobs) Trigger(context.Context, string, pipeline.Launch) (*pipeline.Launched, error) {
	return nil, nil
}

// A new kind of trigger is one package and one line: it is created, listed by pages, found, changed under If-Match and deleted
// like the others, its description comes from its struct, secrets do not get in, and roles hold.
func TestANewKindIsOnePackageAndOneLine(t *testing.T) {
	r := newRig(t, func(o *api.Options) {
		set, err := resource.Open(t.Context(), resource.Options[Watch]{Kind: (&watches{}).Kind(), Objects: o.Store.(store.Objects), Most: 10, Label: func(w *Watch) string { return w.Name }})
		good(t, err)
		o.Kinds = append(o.Kinds, api.Of(&watches{set, noJobs{}})) // the line
	})
	at := "/api/v1/watches"
	made := r.do("editor", "POST", at, `{"watch_id": "in", "name": "inbox", "folder": "/in", "callback": {"action_type": "util.log", "params": {"message": "hi"}}}`).is(201)
	if made.header.Get("Location") != at+"/in" || made.header.Get("ETag") != `"1"` || strings.Contains(string(made.body), "author") {
		t.Errorf("made: %v %s", made.header, made.body)
	}
	r.do("viewer", "POST", at, `{"folder": "/x"}`).problem(403, stepwell.CodeForbidden)
	r.do("editor", "POST", at, `{"watch_id": "bad"}`).problem(400, stepwell.CodeInvalid)
	r.do("editor", "POST", at, `{"folder": "/x", "callback": {"action_type": "util.log", "author": "somebody"}}`).problem(400, stepwell.CodeInvalid)
	_, err := r.client("admin").SetSecret(t.Context(), "hidden", "told-to-nobody", "")
	good(t, err)
	r.do("editor", "PUT", at+"/in", `{"labels": {"x": "told-to-nobody"}}`).problem(400, stepwell.CodeInvalid)
	r.do("editor", "PUT", at+"/in", `{"watch_id": "other"}`).problem(400, stepwell.CodeInvalid)
	changed := r.do("editor", "PUT", at+"/inbox", `{"callback": {"priority": 3}}`, "If-Match", `"1"`).is(200).object()
	if target := changed["callback"].(map[string]any); changed["folder"] != "/in" || target["action_type"] != "util.log" || target["priority"] != 3.0 {
		t.Errorf("changed: %v", changed)
	}
	r.do("editor", "PUT", at+"/in", `{"folder": "/other"}`, "If-Match", `"1"`).is(412)
	r.do("viewer", "GET", at+"/in", nil, "If-None-Match", `"2"`).is(304)
	for _, id := range []string{"a", "b"} {
		r.do("editor", "POST", at, `{"watch_id": "`+id+`", "folder": "/out", "callback": {"action_type": "util.noop"}}`).is(201)
	}
	first := r.do("viewer", "GET", at+"?folder=/out&limit=1", nil).is(200).object()
	second := r.do("viewer", "GET", at+"?folder=/out&limit=1&cursor="+first["next_cursor"].(string), nil).is(200).object()
	if len(second["watches"].([]any)) != 1 || second["next_cursor"] != nil || second["watches"].([]any)[0].(map[string]any)["watch_id"] != "b" {
		t.Errorf("pages: %v, %v", first, second)
	}
	schemas := r.do("", "GET", "/openapi.json", nil).is(200).object()["components"].(map[string]any)["schemas"].(map[string]any)
	for _, name := range []string{"FolderWatch", "NewFolderWatch", "FolderWatchChange", "FolderWatchList"} {
		if schemas[name] == nil {
			t.Errorf("no schema %s", name)
		}
	}
	r.do("editor", "DELETE", at+"/in", nil).is(204)
	r.do("viewer", "GET", at+"/in", nil).problem(404, stepwell.CodeNotFound)
}
