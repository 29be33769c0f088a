package pipeline_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
)

func TestVersions(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	p := r.create(doc("p", "1"))
	if p.Version != 1 || p.Name != "p" || p.Steps != 1 || p.CreatedBy != "tester" || p.Created.IsZero() {
		t.Errorf("created %+v", p)
	}
	if same := r.update(p.ID, doc("p", "1")); same.Version != 1 || same.Revision != p.Revision {
		t.Errorf("the same document made %+v", same)
	}
	for n := 2; n <= 5; n++ {
		r.update("p", doc("p", fmt.Sprint(n)))
	}
	page, err := r.Versions(t.Context(), "p", 0, 2)
	if err != nil || len(page) != 2 || page[0].Version != 5 || page[1].Version != 4 || page[0].Document != "" || page[0].Created.IsZero() {
		t.Fatalf("%+v, %v", page, err)
	}
	if page, err = r.Versions(t.Context(), p.ID, 4, 100); err != nil || len(page) != 3 || page[2].Version != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	v, err := r.Version(t.Context(), "p", 2)
	if err != nil || v.Document != doc("p", "2") || v.Pipeline != p.ID {
		t.Fatalf("%+v, %v", v, err)
	}
	if v, err = r.Version(t.Context(), "p", 0); err != nil || v.Version != 5 {
		t.Fatalf("%+v, %v", v, err)
	}
	_, err = r.Version(t.Context(), "p", 6)
	wantCode(t, err, stepwell.CodeNotFound)
	for version, want := range map[int]string{0: "5", 2: "2"} {
		r.run(pipeline.Launch{Workflow: "p", Version: version})
		if got := <-r.calls; fmt.Sprint(got["n"]) != want {
			t.Errorf("version %d said %v", version, got)
		}
	}
}

func TestNamesAndRevisions(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	a, b := r.create(doc("a", "1")), r.create(doc("b", "1"))
	_, err := r.Create(t.Context(), &pipeline.Draft{Document: []byte(doc("a", "2"))}, "")
	wantCode(t, err, stepwell.CodeConflict)
	if err.Error() != `a pipeline named "a" exists already` || stepwell.HintOf(err) != "`stepwell pipelines update a FILE` stores a new version of it; or use another name" {
		t.Errorf("%v (%s)", err, stepwell.HintOf(err))
	}
	_, err = r.Update(t.Context(), b.ID, store.AnyRevision, with(doc("a", "2")))
	wantCode(t, err, stepwell.CodeConflict)
	_, err = r.Update(t.Context(), b.ID, b.Revision+1, with(doc("b", "2")))
	wantCode(t, err, stepwell.CodeConflict)
	_, err = r.Update(t.Context(), "c", store.AnyRevision, with(doc("c", "2")))
	wantCode(t, err, stepwell.CodeNotFound)
	if renamed := r.update(a.ID, doc("c", "1")); renamed.Name != "c" || renamed.Version != 2 {
		t.Errorf("renamed %+v", renamed)
	}
	if _, err := r.Pipeline(t.Context(), "a"); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Errorf("the old name: %v", err)
	}
	archived, err := r.Archive(t.Context(), "b", true, b.Revision)
	if err != nil || !archived.Archived {
		t.Fatal(archived, err)
	}
	_, err = r.Update(t.Context(), b.ID, store.AnyRevision, with(doc("b", "2")))
	wantCode(t, err, stepwell.CodeConflict)
	_, err = r.Launch(t.Context(), pipeline.Launch{Workflow: "b"})
	wantCode(t, err, stepwell.CodeConflict)
	if list, err := r.List(t.Context(), &pipeline.Filter{Archived: "false"}); err != nil || len(list) != 1 || list[0].Name != "c" {
		t.Errorf("%+v, %v", list, err)
	}
	wantCode(t, r.Delete(t.Context(), "b", b.Revision), stepwell.CodeConflict)
	if err := r.Delete(t.Context(), "b", archived.Revision); err != nil {
		t.Fatal(err)
	}
	wantCode(t, r.Delete(t.Context(), "b", store.AnyRevision), stepwell.CodeNotFound)
	if left, err := r.store.Objects(t.Context(), store.ObjectFilter{Kind: "pipeline_version", Prefix: b.ID}); err != nil || len(left) != 0 {
		t.Errorf("versions are left: %v, %v", left, err)
	}
	r.create(doc("b", "3")) // the name is free
}

func TestDocumentsWithErrors(t *testing.T) {
	r := newRig(t, pipeline.Options{MaxDocument: 10_000})
	bad := "name: p\nsteps:\n  - id: a\n    action: t.echoo\n  - id: a\n    action: t.echo\n    depends_on: [b]\n"
	_, err := r.Create(t.Context(), &pipeline.Draft{Document: []byte(bad)}, "")
	wantCode(t, err, stepwell.CodeInvalid)
	problems, ok := errors.AsType[definition.Problems](err)
	if len(problems) < 3 || !ok || problems[0].Line == 0 {
		t.Errorf("problems: %v", problems)
	}
	p, err := r.Create(t.Context(), &pipeline.Draft{Document: []byte(bad), Draft: true}, "")
	if err != nil || !p.Draft || len(p.Problems) != len(problems) {
		t.Fatal(p, err)
	}
	_, err = r.Launch(t.Context(), pipeline.Launch{Workflow: "p"})
	wantCode(t, err, stepwell.CodeInvalid)
	if good := r.update("p", doc("p", "1")); good.Draft || good.Version != 2 {
		t.Errorf("repaired %+v", good)
	}
	for _, text := range []string{"", "{", "steps: []", strings.Repeat("a", 100)} {
		_, err := r.Create(t.Context(), &pipeline.Draft{Document: []byte(text), Draft: true}, "")
		wantCode(t, err, stepwell.CodeInvalid)
	}
	_, err = r.Create(t.Context(), &pipeline.Draft{Document: []byte(strings.Repeat("a", 10_001))}, "")
	wantCode(t, err, stepwell.CodeLimit)
	_, err = r.Launch(t.Context(), pipeline.Launch{Document: []byte(strings.Repeat("a", 10_001))})
	wantCode(t, err, stepwell.CodeLimit)
}

func TestDiff(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	before := "name: p\nsteps:\n  - id: a\n    action: t.echo\n  - id: b\n    action: t.echo\n    params: {n: 1}\n  - id: c\n    action: t.echo\n"
	after := "name: p\nsteps:\n  - id: a\n    action: t.echo\n  - id: b\n    action: t.echo\n    params: {n: 2}\n  - id: d\n    action: t.echo\noutputs: {x: 1}\n"
	r.create(before)
	r.update("p", after)
	d, err := r.Diff(t.Context(), "p", 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(d.Added, d.Removed, d.Changed, d.Settings) != "[d] [c] [b] true" {
		t.Errorf("added, removed, changed, settings: %v %v %v %v", d.Added, d.Removed, d.Changed, d.Settings)
	}
	want := "--- p version 1\n+++ p version 2\n@@ -4,6 +4,7 @@\n     action: t.echo\n   - id: b\n     action: t.echo\n-    params: {n: 1}\n-  - id: c\n+    params: {n: 2}\n+  - id: d\n     action: t.echo\n+outputs: {x: 1}\n"
	if d.Text != want {
		t.Errorf("the text is\n%s\nwant\n%s", d.Text, want)
	}
	if d, err = r.Diff(t.Context(), "p", 2, 2); err != nil || d.Text != "" || len(d.Changed)+len(d.Added)+len(d.Removed) > 0 || d.Settings {
		t.Errorf("of itself: %+v, %v", d, err)
	}
}
