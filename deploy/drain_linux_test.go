package deploy

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action/kube/kubetest"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// long is a pipeline that goes on while nodes come and go: eighty steps one after the other.
func long() map[string]any {
	var steps []any
	for n := range 80 {
		step := map[string]any{"id": fmt.Sprintf("s%d", n), "action": "util.wait", "params": map[string]any{"seconds": 0.25}}
		if n > 0 {
			step["depends_on"] = []any{fmt.Sprintf("s%d", n-1)}
		}
		steps = append(steps, step)
	}
	return map[string]any{"name": "long", "steps": steps}
}

// TestImageOnACluster: Helm installs the chart on a real control plane, its pods run the real image. An upgrade replaces one node after the
// other, a drain empties the machine as far as the disruption budget lets it, workers come and join their nodes; an execution goes
// on all the while, and each of its steps is done once. Nothing stays when the release is uninstalled.
func TestImageOnACluster(t *testing.T) {
	s := newSite(t)
	database := postgrestest.New(t).URL()
	s.cluster.Kubelet(t, s.namespace).With(s.run)
	const master = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	values := "secret: {database: '" + database + "', masterKey: '" + master + "'}\nsettings: {server: {stop_seconds: 5}}\n"

	s.helm("install", "stepwell", "helm/stepwell", "--values", file(t, values), "--wait", "--timeout", "2m")
	first := s.uids()
	if names := slices.Sorted(maps.Keys(first)); !slices.Equal(names, []string{"stepwell-0", "stepwell-1"}) {
		t.Fatalf("the pods are %v", names)
	}
	if code, _ := s.request(0, "GET", "/api/v1/executions", "", nil); code != http.StatusUnauthorized {
		t.Errorf("a node without keys answers %d", code)
	}
	key := s.key(database, master, "admin")
	var id string
	s.eventually("the key", func() bool {
		code, answer := s.request(1, "POST", "/api/v1/execute", key, map[string]any{"workflow_definition": long()})
		if code != http.StatusCreated && code != http.StatusOK && code != http.StatusAccepted && code != http.StatusUnauthorized {
			t.Fatalf("execute: %d %v", code, answer)
		}
		id, _ = answer["execution_id"].(string)
		return id != ""
	})

	// The upgrade: other settings are another annotation, so every node is replaced, the last one first, one at a time.
	least := s.watchReady()
	s.helm("upgrade", "stepwell", "helm/stepwell", "--values", file(t, values+"# \n"), "--set", "settings.server.stop_seconds=6", "--wait", "--timeout", "2m")
	second := s.uids()
	for name, uid := range first {
		if second[name] == uid || second[name] == "" {
			t.Errorf("%s was %s and is %q", name, uid, second[name])
		}
	}

	// The drain: one eviction is admitted, a second one only when the first node is back.
	s.evict("stepwell-0", second["stepwell-0"])
	s.eventually("the first node", func() bool {
		now := s.uids()
		return now["stepwell-0"] != "" && now["stepwell-0"] != second["stepwell-0"]
	})
	s.evict("stepwell-1", second["stepwell-1"])
	s.eventually("the second node", func() bool {
		now := s.uids()
		return now["stepwell-1"] != "" && now["stepwell-1"] != second["stepwell-1"]
	})
	if got := least(); got < 1 {
		t.Errorf("there were only %d nodes that were ready", got)
	}

	// Workers join their nodes.
	worker := s.key(database, master, "worker")
	s.helm("upgrade", "stepwell", "helm/stepwell", "--values", file(t, strings.Replace(values, "}\n", ", workerKey: '"+worker+"'}\n", 1)+"workers: {enabled: true}\n"), "--wait", "--timeout", "2m")
	for node := range 2 {
		s.eventually(fmt.Sprintf("the worker of node %d", node), func() bool {
			_, answer := s.request(node, "GET", "/api/v1/workers", key, nil)
			list, _ := answer["workers"].([]any)
			return slices.ContainsFunc(list, func(w any) bool { one, _ := w.(map[string]any); return one["local"] == false })
		})
	}

	var answer map[string]any
	s.eventually("the end of the execution", func() bool {
		_, answer = s.request(0, "GET", "/api/v1/executions/"+id, key, nil)
		return answer["status"] == "completed" || answer["status"] == "failed"
	})
	if answer["status"] != "completed" {
		t.Errorf("the execution is %v", answer)
	}

	s.helm("uninstall", "stepwell", "--wait", "--timeout", "2m")
	s.eventually("the end of all pods", func() bool { return len(s.cluster.Items(t, "/api/v1/namespaces/"+s.namespace+"/pods")) == 0 })
	for _, path := range []string{"/apis/apps/v1/namespaces/%s/statefulsets", "/apis/apps/v1/namespaces/%s/deployments", "/api/v1/namespaces/%s/services", "/api/v1/namespaces/%s/secrets", "/apis/policy/v1/namespaces/%s/poddisruptionbudgets"} {
		for _, o := range s.cluster.Items(t, fmt.Sprintf(path, s.namespace)) {
			t.Errorf("%s has stayed", o.Text("metadata", "name"))
		}
	}
}

var keyText = regexp.MustCompile(`sw_[A-Za-z0-9_-]+`)

// key makes an API key in the database, as the chart's notes say.
func (s *site) key(database, master, role string) string {
	s.t.Helper()
	said := s.stepwell(database, master, "keys", "create", "--here", "--role", role, role)
	key := keyText.FindString(said)
	if key == "" {
		s.t.Fatalf("no key: %s", said)
	}
	return key
}

// watchReady looks at the nodes until it is asked how few of them were ready at a time.
func (s *site) watchReady() (least func() int) {
	stop, seen := make(chan struct{}), make(chan int, 1)
	go func() {
		fewest := 2
		for {
			select {
			case <-stop:
				seen <- fewest
				return
			case <-time.After(50 * time.Millisecond):
				if all, err := s.readyPods(); err == nil {
					fewest = min(fewest, len(all))
				}
			}
		}
	}()
	return func() int { close(stop); return <-seen }
}

// evict evicts a pod as `kubectl drain` does: again while the disruption budget refuses.
func (s *site) evict(name, uid string) {
	s.t.Helper()
	s.eventually("the eviction of "+name, func() bool {
		_, err := s.cluster.Do(s.t.Context(), "POST", "/api/v1/namespaces/"+s.namespace+"/pods/"+name+"/eviction", kubetest.Object{"apiVersion": "policy/v1", "kind": "Eviction",
			"metadata": kubetest.Object{"name": name, "namespace": s.namespace}, "deleteOptions": kubetest.Object{"preconditions": kubetest.Object{"uid": uid}}})
		var said *kubetest.StatusError
		if err != nil && (!errors.As(err, &said) || said.Code != http.StatusTooManyRequests) {
			s.t.Fatalf("evicting %s: %v", name, err)
		}
		return err == nil
	})
}
