package access_test

import (
	"log/slog"
	"testing"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/store"
)

// A key that another process revokes is refused at once after Refresh, and a policy that another process stores holds.
func TestRefresh(t *testing.T) {
	s, ctx := open(t), t.Context()
	here, there := access.NewKeys(s, slog.New(slog.DiscardHandler)), access.NewKeys(s, slog.New(slog.DiscardHandler))
	key, token, err := here.Create(ctx, access.NewKey{Name: "k", Role: access.Admin})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.Authenticate(ctx, token); err != nil {
		t.Fatal(err)
	}
	if _, err := there.Revoke(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if err := here.Refresh(ctx, []store.Object{{Kind: access.ObjectKey, ID: key.ID}}); err != nil {
		t.Fatal(err)
	}
	if _, err := here.Authenticate(ctx, token); err == nil {
		t.Error("a key that was revoked elsewhere still works")
	}
	mine, err := access.NewPolicies(ctx, s, access.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := access.NewPolicies(ctx, s, access.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Set(ctx, access.Policy{Actions: access.Rule{Deny: []string{"util.*"}}}, "chief", store.AnyRevision); err != nil {
		t.Fatal(err)
	}
	if err := mine.Refresh(ctx, []store.Object{{Kind: access.ObjectPolicy}}); err != nil {
		t.Fatal(err)
	}
	if mine.Check(access.Use{Names: []string{"util.exec"}, Role: "editor"}) == nil || mine.Stored().By != "chief" {
		t.Errorf("the policy here is %+v", mine.Stored())
	}
}
