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
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action/service/daprtest"
)

// Which test shows what of each adapter, without the word Test; "–": it cannot happen to that one. Those of dapr-workflow (Envelope…, Hosted…,
// …OfSidecars, TokenOfTheSidecar, WorkflowSteps) are in plugins/dapr-workflow, those with a stand-in for the sidecar (JobFirings,
// MirrorVersions, Workflow, WorkflowPolls) in package dapr, RealSidecar… in action/service, SecretsOfDapr… in package app.
//
//	                        events                    jobs                    wake           publish, mirror      dapr.workflow      dapr-workflow
//	works                   DaprEvents                DaprJobs                DaprWake       DaprPublishes        WorkflowSteps      Envelope
//	sidecar absent at start DaprEvents                DaprJobs                DaprWakeLater  DaprPublishes        WorkflowPolls      EnvelopeCrashes
//	sidecar restarted       DaprEvents                DaprWakeLater           DaprWakeLater  DaprPublishes        WorkflowPolls      EnvelopeCrashes
//	killed in mid-request   –                         –                       –              DaprKilledMeanwhile  WorkflowPolls      HostedCrashes
//	peer absent             –                         DaprWakeLater           –              DaprPublishes        Workflow           EnvelopeCrashes
//	wrong token             DaprEvents                DaprTokens              DaprTokens     DaprTokens           TokenOfTheSidecar  TokenOfTheSidecar
//	4 MiB and more          DaprEvents                –                       –              MirrorVersions       –                  ValuesOfSidecars
//	delivered twice         DaprEvents                JobFirings              DaprWake       DaprPublishes        Workflow           Envelope
//	server killed           DaprEventOfAKilledServer  DaprJobOfAKilledServer  –              DaprPublishes        WorkflowSteps      EnvelopeCrashes
//
//	                        calls of apps             calls to services       secrets
//	works                   DaprCallers               RealSidecar             SecretsOfDapr
//	sidecar absent          DaprCallerFaults          RealSidecarFaults       SecretsOfDapr
//	sidecar restarted       DaprCallerFaults          RealSidecarFaults       SecretsOfDapr
//	peer absent             –                         RealSidecar             SecretsOfDapr
//	wrong token             DaprCallerFaults          RealSidecarFaults       SecretsOfDaprNeedItsToken
//	4 MiB and more          DaprCallerFaults          RealSidecarFaults       –
//	delivered twice         DaprCallerFaults          Async                   –
//	server killed           DaprCallerFaults          Async                   –

// schedule puts a Dapr job that starts what has its name, as soon as the sidecar takes it.
func (r *daprRig) schedule(sidecar *daprtest.Sidecar, name, body string) {
	r.t.Helper()
	r.await("scheduled", func() bool {
		resp, err := sidecar.Do(http.MethodPost, "/v1.0-alpha1/jobs/"+name, "application/json", []byte(body))
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode < 300
	})
}

// wakeTime is when the Dapr job that wakes the server is due; "": there is none.
func wakeTime(sidecar *daprtest.Sidecar) string {
	resp, err := sidecar.Do(http.MethodGet, "/v1.0-alpha1/jobs/stepwell-wake", "", nil)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var job struct {
		DueTime string `json:"dueTime"`
	}
	_ = json.NewDecoder(resp.Body).Decode(&job) // an error says that there is none
	return job.DueTime
}

// counting is the port of a proxy before the server, and how many requests to a path had a status.
func (r *daprRig) counting(path string, status int) (port int, count *atomic.Int32) {
	r.t.Helper()
	count = &atomic.Int32{}
	return r.behind(func(resp *http.Response) error {
		if resp.Request.URL.Path == path && resp.StatusCode == status {
			count.Add(1)
		}
		return nil
	}), count
}

// doctor is what stepwell doctor finds about the sidecar.
func (r *daprRig) doctor(env ...string) string {
	r.t.Helper()
	cmd := exec.Command("stepwell", "doctor")
	cmd.Dir, cmd.Env = r.dir, append(append(r.process.Env, "STEPWELL_LISTEN="+r.address), env...)
	out, _ := cmd.CombinedOutput() // findings are a failure
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "dapr") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return strings.Join(found, "\n")
}

// said checks what the doctor finds.
func (r *daprRig) said(want string, env ...string) {
	r.t.Helper()
	got := r.doctor(env...)
	for range 20 { // a sidecar that is still starting answers 500
		if strings.Contains(got, want) {
			return
		}
		time.Sleep(500 * time.Millisecond)
		got = r.doctor(env...)
	}
	r.t.Errorf("the doctor says\n%s\nwant %q", got, want)
}

// A server with another DAPR_API_TOKEN than its sidecar's publishes, mirrors and schedules nothing, runs its executions all the same, and
// makes up for it once it has the token. A job that the sidecar brings with another APP_API_TOKEN starts nothing.
func TestDaprTokens(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes of daprd")
	}
	t.Setenv("DAPR_API_TOKEN", "the-token-of-the-sidecar")
	others := subscribe(t, "workflow.execution.status")
	n := daprtest.NewNetwork(t)
	n.AddPubSub("pubsub")
	n.AddComponent("statestore", "state.in-memory", nil)
	services := n.NewServices()
	sidecar := n.StartWith("stepwell", others.port, services)
	sidecar.AwaitSubscriptions(1)
	port := fmt.Sprint("DAPR_HTTP_PORT=", sidecar.Port)
	r := newDaprRig(t, "log: {level: warn}\ndapr:\n  publish: [workflow.execution.status]\n  state_store: statestore\n  wake: true\n  jobs: true\n", port, "DAPR_API_TOKEN=another")
	r.pipeline("p", "")
	job := object{"job_id": "once", "schedule": object{"type": "one_time", "expression": "2099-05-01T09:00:00Z"}, "callback": object{"type": "workflow", "workflow_id": "p"}}
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/scheduler/jobs", nil, job, nil))
	id := r.start("p")
	r.await("the execution ends", func() bool { return r.executions("p") == 1 })
	r.said("does not accept the token")
	if at := wakeTime(sidecar); at != "" || r.mirrored(sidecar, id) != "" || len(others.of("workflow.execution.status", id, "status")) > 0 {
		t.Error("the sidecar takes what comes without its token")
	}
	killDapr(r.process)
	for _, want := range []string{"events of executions cannot be reported", "DAPR_API_TOKEN", "is not at the next time"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, r.log)
		}
	}
	r.serve(port)
	r.await("published", func() bool {
		return fmt.Sprint(others.of("workflow.execution.status", id, "status")) == "[running completed]"
	})
	r.await("mirrored", func() bool { return r.mirrored(sidecar, id) == "completed" })
	r.await("the wake-up job", func() bool { return wakeTime(sidecar) == "2099-05-01T09:00:00Z" })

	t.Run("jobs", func(t *testing.T) {
		sidecar.Stop()
		t.Setenv("APP_API_TOKEN", "another")
		front, refused := r.counting("/job/once", http.StatusUnauthorized)
		wrong := n.StartWith("stepwell", front, services)
		r.schedule(wrong, "once", `{"dueTime":"100ms","data":{},"overwrite":true}`)
		r.await("refused", func() bool { return refused.Load() > 0 })
		if r.executions("p") != 1 {
			t.Error("it has started something")
		}
	})
}

// The sidecar and its scheduler may come later than the server, and be restarted: the wake-up job is kept, and jobs are fired. A Dapr job
// of a name that nothing has is given up.
func TestDaprWakeLater(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes of daprd")
	}
	n := daprtest.NewNetwork(t)
	services := n.NewServices()
	sidecar := n.StartWith("stepwell", 0, services)
	sidecar.Stop()
	r := newDaprRig(t, "log: {level: warn}\ndapr: {wake: true, jobs: true}\n", fmt.Sprint("DAPR_HTTP_PORT=", sidecar.Port))
	r.pipeline("p", "")
	r.said("fail  dapr")
	job := object{"job_id": "nightly", "schedule": object{"type": "one_time", "expression": "2099-05-01T09:00:00Z"}, "callback": object{"type": "workflow", "workflow_id": "p"}}
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/scheduler/jobs", nil, job, nil))
	sidecar.Restart()
	r.await("at the next time", func() bool { return wakeTime(sidecar) == "2099-05-01T09:00:00Z" })
	sidecar.Stop()
	must(t, r.client.Call(t.Context(), "DELETE", "/api/v1/scheduler/jobs/nightly", nil, nil, nil)) // while the sidecar is away
	sidecar.Restart()
	r.await("removed", func() bool {
		resp, err := sidecar.Do(http.MethodGet, "/v1.0-alpha1/jobs/stepwell-wake", "", nil)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode >= 400
	})
	app := n.StartWith("stepwell", r.port(), services) // one that knows where its app is
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/scheduler/jobs", nil, object{"job_id": "again", "schedule": object{"type": "manual"}, "callback": object{"type": "workflow", "workflow_id": "p"}}, nil))
	r.schedule(app, "nobody", `{"dueTime":"100ms","data":{},"overwrite":true}`)
	app.Stop()
	app.Restart()
	r.schedule(app, "again", `{"dueTime":"100ms","data":{},"overwrite":true}`)
	r.await("one execution", func() bool { return r.executions("p") == 1 })
}

// An app whose call gets no answer, because the server was killed after it had started an execution, repeats the call with its key, and one was
// started. Too large a call starts none, neither does one through a sidecar that is away or has another APP_API_TOKEN.
func TestDaprCallerFaults(t *testing.T) {
	r := newDaprRig(t, daprEvents)
	r.pipeline("p", "")
	port, asked := r.killing("/api/v1/execute")
	own := r.n.Start("stepwell", port)
	budapp := r.n.Start("budapp", 0)
	call := func(method, path, key, text string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, budapp.URL("/v1.0/invoke/stepwell/method/api/v1/"+path), strings.NewReader(text))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	execute := func(key string) int { return call("POST", "execute", key, `{"workflow_id":"p"}`) }
	lists := func() bool { return call("GET", "executions", "", "") == http.StatusOK }
	r.await("connected", lists)

	if status := execute("one"); status < 500 {
		t.Errorf("the server is killed, and the call is answered %d", status)
	}
	r.serve()
	r.await("connected again", lists)
	for range 2 {
		if status := execute("one"); status != http.StatusOK {
			t.Errorf("the same call again: %d", status)
		}
	}
	r.await("one execution", func() bool { return r.executions("p") == 1 })
	if asked.Load() < 3 {
		t.Errorf("the server was asked %d times", asked.Load())
	}

	if status := call("POST", "execute", "large", `{"workflow_id":"p","params":{"text":"`+strings.Repeat("a", 4<<20)+`"}}`); status < 400 {
		t.Errorf("a call of more than 4 MiB: %d", status)
	}
	own.Stop()
	if status := execute("away"); status < 500 {
		t.Errorf("without the sidecar: %d", status)
	}
	own.Restart()
	r.await("connected to the next sidecar", lists)
	if status := execute("two"); status != http.StatusCreated {
		t.Errorf("through the next sidecar: %d", status)
	}
	own.Stop()
	t.Setenv("APP_API_TOKEN", "another")
	r.n.Start("stepwell", port)
	// The app's sidecar may try the address of the one before it, which is gone: such a call is answered 500.
	r.await("refused", func() bool { return execute("three") == http.StatusUnauthorized })
	if n := r.executions("p"); n != 2 {
		t.Errorf("%d executions, want those of one and two", n)
	}
}

// stepwell doctor tells of Dapr's own sidecar what the settings lack there.
func TestDaprDoctor(t *testing.T) {
	r := newDaprRig(t, daprEvents)
	sidecar := r.n.Start("stepwell", r.port())
	sidecar.AwaitSubscriptions(2)
	port := fmt.Sprint("DAPR_HTTP_PORT=", sidecar.Port)
	r.said("the sidecar of the app stepwell answers", port)
	r.said("the sidecar is connected to no scheduler", port) // the settings take jobs
	if got := r.doctor(port); strings.Contains(got, "does not deliver") || strings.Contains(got, "dapr app") || strings.Contains(got, "dapr components") {
		t.Errorf("the doctor says\n%s", got)
	}
	r.said("no component missing (state)", port, "STATE_STORE_NAME=missing")
	r.said("the component pubsub is pubsub.in-memory, not state", port, "STATE_STORE_NAME=pubsub")
	r.said("APP_API_TOKEN", port, "APP_API_TOKEN=")
	other := r.n.Start("other", 0)
	r.said("looks for its app at port 0", fmt.Sprint("DAPR_HTTP_PORT=", other.Port))
}

// The sidecar is killed while it reads a message, and after it has taken one and before it answers; also while it stores an execution. All is
// published again, in order, and mirrored.
func TestDaprKilledMeanwhile(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes of daprd")
	}
	others := subscribe(t, "workflow.execution.status", "workflow.step.status", "workflow.logs.*")
	n := daprtest.NewNetwork(t)
	n.AddPubSub("pubsub")
	n.AddComponent("statestore", "state.sqlite", map[string]string{"connectionString": filepath.Join(t.TempDir(), "state.db")})
	sidecar := n.Start("stepwell", others.port)
	sidecar.AwaitSubscriptions(3)
	target, err := url.Parse(sidecar.URL(""))
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog, proxy.ErrorHandler = log.New(io.Discard, "", 0), func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	var away atomic.Bool
	killed := make(chan string)
	plan := map[string][]string{"publish": {"reading", "answering", "answering"}, "state": {"answering"}} // when requests of a kind are hit
	var mu sync.Mutex
	kill := func(what string) {
		away.Store(true)
		sidecar.Stop()
		killed <- what + " " + plan[what][0]
		plan[what] = plan[what][1:]
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock() // one request at a time
		defer mu.Unlock()
		what, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v1.0/"), "/")
		switch hit := req.Method == http.MethodPost && len(plan[what]) > 0; {
		case away.Load():
			panic(http.ErrAbortHandler)
		case hit && plan[what][0] == "reading":
			body, err := io.ReadAll(req.Body)
			if err == nil {
				req.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), killing{func() { kill(what) }}, bytes.NewReader(body[len(body)/2:])))
			}
			proxy.ServeHTTP(w, req)
		case hit:
			proxy.ServeHTTP(httptest.NewRecorder(), req)
			kill(what)
			panic(http.ErrAbortHandler)
		default:
			proxy.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(front.Close)
	_, at, _ := strings.Cut(front.Listener.Addr().String(), ":")
	r := newDaprRig(t, daprOut, "DAPR_HTTP_PORT="+at)
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": daprOutPipe}, nil))
	id := r.start("out")
	for range 4 {
		select {
		case when := <-killed:
			t.Log("killed:", when)
		case <-time.After(time.Minute):
			t.Fatal("nothing is published")
		}
		sidecar.Restart()
		sidecar.AwaitSubscriptions(3)
		away.Store(false)
	}
	r.await("published", func() bool {
		return fmt.Sprint(others.of("workflow.execution.status", id, "status")) == "[running completed]" && fmt.Sprint(others.of("workflow.step.status", id, "status")) == daprOutSteps &&
			strings.Contains(fmt.Sprint(others.of("workflow.logs", id, "message")), "a line")
	})
	r.await("mirrored", func() bool { return r.mirrored(sidecar, id) == "completed" })
}

// killing calls a function when it is read, and is empty.
type killing struct{ kill func() }

func (k killing) Read([]byte) (int, error) {
	k.kill()
	return 0, io.EOF
}
