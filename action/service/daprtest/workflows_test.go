package daprtest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action/service/daprtest"
)

// TestServices: a sidecar with a placement service, a scheduler and an actor store has the API of workflows.
func TestServices(t *testing.T) {
	n := daprtest.NewNetwork(t)
	n.AddActorStore()
	s := n.StartWith("app", 0, n.NewServices())
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(s.URL("/v1.0/workflows/dapr/nothing"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && strings.Contains(string(text), "ERR_INSTANCE_ID_NOT_FOUND") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
	}
}
