package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
)

// TestWebSocketOfABrowser: a browser cannot set headers, so it offers its key as a subprotocol; and it gives the
// connection up unless the server chooses one of those that it offers.
func TestWebSocketOfABrowser(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.Auth = access.New(access.Options{Keys: o.Keys}) })
	id := r.run(greeting, map[string]any{"who": "Ann"})
	_, token, err := access.NewKeys(r.app.Store, nil).Create(t.Context(), access.NewKey{Name: "browser", Role: access.Viewer, By: "test"})
	good(t, err)
	address := strings.Replace(r.server.URL, "http", "ws", 1) + "/api/v1/executions/" + id + "/logs/stream"
	for offer, ok := range map[string]bool{
		access.Subprotocol + " stepwell.bearer." + token:      true,
		"stepwell.bearer." + token + " " + access.Subprotocol: true,
		access.Subprotocol + " stepwell.bearer.sw_no_key":     false,
		access.Subprotocol: false,
	} {
		c, resp, err := websocket.Dial(t.Context(), address, &websocket.DialOptions{Subprotocols: strings.Fields(offer)})
		if !ok {
			if err == nil || resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %v %v", offer, resp, err)
			}
			continue
		}
		good(t, err)
		if c.Subprotocol() != access.Subprotocol {
			t.Errorf("the server chose %q", c.Subprotocol())
		}
		_, first, err := c.Read(t.Context())
		good(t, err)
		if !strings.Contains(string(first), `"snapshot"`) {
			t.Errorf("first: %s", first)
		}
		_ = c.CloseNow()
	}
}
