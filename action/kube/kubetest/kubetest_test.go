package kubetest_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action/kube/kubetest"
)

type object = kubetest.Object

func TestMain(m *testing.M) { kubetest.Main(m) }

// job creates a job of one container and returns its path.
func job(t *testing.T, c *kubetest.Cluster, namespace, name, image, script string, env ...object) string {
	t.Helper()
	c.Post(t, "/apis/batch/v1/namespaces/"+namespace+"/jobs", object{"metadata": object{"name": name}, "spec": object{"backoffLimit": 0, "template": object{"spec": object{
		"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
		"containers": []object{{"name": "main", "image": image, "command": []string{"sh", "-c", script}, "env": env}}}}}})
	return "/apis/batch/v1/namespaces/" + namespace + "/jobs/" + name
}

func ended(kind string) func(object) bool {
	return func(o object) bool {
		for _, c := range o.List("status", "conditions") {
			if c.Text("type") == kind && c.Text("status") == "True" {
				return true
			}
		}
		return false
	}
}

// only returns the pod of a namespace once it is as done says.
func only(t *testing.T, c *kubetest.Cluster, namespace, what string, done func(object) bool) object {
	t.Helper()
	list := c.Await(t, "/api/v1/namespaces/"+namespace+"/pods", what, func(o object) bool {
		items := o.List("items")
		return len(items) == 1 && done(items[0])
	})
	return list.List("items")[0]
}

func running(o object) bool { return o.Text("status", "phase") == "Running" }

// get reads a path that is not JSON.
func get(t *testing.T, c *kubetest.Cluster, path string) io.ReadCloser {
	t.Helper()
	body, err := c.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestJobRunsAsAProcess(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	ns := c.Namespace(t)
	c.Kubelet(t, ns)
	c.Post(t, "/api/v1/namespaces/"+ns+"/secrets", object{"metadata": object{"name": "s"}, "stringData": object{"key": "hidden"}})
	path := job(t, c, ns, "one", "any", `echo "$PLAIN $SECRET"; printf '{"n": 1}' > "$KUBETEST_TERMINATION_LOG"`,
		object{"name": "PLAIN", "value": "seen"}, object{"name": "SECRET", "valueFrom": object{"secretKeyRef": object{"name": "s", "key": "key"}}})
	c.Await(t, path, "complete", ended("Complete"))
	pod := only(t, c, ns, "there", func(object) bool { return true })
	state := pod.List("status", "containerStatuses")[0]
	if state.At("state", "terminated", "exitCode") != 0.0 || state.Text("state", "terminated", "message") != `{"n": 1}` {
		t.Error("the container's state is", state)
	}
	logs := get(t, c, "/api/v1/namespaces/"+ns+"/pods/"+pod.Text("metadata", "name")+"/log")
	defer logs.Close()
	if text, err := io.ReadAll(logs); err != nil || string(text) != "seen hidden\n" {
		t.Errorf("the log is %q, %v", text, err)
	}
}

func TestJobThatFailsSaysHow(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	ns := c.Namespace(t)
	c.Kubelet(t, ns)
	o := c.Await(t, job(t, c, ns, "one", "any", "exit 3"), "failed", ended("Failed"))
	pod := only(t, c, ns, "failed", func(o object) bool { return o.Text("status", "phase") == "Failed" })
	if code := pod.List("status", "containerStatuses")[0].At("state", "terminated", "exitCode"); code != 3.0 {
		t.Error("exit code", code, o)
	}
}

func TestPodThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	for image, want := range map[string]string{kubetest.MissingImage: "ImagePullBackOff", kubetest.NeverStarts: "Unschedulable"} {
		ns := c.Namespace(t)
		c.Kubelet(t, ns)
		path := job(t, c, ns, "one", image, "exit 0")
		only(t, c, ns, want, func(o object) bool {
			for _, s := range append(o.List("status", "containerStatuses"), o.List("status", "conditions")...) {
				if s.Text("state", "waiting", "reason") == want || s.Text("reason") == want {
					return true
				}
			}
			return false
		})
		if _, err := c.Do(t.Context(), "DELETE", path+"?propagationPolicy=Foreground", nil); err != nil {
			t.Fatal(err)
		}
		c.Await(t, path, "gone", func(o object) bool { return o == nil })
	}
}

func TestDeletedPodEndsItsProcesses(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	ns := c.Namespace(t)
	c.Kubelet(t, ns)
	mark := filepath.Join(t.TempDir(), "mark")
	path := job(t, c, ns, "one", "any", "trap 'echo asked > "+mark+"; exit 0' TERM; sleep 1000 & wait")
	only(t, c, ns, "running", running)
	if _, err := c.Do(t.Context(), "DELETE", path+"?propagationPolicy=Foreground", nil); err != nil {
		t.Fatal(err)
	}
	c.Await(t, path, "gone", func(o object) bool { return o == nil })
	if text, err := os.ReadFile(mark); err != nil || string(text) != "asked\n" {
		t.Errorf("the process was not asked to end: %q, %v", text, err)
	}
}

func TestLogIsFollowedAndCut(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	ns := c.Namespace(t)
	k := c.Kubelet(t, ns)
	gate := filepath.Join(t.TempDir(), "gate")
	path := job(t, c, ns, "one", "any", "echo one; while [ ! -e "+gate+" ]; do sleep 0.05; done; echo two")
	pod := only(t, c, ns, "running", running)
	url := "/api/v1/namespaces/" + ns + "/pods/" + pod.Text("metadata", "name") + "/log?follow=true&timestamps=true"
	first := get(t, c, url)
	defer first.Close()
	lines := bufio.NewScanner(first)
	if !lines.Scan() || !strings.HasSuffix(lines.Text(), "Z one") {
		t.Fatalf("the first line is %q", lines.Text())
	}
	at, _, _ := strings.Cut(lines.Text(), " ")
	k.CutLogs()
	if lines.Scan() {
		t.Errorf("a line after the cut: %q", lines.Text())
	}
	second := get(t, c, url+"&sinceTime="+at)
	defer second.Close()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(second)
	if err != nil || !strings.HasSuffix(string(text), "Z two\n") {
		t.Errorf("the rest is %q, %v", text, err)
	}
	c.Await(t, path, "complete", ended("Complete"))
}

func TestLostNodeFailsItsPods(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	ns := c.Namespace(t)
	k := c.Kubelet(t, ns)
	path := job(t, c, ns, "one", "any", "sleep 1000")
	only(t, c, ns, "running", running)
	k.Lose(t)
	c.Await(t, path, "failed", ended("Failed"))
}

func TestAccountMayDoOnlyWhatItsRulesSay(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	ns := c.Namespace(t)
	own := c.As(c.Account(t, ns, object{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": []string{"list"}}))
	own.Get(t, "/api/v1/namespaces/"+ns+"/pods")
	for _, path := range []string{"/api/v1/namespaces/" + ns + "/secrets", "/api/v1/namespaces/default/pods"} {
		_, err := own.Do(t.Context(), "GET", path, nil)
		var said *kubetest.StatusError
		if !errors.As(err, &said) || said.Code != http.StatusForbidden {
			t.Errorf("%s: %v", path, err)
		}
	}
}
