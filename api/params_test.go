package api_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/trigger/webhook"
)

// TestParamsHoldNoSecrets: what is a secret is not stored in the params of what starts pipelines, and what becomes one
// later is shown to nobody; a change that sends back what was shown loses nothing.
func TestParamsHoldNoSecrets(t *testing.T) {
	r := newRig(t)
	admin, c, ctx := r.client("admin"), r.client("editor"), t.Context()
	_, err := admin.SetSecret(ctx, "old", "known-before-0815", "")
	good(t, err)
	for what, params := range map[string]api.Object{"plain": {"key": "known-before-0815"}, "deep": {"a": []any{map[string]any{"b": "known-before-0815"}}}} {
		call := &api.Callback{Action: "util.log", Params: params}
		_, err := c.Jobs().Create(ctx, api.NewJob{Schedule: api.Timing{Type: "manual"}, Target: call})
		want(t, err, stepwell.CodeInvalid)
		if !strings.Contains(err.Error(), "callback.params") || strings.Contains(err.Error(), "0815") {
			t.Errorf("%s: %v", what, err)
		}
		_, err = c.Webhooks().Create(ctx, api.NewWebhook{Webhook: webhook.Webhook{Head: api.Head{Target: call}}})
		want(t, err, stepwell.CodeInvalid)
		_, err = c.Webhooks().Create(ctx, api.NewWebhook{Webhook: webhook.Webhook{Head: api.Head{Target: &api.Callback{Action: "util.log"}}, Params: params}})
		want(t, err, stepwell.CodeInvalid)
		_, err = c.EventTriggers().Create(ctx, api.NewEventTrigger{EventType: "a", Head: api.Head{Target: call}})
		want(t, err, stepwell.CodeInvalid)
		_, err = c.EventTriggers().Create(ctx, api.NewEventTrigger{EventType: "a", Filters: params, Head: api.Head{Target: &api.Callback{Action: "util.log"}}})
		want(t, err, stepwell.CodeInvalid)
	}

	call := func() *api.Callback {
		return &api.Callback{Action: "util.log", Params: api.Object{"message": "told-later-4711", "list": []any{"told-later-4711", int64(47114711), "a told-later-4711 b"}, "{{ secrets.old }}": "***"}}
	}
	job, err := c.Jobs().Create(ctx, api.NewJob{ID: "job", Schedule: api.Timing{Type: "event", Expression: "x", Filters: api.Object{"a": "told-later-4711"}}, Target: call()})
	good(t, err)
	hook, err := c.Webhooks().Create(ctx, api.NewWebhook{Webhook: webhook.Webhook{Head: api.Head{Target: call()}, Params: api.Object{"a": "told-later-4711"}}})
	good(t, err)
	on, err := c.EventTriggers().Create(ctx, api.NewEventTrigger{EventType: "a", Head: api.Head{Target: call()}, Filters: api.Object{"a": "told-later-4711"}})
	good(t, err)
	if job.Target.Params["message"] != "told-later-4711" {
		t.Errorf("not a secret yet: %+v", job.Target)
	}
	for name, value := range map[string]string{"text": "told-later-4711", "number": "47114711"} {
		_, err = admin.SetSecret(ctx, name, value, "")
		good(t, err)
	}
	for _, path := range []string{"/scheduler/jobs", "/scheduler/jobs/job", "/webhooks", "/webhooks/" + hook.ID, "/event-triggers", "/event-triggers/" + on.ID} {
		if got := string(r.do("viewer", "GET", "/api/v1"+path, nil).is(200).body); strings.Contains(got, "4711") || !strings.Contains(got, `"message":"***"`) || !strings.Contains(got, `["***","***","a *** b"]`) || !strings.Contains(got, `"a":"***"`) {
			t.Errorf("%s: %s", path, got)
		}
	}

	seen, tag, err := c.Jobs().Get(ctx, "job")
	good(t, err)
	seen.Target.Params["more"] = "new"
	_, err = c.Jobs().Update(ctx, "job", api.Fields{"callback": seen.Target, "schedule": seen.Schedule}, tag)
	good(t, err)
	now, err := r.options(nil).Schedules.Job("job") // as it is stored
	good(t, err)
	list, _ := now.Target.Params["list"].([]any)
	if p := now.Target.Params; p["message"] != "told-later-4711" || p["more"] != "new" || p["{{ secrets.old }}"] != "***" || len(list) != 3 || list[1] != int64(47114711) || list[2] != "a told-later-4711 b" ||
		now.Schedule.Filters["a"] != "told-later-4711" {
		t.Errorf("what was sent back as it was shown: %v, %v", p, now.Schedule.Filters)
	}
	for _, bad := range []any{"told-later-4711", int64(47114711)} {
		seen.Target.Params["more"] = bad
		_, err = c.Jobs().Update(ctx, "job", api.Fields{"callback": seen.Target}, "")
		want(t, err, stepwell.CodeInvalid)
		_, err = c.Webhooks().Update(ctx, hook.ID, api.Fields{"params": api.Object{"b": bad}}, "")
		want(t, err, stepwell.CodeInvalid)
		_, err = c.EventTriggers().Update(ctx, on.ID, api.Fields{"filters": api.Object{"b": bad}}, "")
		want(t, err, stepwell.CodeInvalid)
	}
}
