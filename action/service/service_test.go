package service_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/spec"
)

// platform is a small service that notes what it was asked.
type platform struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []string // "METHOD escaped-path body"
	header http.Header
	answer func(w http.ResponseWriter, r *http.Request, body string)
}

func newPlatform(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body string)) *platform {
	t.Helper()
	p := &platform{answer: answer}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		p.seen = append(p.seen, r.Method+" "+r.URL.RequestURI()+" "+string(body))
		p.header = r.Header.Clone()
		p.mu.Unlock()
		p.answer(w, r, string(body))
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *platform) port(t *testing.T) int {
	t.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func says(text string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, text) }
}

func lookup(t *testing.T, o service.Options, name string) action.Action {
	t.Helper()
	var r action.Registry
	if err := service.Register(&r, o); err != nil {
		t.Fatal(err)
	}
	a, ok := r.Lookup(name)
	if !ok {
		t.Fatalf("no action %s", name)
	}
	return *a
}

// The same call, straight to a base URL and through a Dapr sidecar.
func TestTwoWays(t *testing.T) {
	p := newPlatform(t, says(`{"endpoint_id": "e1", "n": 12345678901234567}`))
	ways := map[string]service.Options{
		"POST /api/v1/deployments":                               {Apps: map[string]string{"budcluster": p.URL + "/"}},
		"POST /v1.0/invoke/budcluster/method/api/v1/deployments": {DaprPort: p.port(t), DaprToken: "t0ken", AppIDs: map[string]string{"budmodel": "m"}},
		"POST /v1.0/invoke/cluster-eu/method/api/v1/deployments": {DaprPort: p.port(t), DaprToken: "t0ken", AppIDs: map[string]string{"budcluster": "cluster-eu"}},
	}
	for want, o := range ways {
		a := lookup(t, o, "internal.deployment.deploy")
		r := actiontest.Run(t.Context(), a, actiontest.Call{Execution: "x-1", StepKey: "deploy", Params: map[string]any{"model_id": "m", "replicas": int64(2)}})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if r.Outputs["endpoint_id"] != "e1" || r.Outputs["n"] != int64(12345678901234567) {
			t.Errorf("outputs %v", r.Outputs)
		}
		got := p.seen[len(p.seen)-1]
		if got != want+` {"model_id":"m","replicas":2}` {
			t.Errorf("the service saw %s", got)
		}
		if p.header.Get("X-Execution-Id") != "x-1" || p.header.Get("X-Step-Id") != "deploy" || p.header.Get("Idempotency-Key") != "x-1/deploy" {
			t.Errorf("headers %v", p.header)
		}
		if token := p.header.Get("Dapr-Api-Token"); (token == "t0ken") != (o.DaprPort > 0) {
			t.Errorf("token %q sent", token)
		}
	}
}

// A parameter in the path stays one segment of it, whatever it contains.
func TestPath(t *testing.T) {
	p := newPlatform(t, says(``))
	a := lookup(t, service.Options{Apps: map[string]string{"budcluster": p.URL}}, "internal.deployment.delete")
	for id, want := range map[string]string{
		"e1":            "/api/v1/deployments/e1 ",
		"a/../b?x=1#y":  "/api/v1/deployments/a%2F..%2Fb%3Fx=1%23y ",
		"grün %2e%2e/ ": "/api/v1/deployments/gr%C3%BCn%20%252e%252e%2F%20 ",
	} {
		r := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{"endpoint_id": id}})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := p.seen[len(p.seen)-1]; !strings.HasPrefix(got, "DELETE "+want) {
			t.Errorf("%q: the service saw %s", id, got)
		}
	}
	before := len(p.seen)
	r := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{"endpoint_id": ".."}})
	if r.Err == nil || !action.IsFail(r.Err) || len(p.seen) != before {
		t.Errorf("'..' gives %v", r.Err)
	}
}

func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		name, body string
		status     int
		outputs    string
		fails      string
		permanent  bool
	}{
		{"a list becomes the result", `[1,2]`, 200, `{"result":[1,2]}`, "", false},
		{"nothing is nothing", ``, 204, `{}`, "", false},
		{"a page that is no JSON", `<html>login</html>`, 200, ``, "did not answer with JSON: <html>login</html>", true},
		{"a refusal is final", `{"detail":"no such model"}`, 422, ``, "no such model", true},
		{"a service that is unavailable is retried", `try later`, 503, ``, "503", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlatform(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			a := lookup(t, service.Options{Apps: map[string]string{"budmodel": p.URL}}, "internal.model.onboard")
			r := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{"model_uri": "u"}})
			if test.fails != "" {
				if r.Err == nil || !strings.Contains(r.Err.Error(), test.fails) || action.IsFail(r.Err) != test.permanent {
					t.Errorf("error %v, permanent %v", r.Err, action.IsFail(r.Err))
				}
				return
			}
			got, err := json.Marshal(r.Outputs)
			if err != nil || r.Err != nil || string(got) != test.outputs {
				t.Errorf("outputs %s, error %v", got, errors.Join(r.Err, err))
			}
		})
	}
}

// Asynchronous work: one submission, then questions until the end, also over a crash between the
// submission and the first question.
func TestAsync(t *testing.T) {
	statuses := []string{`{"status":"RUNNING","progress":40}`, ``, `{"status":"COMPLETED","result":{"recommended_config":{"gpus":2}}}`}
	asked := 0
	p := newPlatform(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.Method == http.MethodPost {
			fmt.Fprint(w, `{"workflow_id":"w 1"}`)
			return
		}
		if statuses[asked] == "" {
			w.WriteHeader(http.StatusBadGateway)
		}
		fmt.Fprint(w, statuses[asked])
		asked++
	})
	a := lookup(t, service.Options{Apps: map[string]string{"budsim": p.URL}}, "internal.budsim.simulate")
	memory := map[string]json.RawMessage{}
	call := actiontest.Call{Params: map[string]any{"model_id": "m"}, Memory: memory}
	first := actiontest.Run(t.Context(), a, call)
	again := actiontest.Run(t.Context(), a, call) // as after a crash: the wait was not recorded, the submission was
	if first.Wait == nil || again.Wait == nil || string(first.Wait.State) != string(again.Wait.State) || first.Wait.ExternalID != "w 1" {
		t.Fatalf("waits %+v and %+v, errors %v, %v", first.Wait, again.Wait, first.Err, again.Err)
	}
	r := first
	for range statuses {
		call.State = r.Wait.State
		if r = actiontest.Run(t.Context(), a, call); r.Wait == nil {
			break
		}
	}
	if r.Err != nil || fmt.Sprint(r.Outputs) != "map[recommended_config:map[gpus:2]]" {
		t.Errorf("outputs %v, error %v", r.Outputs, r.Err)
	}
	want := []string{`POST /api/v1/simulations {"model_id":"m"}`, "GET /api/v1/workflows/w%201/status ", "GET /api/v1/workflows/w%201/status ", "GET /api/v1/workflows/w%201/status "}
	if fmt.Sprint(p.seen) != fmt.Sprint(want) {
		t.Errorf("the service saw %q", p.seen)
	}
}

func TestAsyncEnds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for answer, want := range map[string]string{
		`{"status":"FAILED","error":"no such cluster"}`: "workflow w failed: no such cluster",
		`{"status":"CANCELLED","error":{"by":"ops"}}`:   `workflow w cancelled: {"by":"ops"}`,
		`{"status":"RUNNING"}`:                          `workflow w is still "RUNNING" after 1h0m0s`,
	} {
		p := newPlatform(t, says(answer))
		a := lookup(t, service.Options{Apps: map[string]string{"budsim": p.URL}, Now: func() time.Time { return now }}, "internal.budsim.simulate")
		state := fmt.Sprintf(`{"workflow_id":"w","deadline":%q}`, now.Add(5*time.Second).Format(time.RFC3339))
		r := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{"model_id": "m"}, State: json.RawMessage(state)})
		if r.Err == nil || r.Err.Error() != want {
			t.Errorf("%s gives %v", answer, r.Err)
		}
	}
	p := newPlatform(t, says(`{"ok":true}`))
	a := lookup(t, service.Options{Apps: map[string]string{"budsim": p.URL}}, "internal.budsim.simulate")
	r := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{"model_id": "m"}})
	if r.Err == nil || !strings.Contains(r.Err.Error(), "without a workflow_id") {
		t.Errorf("an answer without workflow_id gives %v", r.Err)
	}
}

func TestUnknownParameters(t *testing.T) {
	var r action.Registry
	if err := service.Register(&r, service.Options{}); err != nil {
		t.Fatal(err)
	}
	check, _ := r.Params("internal.notify.send")
	if wrong := check.Check(map[string]any{"template": "x", "recipient": "me"}); len(wrong) != 1 || !strings.Contains(wrong[0].Hint, "recipients") {
		t.Errorf("an unknown parameter gives %v", wrong)
	}
	a, _ := r.Lookup("internal.notify.send")
	res := actiontest.Run(t.Context(), *a, actiontest.Call{Params: map[string]any{"template": "x"}})
	if res.Err == nil || !strings.Contains(stepwell.HintOf(res.Err), "services.apps") {
		t.Errorf("a service that is nowhere gives %v (%s)", res.Err, stepwell.HintOf(res.Err))
	}
}

// Configuration adds rows, and replaces those of the table.
func TestConfiguredTable(t *testing.T) {
	p := newPlatform(t, says(`{"ok":true}`))
	o := service.Options{Apps: map[string]string{"geo": p.URL, "budcluster": p.URL}, Endpoints: []service.Endpoint{
		{Action: "internal.geo.tile", App: "geo", Path: "/tiles/{z}", Method: "GET", OpenParams: true},
		{Action: "internal.deployment.deploy", App: "budcluster", Path: "/v2/deploy"},
	}}
	r := actiontest.Run(t.Context(), lookup(t, o, "internal.geo.tile"), actiontest.Call{Params: map[string]any{"z": "7", "style": "a b"}})
	if r.Err != nil || p.seen[0] != "GET /tiles/7?style=a+b&z=7 " {
		t.Errorf("the service saw %q, error %v", p.seen, r.Err)
	}
	for name, path := range map[string]string{"internal.deployment.deploy": "/v2/deploy", "internal.model.deploy": "/api/v1/deployments"} {
		r := actiontest.Run(t.Context(), lookup(t, o, name), actiontest.Call{Params: map[string]any{"model_id": "m"}})
		if got := p.seen[len(p.seen)-1]; r.Err != nil || got != "POST "+path+` {"model_id":"m"}` {
			t.Errorf("%s: the service saw %s, error %v", name, got, r.Err)
		}
	}
}

func TestBadTables(t *testing.T) {
	for want, o := range map[string]service.Options{
		"not an app id":           {Endpoints: []service.Endpoint{{Action: "a", Path: "/"}}},
		"does not begin with /":   {Endpoints: []service.Endpoint{{Action: "a", App: "x", Path: "tiles"}}},
		`method "FETCH"`:          {Endpoints: []service.Endpoint{{Action: "a", App: "x", Path: "/", Method: "FETCH"}}},
		"{id} of the path":        {Endpoints: []service.Endpoint{{Action: "a", App: "x", Path: "/{id}", Params: []spec.Field{{Name: "id", Type: spec.Ref}}}}},
		"no {workflow_id}":        {Endpoints: []service.Endpoint{{Action: "a", App: "x", Path: "/", Async: true, StatusPath: "/status"}}},
		"base URL of the app geo": {Apps: map[string]string{"geo": "localhost:80"}},
		"Dapr port 70000":         {DaprPort: 70000},
		`app id "../x" of geo`:    {AppIDs: map[string]string{"geo": "../x"}},
	} {
		var r action.Registry
		if err := service.Register(&r, o); err == nil || !strings.Contains(err.Error(), want) || stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
