package service_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
)

// pathValues are values of a path parameter, and whether they get through a sidecar unchanged.
var pathValues = map[string]bool{
	"e1": true, "a-b_c.d~e": true, "user@host": true, "v1:2": true, "a+b": true, "a,b;c=d": true, "...": true, ".hidden": true, "2026-11-22": true,
	"e1?force=true": false, "e1#x": false, "%2e%2e": false, "a/b": false, "a%2Fb": false, "a b": false, "grün": false, "a\\b": false, "a\nb": false, "a&b": false, "*": false, "a%252Fb": false,
}

// A path parameter stays one segment: the service sees the value, or the step fails before anything is sent (A12).
func TestPathThroughASidecar(t *testing.T) {
	p := newPlatform(t, says(``))
	ways := map[bool]service.Options{false: {Apps: map[string]string{"budcluster": p.URL}}, true: {DaprPort: p.port(t)}}
	for sidecar, o := range ways {
		a := lookup(t, o, "internal.deployment.delete")
		for value, plain := range pathValues {
			before := len(p.seen)
			r := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{"endpoint_id": value}})
			if sidecar && !plain {
				if !action.IsFail(r.Err) || !strings.Contains(r.Err.Error(), "params.endpoint_id") || len(p.seen) != before {
					t.Errorf("%q through a sidecar: error %v, %d requests", value, r.Err, len(p.seen)-before)
				}
				continue
			}
			if r.Err != nil {
				t.Errorf("%q: %v", value, r.Err)
				continue
			}
			if got := lastSegment(t, p.seen[len(p.seen)-1]); got != value {
				t.Errorf("%q, sidecar %v: the service saw %q", value, sidecar, got)
			}
		}
	}
}

// lastSegment is the decoded last segment of what a platform noted.
func lastSegment(t *testing.T, seen string) string {
	t.Helper()
	u, err := url.Parse(strings.Fields(seen)[1])
	if err != nil {
		t.Fatal(err)
	}
	escaped := u.EscapedPath()
	segment, err := url.PathUnescape(escaped[strings.LastIndex(escaped, "/")+1:])
	if err != nil {
		t.Fatal(err)
	}
	return segment
}

// FuzzSidecarPath: what is sent through the sidecar reads as one segment, decoded once or twice.
func FuzzSidecarPath(f *testing.F) {
	for value := range pathValues {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		p := newPlatform(t, says(``))
		a := lookup(t, service.Options{DaprPort: p.port(t)}, "internal.deployment.delete")
		r := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{"endpoint_id": value}})
		if len(p.seen) == 0 {
			if !action.IsFail(r.Err) {
				t.Fatalf("nothing was sent: %v", r.Err)
			}
			return
		}
		const prefix = "/v1.0/invoke/budcluster/method/api/v1/deployments/"
		uri := strings.Fields(p.seen[0])[1]
		rest, ok := strings.CutPrefix(uri, prefix)
		rest, _, _ = strings.Cut(rest, "?force")
		for range 3 {
			if !ok || rest != value || strings.ContainsAny(rest, "/?#%") || rest == "." || rest == ".." {
				t.Fatalf("%q was sent as %s", value, uri)
			}
			var err error
			if rest, err = url.PathUnescape(rest); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// An error of the sidecar itself is not taken for an answer of the service (A13).
func TestSidecarFailures(t *testing.T) {
	for _, test := range []struct {
		status  int
		body    string
		kind    outbound.Kind
		fails   bool
		message string
	}{
		{500, `{"errorCode":"ERR_DIRECT_INVOKE","message":"failed to invoke, id: budmodel, err: couldn't find service: budmodel"}`, outbound.KindDNS, false, "budmodel /api/v1/models/onboard answered 500"},
		{500, `{"errorCode":"ERR_DIRECT_INVOKE","message":"failed to invoke, id: budmodel, err: rpc error: code = Unavailable desc = connection error"}`, outbound.KindConnect, false, "budmodel"},
		{500, `{"errorCode":"ERR_DIRECT_INVOKE","message":"error invoking app channel: dial tcp 127.0.0.1:1: connect: connection refused"}`, outbound.KindConnect, false, "budmodel"},
		{500, `{"errorCode":"ERR_DIRECT_INVOKE","message":"something else"}`, outbound.KindProtocol, false, "budmodel"},
		{403, `{"errorCode":"ERR_DIRECT_INVOKE","message":"failed to invoke, id: budmodel"}`, outbound.KindProtocol, false, "budmodel"},
		{401, `{"errorCode":"ERR_UNAUTHORIZED","message":"invalid api token"}`, outbound.KindStatus, true, "401"},
		{403, `{"errorCode":"ERR_PERMISSION","message":"access control policy"}`, outbound.KindStatus, true, "403"},
		{500, `{"detail":"the service's own"}`, outbound.KindStatus, false, "the service's own"},
		{404, `{"errorCode":"MODEL_MISSING"}`, outbound.KindStatus, true, "404"},
	} {
		t.Run(fmt.Sprint(test.status, test.kind), func(t *testing.T) {
			p := newPlatform(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			o := service.Options{DaprPort: p.port(t)}
			r := actiontest.Run(t.Context(), lookup(t, o, "internal.model.onboard"), actiontest.Call{Params: map[string]any{"model_uri": "u"}})
			f, ok := errors.AsType[*outbound.Failure](r.Err)
			if !ok || f.Kind != test.kind || action.IsFail(r.Err) != test.fails || !strings.Contains(r.Err.Error(), test.message) || strings.Contains(r.Err.Error(), "127.0.0.1:"+fmt.Sprint(p.port(t))) {
				t.Fatalf("kind %v, permanent %v, want %s and %v: %v", f, action.IsFail(r.Err), test.kind, test.fails, r.Err)
			}
			if hint := stepwell.HintOf(r.Err); strings.HasPrefix(test.body, `{"errorCode":"ERR_`) && test.fails && !strings.Contains(hint, "DAPR_API_TOKEN") {
				t.Errorf("hint %q", hint)
			}
		})
	}
}

// A cancelled step cancels its work at the service; work that is gone is cancelled (B21).
func TestCancelAtTheService(t *testing.T) {
	for status, fails := range map[int]bool{200: false, 204: false, 404: false, 410: false, 503: true, 422: true} {
		p := newPlatform(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			if r.Method == http.MethodDelete {
				w.WriteHeader(status)
				return
			}
			fmt.Fprint(w, `{"workflow_id": "w 1"}`)
		})
		a := lookup(t, service.Options{Apps: map[string]string{"render": p.URL}, Endpoints: []service.Endpoint{{Action: "internal.video.render", App: "render", Path: "/jobs", Async: true,
			StatusPath: "/jobs/{workflow_id}", CancelPath: "/jobs/{workflow_id}"}}}, "internal.video.render")
		r := actiontest.Run(t.Context(), a, actiontest.Call{Execution: "x", StepKey: "s", Params: map[string]any{}})
		if r.Wait == nil {
			t.Fatal(r.Err)
		}
		err := actiontest.Cancel(t.Context(), a, actiontest.Call{Execution: "x", StepKey: "s", State: r.Wait.State})
		if (err != nil) != fails || p.seen[len(p.seen)-1] != "DELETE /jobs/w%201 " {
			t.Errorf("%d: %v, the service saw %q", status, err, p.seen)
		}
		if fails && action.IsFail(err) != (status == 422) {
			t.Errorf("%d: permanent %v", status, action.IsFail(err))
		}
	}
}

// With a callback the service tells when the work has ended; its status is asked for every five minutes only.
func TestServiceCallsBack(t *testing.T) {
	p := newPlatform(t, says(`{"workflow_id": "w1"}`))
	a := lookup(t, service.Options{Apps: map[string]string{"render": p.URL}, Endpoints: []service.Endpoint{{Action: "internal.video.render", App: "render", Path: "/jobs", Async: true, Callback: true}}}, "internal.video.render")
	r := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{}})
	if r.Wait == nil || r.Wait.Await || strings.Contains(p.seen[0], "callback_url") {
		t.Errorf("without a public address: %+v, the service saw %s", r.Wait, p.seen[0])
	}
	r = actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{}, CallbackURL: func(string) string { return "https://stepwell.example/t" }})
	wait := r.Wait
	if wait == nil || !wait.Await || !wait.Resume || !wait.Elsewhere || wait.ExternalID == "" || len(wait.State) == 0 {
		t.Errorf("with one: %+v %v", wait, r.Err)
	}
	if !strings.Contains(p.seen[1], `"callback_url":"https://stepwell.example/t"`) {
		t.Errorf("the service saw %s", p.seen[1])
	}
}

// The trace of the attempt goes to the service (B23).
func TestTraceToTheService(t *testing.T) {
	p := newPlatform(t, says(`{}`))
	a := lookup(t, service.Options{Apps: map[string]string{"budcluster": p.URL}}, "internal.deployment.delete")
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	actiontest.Run(t.Context(), a, actiontest.Call{Traceparent: trace, Params: map[string]any{"endpoint_id": "e"}})
	if got := p.header.Get("Traceparent"); got != trace {
		t.Errorf("traceparent %q", got)
	}
}
