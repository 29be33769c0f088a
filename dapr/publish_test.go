package dapr_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/report"
	"github.com/stepwell/stepwell/store"
)

// listen serves a stand-in for the sidecar until the test ends, and returns its port.
func listen(t *testing.T, sidecar http.Handler) int {
	t.Helper()
	s := httptest.NewServer(sidecar)
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// sidecarOf is an adapter whose sidecar answers so.
func sidecarOf(t *testing.T, answer http.HandlerFunc) *dapr.Adapter {
	t.Helper()
	port := listen(t, answer)
	a, err := dapr.New(dapr.Options{Log: slog.New(slog.DiscardHandler), Settings: dapr.Settings{Port: port, Token: "api-token", Publish: []string{dapr.TopicSteps, dapr.TopicLogs}, StateStore: "state"},
		Document: func(_ context.Context, x *store.Execution) (*dapr.Document, error) {
			return &dapr.Document{Execution: x.ID, Version: x.Version, Steps: map[string]dapr.DocumentStep{"s": {Error: &dapr.DocumentError{Message: strings.Repeat("x", int(x.No))}}}}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Messages that a sidecar refuses are sent again, and the error names the reason; a line of any length fits into a message.
func TestPublishRefused(t *testing.T) {
	change := []report.Change{{ID: "x/1.1", Step: "a/b[0]", At: time.Now(), Line: &store.LogLine{Level: "info", Message: strings.Repeat("\x01", 5<<20), Attrs: json.RawMessage(`{"a":"` + strings.Repeat("y", 5<<20) + `"}`)}}}
	x := &store.Execution{ID: "x"}
	for status, want := range map[int]string{200: "", 204: "", 401: "DAPR_API_TOKEN", 403: "DAPR_API_TOKEN", 404: "component", 413: "component", 500: "component"} {
		a := sidecarOf(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || len(body) >= 4<<20 || r.URL.Path != "/v1.0/publish/pubsub/workflow.logs.x.a_b_0_" || r.Header.Get("Dapr-Api-Token") != "api-token" {
				t.Errorf("%s: %d bytes, %v", r.URL.Path, len(body), err)
			}
			w.WriteHeader(status)
			if status > 204 {
				_, _ = io.WriteString(w, `{"errorCode":"ERR_X","message":"no"}`)
			}
		})
		err := a.Publisher().Take(t.Context(), x, change)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(stepwell.HintOf(err), want) || !strings.Contains(err.Error(), "ERR_X")) || err != nil && strings.Contains(err.Error(), "api-token") {
			t.Errorf("%d: %v (%s)", status, err, stepwell.HintOf(err))
		}
	}
	a := sidecarOf(t, func(http.ResponseWriter, *http.Request) { t.Error("a topic that is not named gets a message") })
	if err := a.Publisher().Take(t.Context(), x, []report.Change{{ID: "x/1.2", Status: "running"}}); err != nil {
		t.Error(err)
	}
}

// The mirror replaces older documents alone, and only if nobody else has.
func TestMirrorVersions(t *testing.T) {
	there, etag, puts := `{"version":5}`, "7", []string{}
	a := sidecarOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Etag", etag)
			_, _ = io.WriteString(w, there)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) > 4<<20 {
			t.Error(len(body), err)
		}
		puts = append(puts, string(body))
		w.WriteHeader(http.StatusNoContent)
	})
	for _, c := range []struct {
		version, size int64
		puts          int
	}{{4, 1, 0}, {5, 1, 1}, {6, 1, 2}, {7, 5 << 20, 3}} {
		if err := a.Mirror().Take(t.Context(), &store.Execution{ID: "x", Version: c.version, No: c.size}, nil); err != nil || len(puts) != c.puts {
			t.Errorf("version %d: %d puts, want %d; %v", c.version, len(puts), c.puts, err)
		}
	}
	if !strings.Contains(puts[0], `"etag":"7"`) || !strings.Contains(puts[0], `"concurrency":"first-write"`) || !strings.Contains(puts[0], `"key":"execution:x"`) || !strings.Contains(puts[2], `"more_steps":true`) {
		t.Errorf("put %.300s", puts)
	}
}
