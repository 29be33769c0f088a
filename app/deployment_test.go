package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

// deployment is a pipeline like the one of budpipeline §3.2, in our words: a simulation that may
// fail, a deployment that does not wait for it and reads what it may have recommended, and a
// notification that does not matter.
const deployment = `
name: roll-out
parameters:
  - {name: model_uri, type: string, required: true}
  - {name: cluster_id, type: cluster_ref, required: true}
  - {name: replicas, type: integer, default: 1}
settings: {timeout_seconds: 7200, fail_fast: true, max_parallel_steps: 5, retry_policy: {max_attempts: 3, backoff_seconds: 0.05}}
steps:
  - id: onboard
    action: internal.model.onboard
    params: {model_uri: "{{ params.model_uri }}", source_type: huggingface}
    outputs: [model_id]
  - id: simulate
    action: internal.budsim.simulate
    depends_on: [onboard]
    params: {model_id: "{{ steps.onboard.outputs.model_id }}", cluster_id: "{{ params.cluster_id }}"}
    on_failure: continue
  - id: deploy
    action: internal.deployment.deploy
    depends_on: [onboard]
    condition: "{{ steps.onboard.status == 'completed' }}"
    params:
      model_id: "{{ steps.onboard.outputs.model_id }}"
      cluster_id: "{{ params.cluster_id }}"
      replicas: "{{ params.replicas }}"
      config: "{{ steps.simulate.outputs.recommended_config | default({}) }}"
    retry: {max_attempts: 2, backoff_seconds: 0.05}
  - id: notify
    action: internal.notify.send
    depends_on: [deploy]
    params: {template: deployment_complete, data: {endpoint_url: "{{ steps.deploy.outputs.endpoint_url }}"}}
    on_failure: continue
outputs:
  endpoint_url: "{{ steps.deploy.outputs.endpoint_url }}"
  model_id: "{{ steps.onboard.outputs.model_id }}"
`

// bud are the platform's services: the simulation always fails, the deployment fails once, the
// notification always fails.
type bud struct {
	// refuse: the simulation is refused for good, instead of failing after it was accepted. Then only the
	// deployment's own backoff is waited for.
	refuse bool

	mu    sync.Mutex
	calls []string
	count map[string]int
}

func (b *bud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count[r.URL.Path]++
	b.calls = append(b.calls, fmt.Sprintf("%s %s %s", r.Header.Get("X-Step-Id"), r.URL.Path, body))
	switch r.URL.Path {
	case "/api/v1/models/onboard":
		fmt.Fprint(w, `{"model_id":"m-1"}`)
	case "/api/v1/simulations":
		if b.refuse {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		fmt.Fprint(w, `{"workflow_id":"w-1"}`)
	case "/api/v1/workflows/w-1/status":
		fmt.Fprint(w, `{"status":"FAILED","error":"no capacity"}`)
	case "/api/v1/deployments":
		if b.count[r.URL.Path] == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"endpoint_id":"e-1","endpoint_url":"http://e-1"}`)
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// runDocument runs a document with the platform's services and returns its end and its steps.
func runDocument(t *testing.T, text string, services http.Handler, params map[string]any) (*store.Execution, map[string]store.Step) {
	t.Helper()
	server := httptest.NewServer(services)
	t.Cleanup(server.Close)
	apps := map[string]string{}
	for _, name := range []string{"budmodel", "budcluster", "budsim", "budnotify"} {
		apps[name] = server.URL
	}
	a, err := app.New(t.Context(), app.Options{DB: filepath.Join(t.TempDir(), "d.db"), Services: service.Options{Apps: apps}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(t.Context()) }()
	t.Cleanup(func() {
		a.Drain()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{File: "doc.yaml"})
	if d != nil {
		problems = append(problems, definition.Check(d, a.Actions, "doc.yaml")...)
	}
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	p, err := a.Conductor.Register(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	x, err := a.Conductor.Wait(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]store.Step{}
	list, err := a.Store.Steps(t.Context(), x.No, store.StepFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		steps[s.Key] = s
	}
	return x, steps
}

// budpipeline §3.2 with everything going wrong that may: order, retry, default({}), conditions,
// outputs and the final status.
func checkDeployment(t *testing.T, text string, refuse bool, because string) {
	t.Helper()
	b := &bud{count: map[string]int{}, refuse: refuse}
	x, steps := runDocument(t, text, b, map[string]any{"model_uri": "meta/llama", "cluster_id": "c-1"})
	if x.Status != stepwell.ExecutionCompletedWithFailures {
		t.Errorf("the execution is %s: %+v", x.Status, x.Failure)
	}
	if string(x.Outputs) != `{"endpoint_url":"http://e-1","model_id":"m-1"}` {
		t.Errorf("outputs %s", x.Outputs)
	}
	for key, want := range map[string]string{"onboard": "completed 1", "simulate": "failed", "deploy": "completed 2", "notify": "failed 1"} {
		if got := fmt.Sprintf("%s %d", steps[key].Status, steps[key].Attempt); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %s, want %s (%+v)", key, got, want, steps[key].Error)
		}
	}
	if e := steps["simulate"].Error; e == nil || !strings.Contains(e.Message, because) {
		t.Errorf("simulate failed with %+v", e)
	}
	deploy := `deploy /api/v1/deployments {"cluster_id":"c-1","config":{},"model_id":"m-1","replicas":1}`
	if n := slices.Index(b.calls, deploy); n < 1 || b.count["/api/v1/deployments"] != 2 {
		t.Errorf("the services saw\n%s", strings.Join(b.calls, "\n"))
	}
	if !strings.HasPrefix(b.calls[0], "onboard ") || !strings.Contains(strings.Join(b.calls, "\n"), `notify /api/v1/notifications {"data":{"endpoint_url":"http://e-1"},"template":"deployment_complete"}`) {
		t.Errorf("the services saw\n%s", strings.Join(b.calls, "\n"))
	}
}

func TestDeployment(t *testing.T) {
	t.Parallel()
	checkDeployment(t, deployment, false, "workflow w-1 failed: no capacity")
}

// The document of the specification itself, word for word. The deployment's second attempt comes after the 30 seconds it
// asks for.
func TestDeploymentOfTheSpecification(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the document's own backoff")
	}
	t.Parallel()
	data := os.Getenv("STEPWELL_SHARED_DATA")
	if data == "" {
		data = filepath.Join("..", "..", "shared", "data")
	}
	text, err := os.ReadFile(filepath.Join(data, "..", "specs", "budpipeline.md"))
	if err != nil {
		t.Skip("left out: the specification's own document, because ../shared/specs is missing")
	}
	block := regexp.MustCompile("(?s)```yaml\n(name: \"model-deployment-pipeline\".*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("the specification has no such document")
	}
	began := time.Now()
	checkDeployment(t, string(block[1]), true, "answered 422")
	t.Logf("took %s", time.Since(began).Round(time.Second))
}
