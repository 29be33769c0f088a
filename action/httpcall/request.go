package httpcall

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// requestSpec describes http_request as budpipeline had it, with the rules of util.http underneath.
func requestSpec() spec.Spec {
	return spec.Spec{
		Name:    "http_request",
		Summary: "Calls an HTTP service, with the parameters and outputs of budpipeline's action.",
		Doc: "`util.http` does more. What holds there for redirects, retries, the header Idempotency-Key and addresses inside the network holds here: " +
			"the status must be 2xx, and the response is read by its Content-Type, up to 16 MiB.",
		Timeout: 310 * time.Second,
		Retry:   &stepwell.Retry{MaxAttempts: 3, Backoff: time.Second, MaxBackoff: time.Minute, Jitter: 0.5},
		Params: []spec.Field{
			{Name: "url", Type: spec.String, Required: true, Min: ptr(1), Doc: "Where to, http or https."},
			{Name: "method", Type: spec.String, Default: "GET", Doc: "The method."},
			{Name: "headers", Type: spec.Object, Secret: true, Doc: "Headers."},
			{Name: "body", Type: spec.Any, Doc: "The body: a text as it is, any other value as JSON."},
			{Name: "timeout_seconds", Type: spec.Number, Default: 30, Min: ptr(1), Max: ptr(300), Limit: true, Doc: "Limit of the whole exchange, less than the step's timeout."},
			{Name: "include_metadata", Type: spec.Boolean, Default: false, Doc: "Whether there is an output `metadata`."},
		},
		Outputs: []spec.Field{
			{Name: "status_code", Type: spec.Integer, Doc: "The status."},
			{Name: "body", Type: spec.Any, Doc: "The body: a value if it is JSON, else a text; null for none."},
			{Name: "headers", Type: spec.Object, Doc: "The response's headers by lower-case name, without secrets."},
			{Name: "metadata", Type: spec.Object, Doc: "{url, attempt, bytes_sent, bytes_received, first_byte_ms, duration_ms, request_id …}, if asked for."},
		},
		Examples: []spec.Example{{Title: "tell a service", YAML: "id: tell\naction: http_request\nparams:\n  url: https://hooks.example.com/done\n" +
			"  method: POST\n  body: {status: \"{{ steps.deploy.status }}\"}"}},
	}
}

// requestHandler is http_request.
type requestHandler struct{ client *outbound.Client }

// params are those of util.http that say the same.
func (h *requestHandler) params(values map[string]any) (*params, []error) {
	same := map[string]any{}
	for _, name := range []string{"url", "method", "headers"} {
		if v, ok := values[name]; ok {
			same[name] = v
		}
	}
	if v, ok := values["timeout_seconds"]; ok {
		same["timeouts"] = map[string]any{"total": v, "connect": 10, "tls": 10}
	}
	if body, isText := values["body"].(string); isText {
		kind := "text/plain; charset=utf-8"
		if trimmed := strings.TrimSpace(body); trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(trimmed)) {
			kind = "application/json"
		}
		same["text"], same["content_type"] = body, kind
	} else if values["body"] != nil {
		same["json"] = values["body"]
	}
	if method, ok := same["method"].(string); ok && same["text"] != nil && strings.EqualFold(method, http.MethodGet) && same["text"] == "" {
		delete(same, "text")
		delete(same, "content_type")
	}
	return parse(same)
}

// Validate implements action.Validator.
func (h *requestHandler) Validate(values map[string]any) []error {
	_, problems := h.params(values)
	return problems
}

// Run implements action.Handler.
func (h *requestHandler) Run(ctx context.Context, call *action.Call) (any, error) {
	p, problems := h.params(call.Params)
	if err := join(problems); err != nil {
		return nil, err
	}
	if err := p.fitTotal(call.Deadline); err != nil {
		return nil, err
	}
	a, err := p.exchange(ctx, call, h.client, call.IdempotencyKey())
	if err != nil {
		return nil, err
	}
	if text, ok := a.body.(string); ok { // services that forget the Content-Type
		if v, err := expr.Decode([]byte(text)); err == nil && len(a.header.Values("Content-Type")) == 0 {
			a.body = v
		}
	}
	out := map[string]any{"status_code": a.status, "body": a.redact.Value(a.body), "headers": a.redact.Header(a.header)}
	if wanted, ok := call.Params["include_metadata"].(bool); ok && wanted {
		a.metrics["url"] = a.redact.URL(a.url)
		out["metadata"] = a.metrics
	}
	return out, nil
}
