package httpcall

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/outbound"
)

func TestCallback(t *testing.T) {
	var header, idempotency, body string
	status := http.StatusAccepted
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		header, idempotency, body = r.Header.Get("X-Stepwell-Callback"), r.Header.Get("Idempotency-Key"), string(raw)
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	call := actiontest.Call{Execution: "e", StepKey: "s", Params: values{"url": server.URL, "json": values{"a": 1}, "callback": values{"timeout_seconds": 60}},
		CallbackURL: func(key string) string { return "https://here.example.com/callbacks/" + key }}
	act := named(t, registry(t, outbound.Options{}), "util.http")
	before := time.Now()
	got := actiontest.Run(t.Context(), act, call)
	w := got.Wait
	if w == nil || !w.Await || w.Resume || w.ExternalID != "callback:e/s#1" || w.Outputs != nil {
		t.Fatalf("wait = %+v (%v)", w, got.Err)
	}
	if left := w.Until.Sub(before); left < time.Minute || left > 2*time.Minute {
		t.Errorf("waits for %v", left)
	}
	if header != "https://here.example.com/callbacks/callback:e/s#1" || idempotency == "" || body != `{"a":1}` {
		t.Errorf("sent %q with key %q to be called back at %q", body, idempotency, header)
	}
	status = http.StatusBadRequest
	if got := actiontest.Run(t.Context(), act, call); got.Wait != nil || !action.IsFail(got.Err) {
		t.Errorf("after a refusal: %+v (%v)", got.Wait, got.Err)
	}
	call.CallbackURL = nil
	if got := actiontest.Run(t.Context(), act, call); stepwell.CodeOf(got.Err) != stepwell.CodeInvalid || stepwell.HintOf(got.Err) == "" {
		t.Errorf("without an address: %v", got.Err)
	}
}

func TestCallbackRefuses(t *testing.T) {
	for text, p := range map[string]values{
		"beside poll":         {"callback": values{}, "poll": values{"until": true}},
		"no use for the resp": {"callback": values{}, "outputs": values{"a": "body.a"}},
		"is set by callback":  {"callback": values{}, "headers": values{"x-stepwell-callback": "y"}},
	} {
		p["url"] = "https://example.com"
		got := run(t, p)
		if got.Err == nil || !strings.Contains(got.Err.Error(), text) {
			t.Errorf("%v: %v, want %q", p, got.Err, text)
		}
	}
}
