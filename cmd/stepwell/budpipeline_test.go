package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// budSpecification is budpipeline's specification, which is no part of the project.
func budSpecification(t *testing.T) string {
	t.Helper()
	root := filepath.Join("..", "..", "..", "shared")
	if data := os.Getenv("STEPWELL_SHARED_DATA"); data != "" {
		root = filepath.Dir(data)
	}
	src, err := os.ReadFile(filepath.Join(root, "specs", "budpipeline.md"))
	if err != nil {
		t.Skipf("left out: %v", err)
	}
	return string(src)
}

// budServices stand in for the platform's services.
type budServices struct {
	mu    sync.Mutex
	calls map[string][]map[string]any // bodies by method and path
	heads map[string]http.Header      // of the last call, by method and path
}

func (b *budServices) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var body map[string]any
	_ = json.Unmarshal(raw, &body)
	at := r.Method + " " + r.URL.Path
	b.mu.Lock()
	b.calls[at] = append(b.calls[at], body)
	b.heads[at] = r.Header
	b.mu.Unlock()
	switch at {
	case "POST /api/v1/models/onboard":
		fmt.Fprint(w, `{"model_id": "m-1"}`)
	case "POST /api/v1/simulations":
		fmt.Fprint(w, `{"workflow_id": "w-1"}`)
	case "GET /api/v1/workflows/w-1/status":
		fmt.Fprint(w, `{"status": "COMPLETED", "result": {"recommended_config": {"tp": 2}}}`)
	case "POST /api/v1/deployments":
		fmt.Fprint(w, `{"endpoint_id": "e-1", "endpoint_url": "https://e-1.example"}`)
	case "POST /api/v1/clusters/eu-1/health":
		fmt.Fprint(w, `{"healthy": true}`)
	case "POST /api/v1/benchmarks":
		fmt.Fprint(w, `{"workflow_id": "b-1"}`)
	case "GET /api/v1/workflows/b-1/status":
		fmt.Fprint(w, `{"status": "COMPLETED", "result": {"benchmark_id": "b-1", "results": {"p99_ms": 900}}}`)
	case "POST /api/v1/metrics/query":
		fmt.Fprint(w, `{"endpoints": ["e-1", "e-2"]}`)
	case "DELETE /api/v1/deployments/e-1", "DELETE /api/v1/deployments/e-2":
		fmt.Fprint(w, `{}`)
	case "POST /api/v1/notifications":
		fmt.Fprint(w, `{"sent": true}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (b *budServices) of(at string) ([]map[string]any, http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[at], b.heads[at]
}

// startBudServices also returns the settings with which the program finds them.
func startBudServices(t *testing.T) (*budServices, string) {
	t.Helper()
	bud := &budServices{calls: map[string][]map[string]any{}, heads: map[string]http.Header{}}
	services := httptest.NewServer(bud)
	t.Cleanup(services.Close)
	settings := "services:\n  apps:\n"
	for _, app := range []string{"budapp", "budcluster", "budmodel", "budsim", "budnotify", "budmetrics"} {
		settings += fmt.Sprintf("    %s: %s\n", app, services.URL)
	}
	return bud, settings
}

// budServer is the program as a server beside the services.
type budServer struct {
	t   *testing.T
	url string
}

func serveBud(t *testing.T, settings string) *budServer {
	t.Helper()
	s := &budServer{t: t, url: "http://" + freeAddress()}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stepwell.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("stepwell", "serve", "--listen", strings.TrimPrefix(s.url, "http://"))
	var said bytes.Buffer
	c.Dir, c.Stdout, c.Stderr = dir, io.Discard, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
		if t.Failed() {
			t.Logf("the server said:\n%s", said.String())
		}
	})
	s.until("the server", func() bool {
		resp, err := http.Get(s.url + "/api/v1/ready")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	return s
}

func (s *budServer) until(what string, there func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !there(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%s did not come", what)
		}
	}
}

// do makes a request that must be answered with a status below 300.
func (s *budServer) do(method, path, body string) map[string]any {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	var answer map[string]any
	if err != nil || resp.StatusCode > 299 || json.Unmarshal(raw, &answer) != nil {
		s.t.Fatalf("%s %s: %s %s (%v)", method, path, resp.Status, raw, err)
	}
	return answer
}

// ended waits for the end of an execution.
func (s *budServer) ended(id any) map[string]any {
	s.t.Helper()
	var x map[string]any
	s.until("the end of the execution", func() bool {
		x = s.do("GET", fmt.Sprint("/api/v1/executions/", id), "")
		return x["completed_at"] != nil
	})
	return x
}

var budRequest = regexp.MustCompile(`(?s)curl -X (\w+) http://localhost:8010(\S+).*?-d '(.*?)'\n`)

// asJSON is a document in YAML as JSON.
func asJSON(t *testing.T, document string) string {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(document), &v); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The specification's own document and the requests of its phases run as they stand; only their dots are filled in.
func TestBudpipelineSpecification(t *testing.T) {
	t.Parallel() // one of the requests waits for five seconds
	specification := budSpecification(t)
	_, rest, _ := strings.Cut(specification, "#### DAG Definition Schema")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	document, _, closed := strings.Cut(rest, "```")
	_, phases, found := strings.Cut(specification, "## 10. Development Phases")
	requests := budRequest.FindAllStringSubmatch(phases, -1)
	if !closed || !found || len(requests) != 4 {
		t.Fatalf("the specification has changed: %d requests", len(requests))
	}
	bud, settings := startBudServices(t)
	s := serveBud(t, settings)
	send := func(phase int, fill ...string) map[string]any {
		t.Helper()
		r := requests[phase]
		return s.do(r[1], r[2], strings.NewReplacer(fill...).Replace(r[3]))
	}

	// Phase 1: a single action.
	waits := send(0)

	// Phase 2: the document of §3.2, in place of its dots. It needs the cluster too, which the request does not say.
	filled := []string{"{...}", asJSON(t, document), `"model_uri": "meta-llama/Llama-2-7b"`, `"model_uri": "meta-llama/Llama-2-7b", "cluster_id": "c-1"`}
	x := s.ended(send(1, filled...)["execution_id"])
	if want := (map[string]any{"endpoint_url": "https://e-1.example", "model_id": "m-1"}); x["status"] != "completed" || !cmp.Equal(x["result"], any(want)) {
		t.Errorf("the execution is %v with %v: %v", x["status"], x["result"], x["error"])
	}
	for at, want := range map[string]struct {
		step string
		body map[string]any
	}{
		"POST /api/v1/models/onboard": {"onboard", map[string]any{"model_uri": "meta-llama/Llama-2-7b", "source_type": "huggingface"}},
		"POST /api/v1/simulations":    {"simulate", map[string]any{"model_id": "m-1", "cluster_id": "c-1"}},
		"POST /api/v1/deployments":    {"deploy", map[string]any{"model_id": "m-1", "cluster_id": "c-1", "replicas": 1.0}},
		"POST /api/v1/notifications":  {"notify", map[string]any{"template": "deployment_complete", "data": map[string]any{"endpoint_url": "https://e-1.example"}}},
	} {
		bodies, head := bud.of(at)
		if len(bodies) != 1 || head.Get("X-Execution-Id") != x["execution_id"] || head.Get("X-Step-Id") != want.step {
			t.Errorf("%s: %v, headers %v", at, bodies, head)
			continue
		}
		delete(bodies[0], "config") // the deployment does not wait for what the simulation recommends
		if d := cmp.Diff(want.body, bodies[0]); d != "" {
			t.Errorf("%s (-want +got):\n%s", at, d)
		}
	}

	// Phase 4: a job with nothing but an id and a schedule starts the pipeline that has this id.
	stored := s.do("POST", "/api/v1/pipelines", `{"document": {"name": "nightly", "steps": [{"id": "say", "action": "util.log", "params": {"message": "good morning"}}]}}`)
	job := send(3, `"job_id": "..."`, fmt.Sprintf(`"job_id": %q`, stored["pipeline_id"]))
	zone, err := time.LoadLocation("America/New_York")
	next, bad := time.Parse(time.RFC3339, fmt.Sprint(job["next_run_at"]))
	if err != nil || bad != nil || next.In(zone).Hour() != 9 || next.In(zone).Minute() != 0 || next.In(zone).Weekday()%6 == 0 || job["schedule_id"] == nil {
		t.Errorf("the job: %v", job)
	}
	if x := s.ended(s.do("POST", "/api/v1/execute", fmt.Sprintf(`{"job_id": %q}`, stored["pipeline_id"]))["execution_id"]); x["status"] != "completed" || x["job_id"] != stored["pipeline_id"] {
		t.Errorf("what the job started: %v", x)
	}

	// Phase 5: the stream of an execution's log, from its beginning to its end.
	_, stream, _ := strings.Cut(phases, "wscat -c ws://localhost:8010")
	stream, _, _ = strings.Cut(stream, "\n")
	address := strings.Replace(s.url, "http", "ws", 1) + strings.Replace(stream, "{id}", fmt.Sprint(waits["execution_id"]), 1)
	conn, resp, err := websocket.Dial(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err, resp)
	}
	defer conn.CloseNow()
	var last struct {
		Type string
		Data map[string]any
	}
	for last.Type != "complete" {
		_, raw, err := conn.Read(t.Context())
		if err != nil || json.Unmarshal(raw, &last) != nil {
			t.Fatalf("the stream: %s (%v)", raw, err)
		}
	}
	if x := s.ended(waits["execution_id"]); last.Data["status"] != "completed" || x["status"] != "completed" || x["duration_ms"].(float64) < 5000 {
		t.Errorf("the stream ended with %v, the execution with %v", last.Data, x)
	}
}
