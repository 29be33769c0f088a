package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dapr/durabletask-go/api/protos"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/service/daprtest"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
)

// TestMain is the program itself when a test starts it as a process that it can kill.
func TestMain(m *testing.M) {
	if args := strings.Fields(os.Getenv("TEST_AS_PROGRAM")); len(args) > 0 {
		serve := func(ctx context.Context) error { return run(ctx, args[1:], os.Getenv) }
		if args[len(args)-1] == transcripts {
			serve = runTranscripts
		}
		if err := serve(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if stepwellDir != "" {
		os.RemoveAll(stepwellDir)
	}
	os.Exit(code)
}

// transcripts is the argument of the program that has the actions of the transcripts.
const transcripts = "transcripts"

var stepwellDir string

// stepwellProgram is the program of the server.
var stepwellProgram = sync.OnceValues(func() (string, error) {
	var err error
	if stepwellDir, err = os.MkdirTemp("", "stepwell-dapr-"); err != nil {
		return "", err
	}
	path := filepath.Join(stepwellDir, "stepwell")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/stepwell")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// house is a server, a sidecar of the app stepwell with this program beside it, and a sidecar of the app shop, whose workflows are
// those of the test.
type house struct {
	t              testing.TB
	stepwell, shop *daprtest.Sidecar
	server         *client.Client
	port           int
	data           string
	serving        *exec.Cmd
	served         *bytes.Buffer
}

func newHouse(t *testing.T) *house {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Dapr and a server")
	}
	n := daprtest.NewNetwork(t) // skips when the sidecar is not built
	n.AddActorStore()
	services := n.NewServices()
	h := &house{t: t, data: t.TempDir(), port: freePort(t)}
	h.stepwell, h.shop = n.StartWith("stepwell", 0, services), n.StartWith("shop", 0, services)
	h.stepwell.Supervise()
	h.serve()
	var err error
	if h.server, err = client.New(client.Options{URL: h.url()}); err != nil {
		t.Fatal(err)
	}
	h.host(h.shop, shopTurn, nil)
	return h
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (h *house) url() string { return "http://127.0.0.1:" + strconv.Itoa(h.port) }

// serve starts the server, also after it was killed. Steps reach the sidecar of the app stepwell.
func (h *house) serve() {
	h.t.Helper()
	program, err := stepwellProgram()
	if err != nil {
		h.t.Fatal(err)
	}
	h.serving, h.served = exec.Command(program, "serve", "--data", h.data, "--listen", "127.0.0.1:"+strconv.Itoa(h.port)), &bytes.Buffer{}
	h.serving.Env = append(os.Environ(), "DAPR_HTTP_PORT="+strconv.Itoa(h.stepwell.Port))
	h.serving.Stdout, h.serving.Stderr = h.served, h.served
	if err := h.serving.Start(); err != nil {
		h.t.Fatal(err)
	}
	serving := h.serving
	h.t.Cleanup(func() { _ = serving.Process.Kill(); _ = serving.Wait() })
	h.until("the server is ready", func() bool {
		resp, err := http.Get(h.url() + "/api/v1/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (h *house) killServer() {
	_ = h.serving.Process.Kill()
	_ = h.serving.Wait()
}

// until waits for a condition.
func (h *house) until(what string, is func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("never: %s", what)
		}
	}
}

// host takes the workflows of an app within this process, until the test ends.
func (h *house) host(s *daprtest.Sidecar, turn func(string, []*protos.HistoryEvent, []*protos.HistoryEvent) ([]*protos.OrchestratorAction, string), activity func(context.Context, string, []byte) (any, error)) {
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{turn: turn, activity: activity, token: os.Getenv("DAPR_API_TOKEN"), log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.serve(ctx, "127.0.0.1:"+strconv.Itoa(s.GRPC))
	}()
	h.t.Cleanup(func() { stop(); <-ended })
}

// hostStepwell takes the workflows of this program within this process.
func (h *house) hostStepwell() { h.host(h.stepwell, turn, newActivities(h.server).run) }

// startProgram starts this program as a process, with arguments that have no spaces.
func (h *house) startProgram(args ...string) (kill func()) {
	h.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TEST_AS_PROGRAM="+strings.Join(append([]string{"dapr-workflow"}, args...), " "), "STEPWELL_SERVER="+h.url(),
		"DAPR_GRPC_PORT="+strconv.Itoa(h.stepwell.GRPC), "DAPR_HTTP_PORT="+strconv.Itoa(h.stepwell.Port))
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	kill = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	h.t.Cleanup(func() {
		if kill(); h.t.Failed() {
			h.t.Logf("the program:\n%s", stepwell.Clip(log.String(), 10000))
		}
	})
	return kill
}

// dapr calls the workflow API of a sidecar.
func (h *house) dapr(s *daprtest.Sidecar, method, path string, body any) (status int, answer map[string]any) {
	h.t.Helper()
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			h.t.Fatal(err)
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(h.t.Context(), method, s.URL("/v1.0/workflows/dapr/"+path), in)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("dapr-api-token", os.Getenv("DAPR_API_TOKEN"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	_ = json.NewDecoder(resp.Body).Decode(&answer) // some have no body
	return resp.StatusCode, answer
}

// begin starts a workflow. Placement may still be unknown.
func (h *house) begin(s *daprtest.Sidecar, name, id string, input any) {
	h.t.Helper()
	h.until("the workflow "+name+" is started", func() bool {
		status, _ := h.dapr(s, http.MethodPost, name+"/start?instanceID="+id, input)
		return status == http.StatusAccepted
	})
}

// end waits until a workflow has a status, and returns its output or failure.
func (h *house) end(s *daprtest.Sidecar, id, status string) string {
	h.t.Helper()
	var last map[string]any
	defer func() {
		if h.t.Failed() {
			h.t.Logf("the workflow %s: %v", id, last)
		}
	}()
	h.until(id+" is "+status, func() bool {
		_, last = h.dapr(s, http.MethodGet, id, nil)
		if is := fmt.Sprint(last["runtimeStatus"]); is != status && (is == "COMPLETED" || is == "FAILED" || is == "TERMINATED") {
			h.t.Fatalf("%s is %s, not %s", id, is, status)
		}
		return last["runtimeStatus"] == status
	})
	said, _ := last["properties"].(map[string]any)
	for _, of := range []string{"dapr.workflow.output", "dapr.workflow.failure.error_message"} {
		if text, ok := said[of].(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// executions are those of a pipeline, newest first.
func (h *house) executions(pipeline string) []api.Execution {
	h.t.Helper()
	l, err := h.server.Executions(h.t.Context(), api.ListExecutions{Limit: 100})
	if err != nil {
		return nil
	}
	var of []api.Execution
	for _, x := range l.Executions {
		if x.Pipeline == pipeline {
			of = append(of, x)
		}
	}
	return of
}

func (h *house) only(pipeline string) api.Execution {
	h.t.Helper()
	h.until("the pipeline "+pipeline+" runs", func() bool { return len(h.executions(pipeline)) > 0 })
	all := h.executions(pipeline)
	if len(all) != 1 {
		h.t.Fatalf("%d executions of %s", len(all), pipeline)
	}
	return all[0]
}

// gate is a pipeline that waits for an approval, and gives its parameter back.
func gate(name string) string {
	return "name: " + name + "\nparameters: [{name: n, type: integer, default: 1}]\nsteps:\n  - id: gate\n    action: util.approval\n    params: {message: go}\noutputs:\n  n: \"{{ params.n }}\"\n"
}

// open answers the approval of a pipeline.
func (h *house) open() {
	h.t.Helper()
	h.until("the approval is given", func() bool {
		l, err := h.server.Approvals(h.t.Context(), api.ListApprovals{})
		if err != nil || len(l.Approvals) == 0 {
			return false
		}
		_, err = h.server.Approve(h.t.Context(), l.Approvals[0].ID, "")
		return err == nil
	})
}

// shopTurn are the workflows of the test's own app: echo returns its input, boom fails, waits ends with the data of the event go, pipeline runs
// the pipeline that its input orders from Stepwell.
func shopTurn(instance string, past, fresh []*protos.HistoryEvent) ([]*protos.OrchestratorAction, string) {
	var name string
	var out []*protos.OrchestratorAction
	end := func(status protos.OrchestrationStatus, result *wrapperspb.StringValue, why *protos.TaskFailureDetails) {
		out = append(out, &protos.OrchestratorAction{Id: 100, Router: &protos.TaskRouter{SourceAppID: "shop"}, OrchestratorActionType: &protos.OrchestratorAction_CompleteOrchestration{CompleteOrchestration: &protos.CompleteOrchestrationAction{
			OrchestrationStatus: status, Result: result, FailureDetails: why}}})
	}
	for i, e := range append(append([]*protos.HistoryEvent{}, past...), fresh...) {
		if i == len(past) {
			out = nil
		}
		switch x := e.EventType.(type) {
		case *protos.HistoryEvent_ExecutionStarted:
			name = x.ExecutionStarted.Name
			switch name {
			case "echo":
				end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED, x.ExecutionStarted.Input, nil)
			case "boom":
				end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED, nil, &protos.TaskFailureDetails{ErrorType: "boom", ErrorMessage: "out of stock"})
			case "pipeline":
				target := "stepwell"
				router := &protos.TaskRouter{SourceAppID: "shop", TargetAppID: &target}
				out = append(out, &protos.OrchestratorAction{Id: 0, Router: router, OrchestratorActionType: &protos.OrchestratorAction_CreateSubOrchestration{
					CreateSubOrchestration: &protos.CreateSubOrchestrationAction{Name: DefinitionWorkflow, InstanceId: instance + "-child", Input: x.ExecutionStarted.Input, Router: router}}})
			}
		case *protos.HistoryEvent_EventRaised:
			if x.EventRaised.Name == "go" {
				end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED, x.EventRaised.Input, nil)
			}
		case *protos.HistoryEvent_SubOrchestrationInstanceCompleted:
			end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED, x.SubOrchestrationInstanceCompleted.Result, nil)
		case *protos.HistoryEvent_SubOrchestrationInstanceFailed:
			end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED, nil, x.SubOrchestrationInstanceFailed.FailureDetails)
		case *protos.HistoryEvent_ExecutionTerminated:
			end(protos.OrchestrationStatus_ORCHESTRATION_STATUS_TERMINATED, nil, &protos.TaskFailureDetails{ErrorType: "terminated", ErrorMessage: "terminated"})
		}
	}
	return out, ""
}

// TestEnvelope: a Dapr workflow runs a definition and a stored pipeline, a workflow of another app awaits one, and what fails fails.
func TestEnvelope(t *testing.T) {
	h := newHouse(t)
	h.hostStepwell()
	sum := "name: sum\nparameters: [{name: n, type: integer}]\nsteps:\n  - id: one\n    action: util.log\n    params: {message: hello}\noutputs:\n  twice: \"{{ params.n * 2 }}\"\n"
	h.begin(h.stepwell, DefinitionWorkflow, "first", map[string]any{"definition": sum, "params": map[string]any{"n": 21}})
	if got := h.end(h.stepwell, "first", "COMPLETED"); got != `{"twice":42}` {
		t.Errorf("result %s", got)
	}
	t.Run("repeated", func(t *testing.T) { // starting an ended instance again runs it again, and it finds the execution of before
		h.begin(h.stepwell, DefinitionWorkflow, "first", map[string]any{"definition": sum, "params": map[string]any{"n": 21}})
		if got := h.end(h.stepwell, "first", "COMPLETED"); got != `{"twice":42}` {
			t.Errorf("result %s", got)
		}
		h.only("sum")
	})
	t.Run("stored", func(t *testing.T) {
		if _, err := h.server.Pipelines().Create(t.Context(), pipelineDraft(t, sum)); err != nil {
			t.Fatal(err)
		}
		h.begin(h.stepwell, PipelineWorkflow, "stored", map[string]any{"pipeline": "sum", "version": 1, "params": map[string]any{"n": 4}})
		if got := h.end(h.stepwell, "stored", "COMPLETED"); got != `{"twice":8}` {
			t.Errorf("result %s", got)
		}
	})
	t.Run("from another app", func(t *testing.T) {
		h.begin(h.shop, "pipeline", "buyer", map[string]any{"definition": sum, "params": map[string]any{"n": 3}})
		if got := h.end(h.shop, "buyer", "COMPLETED"); got != `{"twice":6}` {
			t.Errorf("result %s", got)
		}
	})
	for name, input := range map[string]any{"no such pipeline": map[string]any{"pipeline": "nothing"}, "no pipeline": map[string]any{}, "no object": "text"} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			h.begin(h.stepwell, PipelineWorkflow, id, input)
			if got := h.end(h.stepwell, id, "FAILED"); got == "" {
				t.Error("it does not say why")
			}
		})
	}
	t.Run("failing", func(t *testing.T) {
		h.begin(h.stepwell, DefinitionWorkflow, "failing", map[string]any{"definition": "name: failing\nsteps:\n  - id: one\n    action: util.fail\n    params: {message: out of luck}\n"})
		if got := h.end(h.stepwell, "failing", "FAILED"); !strings.Contains(got, "out of luck") {
			t.Errorf("it says %q", got)
		}
	})
}

func pipelineDraft(t *testing.T, text string) (d api.NewPipeline) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"document": text})
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}
