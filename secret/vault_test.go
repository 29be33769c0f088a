package secret_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

func objects(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "v.db"), Synchronous: "normal", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func code(t *testing.T, err error, want stepwell.Code, what string) {
	t.Helper()
	if stepwell.CodeOf(err) != want {
		t.Errorf("%s: %v (%s), not %s", what, err, stepwell.CodeOf(err), want)
	}
}

func TestVault(t *testing.T) {
	s := objects(t)
	g := secret.NewGuard(s, ring(t, key(1)), secret.NewRedactor())
	ctx := t.Context()
	info, err := g.Vault.Set(ctx, "api", "first-value", 0, "ada")
	if err != nil || info.Version != 1 || info.By != "ada" {
		t.Fatalf("%+v, %v", info, err)
	}
	if info, err = g.Vault.Set(ctx, "api", "second-value", 1, "bob"); err != nil || info.Version != 2 {
		t.Fatalf("%+v, %v", info, err)
	}
	_, err = g.Vault.Set(ctx, "api", "third-value", 1, "bob")
	code(t, err, stepwell.CodeConflict, "a version that has passed")
	if got, err := g.Vault.Get(ctx, "api"); err != nil || got != "second-value" {
		t.Errorf("%q, %v", got, err)
	}
	if got := g.Text("any", "first-value second-value third-value"); got != "*** *** ***" {
		t.Errorf("shown as %q", got)
	}
	o, err := s.Object(ctx, secret.ObjectSecret, "api")
	if err != nil || strings.Contains(string(o.Body), "value") {
		t.Errorf("stored as %s, %v", o.Body, err)
	}
	list, err := g.Vault.List(ctx)
	if err != nil || len(list) != 1 || list[0].Name != "api" || list[0].By != "bob" || list[0].Version != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, name := range []string{"", "1a", "a b", "a/b", strings.Repeat("a", 129), "a\n"} {
		_, err := g.Vault.Set(ctx, name, "value", 0, "")
		code(t, err, stepwell.CodeInvalid, "name "+name)
	}
	for _, value := range []string{"", "abc", strings.Repeat("x", secret.MaxValue+1)} {
		_, err := g.Vault.Set(ctx, "x", value, 0, "")
		code(t, err, stepwell.CodeInvalid, fmt.Sprintf("%d bytes", len(value)))
	}
	code(t, g.Vault.Delete(ctx, "none", store.AnyRevision), stepwell.CodeNotFound, "deleting nothing")
	if err := g.Vault.Delete(ctx, "api", 2); err != nil {
		t.Error(err)
	}
	_, err = g.Vault.Get(ctx, "api")
	code(t, err, stepwell.CodeNotFound, "after it is deleted")
}

func TestVaultOfAnotherKey(t *testing.T) {
	s := objects(t)
	ctx := t.Context()
	if _, err := secret.NewGuard(s, ring(t, key(1)), secret.NewRedactor()).Vault.Set(ctx, "old", "old-value", 0, ""); err != nil {
		t.Fatal(err)
	}
	lost := secret.NewGuard(s, ring(t, key(2)), secret.NewRedactor())
	if _, err := lost.Vault.Set(ctx, "new", "new-value", 0, ""); err != nil {
		t.Fatal(err)
	}
	code(t, lost.Vault.Load(ctx), stepwell.CodeInternal, "without the key")
	if got, err := lost.Vault.Get(ctx, "new"); err != nil || got != "new-value" {
		t.Errorf("the others: %q, %v", got, err)
	}
	_, err := lost.Vault.Get(ctx, "old")
	code(t, err, stepwell.CodeInternal, "what cannot be opened")
	both := secret.NewGuard(s, ring(t, key(2), key(1)), secret.NewRedactor())
	if n, err := both.Vault.Rewrap(ctx); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if err := lost.Vault.Load(ctx); err != nil {
		t.Errorf("after all were sealed again: %v", err)
	}
	if _, err := s.PutObjects(ctx, moved(t, s)); err != nil {
		t.Fatal(err)
	}
	if err := lost.Vault.Load(ctx); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("a value under another name: %v", err)
	}
}

// moved is the value of one secret under the name of another.
func moved(t *testing.T, s *sqlite.Store) store.Object {
	t.Helper()
	o, err := s.Object(t.Context(), secret.ObjectSecret, "old")
	if err != nil {
		t.Fatal(err)
	}
	return store.Object{Kind: o.Kind, ID: "new", Revision: store.AnyRevision, Body: o.Body}
}

func TestSealedOutputsComeBack(t *testing.T) {
	g := secret.NewGuard(objects(t), ring(t, key(1)), secret.NewRedactor())
	rapid.Check(t, func(t *rapid.T) {
		v := value(t)
		g.Redactor.Pin(run, v, "4711004711")
		doc := map[string]any{"a": "x" + v, "n": json.Number("4711004711"), "m": json.Number("1.5"), "list": []any{v + v, nil, true}, v: map[string]any{"token": secret.Hidden + "\u2983sealed:AAAA\u2984"}}
		raw := []byte(must(json.Marshal(doc)))
		sealed := g.Seal(run, raw)
		if survives(string(sealed), v, strings.Trim(must(json.Marshal(v)), `"`)) || strings.Contains(string(sealed), "4711004711") || !json.Valid(sealed) {
			t.Fatalf("sealed as %s", sealed)
		}
		if string(g.Seal(run, raw)) != string(sealed) {
			t.Fatal("the same outputs are sealed in another way")
		}
		if shown := secret.Mask(sealed); secret.Sealed(shown) || !json.Valid(shown) {
			t.Fatalf("shown as %s", shown)
		}
		opened, err := g.Open(run, sealed)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(opened, &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestTokensThatWereChanged(t *testing.T) {
	g := secret.NewGuard(objects(t), ring(t, key(1)), secret.NewRedactor())
	g.Redactor.Add("the-secret-value")
	sealed := string(g.Seal(run, []byte(`{"a":"the-secret-value"}`)))
	for i := strings.Index(sealed, ":"); i < len(sealed); i++ {
		c := sealed[i]
		if c >= 'a' && c <= 'y' || c >= 'A' && c <= 'Y' {
			changed := sealed[:i] + string(c+1) + sealed[i+1:]
			if opened, err := g.Open(run, []byte(changed)); err == nil && secret.Sealed([]byte(changed)) && i > strings.Index(sealed, "sealed:")+7 {
				t.Fatalf("%s was opened as %s", changed, opened)
			}
		}
	}
	_, err := secret.NewGuard(objects(t), ring(t, key(2)), secret.NewRedactor()).Open(run, []byte(sealed))
	code(t, err, stepwell.CodeInternal, "another key")
	if _, err := secret.NewGuard(objects(t), ring(t, key(2), key(1)), secret.NewRedactor()).Open(run, []byte(sealed)); err != nil {
		t.Error(err)
	}
}

func TestTemplatesAreFollowed(t *testing.T) {
	g := secret.NewGuard(objects(t), ring(t, key(1)), secret.NewRedactor())
	if _, err := g.Vault.Set(t.Context(), "k", "Hunter22-secret", 0, ""); err != nil {
		t.Fatal(err)
	}
	scope := g.Scope(context.Background(), run, expr.Vars{"params": map[string]any{"city": "Berlin-Mitte", "flag": true}}, true).(*secret.Scope)
	for source, shown := range map[string]string{
		"{{ secrets.k | upper }}": "***", "{{ secrets.k | replace('-', '_') }}": "***", "{{ secrets.k[4:] }}": "***", "{{ secrets.k.split('-')[0] }}": "***", "{{ [secrets.k, 'x'] | map('upper') | first }}": "***",
		"{% set x = secrets.k | reverse %}{{ x }}": "***", "{% for c in secrets.k | list %}{{ c }}.{% endfor %}": "***", "{{ {'a': secrets.k | lower}['a'] }}": "***", "{{ secrets['k'] | title }}": "***",
		"{{ params.city | upper }} {{ secrets.k | length }}": "BERLIN-MITTE 15", "{{ 'Prenzlauer Berg' if secrets.k else 'b' }}": "***", "{{ params.city ~ secrets.k }}": "***", "at {{ params.city }}: {{ secrets.k }}": "at Berlin-Mitte: ***", "{{ (secrets.k ~ secrets.k)[3:] }}": "***", "{{ secrets.k == 'x' }}": "false",
	} {
		tmpl, err := expr.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		v, err := tmpl.Eval(scope, expr.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if got := g.Text(run, fmt.Sprint(v)); got != shown {
			t.Errorf("%s gives %v, shown as %q", source, v, got)
		}
	}
	if got := g.Text(run, "Berlin-Mitte BERLIN-MITTE"); got != "Berlin-Mitte BERLIN-MITTE" {
		t.Errorf("what has nothing to do with it is shown as %q", got)
	}
	if got := g.Text("another", "HUNTER22-SECRET"); got != "HUNTER22-SECRET" {
		t.Errorf("another execution: %q", got)
	}
	if err := scope.Err(); err != nil {
		t.Error(err)
	}
}

// A nil guard is no guard.
func TestNoGuard(t *testing.T) {
	var g *secret.Guard
	raw := []byte(`{"a":1}`)
	opened, err := g.Open(run, raw)
	params, perr := g.SealParams(run, map[string]any{"a": "secret"}, func(string) bool { return true })
	if g.Text(run, "x") != "x" || string(g.JSON(run, raw)) != string(raw) || string(g.Seal(run, raw)) != string(raw) || string(opened) != string(raw) || err != nil || perr != nil || params["a"] != "secret" {
		t.Error("it changes something")
	}
	g.Forget(run)
}

// A secret that another process sets or deletes is as it is there, at once after Refresh.
func TestGuardRefresh(t *testing.T) {
	s, ctx := objects(t), t.Context()
	here, there := secret.NewGuard(s, ring(t, key(1)), secret.NewRedactor()), secret.NewGuard(s, ring(t, key(1)), secret.NewRedactor())
	if err := here.Load(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := there.Vault.Set(ctx, "fresh", "fresh-value", 0, ""); err != nil {
		t.Fatal(err)
	}
	changed := []store.Object{{Kind: secret.ObjectSecret, ID: "fresh"}}
	if err := here.Refresh(ctx, changed); err != nil {
		t.Fatal(err)
	}
	if got, err := here.Vault.Get(ctx, "fresh"); err != nil || got != "fresh-value" || here.Text("", "a fresh-value b") != "a *** b" {
		t.Errorf("%q, %v", got, err)
	}
	if err := there.Vault.Delete(ctx, "fresh", store.AnyRevision); err != nil {
		t.Fatal(err)
	}
	if err := here.Refresh(ctx, changed); err != nil {
		t.Fatal(err)
	}
	_, err := here.Vault.Get(ctx, "fresh")
	code(t, err, stepwell.CodeNotFound, "after it was deleted elsewhere")
}
