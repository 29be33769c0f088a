package service_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/action/service/daprtest"
)

// TestRealSidecar calls services through Dapr's own sidecars: what the stand-in of the other tests only assumes.
func TestRealSidecar(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes of daprd")
	}
	n := daprtest.NewNetwork(t)
	p := newPlatform(t, says(`{"ok": true}`))
	callee := n.Start("budcluster", p.port(t))
	o := service.Options{DaprPort: n.Start("stepwell", 0).Port}
	a := lookup(t, o, "internal.deployment.delete")
	call := func(id string) actiontest.Result {
		return actiontest.Run(t.Context(), a, actiontest.Call{Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Params: map[string]any{"endpoint_id": id}})
	}
	t.Run("path values", func(t *testing.T) {
		for value, plain := range pathValues {
			before := len(p.seen)
			r := call(value)
			switch {
			case !plain && (!action.IsFail(r.Err) || len(p.seen) != before):
				t.Errorf("%q: %v, %d requests", value, r.Err, len(p.seen)-before)
			case plain && r.Err != nil:
				t.Errorf("%q: %v", value, r.Err)
			case plain && lastSegment(t, p.seen[len(p.seen)-1]) != value:
				t.Errorf("%q: the service saw %s", value, p.seen[len(p.seen)-1])
			}
		}
	})
	t.Run("the trace continues", func(t *testing.T) {
		if got := p.header.Get("Traceparent"); !strings.HasPrefix(got, "00-0af7651916cd43dd8448eb211c80319c-") {
			t.Errorf("traceparent %q at the service", got)
		}
	})
	t.Run("an app that nobody knows", func(t *testing.T) {
		r := actiontest.Run(t.Context(), lookup(t, o, "internal.model.onboard"), actiontest.Call{Params: map[string]any{"model_uri": "u"}})
		f, ok := errors.AsType[*outbound.Failure](r.Err)
		if !ok || f.Kind != outbound.KindDNS || action.IsFail(r.Err) || strings.Contains(r.Err.Error(), "127.0.0.1") {
			t.Errorf("%+v: %v", f, r.Err)
		}
	})
	t.Run("a service that restarts", func(t *testing.T) {
		memory := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{"endpoint_id": "e"}}).Memory
		callee.Stop()
		for attempt := range 4 { // of a service that answers 500 the second would have been the last
			r := actiontest.Run(t.Context(), a, actiontest.Call{Attempt: attempt + 1, Memory: memory, Params: map[string]any{"endpoint_id": "e"}})
			f, ok := errors.AsType[*outbound.Failure](r.Err)
			if !ok || action.IsFail(r.Err) || f.Kind == outbound.KindStatus {
				t.Fatalf("attempt %d: %+v: %v", attempt+1, f, r.Err)
			}
		}
		n.Start("budcluster", p.port(t))
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) { // the sidecar forgets its broken connection
			r := call("back")
			if r.Err == nil {
				break
			}
			if action.IsFail(r.Err) || time.Now().After(end) {
				t.Fatal(r.Err)
			}
		}
	})
}

// An app that only fails, or only dawdles, holds up no other behind the same sidecar (A14).
func TestRealSidecarManyApps(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes of daprd")
	}
	n := daprtest.NewNetwork(t)
	var slow sync.WaitGroup
	release := make(chan struct{})
	bad := newPlatform(t, func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusServiceUnavailable) })
	dawdling := newPlatform(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		<-release
		fmt.Fprint(w, `{}`)
	})
	good := newPlatform(t, says(`{}`))
	n.Start("bad", bad.port(t))
	n.Start("dawdling", dawdling.port(t))
	n.Start("good", good.port(t))
	o := service.Options{DaprPort: n.Start("stepwell", 0).Port}
	for _, app := range []string{"bad", "dawdling", "good"} {
		o.Endpoints = append(o.Endpoints, service.Endpoint{Action: "internal.test." + app, App: app, Path: "/x"})
	}
	var r action.Registry
	if err := service.Register(&r, o); err != nil {
		t.Fatal(err)
	}
	run := func(app string) error {
		a, _ := r.Lookup("internal.test." + app)
		return actiontest.Run(t.Context(), *a, actiontest.Call{Params: map[string]any{}}).Err
	}
	for range 12 {
		if err := run("bad"); err == nil {
			t.Fatal("a service that answers 503 is well")
		}
	}
	if f, ok := errors.AsType[*outbound.Failure](run("bad")); !ok || f.Kind != outbound.KindBusy {
		t.Errorf("an app that only fails is not left alone: %v", f)
	}
	for range 40 {
		slow.Go(func() { _ = run("dawdling") })
	}
	if err := run("good"); err != nil { // while 40 calls of the other hang, which would fill the sidecar's 32 slots
		t.Error(err)
	}
	close(release)
	slow.Wait()
}
