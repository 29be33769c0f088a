package app_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/stepwell/stepwell/app"
)

// dapr_connected says what the sidecar's health check says (B22).
func TestDaprConnected(t *testing.T) {
	asked := make(chan struct{}, 16)
	sidecar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1.0/healthz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(http.StatusNoContent)
		asked <- struct{}{}
	}))
	defer sidecar.Close()
	connected := func(s *serverRig) any {
		_, health := s.request(http.MethodGet, "/api/v1/health")
		return health["dapr_connected"]
	}
	u, err := url.Parse(sidecar.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, t.TempDir()+"/d.db", newGate(), func(o *app.ServerOptions) { o.Services.DaprPort = port })
	<-asked
	s.until("the sidecar is connected", func() bool { return connected(s) == true })
	alone := serve(t, t.TempDir()+"/d.db", newGate(), nil)
	if got := connected(alone); got != false {
		t.Errorf("without a sidecar: %v", got)
	}
	for _, s := range []*serverRig{s, alone} {
		s.Drain()
		s.ended()
	}
}
