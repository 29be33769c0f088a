package kube_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/kube/kubetest"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// rig is an App beside a control plane with a node.
type rig struct {
	*testing.T
	cluster   *kubetest.Cluster
	kubelet   *kubetest.Kubelet
	namespace string
	options   app.Options
	app       *app.App
	stop      func()
}

func newRig(t *testing.T) *rig {
	t.Parallel()
	return newRigOn(t, kubetest.Start(t))
}

func newRigOn(t *testing.T, c *kubetest.Cluster) *rig {
	r := &rig{T: t, cluster: c, namespace: c.Namespace(t)}
	r.kubelet = c.Kubelet(t, r.namespace)
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(config, []byte(c.Kubeconfig(r.namespace)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.options = app.Options{Data: filepath.Join(dir, "data"), Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Kubernetes: kube.Options{Clusters: map[string]kube.Access{"eu": {Kubeconfig: config}}}}
	return r
}

// open starts the App; close stops it as a process that ends does.
func (r *rig) open() *rig {
	r.Helper()
	ctx, end := context.WithCancel(context.Background())
	a, err := app.New(ctx, r.options)
	if err != nil {
		end()
		r.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	stopped := false
	r.app, r.stop = a, func() {
		if !stopped {
			stopped = true
			end()
			if err := <-ran; err != nil {
				r.Error(err)
			}
			if err := a.Close(); err != nil {
				r.Error(err)
			}
		}
	}
	r.Cleanup(r.stop)
	if err := a.Conductor.RecoverAll(ctx); err != nil {
		r.Fatal(err)
	}
	return r
}

// begin starts a pipeline of one step "job" with parameters in YAML.
func (r *rig) begin(action, params string) string {
	r.Helper()
	text := "name: test\nsteps:\n- id: job\n  action: " + action + "\n  retry: {max_attempts: 1}\n  params:\n    " + strings.ReplaceAll(strings.TrimSpace(params), "\n", "\n    ") + "\n"
	return r.start(text)
}

func (r *rig) start(text string) string {
	r.Helper()
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{File: "test.yaml"})
	if err := problems.Err(); err != nil {
		r.Fatal(err)
	}
	p, err := r.app.Conductor.Register(r.Context(), d)
	if err != nil {
		r.Fatal(err)
	}
	id, err := r.app.Conductor.Start(r.Context(), conductor.Request{Pipeline: p})
	if err != nil {
		r.Fatal(err)
	}
	return id
}

// ended waits for the end of an execution, and returns its step.
func (r *rig) ended(id string) store.Step {
	r.Helper()
	ctx, end := context.WithTimeout(r.Context(), time.Minute)
	defer end()
	if _, err := r.app.Conductor.Wait(ctx, id); err != nil {
		r.Fatal(err)
	}
	return r.step(id)
}

func (r *rig) step(id string) store.Step {
	r.Helper()
	x, err := r.app.Store.Execution(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	steps, err := r.app.Store.Steps(r.Context(), x.No, store.StepFilter{Key: "job"})
	if err != nil || len(steps) != 1 {
		r.Fatal(steps, err)
	}
	return steps[0]
}

// outputs are those of a step that must have completed.
func (r *rig) outputs(s store.Step) map[string]any {
	r.Helper()
	if s.Status != stepwell.StepCompleted {
		r.Fatalf("the step is %s: %+v", s.Status, s.Error)
	}
	var out map[string]any
	if err := json.Unmarshal(s.Output, &out); err != nil {
		r.Fatal(err)
	}
	return out
}

func (r *rig) failed(s store.Step, status stepwell.StepStatus, code stepwell.Code, words ...string) {
	r.Helper()
	if s.Status != status || s.Error == nil || s.Error.Code != code {
		r.Fatalf("the step is %s: %+v", s.Status, s.Error)
	}
	for _, word := range words {
		if !strings.Contains(s.Error.Message, word) {
			r.Errorf("the error is %q, without %q", s.Error.Message, word)
		}
	}
}

// lines are the messages of the step's log.
func (r *rig) lines(id string) (list []string) {
	r.Helper()
	x, err := r.app.Store.Execution(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	lines, err := r.app.Store.Logs(r.Context(), x.No, store.LogFilter{Limit: 10_000})
	if err != nil {
		r.Fatal(err)
	}
	for _, l := range lines {
		list = append(list, l.Message)
	}
	return list
}

// await waits until a condition holds, at most a minute.
func (r *rig) await(what string, holds func() bool) {
	r.Helper()
	for begun := time.Now(); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			r.Fatalf("waited without success: %s", what)
		}
	}
}

func (r *rig) jobsPath() string { return "/apis/batch/v1/namespaces/" + r.namespace + "/jobs" }

func (r *rig) jobs() []kubetest.Object {
	r.Helper()
	return r.cluster.Items(r, r.jobsPath())
}

// text is a value as JSON.
func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
