//go:build unix

package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/kube/kubetest"
	"github.com/stepwell/stepwell/api"
)

// kubeRig is a server whose steps run jobs on a control plane, in a namespace of its own, with the rights of the documented Role
// and through a proxy in which the test sees each request.
type kubeRig struct {
	*crashRig
	cluster   *kubetest.Cluster
	namespace string
	node      *kubetest.Kubelet
	cut       func() // ends the connections of the server to the cluster
	tokens    string // the file of its token

	mu   sync.Mutex
	hook func(w http.ResponseWriter, r *http.Request, next http.Handler)
	seen map[string]int // requests, by method
}

func newKubeRig(t *testing.T) *kubeRig {
	t.Helper()
	return kubeRigOn(t, kubetest.Start(t))
}

func kubeRigOn(t *testing.T, cluster *kubetest.Cluster) *kubeRig {
	t.Helper()
	r := &kubeRig{cluster: cluster, seen: map[string]int{}}
	r.namespace = cluster.Namespace(t)
	r.node = cluster.Kubelet(t, r.namespace)
	r.crashRig = newCrashRig(t)
	r.tokens = filepath.Join(r.dir, "token")
	r.write("token", cluster.Account(t, r.namespace, documentedRole(t)...))
	behind, cut := cluster.Behind(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			r.mu.Lock()
			r.seen[q.Method]++
			hook := r.hook
			r.mu.Unlock()
			if hook == nil {
				next.ServeHTTP(w, q)
			} else {
				hook(w, q, next)
			}
		})
	})
	r.cut = cut
	r.write("kubeconfig", behind.KubeconfigOf(behind.URL, r.namespace, fmt.Sprintf("tokenFile: %q", r.tokens)))
	r.set("kubernetes: {clusters: {eu: {kubeconfig: kubeconfig, namespaces: [" + r.namespace + ", kube-public]}}}\n")
	return r
}

func (r *kubeRig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// intervene says what happens to the requests from now on.
func (r *kubeRig) intervene(hook func(w http.ResponseWriter, q *http.Request, next http.Handler)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = hook
}

// job starts an execution whose one step is a job of a script; more are further parameters, as "key: value", and lines of the step.
func (r *kubeRig) job(script string, more ...string) string {
	r.t.Helper()
	return r.jobOf(fmt.Sprintf("image: any, command: [sh, -c, %q]", script), more...)
}

func (r *kubeRig) jobOf(params string, more ...string) string {
	r.t.Helper()
	step := ""
	for _, m := range more {
		if line, ok := strings.CutPrefix(m, "step: "); ok {
			step += ", " + line
		} else if m != "" {
			params += ", " + m
		}
	}
	name := "jobs-" + strings.ToLower(rand.Text())
	document := "name: " + name + "\nsteps:\n  - {id: work, action: external.k8s.job, params: {" + params + "}" + step + "}\noutputs: {n: \"{{ steps.work.outputs.n | default('none') }}\"}\n"
	must(r.t, r.client.Call(r.t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": document}, nil))
	x, err := r.client.Execute(r.t.Context(), api.ExecuteRequest{Workflow: name}, "")
	must(r.t, err)
	return x.ID
}

// ends waits until an execution has a status, and returns its error or its output n.
func (r *kubeRig) ends(id, status string) string {
	r.t.Helper()
	var x struct {
		Status string
		Error  json.RawMessage
		Result map[string]any
	}
	r.until("the end of "+id, func() bool {
		err := r.client.Call(r.t.Context(), "GET", pathTo("executions", id), nil, nil, &x)
		return err == nil && (x.Status == "completed" || x.Status == "failed" || x.Status == "cancelled")
	})
	if x.Status != status {
		r.t.Fatalf("the execution is %s, want %s: %s", x.Status, status, x.Error)
	}
	if status == "completed" {
		return fmt.Sprint(x.Result["n"])
	}
	return string(x.Error)
}

// jobs are the namespace's jobs.
func (r *kubeRig) jobs() []kubetest.Object {
	r.t.Helper()
	return r.cluster.Items(r.t, "/apis/batch/v1/namespaces/"+r.namespace+"/jobs")
}

// once fails unless one job was ever made, with one pod.
func (r *kubeRig) once() kubetest.Object {
	r.t.Helper()
	jobs, pods := r.jobs(), r.cluster.Items(r.t, "/api/v1/namespaces/"+r.namespace+"/pods")
	if len(jobs) != 1 || len(pods) != 1 {
		r.t.Fatalf("%d jobs with %d pods, want one", len(jobs), len(pods))
	}
	return jobs[0]
}

// pods waits until so many pods run.
func (r *kubeRig) pods(n int) {
	r.t.Helper()
	r.until(fmt.Sprint(n, " running pods"), func() bool {
		running := 0
		for _, p := range r.cluster.Items(r.t, "/api/v1/namespaces/"+r.namespace+"/pods") {
			if p.Text("status", "phase") == "Running" {
				running++
			}
		}
		return running == n
	})
}

// gate is a file that a job waits for, and the script of that.
func (r *kubeRig) gate(name string) (script string, open func()) {
	file := filepath.Join(r.dir, name)
	return "while [ ! -e " + file + " ]; do sleep 0.05; done; ", func() { r.write(name, "") }
}

// deathAt stops the first request that when speaks of, before the cluster has seen it or behind its answer, until the server that has sent
// it is dead.
func (r *kubeRig) deathAt(before bool, when func(q *http.Request) bool) (reached, dead chan struct{}) {
	reached, dead = make(chan struct{}), make(chan struct{})
	var done atomic.Bool
	r.intervene(func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if !when(q) || done.Swap(true) {
			next.ServeHTTP(w, q)
			return
		}
		if !before {
			next.ServeHTTP(httptest.NewRecorder(), q)
		}
		close(reached)
		<-dead
		panic(http.ErrAbortHandler)
	})
	return reached, dead
}

// reaches waits for that point.
func (r *kubeRig) reaches(reached chan struct{}) {
	r.t.Helper()
	select {
	case <-reached:
	case <-time.After(time.Minute):
		r.t.Error("the point was not reached")
	}
}

// dies kills the server at that point.
func (r *kubeRig) dies(reached, dead chan struct{}) {
	r.t.Helper()
	r.reaches(reached)
	r.kill()
	close(dead)
}

const giveOne = `printf '{"n": 1}' > "$KUBETEST_TERMINATION_LOG"`

// TestJobOnceThoughKilled kills the server at every point of a job's life. It is made once, its pod runs once, and its outputs are
// those of the execution.
func TestJobOnceThoughKilled(t *testing.T) {
	isJobs := func(q *http.Request, method string) bool {
		return q.Method == method && strings.HasSuffix(q.URL.Path, "/jobs")
	}
	isJob := func(q *http.Request, method string) bool {
		return q.Method == method && strings.Contains(q.URL.Path, "/jobs/")
	}
	isLog := func(q *http.Request) bool { return q.Method == "GET" && strings.HasSuffix(q.URL.Path, "/log") }
	for name, at := range map[string]struct {
		when   func(q *http.Request) bool
		before bool // of the API server's knowing
	}{
		"before it is made":         {when: func(q *http.Request) bool { return isJobs(q, "POST") }, before: true},
		"before its maker knows":    {when: func(q *http.Request) bool { return isJobs(q, "POST") }},
		"when its end is looked at": {when: func(q *http.Request) bool { return isLog(q) && q.URL.Query().Has("tailLines") }},
		"when its end is committed": {when: func(q *http.Request) bool { return isJob(q, "PATCH") }, before: true},
		"when its end is all set":   {when: func(q *http.Request) bool { return isJob(q, "PATCH") }},
		"when its log is opened":    {when: isLog, before: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newKubeRig(t)
			reached, dead := r.deathAt(at.before, at.when)
			r.start()
			id := r.job(giveOne)
			r.dies(reached, dead)
			r.start()
			if n := r.ends(id, "completed"); n != "1" {
				t.Error("the output is", n)
			}
			job := r.once()
			r.until("its time to live", func() bool {
				return r.cluster.Get(t, "/apis/batch/v1/namespaces/"+r.namespace+"/jobs/"+job.Text("metadata", "name")).At("spec", "ttlSecondsAfterFinished") == 86400.0
			})
		})
	}
	t.Run("while it runs, to its end", func(t *testing.T) {
		t.Parallel()
		r := newKubeRig(t)
		r.start()
		gate, open := r.gate("gate")
		id := r.job("echo begun; " + gate + giveOne)
		r.pods(1)
		r.kill()
		r.start()
		r.kill()
		open()
		r.until("the end of the job", func() bool { return r.jobs()[0].At("status", "succeeded") == 1.0 })
		r.start()
		if n := r.ends(id, "completed"); n != "1" {
			t.Error("the output is", n)
		}
		r.once()
	})
}

// TestCancelledJobGoesThoughKilled kills the server when it is about to delete the job of a cancelled step, and when it has.
func TestCancelledJobGoesThoughKilled(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprint("before:", before), func(t *testing.T) {
			t.Parallel()
			r := newKubeRig(t)
			reached, dead := r.deathAt(before, func(q *http.Request) bool { return q.Method == "DELETE" })
			r.start()
			id := r.job("sleep 1000")
			r.pods(1)
			_, err := r.client.Cancel(t.Context(), id, "no longer wanted")
			must(t, err)
			r.dies(reached, dead)
			r.start()
			r.ends(id, "cancelled")
			r.until("the job to go", func() bool { return len(r.jobs()) == 0 })
		})
	}
}

// TestRestartedStepMakesAnotherJob restarts a step that has completed: a second job runs, and the first stays what it was.
func TestRestartedStepMakesAnotherJob(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.start()
	id := r.job(giveOne)
	r.ends(id, "completed")
	first := r.once()
	_, err := r.client.Restart(t.Context(), id, api.RestartRequest{Step: "work"})
	must(t, err)
	r.until("a second job", func() bool { return len(r.jobs()) == 2 })
	r.ends(id, "completed")
	for _, j := range r.jobs() {
		if j.Text("metadata", "name") == first.Text("metadata", "name") && j.Text("metadata", "uid") != first.Text("metadata", "uid") {
			t.Error("the first job was made again")
		}
	}
}

// TestJobOnCreatedCluster creates a cluster on a running server, which is killed while a job runs in it: the next one knows the cluster and
// ends the step. While the step waits, the cluster cannot be deleted.
func TestJobOnCreatedCluster(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.set("")
	r.start()
	token, err := os.ReadFile(r.tokens)
	must(t, err)
	var made api.Cluster
	must(t, r.client.Call(t.Context(), "POST", pathTo("clusters"), nil,
		object{"id": "us", "kubeconfig": r.cluster.KubeconfigOf(r.cluster.URL, r.namespace, fmt.Sprintf("token: %q", token))}, &made))
	if made.State != "ok" || made.Namespace != r.namespace || made.Version == "" {
		t.Errorf("created as %+v", made)
	}
	gate, open := r.gate("gate")
	id := r.job(gate+giveOne, "cluster_id: us")
	r.pods(1)
	remove := func() error { return r.client.Call(t.Context(), "DELETE", pathTo("clusters", "us"), nil, nil, nil) }
	r.until("the step to wait", func() bool { return stepwell.CodeOf(remove()) == stepwell.CodeConflict })
	r.kill()
	open()
	r.start()
	if n := r.ends(id, "completed"); n != "1" {
		t.Error("the output is", n)
	}
	r.once()
	must(t, remove())
	if err := remove(); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Error("deleted again:", err)
	}
}
