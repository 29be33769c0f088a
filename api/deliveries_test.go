package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/trigger/webhook"
)

// TestWebhookDeliveries calls a webhook in every way, and reads what became of it.
func TestWebhookDeliveries(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	w, err := c.Webhooks().Create(ctx, api.NewWebhook{Webhook: webhook.Webhook{Head: api.Head{Name: "push", Target: &api.Callback{Action: "util.log", Params: api.Object{"message": "{{ event.message }}"}}}}})
	good(t, err)
	at := "/api/v1/webhooks/" + w.ID
	if body := string(r.do("editor", "GET", at+"/deliveries", nil).is(200).body); !strings.Contains(body, `"deliveries":[]`) {
		t.Errorf("before the first: %s", body)
	}
	send := func(secret, id string, body any) *got {
		return r.do("", "POST", w.URL, body, "X-Webhook-Secret", secret, "X-Webhook-Id", id)
	}
	started := send(w.Secret, "d-1", map[string]any{"message": "one"}).is(201).object()["execution_id"]
	send(w.Secret, "d-1", map[string]any{"message": "one"}).is(200)
	send("wrong "+w.Secret, "d-2", map[string]any{"message": "two"}).is(401)
	send(w.Secret, "d-3", "{").is(400)
	tested := r.do("operator", "POST", at+"/test", map[string]any{"message": "mine"}).is(201).object()["execution_id"]
	_, err = c.Webhooks().Update(ctx, w.ID, api.Fields{"enabled": false}, "")
	good(t, err)
	send(w.Secret, "d-4", map[string]any{"message": "three"}).is(403)
	list, err := c.WebhookDeliveries(ctx, "push")
	good(t, err)
	var seen []string
	for i := range list.Deliveries {
		d := &list.Deliveries[i]
		seen = append(seen, fmt.Sprint(d.Verdict, " ", d.Code, " ", d.Test, " ", d.From != "", " ", d.Execution))
		if d.At.IsZero() || strings.Contains(d.Message, w.Secret) || (d.Message == "") != (d.Code == "") {
			t.Errorf("delivery: %+v", d)
		}
	}
	want := fmt.Sprintf("refused forbidden false true \nstarted  true false %v\ninvalid invalid false true \nrefused unauthenticated false true \nrepeated  false true %v\nstarted  false true %v", tested, started, started)
	if got := strings.Join(seen, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.do("operator", "GET", at+"/deliveries", nil).problem(403, stepwell.CodeForbidden)
	r.do("editor", "GET", "/api/v1/webhooks/nosuch/deliveries", nil).problem(404, stepwell.CodeNotFound)
	r.do("operator", "POST", at+"/test", map[string]any{}).problem(403, stepwell.CodeForbidden) // it is disabled
}
