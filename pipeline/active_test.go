package pipeline_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
)

// faulty is a document of the pipeline p that can be stored as a draft only.
const faulty = "name: p\nsteps: [{id: a, action: t.nothing}]\n"

// starts runs a pipeline without naming a version, and fails unless the document with the text n is what ran.
func (r *rig) starts(name, n string) {
	r.t.Helper()
	r.run(pipeline.Launch{Workflow: name})
	if got := fmt.Sprint((<-r.calls)["n"]); got != n {
		r.t.Errorf("a start of %s without a version said %s, want %s", name, got, n)
	}
}

// isActive fails unless the version is the active one, and the only one.
func (r *rig) isActive(version int) {
	r.t.Helper()
	p, err := r.Pipeline(r.t.Context(), "p")
	if err != nil || p.Active != version {
		r.t.Errorf("the active version is %+v, %v; want %d", p, err, version)
	}
	list, err := r.Versions(r.t.Context(), "p", 0, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, v := range list {
		if v.Active != (v.Version == version) {
			r.t.Errorf("version %d: active is %t", v.Version, v.Active)
		}
	}
}

// change stores a document, with a word about activation.
func (r *rig) change(document string, activate *bool, draft bool) (*pipeline.Pipeline, error) {
	return r.Update(r.t.Context(), "p", store.AnyRevision, func(d *pipeline.Draft) error {
		*d = pipeline.Draft{Document: []byte(document), Activate: activate, Draft: draft}
		return nil
	})
}

// A new version becomes the active one, unless the change says otherwise or it has problems. What names no version runs
// the active one: a start, and a step of another pipeline.
func TestActiveVersion(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	yes, no := true, false
	r.create(doc("p", "1"))
	r.create("name: caller\nsteps: [{id: a, pipeline: p}]\n")
	r.isActive(1)
	r.update("p", doc("p", "2"))
	r.isActive(2)
	r.starts("p", "2")
	v, err := r.Activate(t.Context(), "p", 1, store.AnyRevision)
	if err != nil || !v.Active || v.Version != 1 || v.Status != pipeline.StatusActive || v.ID != v.Pipeline+":1" {
		t.Fatal(v, err)
	}
	r.isActive(1)
	r.starts("p", "1")
	r.starts("caller", "1")
	if p, err := r.Get(t.Context(), "p"); err != nil || p.Version != 2 || p.Document != doc("p", "2") {
		t.Errorf("the newest is %+v, %v", p, err)
	}
	r.run(pipeline.Launch{Workflow: "p", Version: 2}) // by its number as before
	<-r.calls
	if p, err := r.change(doc("p", "3"), &no, false); err != nil || p.Version != 3 || p.Active != 1 {
		t.Errorf("stored for later: %+v, %v", p, err)
	}
	if p, err := r.change(doc("p", "3"), nil, false); err != nil || p.Version != 3 || p.Active != 1 {
		t.Errorf("the same document changes nothing: %+v, %v", p, err)
	}
	if p, err := r.change(doc("p", "3"), &yes, false); err != nil || p.Version != 3 || p.Active != 3 {
		t.Errorf("the same document, to be activated: %+v, %v", p, err)
	}
	r.starts("caller", "3")
	if p, err := r.change(faulty, nil, true); err != nil || p.Version != 4 || !p.Draft || p.Active != 3 {
		t.Errorf("a draft does not become active: %+v, %v", p, err)
	}
	r.starts("p", "3")
	_, err = r.Activate(t.Context(), "p", 4, store.AnyRevision)
	wantCode(t, err, stepwell.CodeConflict)
	_, err = r.change(strings.Replace(faulty, "nothing", "nothing2", 1), &yes, true)
	wantCode(t, err, stepwell.CodeInvalid)
	if p, err := r.change(doc("p", "5"), nil, false); err != nil || p.Version != 5 || p.Active != 5 {
		t.Errorf("repaired: %+v, %v", p, err)
	}
	for version, code := range map[int]stepwell.Code{0: stepwell.CodeNotFound, 6: stepwell.CodeNotFound} {
		_, err := r.Activate(t.Context(), "p", version, store.AnyRevision)
		wantCode(t, err, code)
	}
}

// A draft that nobody could start either is followed by the next one, so that its problems are the ones that are told.
func TestDraftFollowsDraft(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	if _, err := r.Create(t.Context(), &pipeline.Draft{Document: []byte(faulty), Draft: true}, ""); err != nil {
		t.Fatal(err)
	}
	r.isActive(1)
	if _, err := r.change(strings.Replace(faulty, "nothing", "nothing2", 1), nil, true); err != nil {
		t.Fatal(err)
	}
	r.isActive(2)
	r.update("p", doc("p", "3"))
	r.isActive(3)
}

// An archived version is not started and not activated; the active one cannot be archived.
func TestArchivedVersion(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	r.create(doc("p", "1"))
	r.update("p", doc("p", "2"))
	r.update("p", doc("p", "3"))
	stored := func() (bodies []string) {
		list, err := r.store.Objects(t.Context(), store.ObjectFilter{Kind: "pipeline_version", Limit: 10})
		if err != nil || len(list) != 3 {
			t.Fatal(list, err)
		}
		for _, o := range list {
			if bodies = append(bodies, string(o.Body)); strings.Contains(string(o.Body), "status") || o.Revision != 1 {
				t.Errorf("stored: %+v", o)
			}
		}
		return bodies
	}
	before := stored()
	defer func() {
		if after := stored(); !slices.Equal(before, after) {
			t.Errorf("versions have changed: %s, before %s", after, before)
		}
	}()
	_, err := r.ArchiveVersion(t.Context(), "p", 3, true, store.AnyRevision)
	wantCode(t, err, stepwell.CodeConflict)
	if !strings.Contains(err.Error(), "active") || !strings.Contains(stepwell.HintOf(err), "activate another") {
		t.Errorf("%v (%s)", err, stepwell.HintOf(err))
	}
	for _, version := range []int{2, 1, 2} { // once more is no mistake
		if v, err := r.ArchiveVersion(t.Context(), "p", version, true, store.AnyRevision); err != nil || v.Status != pipeline.StatusArchived || v.Active {
			t.Fatal(v, err)
		}
	}
	_, err = r.Launch(t.Context(), pipeline.Launch{Workflow: "p", Version: 2})
	wantCode(t, err, stepwell.CodeConflict)
	if err.Error() != "version 2 of the pipeline p is archived" || !strings.Contains(stepwell.HintOf(err), "name another version") {
		t.Errorf("%v (%s)", err, stepwell.HintOf(err))
	}
	_, err = r.Activate(t.Context(), "p", 2, store.AnyRevision)
	wantCode(t, err, stepwell.CodeConflict)
	list, err := r.Versions(t.Context(), "p", 0, 0)
	if err != nil || fmt.Sprint(list[0].Status, list[1].Status, list[2].Status) != "activearchivedarchived" {
		t.Errorf("%+v, %v", list, err)
	}
	if v, err := r.Version(t.Context(), "p", 2); err != nil || v.Document != doc("p", "2") { // nothing is lost
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := r.ArchiveVersion(t.Context(), "p", 2, false, store.AnyRevision); err != nil || v.Status != pipeline.StatusActive {
		t.Fatal(v, err)
	}
	r.run(pipeline.Launch{Workflow: "p", Version: 2})
	if got := <-r.calls; fmt.Sprint(got["n"]) != "2" {
		t.Errorf("version 2 said %v", got)
	}
	if _, err := r.Archive(t.Context(), "p", true, store.AnyRevision); err != nil {
		t.Fatal(err)
	}
	_, err = r.Activate(t.Context(), "p", 2, store.AnyRevision)
	wantCode(t, err, stepwell.CodeConflict)
}

// Changes at once: with the revision that was seen, one of them wins and the others hear of it; without, all are applied,
// and none takes away what another has stored.
func TestActivationsAtOnce(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	const n = 8
	p := r.create(doc("p", "1"))
	for i := 2; i <= n; i++ {
		p = r.update("p", doc("p", fmt.Sprint(i)))
	}
	together := func(do func(i int) error) (failed []error) {
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { errs[i] = do(i + 1) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				wantCode(t, err, stepwell.CodeConflict)
				failed = append(failed, err)
			}
		}
		return failed
	}
	seen := p.Revision
	if failed := together(func(i int) error { // none of them is the active one
		_, err := r.Activate(t.Context(), "p", i%(n-1)+1, seen)
		return err
	}); len(failed) != n-1 {
		t.Errorf("%d of %d activations of one revision failed: %v", len(failed), n, failed)
	}
	if failed := together(func(i int) error {
		_, err := r.Activate(t.Context(), "p", i, store.AnyRevision)
		return err
	}); len(failed) != 0 {
		t.Errorf("activations of any revision failed: %v", failed)
	}
	if _, err := r.Activate(t.Context(), "p", n, store.AnyRevision); err != nil {
		t.Fatal(err)
	}
	if failed := together(func(i int) error {
		if i == n {
			return nil
		}
		_, err := r.ArchiveVersion(t.Context(), "p", i, true, store.AnyRevision)
		return err
	}); len(failed) != 0 {
		t.Errorf("archiving failed: %v", failed)
	}
	list, err := r.Versions(t.Context(), "p", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if archived := v.Status == pipeline.StatusArchived; archived != (v.Version < n) {
			t.Errorf("version %d is %s", v.Version, v.Status)
		}
	}
}

// A pipeline that an earlier release has stored names no active version: that is its newest, until one is activated.
func TestActiveVersionOfOldData(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	r.create(doc("p", "1"))
	r.update("p", doc("p", "2"))
	o, err := r.store.Object(t.Context(), "pipeline", "p")
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(o.Body, &body); err != nil || body["active"] == nil {
		t.Fatal(body, err)
	}
	delete(body, "active")
	if o.Body, err = json.Marshal(body); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.PutObjects(t.Context(), *o); err != nil {
		t.Fatal(err)
	}
	r.isActive(2)
	no := false
	if p, err := r.change(doc("p", "3"), &no, false); err != nil || p.Version != 3 {
		t.Fatal(p, err)
	}
	r.isActive(2)
	r.starts("p", "2")
}
