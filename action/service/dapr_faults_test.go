package service_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/action/service/daprtest"
)

// TestRealSidecarFaults calls a service through a sidecar that is restarted, that is away, that wants another token, and that takes no more
// than 4 MiB.
func TestRealSidecarFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes of daprd")
	}
	t.Setenv("DAPR_API_TOKEN", "of-the-sidecar")
	n := daprtest.NewNetwork(t)
	var calls atomic.Int32 // that have come whole: one that is too large is cut off
	callee := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			calls.Add(1)
			fmt.Fprint(w, `{"ok": true}`)
		}
	}))
	t.Cleanup(callee.Close)
	n.Start("budcluster", callee.Listener.Addr().(*net.TCPAddr).Port)
	own := n.Start("stepwell", 0)
	call := func(token, text string) (*outbound.Failure, error) {
		o := service.Options{DaprPort: own.Port, DaprToken: token, Endpoints: []service.Endpoint{{Action: "internal.test.send", App: "budcluster", Path: "/x", OpenParams: true}}}
		r := actiontest.Run(t.Context(), lookup(t, o, "internal.test.send"), actiontest.Call{Params: map[string]any{"text": text}})
		f, _ := errors.AsType[*outbound.Failure](r.Err)
		return f, r.Err
	}
	const token = "of-the-sidecar"
	works := func(after string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { // a sidecar may take a moment to know the apps
			_, err := call(token, "well")
			if err == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v", after, err)
			}
		}
	}
	works("at first")

	before := calls.Load()
	for _, wrong := range []string{"", "another"} {
		if _, err := call(wrong, "x"); !action.IsFail(err) || !strings.Contains(stepwell.HintOf(err), "DAPR_API_TOKEN") {
			t.Errorf("with the token %q: %v (%s)", wrong, err, stepwell.HintOf(err))
		}
	}
	if f, err := call(token, strings.Repeat("a", 4<<20)); !action.IsFail(err) || f == nil || f.Kind != outbound.KindStatus || !strings.Contains(stepwell.HintOf(err), "max-body-size") {
		t.Errorf("4 MiB and more: %+v: %v", f, err)
	}
	if n := calls.Load() - before; n != 0 {
		t.Errorf("the service has got %d of the calls", n)
	}
	works("after a large call")

	own.Stop()
	if f, err := call(token, "x"); f == nil || f.Kind != outbound.KindConnect || action.IsFail(err) {
		t.Errorf("without the sidecar: %+v: %v", f, err)
	}
	own.Restart()
	works("with the next sidecar")
}
