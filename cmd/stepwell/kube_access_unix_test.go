//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell/action/kube/kubetest"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// kubeconfigOf writes the kubeconfig with which the server reaches the cluster: through the test's proxy, as a user, with more about the cluster.
func (r *kubeRig) kubeconfigOf(user, more string) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "kubeconfig"))
	must(r.t, err)
	at := strings.LastIndex(string(text), "user:\n")
	r.write("kubeconfig", strings.Replace(string(text[:at])+"user:\n    "+user+"\n", `cluster: {server:`, `cluster: {`+more+`server:`, 1))
}

// TestKubeconfigProgramGivesTokens has a program beside the kubeconfig give the credentials. It runs once while they hold, again when the
// cluster refuses them or they expire, and without Stepwell's own variables.
func TestKubeconfigProgramGivesTokens(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.write("login", `#!/bin/sh
dir=$(dirname "$0")
echo "$1 $MORE ${STEPWELL_SECRETS_KEY:-none} $KUBERNETES_EXEC_INFO" >> "$dir/logins"
printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"%s}}' "$(cat "$dir/token")" "$(cat "$dir/expires")"
`)
	must(t, os.Chmod(filepath.Join(r.dir, "login"), 0o700))
	r.write("expires", "")
	r.kubeconfigOf(`exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, args: [eu], env: [{name: MORE, value: given}], interactiveMode: Never, provideClusterInfo: true}`, "")
	logins := func() []string {
		text, err := os.ReadFile(filepath.Join(r.dir, "logins"))
		must(t, err)
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	r.env = []string{"STEPWELL_SECRETS_KEY=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
	r.start()
	r.ends(r.job(giveOne), "completed")
	r.ends(r.job(giveOne), "completed")
	first := logins()
	if len(first) != 1 || !strings.HasPrefix(first[0], "eu given none ") || !strings.Contains(first[0], `"server":"https://127.0.0.1`) || !strings.Contains(first[0], "certificate-authority-data") {
		t.Errorf("the program ran %d times: %s", len(first), first)
	}

	old, err := os.ReadFile(r.tokens)
	must(t, err)
	r.write("token", r.cluster.Account(t, r.namespace, documentedRole(t)...))
	r.write("expires", `, "expirationTimestamp": "2020-01-01T00:00:00Z"`)
	r.refuse(string(old))
	r.cut()
	r.ends(r.job(giveOne), "completed")
	refused := len(logins())
	if refused < 2 {
		t.Error("the program did not run again when its token was refused")
	}
	r.until("a run of the program when its token has expired", func() bool {
		r.ends(r.job(giveOne), "completed")
		return len(logins()) > refused
	})
}

// refuse has the cluster refuse a token from now on.
func (r *kubeRig) refuse(token string) {
	r.intervene(func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if q.Header.Get("Authorization") == "Bearer "+token {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)
			return
		}
		next.ServeHTTP(w, q)
	})
}

// TestKubeconfigProgramThatFails shows what the program says, but never a credential.
func TestKubeconfigProgramThatFails(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.kubeconfigOf(`exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, "echo '{\"token\": \"s3cr3t\"}'; echo the session has ended >&2; exit 1"], installHint: log in with the browser}`, "")
	r.start()
	said := r.ends(r.job(giveOne, "step: retry: {max_attempts: 1}"), "failed")
	if !strings.Contains(said, "the session has ended") || !strings.Contains(said, "log in with the browser") || !strings.Contains(said, "unavailable") || strings.Contains(said, "s3cr3t") {
		t.Error("the step failed with", said)
	}
}

// TestClusterThroughAProxy runs a job through the proxy-url of the kubeconfig, with its password, which nobody sees.
func TestClusterThroughAProxy(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	var tunnels, strangers atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodConnect || q.Header.Get("Proxy-Authorization") != "Basic dXNlcjpnZWhlaW0=" { // user:geheim
			strangers.Add(1)
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		there, err := net.Dial("tcp", q.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer there.Close()
		here, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		tunnels.Add(1)
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(there, here); there.Close() })
		both.Go(func() { _, _ = io.Copy(here, there); here.Close() })
		both.Wait()
	}))
	defer proxy.Close()
	defer proxy.CloseClientConnections()
	r.kubeconfigOf(fmt.Sprintf("tokenFile: %q", r.tokens), fmt.Sprintf("proxy-url: %q, ", strings.Replace(proxy.URL, "://", "://user:geheim@", 1)))
	r.start()
	if n := r.ends(r.job(giveOne), "completed"); n != "1" || tunnels.Load() == 0 || strangers.Load() != 0 {
		t.Errorf("the output is %s, after %d tunnels and %d refusals", n, tunnels.Load(), strangers.Load())
	}
	var list object
	must(t, r.client.Call(t.Context(), "GET", pathTo("clusters"), nil, nil, &list))
	if strings.Contains(fmt.Sprint(list), "geheim") {
		t.Errorf("the clusters are shown as %v", list)
	}
}

// TestClusterThatIsBusy answers 429 to the creation of a job, with a short Retry-After and then with none: the step waits, uses up no attempt
// and creates one job.
func TestClusterThatIsBusy(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	var asked atomic.Int32
	r.intervene(func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		n := int32(0)
		if q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/jobs") {
			n = asked.Add(1)
		}
		if n == 0 || n > 2 {
			next.ServeHTTP(w, q)
			return
		}
		if n == 1 {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(http.StatusTooManyRequests)
	})
	r.start()
	id := r.job(giveOne, "step: retry: {max_attempts: 1}")
	if n := r.ends(id, "completed"); n != "1" || asked.Load() != 3 {
		t.Errorf("the output is %s, after %d requests, want 3", n, asked.Load())
	}
	r.once()
}

// TestJobOfAnotherServer kills the server that runs an execution, with another one beside it on the same database: when the cluster has created the
// job but not answered, and while the job runs. The other server adopts the job, and its outputs are those of the execution.
func TestJobOfAnotherServer(t *testing.T) {
	for _, when := range []string{"before the creation is answered", "while the job runs"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			r := newKubeRig(t)
			fleet := newServers(t, postgrestest.URL(t), 2, "8", fmt.Sprintf("kubernetes: {clusters: {eu: {kubeconfig: %q}}}\n", filepath.Join(r.dir, "kubeconfig")))
			r.client = fleet.nodes[0].client
			reached, dead := r.deathAt(false, func(q *http.Request) bool {
				return when == "before the creation is answered" && q.Method == "POST" && strings.HasSuffix(q.URL.Path, "/jobs")
			})
			gate, open := r.gate("gate")
			id := r.job(gate + giveOne)
			if when == "while the job runs" {
				r.pods(1)
			} else {
				r.reaches(reached)
			}
			owner := fleet.ownerOf(id)
			owner.kill()
			close(dead)
			r.client = fleet.alive()[0].client
			open()
			if n := r.ends(id, "completed"); n != "1" {
				t.Error("the output is", n)
			}
			r.once()
		})
	}
}

// ownerOf is the server that runs an execution.
func (r *fleetRig) ownerOf(id string) *fleetNode {
	r.t.Helper()
	for _, n := range r.alive() {
		if r.count(`SELECT count(*) FROM execution_live x JOIN node n ON n.no = x.owner WHERE n.address = 'http://`+n.address+`' AND x.id = '`+id+`'`) == 1 {
			return n
		}
	}
	r.t.Fatal("no server runs", id)
	return nil
}

// TestSpecifiedJobRequest sends the request for a job that budpipeline's §10 has, as it is written there but for its dots.
func TestSpecifiedJobRequest(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.node.With(func(_ kubetest.Object, words, _ []string) (*exec.Cmd, string, error) { // the image's python
		if len(words) != 3 || words[0] != "python" || words[1] != "-c" || words[2] != `print("hello")` {
			return nil, "", fmt.Errorf("the command is %q", words)
		}
		return exec.Command("echo", "hello"), "127.0.0.1", nil
	})
	r.start()
	var started struct {
		ID string `json:"execution_id"`
	}
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/execute", nil, json.RawMessage(`{
    "action_type": "external.k8s.job",
    "params": {
      "cluster_id": "eu",
      "image": "python:3.11",
      "command": ["python", "-c", "print(\"hello\")"]
    }
  }`), &started))
	r.ends(started.ID, "completed")
	steps, err := r.client.Steps(t.Context(), api.ListSteps{ExecutionPath: api.ExecutionPath{ID: started.ID}, Outputs: true})
	must(t, err)
	var out map[string]any
	must(t, json.Unmarshal(steps.Steps[0].Outputs, &out))
	job := r.once()
	if out["logs"] != "hello\n" || out["exit_code"] != 0.0 || out["job_uid"] != job.Text("metadata", "uid") || out["namespace"] != r.namespace || out["cluster_id"] != "eu" {
		t.Errorf("the outputs are %v", out)
	}
	image := job.At("spec", "template", "spec", "containers").([]any)[0].(map[string]any)["image"]
	if image != "python:3.11" || job.At("spec", "backoffLimit") != 3.0 || job.At("spec", "activeDeadlineSeconds") != 3600.0 {
		t.Errorf("the job is %v", job)
	}
}
