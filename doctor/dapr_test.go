package doctor

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/dapr"
)

// TestDapr: a sidecar that lacks something that the settings use is told with what it lacks; the same with Dapr's own sidecar is
// TestDaprDoctor in cmd/stepwell.
func TestDapr(t *testing.T) {
	const own = `"id": "stepwell", "appConnectionProperties": {"port": 8010}`
	metadata := ""
	sidecar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1.0/healthz":
			w.WriteHeader(http.StatusNoContent)
		case r.Header.Get("Dapr-Api-Token") != "right":
			http.Error(w, "invalid api token", http.StatusUnauthorized)
		default:
			fmt.Fprint(w, metadata)
		}
	}))
	defer sidecar.Close()
	_, text, err := net.SplitHostPort(sidecar.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	events := dapr.Settings{Subscribe: []dapr.Subscription{{Topic: "models"}}}
	for _, c := range []struct {
		settings dapr.Settings
		metadata string
		check    string
		status   string
		detail   string
	}{
		{dapr.Settings{}, own, "dapr", OK, "the sidecar of the app stepwell answers"},
		{dapr.Settings{Token: "wrong"}, own, "dapr", Fail, "does not accept the token"},
		{dapr.Settings{}, `"id": 5`, "dapr", Fail, "cannot be read"},
		{dapr.Settings{Publish: []string{dapr.TopicSteps}}, own, "dapr components", Fail, "no component pubsub (pubsub)"},
		{dapr.Settings{StateStore: "store"}, own + `, "components": [{"name": "store", "type": "pubsub.redis"}]`, "dapr components", Fail, "store is pubsub.redis, not state"},
		{dapr.Settings{Jobs: true}, own, "dapr jobs", Fail, "no scheduler"},
		{events, `"id": "stepwell", "components": [{"name": "pubsub", "type": "pubsub.redis"}]`, "dapr app", Fail, "port 0"},
		{events, own + `, "components": [{"name": "pubsub", "type": "pubsub.redis"}]`, "dapr subscriptions", Warn, "models of pubsub"},
	} {
		metadata = "{" + c.metadata + "}"
		s := c.settings
		s.Port, s.AppToken = port, "app"
		if s.Token == "" {
			s.Token = "right"
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		e := newExamination(Options{Dapr: s, Listen: "127.0.0.1:8010", App: app.Options{DB: "x.db"}})
		e.dapr(t.Context())
		if last := &e.found[len(e.found)-1]; last.Check != c.check {
			t.Errorf("found %+v, want %s", e.found, c.check)
		} else {
			last.is(t, c.status, c.detail)
		}
	}
	bad := stepwell.Invalid("set it", "APP_API_TOKEN")
	examine(t, Options{DaprErr: bad}, func(e *examination) { e.dapr(t.Context()) }).is(t, Fail, "APP_API_TOKEN")
}
