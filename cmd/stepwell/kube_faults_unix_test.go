//go:build unix

package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell/action/kube/kubetest"
	"github.com/stepwell/stepwell/api"
)

// TestJobsWhoseWatchEnds cuts the connections to the cluster, and has it say that its history is gone (410): the jobs' steps end when
// they do, and not at the next look of five minutes later.
func TestJobsWhoseWatchEnds(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.start()
	ids, open := r.gated(2, "")
	r.pods(2)
	r.cut()
	open[0]()
	r.ends(ids[0], "completed")

	var gone atomic.Int32
	r.intervene(func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if q.URL.Query().Has("watch") && gone.Add(1) <= 2 {
			_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`+"\n")
			return
		}
		next.ServeHTTP(w, q)
	})
	r.cut()
	r.until("two watches that have expired", func() bool { return gone.Load() >= 2 })
	open[1]()
	r.ends(ids[1], "completed")
	if jobs := r.jobs(); len(jobs) != 2 {
		t.Errorf("%d jobs, want 2", len(jobs))
	}
}

// gated starts jobs that wait for gates.
func (r *kubeRig) gated(n int, more string) (ids []string, open []func()) {
	for range n {
		gate, o := r.gate(rand.Text())
		ids, open = append(ids, r.job(gate+giveOne, more)), append(open, o)
	}
	return ids, open
}

// TestJobsOfTwoClusters starts the API server of one of two clusters again while jobs run on both. Those of the other end while it is away,
// and its own when it is back.
func TestJobsOfTwoClusters(t *testing.T) {
	t.Parallel()
	r := kubeRigOn(t, kubetest.New(t))
	other := kubetest.Start(t)
	there := other.Namespace(t)
	other.Kubelet(t, there)
	r.write("other", other.Kubeconfig(there))
	r.set("kubernetes: {default: eu, clusters: {eu: {kubeconfig: kubeconfig}, us: {kubeconfig: other}}}\n")
	r.start()
	here, open := r.gated(2, "cluster_id: eu")
	away, openAway := r.gated(1, "cluster_id: us")
	r.pods(2)
	r.cluster.Restart(t, func() {
		open[0]()
		openAway[0]()
		r.ends(away[0], "completed")
	})
	r.ends(here[0], "completed")
	open[1]()
	r.ends(here[1], "completed")
	if jobs := r.jobs(); len(jobs) != 2 {
		t.Errorf("%d jobs, want 2", len(jobs))
	}
}

// TestLinesOfJobsComeOnce cuts the log at the node and on its way, and kills the server: each line is in the step's log once.
func TestLinesOfJobsComeOnce(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.start()
	script := ""
	var open []func()
	for n := range 4 {
		gate, o := r.gate(fmt.Sprint("gate", n))
		open = append(open, o)
		script += fmt.Sprintf("echo line %d; echo line %d; %s", 2*n, 2*n+1, gate)
	}
	id := r.job(script + "echo line 8")
	lines := func() (list []string) {
		all, err := r.client.Logs(t.Context(), api.ListLogs{ExecutionPath: api.ExecutionPath{ID: id}, Step: "work", Limit: 1000})
		if err != nil {
			return nil // the server is being started
		}
		for _, l := range all.Logs {
			if strings.HasPrefix(l.Message, "line ") {
				list = append(list, l.Message)
			}
		}
		return list
	}
	for n, cut := range []func(){r.node.CutLogs, r.cut, func() { r.kill(); r.start() }, func() {}} {
		r.until(fmt.Sprint("line ", 2*n+1), func() bool { return len(lines()) >= 2*n+2 })
		cut()
		open[n]()
	}
	r.ends(id, "completed")
	want := ""
	for n := range 9 {
		want += fmt.Sprintf("line %d\n", n)
	}
	r.until("line 8", func() bool { return len(lines()) >= 9 })
	if got := strings.Join(lines(), "\n") + "\n"; got != want {
		t.Errorf("the lines are\n%swant\n%s", got, want)
	}
}

// TestClusterTokenRotates has the cluster refuse the token with which the server has begun, once the file has the next one.
func TestClusterTokenRotates(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	old, err := os.ReadFile(r.tokens)
	must(t, err)
	r.start()
	gate, open := r.gate("gate")
	id := r.job(gate + giveOne)
	r.pods(1)
	r.write("token", r.cluster.Account(t, r.namespace, documentedRole(t)...))
	r.refuse(string(old))
	r.cut()
	open()
	r.ends(id, "completed")
	r.ends(r.job(giveOne), "completed")
}

// TestNamespacesOfJobs has a job asked for in a namespace that the settings do not allow, and in one that the cluster does not.
func TestNamespacesOfJobs(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.start()
	for namespace, want := range map[string]string{"kube-system": "steps may not use the namespace kube-system", "kube-public": "is forbidden"} {
		if said := r.ends(r.job(giveOne, "namespace: "+namespace), "failed"); !strings.Contains(said, want) || !strings.Contains(said, "denied") {
			t.Errorf("%s: %s", namespace, said)
		}
	}
	for _, namespace := range []string{"kube-system", "kube-public", r.namespace} {
		if jobs := r.cluster.Items(t, "/apis/batch/v1/namespaces/"+namespace+"/jobs"); len(jobs) != 0 {
			t.Errorf("%s has %d jobs", namespace, len(jobs))
		}
	}
}

// TestSecretsOfJobsStaySecret gives a job a secret that it says wherever it can, and looks wherever that could be seen.
func TestSecretsOfJobsStaySecret(t *testing.T) {
	t.Parallel()
	const secret = "hush-4711-do-not-tell"
	r := newKubeRig(t)
	r.start()
	must(t, r.client.Call(t.Context(), "PUT", "/api/v1/secrets/token", nil, object{"value": secret}, nil))
	ids := []string{
		r.job(`echo "said $TOKEN"; printf '{"n": "%s"}' "$TOKEN" > "$KUBETEST_TERMINATION_LOG"`, `env_from_secrets: {TOKEN: "{{ secrets.token }}"}`),
		r.job(`echo "said $TOKEN"; exit 3`, `env_from_secrets: {TOKEN: "{{ secrets.token }}"}`, "backoff_limit: 0"),
	}
	r.ends(ids[0], "completed")
	if said := r.ends(ids[1], "failed"); !strings.Contains(said, "exit code 3") {
		t.Error("the failure is", said)
	}
	for _, id := range ids {
		for _, path := range []string{"", "/steps?outputs=true", "/logs", "/history", "/definition"} {
			resp, err := http.Get("http://" + r.address + "/api/v1/executions/" + id + path)
			must(t, err)
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			must(t, err)
			if resp.StatusCode != 200 || strings.Contains(string(text), secret) {
				t.Errorf("%s of %s: %s %s", path, id, resp.Status, text)
			}
			if path == "/logs" && !strings.Contains(string(text), "said ***") {
				t.Errorf("the log does not have the job's line: %s", text)
			}
		}
	}
	for _, path := range []string{"/apis/batch/v1/namespaces/" + r.namespace + "/jobs", "/api/v1/namespaces/" + r.namespace + "/pods"} {
		list, err := r.cluster.Open(t.Context(), path)
		must(t, err)
		text, err := io.ReadAll(list)
		list.Close()
		must(t, err)
		for _, o := range strings.Split(string(text), `"uid"`) {
			if strings.Contains(o, secret) && !strings.Contains(o, "terminated") { // what the job itself has said is the cluster's
				t.Errorf("%s has the secret: %s", path, o)
			}
		}
	}
	r.kill()
	files, err := filepath.Glob(filepath.Join(r.dir, ".stepwell", "*"))
	must(t, err)
	for _, name := range files {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), secret) {
			t.Errorf("%s has the secret", name)
		}
	}
}

// TestJobThatDoesNotStart ends after pending_seconds, with the cluster's reason, and is removed.
func TestJobThatDoesNotStart(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.start()
	for image, want := range map[string]string{kubetest.MissingImage: "ImagePull", kubetest.NeverStarts: "Insufficient cpu"} {
		id := r.jobOf("image: "+image, "pending_seconds: 1")
		if said := r.ends(id, "failed"); !strings.Contains(said, want) {
			t.Errorf("%s: %s", image, said)
		}
	}
	if jobs := r.jobs(); len(jobs) != 0 {
		t.Errorf("%d jobs are left", len(jobs))
	}
}

// TestJobOfALostNode goes on at another node: one job, one attempt of the step.
func TestJobOfALostNode(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.start()
	gate, open := r.gate("gate")
	id := r.job(gate+giveOne, "backoff_limit: 0")
	r.pods(1)
	r.node.Lose(t)
	r.cluster.Kubelet(t, r.namespace)
	r.pods(1)
	open()
	r.ends(id, "completed")
	r.once()
	steps, err := r.client.Steps(t.Context(), api.ListSteps{ExecutionPath: api.ExecutionPath{ID: id}, Limit: 10})
	must(t, err)
	if steps.Steps[0].Attempt != 1 {
		t.Errorf("the step has %d attempts", steps.Steps[0].Attempt)
	}
}
