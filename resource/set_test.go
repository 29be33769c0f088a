package resource_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

type tool struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

func open(t *testing.T) (objects store.Objects, another func() *resource.Set[tool]) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "tools.db"), Exclusive: true, Synchronous: "normal"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, func() *resource.Set[tool] {
		t.Helper()
		set, err := resource.Open(t.Context(), resource.Options[tool]{Kind: resource.Kind{Name: "tool", Noun: "tool", Param: "tool_id"}, Objects: s, Most: 3, Label: func(v *tool) string { return v.Name }})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
}

func wantCode(t *testing.T, err error, code stepwell.Code) {
	t.Helper()
	if stepwell.CodeOf(err) != code {
		t.Fatalf("error %v (%s), want %s", err, stepwell.CodeOf(err), code)
	}
}

func TestSet(t *testing.T) {
	_, another := open(t)
	set, ctx := another(), t.Context()
	made, err := set.Create(ctx, "a", tool{"saw", 1})
	if err != nil || made.Revision != 1 || made.Created.IsZero() {
		t.Fatal(made, err)
	}
	_, err = set.Create(ctx, "a", tool{})
	wantCode(t, err, stepwell.CodeConflict)
	grow := func(v *tool) error { v.Size++; return nil }
	_, err = set.Update(ctx, "saw", made.Revision+1, grow)
	wantCode(t, err, stepwell.CodeConflict)
	if grown, err := set.Update(ctx, "saw", made.Revision, grow); err != nil || grown.Value.Size != 2 || grown.Revision != 2 {
		t.Errorf("%+v, %v", grown, err)
	}
	if _, err = set.Update(ctx, "a", store.AnyRevision, func(v *tool) error { v.Size = 99; return errors.New("no") }); err == nil {
		t.Error("an edit that fails changes something")
	}
	if now, _ := set.ByID("a"); now.Value.Size != 2 {
		t.Errorf("an edit that failed left %+v", now)
	}
	for _, id := range []string{"b", "c"} {
		if _, err := set.Create(ctx, id, tool{Name: "same"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = set.Create(ctx, "d", tool{})
	wantCode(t, err, stepwell.CodeLimit)
	_, err = set.Find("same")
	wantCode(t, err, stepwell.CodeConflict)
	_, err = set.Find("nothing")
	wantCode(t, err, stepwell.CodeNotFound)
	everything := func(*resource.Item[tool]) bool { return true }
	if page := set.List("a", 1, everything); len(page) != 1 || page[0].ID != "b" {
		t.Errorf("the second page: %+v", page)
	}
	if id, err := set.Delete(ctx, "saw", store.AnyRevision); err != nil || id != "a" {
		t.Error(id, err)
	}
	if again := another(); len(again.All(everything)) != 2 {
		t.Errorf("the store has %+v", again.All(everything))
	}
}

// Two processes have a set of one kind each: a change that is meant for what another has changed is refused, and Refresh takes
// over what changed, came and went.
func TestRefresh(t *testing.T) {
	_, another := open(t)
	here, there, ctx := another(), another(), t.Context()
	for _, id := range []string{"a", "b"} {
		if _, err := here.Create(ctx, id, tool{Name: id}); err != nil {
			t.Fatal(err)
		}
	}
	told := func(ids ...string) (changed []store.Object) {
		for _, id := range ids {
			changed = append(changed, store.Object{Kind: "tool", ID: id})
		}
		return append(changed, store.Object{Kind: "other", ID: "a"})
	}
	if err := there.Refresh(ctx, told("a", "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := there.Update(ctx, "a", store.AnyRevision, func(v *tool) error { v.Size = 7; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := there.Delete(ctx, "b", store.AnyRevision); err != nil {
		t.Fatal(err)
	}
	_, err := here.Update(ctx, "a", store.AnyRevision, func(v *tool) error { v.Size++; return nil })
	wantCode(t, err, stepwell.CodeConflict)
	if err := here.Refresh(ctx, told("a", "b", "never")); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(here.ByID("a")); got != fmt.Sprint(there.ByID("a")) {
		t.Errorf("here %s", got)
	}
	if _, still := here.ByID("b"); still {
		t.Error("what was deleted elsewhere is still here")
	}
}
