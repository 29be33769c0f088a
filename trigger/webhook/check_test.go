package webhook_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/webhook"
)

func TestBadWebhooks(t *testing.T) {
	r := newRig(t)
	noop := &trigger.Target{Action: "util.noop"}
	for name, w := range map[string]webhook.Webhook{
		"nothing to start": {ID: "a"},
		"two things":       {ID: "a", Head: trigger.Head{Job: "j", Target: noop}},
		"an id":            {ID: "../a", Head: trigger.Head{Target: noop}},
		"auth":             {ID: "a", Head: trigger.Head{Target: noop}, Auth: "basic"},
		"open":             {ID: "a", Head: trigger.Head{Target: noop}, Auth: webhook.AuthNone},
		"address":          {ID: "a", Head: trigger.Head{Target: noop}, AllowedIPs: []string{"10.0.0.0/33"}},
		"name":             {ID: "a", Head: trigger.Head{Target: noop}, AllowedIPs: []string{"localhost"}},
		"secret header":    {ID: "a", Head: trigger.Head{Target: noop}, Headers: []string{"authorization"}},
		"header":           {ID: "a", Head: trigger.Head{Target: noop}, Headers: []string{"X: y"}},
		"window":           {ID: "a", Head: trigger.Head{Target: noop}, ReplaySeconds: 86_401},
		"payload":          {ID: "a", Head: trigger.Head{Target: noop}, PayloadParam: "_trigger"},
		"callback":         {ID: "a", Head: trigger.Head{Target: &trigger.Target{Type: "action"}}},
	} {
		if _, err := r.Create(t.Context(), &webhook.Draft{Webhook: w, Secret: ""}, ""); stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
			t.Errorf("%s: %v, hint %q", name, err, stepwell.HintOf(err))
		}
	}
	if _, err := r.Create(t.Context(), &webhook.Draft{Webhook: webhook.Webhook{ID: "a", Head: trigger.Head{Job: "absent"}}, Secret: ""}, ""); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Errorf("a job that is not there: %v", err)
	}
	if _, err := r.Create(t.Context(), &webhook.Draft{Webhook: webhook.Webhook{ID: "a", Head: trigger.Head{Target: noop}}, Secret: "short"}, ""); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("a short secret: %v", err)
	}
	r.hook(webhook.Webhook{ID: "a", Head: trigger.Head{Name: "same"}}, "")
	r.hook(webhook.Webhook{ID: "b", Head: trigger.Head{Name: "same"}}, "")
	if _, err := r.Create(t.Context(), &webhook.Draft{Webhook: webhook.Webhook{ID: "a", Head: trigger.Head{Target: noop}}, Secret: ""}, ""); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("twice: %v", err)
	}
	if _, err := r.Get(t.Context(), "same"); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("a name of two: %v", err)
	}
	unsealed, err := webhook.New(t.Context(), webhook.Options{Objects: r.store, Launcher: r.ledger, Jobs: r.jobs, Most: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unsealed.Create(t.Context(), &webhook.Draft{Webhook: webhook.Webhook{ID: "c", Head: trigger.Head{Target: noop}, Auth: webhook.AuthHMAC}, Secret: ""}, ""); stepwell.CodeOf(err) != stepwell.CodeUnavailable {
		t.Errorf("signed without a key: %v", err)
	}
	if _, err := unsealed.Create(t.Context(), &webhook.Draft{Webhook: webhook.Webhook{ID: "c", Head: trigger.Head{Target: noop}}, Secret: ""}, ""); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("one too many: %v", err)
	}
}

func TestChangeAWebhook(t *testing.T) {
	r := newRig(t)
	secret := r.hook(webhook.Webhook{ID: "a", Head: trigger.Head{Name: "first"}}, "")
	v, err := r.Get(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	rename := func(w *webhook.Webhook) error { w.Name = "second"; return nil }
	changed, err := r.Update(t.Context(), "a", v.Revision, rename)
	if err != nil || changed.Name != "second" || changed.Revision <= v.Revision {
		t.Fatal(changed, err)
	}
	if _, err := r.Update(t.Context(), "a", v.Revision, rename); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("an old revision: %v", err)
	}
	if _, err := r.Update(t.Context(), "a", store.AnyRevision, func(w *webhook.Webhook) error { w.Auth = webhook.AuthHMAC; return nil }); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("another auth: %v", err)
	}
	r.deliver("a", call(`{}`, "X-Webhook-Secret", secret)) // the secret stays
	if err := r.Delete(t.Context(), "a", v.Revision); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("deleting an old revision: %v", err)
	}
	if err := r.Delete(t.Context(), "a", changed.Revision); err != nil {
		t.Fatal(err)
	}
	r.refused("a", call(`{}`, "X-Webhook-Secret", secret), stepwell.CodeNotFound)
}

// What is counted is stored a second later, and when the loop is asked to stop.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		secret := r.hook(webhook.Webhook{ID: "a"}, "")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		r.deliver("a", call(`{}`, "X-Webhook-Secret", secret))
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		before := r.Hooks
		r.boot()
		if v, err := r.Get(t.Context(), "a"); err != nil || v.Count != 1 || v.LastTriggered.IsZero() {
			t.Errorf("after a second: %+v, %v", v, err)
		}
		r.Hooks = before
		r.deliver("a", call(`{}`, "X-Webhook-Secret", secret))
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.boot()
		if v, err := r.Get(t.Context(), "a"); err != nil || v.Count != 2 {
			t.Errorf("after the stop: %+v, %v", v, err)
		}
	})
}

// Secrets and signatures are compared by the functions that take constant time, and by nothing else.
func TestConstantTime(t *testing.T) {
	calls := map[string]bool{}
	for _, file := range []string{"secret.go", "verify.go"} {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok {
					calls[pkg.Name+"."+n.Sel.Name] = true
				}
			case *ast.BinaryExpr:
				for _, side := range []ast.Expr{n.X, n.Y} {
					name, ok := side.(*ast.Ident)
					if ok && (n.Op == token.EQL || n.Op == token.NEQ) && slices.Contains([]string{"own", "plain", "sum", "hash", "secret", "mac"}, name.Name) {
						t.Errorf("%s compares %s with %s", file, name.Name, n.Op)
					}
				}
			}
			return true
		})
	}
	for _, want := range []string{"subtle.ConstantTimeCompare", "hmac.Equal"} {
		if !calls[want] {
			t.Errorf("%s is not used", want)
		}
	}
	for _, bad := range []string{"bytes.Equal", "bytes.Compare", "slices.Equal", "strings.EqualFold", "reflect.DeepEqual"} {
		if calls[bad] {
			t.Errorf("%s is used where secrets are compared", bad)
		}
	}
}

// No header and no body makes a delivery panic, or start something without the secret.
func FuzzDeliver(f *testing.F) {
	f.Add("t=1,v1=00", "sha256=00", "1", "id", []byte(`{"id":"x"}`))
	f.Add("application/x-www-form-urlencoded", "", "", "", []byte("payload=%7B%7D"))
	r := newRig(f)
	for _, auth := range []string{webhook.AuthSecret, webhook.AuthHMAC, webhook.AuthGitHub, webhook.AuthStripe} {
		r.hook(webhook.Webhook{ID: auth, Auth: auth}, "")
	}
	r.hook(webhook.Webhook{ID: "open", Auth: webhook.AuthNone, AllowedIPs: []string{"0.0.0.0/0"}, Headers: []string{"X-Webhook-Id"}}, "")
	f.Fuzz(func(t *testing.T, stripe, signature, at, id string, body []byte) {
		header := http.Header{"Stripe-Signature": {stripe}, "X-Webhook-Signature": {signature}, "X-Hub-Signature-256": {signature}, "X-Webhook-Timestamp": {at},
			"X-Webhook-Id": {id}, "X-Webhook-Secret": {signature}, "Content-Type": {stripe}}
		d := webhook.Delivery{Header: header, Body: body, From: somewhere}
		for _, auth := range []string{webhook.AuthSecret, webhook.AuthHMAC, webhook.AuthGitHub, webhook.AuthStripe} {
			if _, err := r.Deliver(t.Context(), auth, d); stepwell.CodeOf(err) != stepwell.CodeUnauthenticated {
				t.Fatalf("%s: %v", auth, err)
			}
		}
		if _, err := r.Deliver(t.Context(), "open", d); err != nil && stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Fatalf("open: %v", err)
		}
	})
}
