package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action/service/daprtest"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/proxytest"
)

// daprRig is a server whose sidecar is Dapr's own.
type daprRig struct {
	t       *testing.T
	n       *daprtest.Network
	dir     string
	address string
	client  *client.Client
	process *exec.Cmd
	log     *bytes.Buffer // read it when the process has ended
}

// newDaprRig starts the server; its settings begin with dapr.
func newDaprRig(t *testing.T, settings string, env ...string) *daprRig {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes of daprd")
	}
	t.Setenv("APP_API_TOKEN", "the-token-of-the-app") // of server and sidecars
	r := &daprRig{t: t, n: daprtest.NewNetwork(t), dir: t.TempDir(), address: freeAddress()}
	r.n.AddPubSub("pubsub")
	r.n.AddComponent("statestore", "state.in-memory", nil)
	var err error
	if r.client, err = client.New(client.Options{URL: "http://" + r.address, HTTP: http.DefaultClient}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "stepwell.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	r.serve(env...)
	return r
}

// serve starts the server, also again after it was killed.
func (r *daprRig) serve(env ...string) {
	r.t.Helper()
	r.log = &bytes.Buffer{}
	r.process = exec.Command("stepwell", "serve", "--listen", r.address)
	r.process.Dir, r.process.Env = r.dir, append(os.Environ(), env...)
	r.process.Stdout, r.process.Stderr = io.Discard, r.log
	if err := r.process.Start(); err != nil {
		r.t.Fatal(err)
	}
	process := r.process
	r.t.Cleanup(func() { killDapr(process) })
	r.await("ready", func() bool {
		var ready struct{ Ready bool }
		return r.client.Call(r.t.Context(), "GET", "/api/v1/ready", nil, nil, &ready) == nil && ready.Ready
	})
}

func killDapr(c *exec.Cmd) {
	if c.ProcessState == nil {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	}
}

func (r *daprRig) await(what string, done func() bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			killDapr(r.process)
			r.t.Fatalf("not %s:\n%s", what, r.log)
		}
	}
}

func (r *daprRig) port() int {
	_, text, _ := strings.Cut(r.address, ":")
	port, err := strconv.Atoi(text)
	must(r.t, err)
	return port
}

// pipeline stores one with a step, and a trigger for a type of events.
func (r *daprRig) pipeline(name, eventType string) {
	r.t.Helper()
	must(r.t, r.client.Call(r.t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": "name: " + name + "\nsteps:\n  - {id: s, action: util.noop}\n"}, nil))
	if eventType != "" {
		must(r.t, r.client.Call(r.t.Context(), "POST", "/api/v1/event-triggers", nil, object{"name": name, "event_type": eventType, "callback": object{"type": "workflow", "workflow_id": name}}, nil))
	}
}

// executions are how many executions of a pipeline have ended well.
func (r *daprRig) executions(pipeline string) int {
	r.t.Helper()
	var list struct{ Executions []struct{ Status string } }
	must(r.t, r.client.Call(r.t.Context(), "GET", "/api/v1/executions", url.Values{"pipeline": {pipeline}, "status": {"completed"}, "limit": {"100"}}, nil, &list))
	return len(list.Executions)
}

// answered counts the messages that were answered so.
func (r *daprRig) answered(answer string) int {
	r.t.Helper()
	resp, err := http.Get("http://" + r.address + "/metrics")
	must(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(r.t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, `stepwell_dapr_events_total{answer="`+answer+`"} `); ok {
			n, err := strconv.Atoi(strings.TrimSpace(rest))
			must(r.t, err)
			return n
		}
	}
	return 0
}

func cloudEvent(id, kind, data string) []byte {
	return fmt.Appendf(nil, `{"specversion":"1.0","id":%q,"source":"/test","type":%q,"data":%s}`, id, kind, data)
}

const (
	asCloudEvent = "application/cloudevents+json"
	daprEvents   = "log: {level: warn}\ndapr:\n  subscribe:\n    - {topic: models, key: model}\n    - {topic: many, bulk: true}\n  callers: {budapp: editor, viewer: viewer}\n  jobs: true\n"
)

// Messages of topics start executions and end waiting steps, once each; what cannot be read is dropped.
func TestDaprEvents(t *testing.T) {
	r := newDaprRig(t, daprEvents)
	r.pipeline("own", "model.onboarded")
	r.pipeline("wrapped", "models")
	r.pipeline("bulk", "many")
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": "name: waits\nsteps:\n  - {id: w, action: util.wait_for, params: {event: m-7}}\n"}, nil))
	var waits struct {
		ID string `json:"execution_id"`
	}
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/execute", nil, object{"workflow_id": "waits"}, &waits))
	sidecar := r.n.Start("stepwell", r.port())
	sidecar.AwaitSubscriptions(2)
	publish := func(topic, contentType string, body []byte, want int) {
		t.Helper()
		if got := sidecar.Publish("pubsub", topic, contentType, body); got != want && (want != 0 || got < 400) {
			t.Fatalf("published: %d, want %d", got, want)
		}
	}
	for range 2 { // the same event
		publish("models", asCloudEvent, cloudEvent("1", "model.onboarded", `{"model":"m-1"}`), http.StatusNoContent)
	}
	publish("models", "application/json", []byte(`{"model":"m-7"}`), http.StatusNoContent)
	for i := range 3 {
		publish("many", "application/json", fmt.Appendf(nil, `{"n":%d}`, i), http.StatusNoContent)
	}
	publish("models", asCloudEvent, cloudEvent("2", "execution.ended", `{}`), http.StatusNoContent)                     // Stepwell's own
	publish("models", asCloudEvent, cloudEvent("3", "large", `"`+strings.Repeat("x", 1<<20)+`"`), http.StatusNoContent) // for an event
	publish("models", asCloudEvent, cloudEvent("4", "large", `"`+strings.Repeat("x", 4<<20)+`"`), 0)                    // for Dapr, which says so with 500
	r.await("all taken", func() bool { return r.answered("SUCCESS") == 6 && r.answered("DROP") == 2 })
	r.await("executions", func() bool {
		return r.executions("own") == 1 && r.executions("wrapped") == 1 && r.executions("bulk") == 3 && r.executions("waits") == 1
	})
	if n := r.answered("RETRY"); n != 0 {
		t.Errorf("%d messages come again", n)
	}
	t.Run("the sidecar is restarted", func(t *testing.T) {
		sidecar.Stop()
		sidecar.Restart()
		sidecar.AwaitSubscriptions(2)
		publish("models", asCloudEvent, cloudEvent("5", "model.onboarded", `{}`), http.StatusNoContent)
		r.await("taken", func() bool { return r.executions("own") == 2 })
	})
	t.Run("a sidecar with another token", func(t *testing.T) {
		sidecar.Stop()
		t.Setenv("APP_API_TOKEN", "another")
		wrong := r.n.Start("stepwell", r.port())
		wrong.Publish("pubsub", "models", asCloudEvent, cloudEvent("6", "model.onboarded", `{}`))
		resp, err := http.Post("http://"+r.address+"/dapr/events/pubsub/models", asCloudEvent, bytes.NewReader(cloudEvent("7", "model.onboarded", `{}`)))
		must(t, err)
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || r.executions("own") != 2 {
			t.Errorf("answered %s; %d executions", resp.Status, r.executions("own"))
		}
	})
}

// killing is the port of a proxy before the server that kills it when it has answered a request to a path, and keeps the answer; and how
// often that path was asked for.
func (r *daprRig) killing(path string) (port int, asked *atomic.Int32) {
	r.t.Helper()
	asked = &atomic.Int32{}
	return r.behind(func(resp *http.Response) error {
		if !strings.HasPrefix(resp.Request.URL.Path, path) || asked.Load() > 0 {
			if strings.HasPrefix(resp.Request.URL.Path, path) {
				asked.Add(1)
			}
			return nil
		}
		killDapr(r.process)
		asked.Add(1)
		return io.ErrUnexpectedEOF
	}), asked
}

// behind is the port of a proxy before the server; answered sees each answer, and an error of it keeps the answer back.
func (r *daprRig) behind(answered func(*http.Response) error) (port int) {
	r.t.Helper()
	target, err := url.Parse("http://" + r.address)
	must(r.t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ModifyResponse = answered
	front := httptest.NewServer(proxy)
	r.t.Cleanup(front.Close)
	_, text, _ := strings.Cut(front.Listener.Addr().String(), ":")
	port, err = strconv.Atoi(text)
	must(r.t, err)
	return port
}

// A server that is killed between taking a message and answering gets it again, and has started one execution.
func TestDaprEventOfAKilledServer(t *testing.T) {
	r := newDaprRig(t, daprEvents)
	r.pipeline("own", "model.onboarded")
	port, deliveries := r.killing("/dapr/events/")
	sidecar := r.n.Start("stepwell", port)
	sidecar.AwaitSubscriptions(2)
	sidecar.Publish("pubsub", "models", asCloudEvent, cloudEvent("1", "model.onboarded", `{}`))
	r.await("killed", func() bool { return deliveries.Load() == 1 })
	r.serve()
	r.await("delivered again", func() bool { return r.answered("SUCCESS") == 1 })
	r.await("one execution", func() bool { return r.executions("own") == 1 })
	if deliveries.Load() < 2 {
		t.Error("it was delivered once")
	}
}

// Apps have the roles that the settings give them, by the names that their sidecars say.
func TestDaprCallers(t *testing.T) {
	r := newDaprRig(t, daprEvents)
	r.n.Start("stepwell", r.port())
	sidecars := map[string]*daprtest.Sidecar{}
	for _, app := range []string{"budapp", "viewer", "evil"} {
		sidecars[app] = r.n.Start(app, 0)
	}
	call := func(app, method, path, body string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, sidecars[app].URL("/v1.0/invoke/stepwell/method/"+path), strings.NewReader(body))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(text)
	}
	pipeline, err := json.Marshal(object{"document": "name: p\nsteps:\n  - {id: s, action: util.noop}\n"})
	must(t, err)
	r.await("connected", func() bool { code, _ := call("viewer", "GET", "api/v1/executions", ""); return code == http.StatusOK })
	for _, c := range []struct {
		app, method, path, body string
		header                  []string
		want                    int
	}{
		{"budapp", "POST", "api/v1/pipelines", string(pipeline), nil, http.StatusCreated},
		{"budapp", "POST", "api/v1/execute", `{"workflow_id":"p"}`, nil, http.StatusCreated},
		{"budapp", "GET", "api/v1/keys", "", nil, http.StatusForbidden},
		{"viewer", "POST", "api/v1/execute", `{"workflow_id":"p"}`, nil, http.StatusForbidden},
		{"evil", "GET", "api/v1/executions", "", nil, http.StatusForbidden},
		{"evil", "GET", "api/v1/executions", "", []string{"dapr-caller-app-id", "budapp"}, http.StatusForbidden},
		{"evil", "GET", "api/v1/executions", "", []string{"dapr-caller-app-id", "budapp", "dapr-api-token", "x"}, http.StatusForbidden},
		{"evil", "POST", "job/nightly", "", nil, http.StatusUnauthorized},
		{"evil", "POST", "dapr/events/pubsub/models", string(cloudEvent("1", "model.onboarded", "{}")), nil, http.StatusUnauthorized},
	} {
		if got, text := call(c.app, c.method, c.path, c.body, c.header...); got != c.want {
			t.Errorf("%s: %s /%s: %d, want %d: %s", c.app, c.method, c.path, got, c.want, text)
		}
	}
	var audit struct {
		Entries []struct{ Actor, Action string }
	}
	must(t, r.client.Call(t.Context(), "GET", "/api/v1/audit", url.Values{"actor": {"dapr:budapp"}}, nil, &audit))
	if len(audit.Entries) == 0 {
		t.Error("nothing in the audit log is by dapr:budapp")
	}
}

// A Dapr job starts the job of its name, once.
func TestDaprJobs(t *testing.T) {
	r := newDaprRig(t, daprEvents)
	r.pipeline("p", "")
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/scheduler/jobs", nil, object{"job_id": "nightly", "schedule": object{"type": "manual"}, "callback": object{"type": "workflow", "workflow_id": "p"}}, nil))
	sidecar := r.n.StartWith("stepwell", r.port(), r.n.NewServices())
	r.schedule(sidecar, "nightly", `{"dueTime":"100ms","data":{"from":"dapr"},"overwrite":true}`)
	r.await("one execution", func() bool { return r.executions("p") == 1 })
}

// A server that is killed between starting a job for a Dapr job and answering is asked again, and has started it once.
func TestDaprJobOfAKilledServer(t *testing.T) {
	r := newDaprRig(t, daprEvents)
	r.pipeline("p", "")
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/scheduler/jobs", nil, object{"job_id": "nightly", "schedule": object{"type": "manual"}, "callback": object{"type": "workflow", "workflow_id": "p"}}, nil))
	port, asked := r.killing("/job/")
	sidecar := r.n.StartWith("stepwell", port, r.n.NewServices())
	body := `{"dueTime":"100ms","data":{"idempotency_key":"one"},"overwrite":true,"failurePolicy":{"constant":{"interval":"0.3s","maxRetries":300}}}`
	r.schedule(sidecar, "nightly", body)
	r.await("killed", func() bool { return asked.Load() == 1 })
	r.serve()
	r.await("asked again", func() bool { return asked.Load() > 1 })
	r.await("one execution", func() bool { return r.executions("p") == 1 })
}

// The server keeps a Dapr job at the time of its next schedule.
func TestDaprWake(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes of daprd")
	}
	n := daprtest.NewNetwork(t)
	sidecar := n.StartWith("stepwell", 0, n.NewServices())
	r := newDaprRig(t, "log: {level: warn}\ndapr: {wake: true}\n", fmt.Sprint("DAPR_HTTP_PORT=", sidecar.Port))
	r.pipeline("p", "")
	job := object{"job_id": "once", "schedule": object{"type": "one_time", "expression": "2099-05-01T09:00:00Z"}, "callback": object{"type": "workflow", "workflow_id": "p"}}
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/scheduler/jobs", nil, job, nil))
	r.await("at the next time", func() bool { return wakeTime(sidecar) == "2099-05-01T09:00:00Z" })
	must(t, r.client.Call(t.Context(), "DELETE", "/api/v1/scheduler/jobs/once", nil, nil, nil))
	r.await("removed", func() bool { return wakeTime(sidecar) == "" })
}

// received is a subscriber of topics, as another service beside a sidecar.
type received struct {
	mu   sync.Mutex
	list []map[string]any // CloudEvents
	port int
}

func subscribe(t *testing.T, topics ...string) *received {
	t.Helper()
	r := &received{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dapr/subscribe", func(w http.ResponseWriter, _ *http.Request) {
		list := []object{}
		for _, topic := range topics {
			list = append(list, object{"pubsubname": "pubsub", "topic": topic, "route": "/take"})
		}
		_ = json.NewEncoder(w).Encode(list) // the sidecar says what is missing
	})
	mux.HandleFunc("POST /take", func(_ http.ResponseWriter, req *http.Request) {
		var e map[string]any
		if json.NewDecoder(req.Body).Decode(&e) == nil {
			r.mu.Lock()
			r.list = append(r.list, e)
			r.mu.Unlock()
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	_, text, _ := strings.Cut(s.Listener.Addr().String(), ":")
	var err error
	r.port, err = strconv.Atoi(text)
	must(t, err)
	return r
}

// of are the values of a member of the data of one execution's messages of a type, each once, in order.
func (r *received) of(kind, execution, member string) (values []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[any]bool{}
	for _, e := range r.list {
		data, _ := e["data"].(map[string]any)
		if e["type"] != kind || data["execution_id"] != execution || seen[e["id"]] {
			continue
		}
		seen[e["id"]] = true
		value := fmt.Sprint(data[member])
		if step, ok := data["step_id"].(string); ok && member == "status" {
			value = step + " " + value
		}
		values = append(values, value)
	}
	return values
}

const (
	daprOut      = "log: {level: warn}\ndapr:\n  publish: [workflow.execution.status, workflow.step.status, workflow.logs]\n  state_store: statestore\n"
	daprOutPipe  = "name: out\nparameters:\n  - {name: token, type: string, secret: true, default: hush-hush}\nsteps:\n  - {id: first, action: util.exec, params: {command: [echo, a line]}}\n  - {id: second, action: util.noop, depends_on: [first]}\n"
	daprOutSteps = "[first queued first running first completed second queued second running second completed]"
)

// start starts a pipeline.
func (r *daprRig) start(pipeline string) string {
	r.t.Helper()
	var started struct {
		ID string `json:"execution_id"`
	}
	must(r.t, r.client.Call(r.t.Context(), "POST", "/api/v1/execute", nil, object{"workflow_id": pipeline}, &started))
	return started.ID
}

// mirrored is the status of an execution in the state store; "": none.
func (r *daprRig) mirrored(sidecar *daprtest.Sidecar, id string) string {
	r.t.Helper()
	resp, err := sidecar.Do(http.MethodGet, "/v1.0/state/statestore/execution:"+id, "", nil)
	must(r.t, err)
	defer resp.Body.Close()
	var doc struct{ Status string }
	_ = json.NewDecoder(resp.Body).Decode(&doc) // nothing is there yet
	return doc.Status
}

// Statuses of executions are published in order and mirrored, across outages of the sidecar and a killed server; executions do not wait
// for it.
func TestDaprPublishes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes of daprd")
	}
	others := subscribe(t, "workflow.execution.status", "workflow.step.status", "workflow.logs.*")
	n := daprtest.NewNetwork(t)
	n.AddPubSub("pubsub")
	n.AddComponent("statestore", "state.in-memory", nil)
	sidecar := n.Start("stepwell", others.port)
	sidecar.Stop()
	way := proxytest.New(t, fmt.Sprint("127.0.0.1:", sidecar.Port)) // what is published before others have subscribed reaches nobody
	restart := func() {
		way.Refuse(true)
		sidecar.Restart()
		sidecar.AwaitSubscriptions(3)
		way.Refuse(false)
	}
	_, at, _ := strings.Cut(way.Address(), ":")
	port := "DAPR_HTTP_PORT=" + at
	r := newDaprRig(t, daprOut, port)
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": daprOutPipe}, nil))
	r.pipeline("behind", "execution.ended")
	first := r.start("out")
	r.await("an end is an event although nobody takes reports", func() bool { return r.executions("behind") > 0 })
	killDapr(r.process)
	r.serve(port)
	second := r.start("out")
	r.await("over", func() bool { return r.executions("out") == 2 })
	restart()
	check := func(t *testing.T, id string) {
		t.Helper()
		defer func() {
			if t.Failed() {
				t.Log(others.of("workflow.execution.status", id, "status"), others.of("workflow.step.status", id, "status"), others.of("workflow.logs", id, "message"))
			}
		}()
		r.await("published", func() bool {
			return fmt.Sprint(others.of("workflow.execution.status", id, "status")) == "[running completed]" && fmt.Sprint(others.of("workflow.step.status", id, "status")) == daprOutSteps &&
				strings.Contains(fmt.Sprint(others.of("workflow.logs", id, "message")), "a line")
		})
		var doc struct {
			Execution string `json:"execution_id"`
			Status    string
			Params    map[string]string
			Steps     map[string]struct{ Status string }
		}
		r.await("mirrored", func() bool {
			resp, err := http.Get(sidecar.URL("/v1.0/state/statestore/execution:" + id))
			must(t, err)
			defer resp.Body.Close()
			return json.NewDecoder(resp.Body).Decode(&doc) == nil && doc.Status == "completed"
		})
		if doc.Execution != id || doc.Steps["second"].Status != "completed" || doc.Params["token"] == "hush-hush" {
			t.Errorf("mirrored %+v", doc)
		}
	}
	check(t, first)
	check(t, second)
	t.Run("the component is unavailable", func(t *testing.T) {
		killDapr(r.process)
		r.serve(port, "PUBSUB_NAME=missing")
		id := r.start("out")
		r.await("mirrored alone", func() bool { return r.mirrored(sidecar, id) == "completed" })
		killDapr(r.process)
		if !strings.Contains(r.log.String(), "refuses a message to workflow.execution.status: 404") {
			t.Errorf("the log says nothing of the component:\n%s", r.log)
		}
		r.serve(port)
		check(t, id)
	})
	t.Run("the sidecar is restarted", func(t *testing.T) {
		way.Refuse(true)
		sidecar.Stop()
		third := r.start("out")
		r.await("over", func() bool { return r.executions("out") == 4 })
		restart()
		check(t, third)
	})
}
