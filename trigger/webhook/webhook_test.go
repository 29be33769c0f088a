package webhook_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/webhook"
)

func TestSecret(t *testing.T) {
	r := newRig(t)
	secret := r.hook(webhook.Webhook{ID: "hook"}, "")
	if len(secret) != 43 {
		t.Fatalf("the secret is %q", secret)
	}
	good := func() webhook.Delivery { return call(`{"a":1}`, "X-Webhook-Secret", secret) }
	launched := r.deliver("hook", good())
	if again := r.deliver("hook", good()); again.Execution == launched.Execution {
		t.Error("without an id every call is a new one")
	}
	in := r.ledger.last(t)
	about := in.Outside.About
	if in.Action != "util.noop" || in.Outside.Values["a"] != int64(1) || in.Params != nil || in.Trigger != "webhook" || in.Job != "hook" || about["type"] != "webhook" || about["webhook_id"] != "hook" {
		t.Errorf("started %+v", in)
	}
	r.refused("unknown", good(), stepwell.CodeNotFound)
	for _, wrong := range []string{"", "x", secret + "x", secret[1:], strings.ToUpper(secret)} {
		r.refused("hook", call(`{}`, "X-Webhook-Secret", wrong), stepwell.CodeUnauthenticated)
	}
	r.refused("hook", call(`{}`), stepwell.CodeUnauthenticated)
	off := false
	if _, err := r.Update(t.Context(), "hook", store.AnyRevision, func(w *webhook.Webhook) error { w.Enabled = &off; return nil }); err != nil {
		t.Fatal(err)
	}
	r.refused("hook", good(), stepwell.CodeForbidden)
}

func TestSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		now := time.Now()
		own := r.hook(webhook.Webhook{ID: "own", Auth: webhook.AuthHMAC}, "")
		r.hook(webhook.Webhook{ID: "hub", Auth: webhook.AuthGitHub}, "It's a Secret to Everybody")
		r.hook(webhook.Webhook{ID: "pay", Auth: webhook.AuthStripe}, "whsec_0123456789")

		r.deliver("own", signed(own, "", `{"n":1}`, now))
		r.deliver("own", signed(own, "d-1", `{"n":2}`, now))
		// GitHub's own example; its body is no JSON, which is noticed only behind the signature.
		hub := call("Hello, World!", "X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
		r.refused("hub", hub, stepwell.CodeInvalid)
		r.deliver("hub", call(`{"ref":"main"}`, "X-Hub-Signature-256", "sha256="+sign("It's a Secret to Everybody", `{"ref":"main"}`)))
		r.deliver("pay", stripe("whsec_0123456789", `{"id":"evt_1"}`, now))

		tampered := func(d webhook.Delivery) webhook.Delivery { d.Body = append(bytes.Clone(d.Body), ' '); return d }
		r.refused("own", tampered(signed(own, "", `{}`, now)), stepwell.CodeUnauthenticated)
		r.refused("hub", tampered(call(`{}`, "X-Hub-Signature-256", "sha256="+sign("It's a Secret to Everybody", `{}`))), stepwell.CodeUnauthenticated)
		r.refused("pay", tampered(stripe("whsec_0123456789", `{}`, now)), stepwell.CodeUnauthenticated)
		other := signed(own, "d-2", `{}`, now)
		other.Header.Set(webhook.HeaderID, "d-3") // the id is signed
		r.refused("own", other, stepwell.CodeUnauthenticated)
		other.Header.Del(webhook.HeaderID)
		r.refused("own", other, stepwell.CodeUnauthenticated)
		for _, header := range []string{"", "t=,v1=", "v1=00", "t=1", "t=x,v1=" + strings.Repeat("0", 64), strings.Repeat("v1=00,", 10_000), "t=-1,v1=" + strings.Repeat("0", 64)} {
			r.refused("pay", call(`{}`, "Stripe-Signature", header), stepwell.CodeUnauthenticated)
		}
		for _, header := range []string{"", "sha256=", "sha1=00", strings.Repeat("z", 64), strings.Repeat("0", 1<<16)} {
			r.refused("hub", call(`{}`, "X-Hub-Signature-256", header), stepwell.CodeUnauthenticated)
			r.refused("own", call(`{}`, webhook.HeaderSignature, header, webhook.HeaderTimestamp, fmt.Sprint(now.Unix())), stepwell.CodeUnauthenticated)
		}
		// A signature of one form is none of another, and the secret itself proves nothing.
		r.refused("own", stripe(own, `{}`, now), stepwell.CodeUnauthenticated)
		r.refused("own", call(`{}`, "X-Webhook-Secret", own), stepwell.CodeUnauthenticated)
	})
}

func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		own := r.hook(webhook.Webhook{ID: "own", Auth: webhook.AuthHMAC, ReplaySeconds: 60}, "")
		r.hook(webhook.Webhook{ID: "pay", Auth: webhook.AuthStripe}, "whsec_0123456789")
		first := signed(own, "", `{"n":1}`, time.Now())
		launched := r.deliver("own", first)
		time.Sleep(time.Minute)
		if again := r.deliver("own", first); again.Fresh || again.Execution != launched.Execution {
			t.Errorf("the replay has started %+v", again)
		}
		first.Header.Set("Idempotency-Key", "another") // what is not signed makes no difference
		if again := r.deliver("own", first); again.Fresh {
			t.Error("a replay with another id has started something")
		}
		time.Sleep(time.Second)
		r.refused("own", first, stepwell.CodeUnauthenticated)
		r.refused("own", signed(own, "", `{}`, time.Now().Add(61*time.Second)), stepwell.CodeUnauthenticated)
		r.deliver("own", signed(own, "", `{}`, time.Now().Add(60*time.Second)))

		pay := stripe("whsec_0123456789", `{"id":"evt_1"}`, time.Now())
		time.Sleep(5 * time.Minute)
		r.deliver("pay", pay)
		time.Sleep(time.Second)
		r.refused("pay", pay, stepwell.CodeUnauthenticated)
	})
}

func TestDeliveredTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		own := r.hook(webhook.Webhook{ID: "own", Auth: webhook.AuthHMAC}, "")
		plain := r.hook(webhook.Webhook{ID: "plain"}, "")
		r.hook(webhook.Webhook{ID: "hub", Auth: webhook.AuthGitHub}, "0123456789")
		r.hook(webhook.Webhook{ID: "pay", Auth: webhook.AuthStripe}, "0123456789")
		hub := func(id, body string) webhook.Delivery {
			return call(body, "X-GitHub-Delivery", id, "X-Hub-Signature-256", "sha256="+sign("0123456789", body))
		}
		for name, twice := range map[string][2]webhook.Delivery{
			"own":   {signed(own, "d1", `{}`, time.Now()), signed(own, "d1", `{}`, time.Now().Add(time.Second))},
			"plain": {call(`{}`, "X-Webhook-Secret", plain, "Idempotency-Key", "k"), call(`{}`, "X-Webhook-Secret", plain, "X-Webhook-Id", "k")},
			"hub":   {hub("72d3162e", `{}`), hub("72d3162e", `{}`)},
			"pay":   {stripe("0123456789", `{"id":"evt_1"}`, time.Now()), stripe("0123456789", `{"id":"evt_1","pending_webhooks":0}`, time.Now().Add(time.Second))},
		} {
			one, two := r.deliver(name, twice[0]), r.deliver(name, twice[1])
			if !one.Fresh || two.Fresh || one.Execution != two.Execution {
				t.Errorf("%s: %+v, then %+v", name, one, two)
			}
		}
		if other := r.deliver("hub", hub("72d3162f", `{}`)); !other.Fresh {
			t.Error("another delivery of GitHub with the same body is a new one")
		}
		r.refused("plain", call(`{"other":1}`, "X-Webhook-Secret", plain, "X-Webhook-Id", "k"), stepwell.CodeConflict)
		r.refused("plain", call(`{}`, "X-Webhook-Secret", plain, "X-Webhook-Id", strings.Repeat("k", 201)), stepwell.CodeInvalid)
		r.refused("plain", call(`{}`, "X-Webhook-Secret", plain, "X-Webhook-Id", "ü"), stepwell.CodeInvalid)
	})
}

func TestAllowedAddresses(t *testing.T) {
	r := newRig(t)
	secret := r.hook(webhook.Webhook{ID: "hook", AllowedIPs: []string{"192.0.2.7", "198.51.100.0/24", "2001:db8::/32", "::ffff:10.1.0.0/112"}}, "")
	r.hook(webhook.Webhook{ID: "open", Auth: webhook.AuthNone, AllowedIPs: []string{"192.0.2.7"}}, "")
	for address, ok := range map[string]bool{"192.0.2.7": true, "::ffff:192.0.2.7": true, "192.0.2.8": false, "198.51.100.255": true, "198.51.101.0": false,
		"2001:db8:1::1": true, "2001:db9::1": false, "fe80::1%eth0": false, "10.1.255.255": true, "10.2.0.0": false} {
		d := call(`{}`, "X-Webhook-Secret", secret)
		d.From = netip.MustParseAddr(address)
		if ok {
			r.deliver("hook", d)
		} else {
			r.refused("hook", d, stepwell.CodeForbidden)
		}
	}
	nobody := call(`{}`, "X-Webhook-Secret", secret)
	nobody.From = netip.Addr{}
	r.refused("hook", nobody, stepwell.CodeForbidden)
	r.refused("open", call(`{}`), stepwell.CodeForbidden)
	inside := call(`{}`)
	inside.From = netip.MustParseAddr("192.0.2.7")
	r.deliver("open", inside)
}

func TestRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		old := r.hook(webhook.Webhook{ID: "hook"}, "")
		own := r.hook(webhook.Webhook{ID: "own", Auth: webhook.AuthHMAC}, "")
		with := func(secret string) webhook.Delivery { return call(`{}`, "X-Webhook-Secret", secret) }
		next, err := r.Rotate(t.Context(), "hook", "", time.Hour)
		if err != nil || next == old {
			t.Fatal(next, err)
		}
		r.deliver("hook", with(old))
		r.deliver("hook", with(next))
		time.Sleep(time.Hour)
		r.refused("hook", with(old), stepwell.CodeUnauthenticated)
		r.deliver("hook", with(next))
		mine, err := r.Rotate(t.Context(), "own", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		r.refused("own", signed(own, "", `{}`, time.Now()), stepwell.CodeUnauthenticated)
		r.deliver("own", signed(mine, "", `{}`, time.Now()))
		r.boot()
		r.deliver("own", signed(mine, "b", `{}`, time.Now()))
		r.deliver("hook", with(next))
		for secret, want := range map[string]bool{next: true, old: false, "": false} {
			if valid, job, err := r.Validate("hook", secret); err != nil || valid != want || (job == "hook") != want {
				t.Errorf("validate: %t, %q, %v", valid, job, err)
			}
		}
		if valid, _, err := r.Validate("own", mine); err != nil || !valid {
			t.Errorf("validate of a signed one: %t, %v", valid, err)
		}
		if _, _, err := r.Validate("unknown", next); stepwell.CodeOf(err) != stepwell.CodeNotFound {
			t.Errorf("validate of an unknown one: %v", err)
		}
	})
}

// Nothing of a secret is in the database, in what is shown, or in an error.
func TestSecretsStayInside(t *testing.T) {
	r := newRig(t)
	secrets := []string{r.hook(webhook.Webhook{ID: "a"}, ""), r.hook(webhook.Webhook{ID: "b", Auth: webhook.AuthHMAC}, "a-secret-of-somebody")}
	_, err := r.Deliver(t.Context(), "a", call(`{`, "X-Webhook-Secret", secrets[0]))
	text := fmt.Sprintf("%+v %v", must(r.List(t.Context(), &webhook.Filter{})), err)
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) || bytes.Contains(raw, []byte(secret)) {
			t.Error("a secret has come out")
		}
	}
}

func TestPayload(t *testing.T) {
	r := newRig(t)
	secret := r.hook(webhook.Webhook{ID: "merge", Headers: []string{"X-Request-Id", "X-Absent"}, Params: resource.Object{"a": int64(1), "b": int64(1), "header_x_request_id": "own"}}, "")
	whole := r.hook(webhook.Webhook{ID: "whole", PayloadParam: "event"}, "")
	for body, want := range map[string]map[string]any{
		`{"b":2,"c":12345678901234567,"_trigger":"x"}`: {"b": int64(2), "c": int64(12345678901234567), "_trigger": "x"},
		`{"payload":{"b":"{{ secrets.x }}"}}`:          {"b": "{{ secrets.x }}"},
		`{"payload":[1]}`:                              {"payload": []any{int64(1)}},
		`[1.0]`:                                        {"payload": []any{1.0}},
		``:                                             {},
		`{"header_x_request_id":"forged","header_x_absent":"forged"}`: {},
	} {
		r.deliver("merge", call(body, "X-Webhook-Secret", secret, "X-Request-Id", "r1", "X-Request-Id", "r2"))
		in := r.ledger.last(t)
		if got := in.Outside.Values; !reflect.DeepEqual(got, want) {
			t.Errorf("%s became %v, want %v", body, got, want)
		}
		if got := in.Outside.Added; !reflect.DeepEqual(got, map[string]any{"header_x_request_id": "r1, r2"}) {
			t.Errorf("headers became %v", got)
		}
		if !reflect.DeepEqual(in.Written, map[string]any{"a": int64(1), "b": int64(1), "header_x_request_id": "own"}) {
			t.Errorf("the webhook's own params became %v", in.Written)
		}
		if !reflect.DeepEqual(in.Outside.About["payload"], in.Outside.Event) {
			t.Errorf("_trigger.payload is %v, event %v", in.Outside.About["payload"], in.Outside.Event)
		}
	}
	r.deliver("whole", call(`{"payload":{"a":1}}`, "X-Webhook-Secret", whole))
	if got := r.ledger.last(t).Outside.Values; !reflect.DeepEqual(got, map[string]any{"event": map[string]any{"payload": map[string]any{"a": int64(1)}}}) {
		t.Errorf("the whole payload became %v", got)
	}
	r.deliver("whole", call(`payload=%7B%22a%22%3A1%7D`, "X-Webhook-Secret", whole, "Content-Type", "application/x-www-form-urlencoded"))
	r.deliver("whole", call(` {"a":"b=c&payload=%7B%7D"}`, "X-Webhook-Secret", whole, "Content-Type", "application/x-www-form-urlencoded")) // as curl -d sends it
	if got := r.ledger.last(t).Outside.Values; !reflect.DeepEqual(got, map[string]any{"event": map[string]any{"a": "b=c&payload=%7B%7D"}}) {
		t.Errorf("JSON that calls itself a form became %v", got)
	}
	for _, bad := range []string{`{`, `{} x`, "\xff", strings.Repeat("[", 1000)} {
		r.refused("whole", call(bad, "X-Webhook-Secret", whole), stepwell.CodeInvalid)
	}
	r.deliver("whole", call(`"`+strings.Repeat("x", r.MaxBody()-2)+`"`, "X-Webhook-Secret", whole))
	r.refused("whole", call(`"`+strings.Repeat("x", r.MaxBody()-1)+`"`, "X-Webhook-Secret", whole), stepwell.CodeLimit)
}

func TestJobOfAWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		j := trigger.Job{ID: "job", Name: "deploy", Schedule: trigger.Timing{Type: trigger.TypeWebhook},
			Target: &trigger.Target{Workflow: "deploy", Params: resource.Object{"env": "prod", "replicas": int64(2)}}}
		if _, err := r.jobs.Create(t.Context(), &j, ""); err != nil {
			t.Fatal(err)
		}
		secret := r.hook(webhook.Webhook{ID: "hook", Head: trigger.Head{Job: "deploy"}}, "")
		d := call(`{"payload":{"replicas":3}}`, "X-Webhook-Secret", secret)
		r.deliver("hook", d)
		in := r.ledger.last(t)
		if in.Workflow != "deploy" || in.Job != "job" || in.Written["env"] != "prod" || in.Outside.Values["replicas"] != int64(3) || in.Trigger != "webhook" {
			t.Errorf("started %+v", in)
		}
		if valid, job, err := r.Validate("hook", secret); !valid || job != "job" || err != nil {
			t.Errorf("validate: %t, %q, %v", valid, job, err)
		}
		if v, err := r.jobs.Job("job"); err != nil || v.RunCount != 1 || v.LastExecution != "x0" {
			t.Errorf("the job says %+v, %v", v, err)
		}
		if _, err := r.jobs.Pause(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		r.refused("hook", d, stepwell.CodeConflict)
		if v, err := r.Get(t.Context(), "hook"); err != nil || v.Count != 1 || v.LastExecution != "x0" || v.LastError == "" {
			t.Errorf("the webhook says %+v, %v", v, err)
		}
	})
}
