package client_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/client"
)

// A server that answers, but not as it should, is not one that has to be started.
func TestUnreached(t *testing.T) {
	plain, secure := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.NotFoundHandler())
	defer plain.Close()
	defer secure.Close()
	for base, want := range map[string]string{secure.URL: "SSL_CERT_FILE", strings.Replace(plain.URL, "http:", "https:", 1): "http://", "http://127.0.0.1:1": "stepwell serve"} {
		c, err := client.New(client.Options{URL: base})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Call(t.Context(), "GET", "/x", nil, nil, nil)
		if err == nil || !strings.Contains(stepwell.HintOf(err), want) {
			t.Errorf("%s: %v (%s), want a hint about %s", base, err, stepwell.HintOf(err), want)
		}
	}
}
