package daprtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// AddPubSub gives the sidecars started from now on a pub/sub component in the memory of each. What its app does not take comes again for
// a minute.
func (n *Network) AddPubSub(name string) {
	n.t.Helper()
	n.AddComponent(name, "pubsub.in-memory", nil)
	text := fmt.Sprintf(`apiVersion: dapr.io/v1alpha1
kind: Resiliency
metadata: {name: %s-again}
spec:
  policies:
    retries: {again: {policy: constant, duration: 200ms, maxRetries: 300}}
  targets:
    components: {%s: {inbound: {retry: again}}}
`, name, name)
	if err := os.WriteFile(filepath.Join(n.dir, "components", name+"-again.yaml"), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// AwaitSubscriptions waits until the app of the sidecar is subscribed to a number of topics: what is published before reaches nobody.
func (s *Sidecar) AwaitSubscriptions(topics int) {
	s.t.Helper()
	for range 600 { // a minute
		var said struct{ Subscriptions []json.RawMessage }
		resp, err := s.Do(http.MethodGet, "/v1.0/metadata", "", nil)
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&said)
			resp.Body.Close()
		}
		if err == nil && len(said.Subscriptions) == topics {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.Stop()
	s.t.Fatalf("the sidecar has not %d subscriptions:\n%s", topics, s.log.String())
}

// Publish sends a message to a topic and returns the status of the answer.
func (s *Sidecar) Publish(pubsub, topic, contentType string, body []byte) int {
	s.t.Helper()
	resp, err := s.Do(http.MethodPost, "/v1.0/publish/"+pubsub+"/"+topic, contentType, body)
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
