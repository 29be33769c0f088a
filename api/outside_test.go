package api_test

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// outputs are those of an execution that has ended well.
func (r *rig) outputs(id string) map[string]any {
	r.t.Helper()
	if _, err := r.app.Conductor.Wait(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
	x := r.do("viewer", "GET", "/api/v1/executions/"+id, nil).is(200).object()
	if x["status"] != "completed" {
		r.t.Fatalf("it is %v: %v", x["status"], x["error"])
	}
	out, _ := x["result"].(map[string]any)
	return out
}

// echoes says what reached its parameters.
const echoes = `{"document": "name: echoes\nparameters:\n  - {name: region, type: string, default: none}\n  - {name: size, type: integer, default: 0}\n  - {name: need, type: string}\n` +
	`steps:\n  - {id: a, action: util.set_output, params: {outputs: {region: '{{ params.region }}', size: '{{ params.size }}', all: '{{ params._trigger.payload }}'}}}\n` +
	`outputs: {region: '{{ steps.a.outputs.region }}', size: '{{ steps.a.outputs.size }}', all: '{{ steps.a.outputs.all }}'}\n"}`

// Nobody outside replaces what a job says: not by a payload, not by hand, not by /execute with job_id. What a pipeline
// declares and the job leaves open they may give, of the right type.
func TestPinnedValuesStay(t *testing.T) {
	r := newRig(t)
	r.do("editor", "POST", "/api/v1/pipelines", echoes).is(201)
	r.do("editor", "POST", "/api/v1/scheduler/jobs", `{"job_id": "j", "schedule": {"type": "manual"}, "callback": {"workflow_id": "echoes", "params": {"region": "eu", "need": "x"}}}`).is(201)
	w := r.do("editor", "POST", "/api/v1/webhooks", `{"webhook_id": "w", "job_id": "j"}`).is(201).object()
	secret, _ := w["secret"].(string)
	const forged = `{"region": "forged", "size": 7, "need": "forged", "other": true}`
	for name, started := range map[string]*got{
		"webhook": r.do("", "POST", "/api/v1/webhooks/w/trigger", forged, "X-Webhook-Secret", secret),
		"by hand": r.do("operator", "POST", "/api/v1/scheduler/jobs/j/trigger", `{"params": `+forged+`}`),
		"execute": r.do("operator", "POST", "/api/v1/execute", `{"job_id": "j", "params": `+forged+`}`),
	} {
		answer := started.is(201).object()
		out := r.outputs(answer["execution_id"].(string))
		if all, _ := out["all"].(map[string]any); out["region"] != "eu" || out["size"] != float64(7) || all["other"] != true {
			t.Errorf("%s: it got %v", name, out)
		}
		if ignored, told := answer["ignored_params"]; told != (name != "webhook") || told && !slices.Equal(ignored.([]any), []any{"need", "other", "region"}) {
			t.Errorf("%s: ignored %v", name, ignored)
		}
	}
	r.do("", "POST", "/api/v1/webhooks/w/trigger", `{"size": "many"}`, "X-Webhook-Secret", secret).problem(400, stepwell.CodeInvalid)
	if w := r.do("viewer", "GET", "/api/v1/webhooks/w", nil).is(200).object(); !strings.Contains(w["last_error"].(string), "size") {
		t.Errorf("the webhook's deliveries say %v", w["last_error"])
	}
	r.do("operator", "POST", "/api/v1/scheduler/jobs/j/trigger", `{"params": {"size": "many"}}`).problem(400, stepwell.CodeInvalid)
	r.do("editor", "PUT", "/api/v1/scheduler/jobs/j", `{"callback": {"workflow_id": "echoes", "params": {"region": "eu"}, "overridable": ["region"]}}`).is(200)
	r.do("operator", "POST", "/api/v1/scheduler/jobs/j/trigger", `{"params": {"region": "us"}}`).problem(400, stepwell.CodeInvalid) // need is missing
	started := r.do("operator", "POST", "/api/v1/scheduler/jobs/j/trigger", `{"params": {"region": "us", "need": "y"}}`).is(201).object()
	if out := r.outputs(started["execution_id"].(string)); out["region"] != "us" {
		t.Errorf("an overridable value became %v", out["region"])
	}
}

// A job of a single action runs what its author wrote. Neither a payload nor an operator names its command.
func TestPayloadNamesNoCommand(t *testing.T) {
	r := newRig(t)
	for id, callback := range map[string]string{
		"exec": `{"action_type": "util.exec", "params": {"command": ["echo", "{{ event.who }}"]}}`,
		"open": `{"action_type": "util.exec"}`,
	} {
		r.do("editor", "POST", "/api/v1/scheduler/jobs", `{"job_id": "`+id+`", "schedule": {"type": "manual"}, "callback": `+callback+`}`).is(201)
	}
	w := r.do("editor", "POST", "/api/v1/webhooks", `{"webhook_id": "w", "job_id": "exec"}`).is(201).object()
	const forged = `{"who": "Ann; id", "command": ["id"], "env": {"A": "b"}}`
	for name, started := range map[string]*got{
		"webhook": r.do("", "POST", "/api/v1/webhooks/w/trigger", forged, "X-Webhook-Secret", w["secret"].(string)),
		"by hand": r.do("operator", "POST", "/api/v1/scheduler/jobs/exec/trigger", `{"params": `+forged+`}`),
		"execute": r.do("operator", "POST", "/api/v1/execute", `{"job_id": "exec", "params": `+forged+`}`),
	} {
		id := started.is(201).object()["execution_id"].(string)
		if _, err := r.app.Conductor.Wait(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		steps := r.do("viewer", "GET", "/api/v1/pipeline/"+id, nil).is(200)
		if !strings.Contains(string(steps.body), `"stdout":"Ann; id"`) || strings.Contains(string(steps.body), "uid=") {
			t.Errorf("%s: the step says %s", name, steps.body)
		}
	}
	r.do("operator", "POST", "/api/v1/scheduler/jobs/open/trigger", `{"params": {"command": ["id"]}}`).problem(400, stepwell.CodeInvalid)
	r.do("editor", "POST", "/api/v1/scheduler/jobs", `{"job_id": "o", "schedule": {"type": "manual"}, "callback": {"action_type": "util.exec", "overridable": ["command"]}}`).problem(400, stepwell.CodeInvalid)
}

// A webhook without a secret proves its callers by their address alone. So a request that a web page made a browser at that
// address send is refused, and one for a name that somebody lets point to the server.
func TestWebhookWithoutSecretIsNotForPages(t *testing.T) {
	here := netip.MustParseAddr("192.0.2.7")
	r := newRig(t, func(o *api.Options) {
		o.ClientAddr = func(*http.Request) netip.Addr { return here }
		o.Hosts, o.Origins = []string{"flows.example.org"}, []string{"https://ui.example.org"}
	})
	w := r.do("editor", "POST", "/api/v1/webhooks", `{"webhook_id": "w", "auth": "none", "allowed_ips": ["192.0.2.7"], "callback": {"action_type": "util.noop"}}`).is(201).object()
	path := w["path"].(string)
	for _, foreign := range [][]string{{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Host", "evil.example"}} {
		r.do("", "POST", path, "{}", foreign...).problem(403, stepwell.CodeForbidden)
	}
	for _, own := range [][]string{nil, {"Origin", "https://ui.example.org"}, {"Host", "flows.example.org"}, {"Sec-Fetch-Site", "none"}} {
		r.do("", "POST", path, "{}", own...).is(201)
	}
	secret := r.do("editor", "POST", "/api/v1/webhooks", `{"webhook_id": "s", "callback": {"action_type": "util.noop"}}`).is(201).object()["secret"].(string)
	r.do("", "POST", "/api/v1/webhooks/s/trigger", "{}", "Origin", "https://evil.example", "X-Webhook-Secret", secret).is(201) // it is proven by its secret
}

// The audit log names the caller, also behind a webhook, an event or an alias.
func TestWhoAskedIsInTheAuditLog(t *testing.T) {
	r := newRig(t)
	r.do("editor", "POST", "/api/v1/webhooks", `{"webhook_id": "w", "callback": {"action_type": "util.noop"}}`).is(201)
	secret := r.do("editor", "POST", "/api/v1/webhooks/w/rotate-secret", `{}`).is(200).object()["secret"].(string)
	started := r.do("", "POST", "/api/v1/webhooks/w/trigger", "{}", "X-Webhook-Secret", secret).is(201).object()
	if e := r.audit.last(); e.Actor != "webhook:w" || e.Action != "webhook.trigger" || e.Object != started["execution_id"] || e.Result != "ok" || e.Remote == "" {
		t.Errorf("a delivery: %+v", e)
	}
	before := r.audit.last()
	r.do("", "POST", "/api/v1/webhooks/w/trigger", "{}", "X-Webhook-Secret", "wrong").is(401)
	if e := r.audit.last(); e.Action != before.Action || e.Object != before.Object {
		t.Errorf("who is unknown writes into the audit log: %+v", e)
	}
	r.do("editor", "POST", "/api/v1/event-triggers", `{"trigger_id": "t", "event_type": "x", "callback": {"action_type": "util.noop"}}`).is(201)
	got := r.do("operator", "POST", "/api/v1/events", `{"type": "x", "id": "e"}`).is(200).object()
	id := got["started"].([]any)[0].(map[string]any)["execution_id"].(string)
	if e := r.audit.last(); e.Actor != "operator" || e.Object != "e" || !strings.Contains(string(e.Detail), id) {
		t.Errorf("an event: %+v %s", e, e.Detail)
	}
	r.do("editor", "POST", "/api/v1/execute", `{"action_type": "util.noop", "triggered_by": "somebody else"}`).is(201)
	if e := r.audit.last(); e.Actor != "editor" || !strings.Contains(string(e.Detail), "somebody else") {
		t.Errorf("on behalf of another: %+v %s", e, e.Detail)
	}
}
