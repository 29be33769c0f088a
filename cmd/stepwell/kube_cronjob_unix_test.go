//go:build unix

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store"
)

// TestEndedJobOfACronJobIsAnEvent lets jobs of a CronJob end: each becomes one event that starts one execution, also when the server is killed
// before it has noted in the cluster that the event was sent.
func TestEndedJobOfACronJobIsAnEvent(t *testing.T) {
	t.Parallel()
	r := newKubeRig(t)
	r.start()
	call := func(path string, body object) {
		must(t, r.client.Call(t.Context(), "POST", "/api/v1/"+path, nil, body, nil))
	}
	call("pipelines", object{"document": `name: after
parameters: [{name: event, type: object}]
steps:
  - {id: seen, action: util.log, params: {message: "{{ params.event.source }} {{ params.event.data.cronjob }} {{ params.event.data.status }} {{ params.event.data.error }}"}}
outputs: {n: "{{ params.event.data.job_name }} {{ params.event.data.status }} {{ params.event.data.error }}"}
`})
	call("event-triggers", object{"name": "t", "event_type": "kube.job.*", "filters": object{"cronjob": "nightly"}, "callback": object{"workflow_id": "after"}})
	call("pipelines", object{"document": `name: nightly
steps:
  - {id: apply, action: external.k8s.cronjob, params: {name: nightly, schedule: "0 3 1 1 *", image: any, backoff_limit: 0, command: [sh, -c, 'test "$FAILS" != yes']}}
`})
	x, err := r.client.Execute(t.Context(), api.ExecuteRequest{Workflow: "nightly"}, "")
	must(t, err)
	r.ends(x.ID, "completed")

	patched := func(q *http.Request) bool { return q.Method == "PATCH" && strings.Contains(q.URL.Path, "/jobs/") }
	reached, dead := r.deathAt(true, patched)
	r.startCronJob("first", "no")
	r.dies(reached, dead)
	r.start()
	r.startCronJob("second", "yes")
	said := func() (list []string) {
		all, err := r.client.Executions(t.Context(), api.ListExecutions{Filter: store.Filter{Pipeline: "after"}})
		must(t, err)
		for _, x := range all.Executions {
			list = append(list, r.ends(x.ID, "completed"))
		}
		return list
	}
	r.until("the event of the second job", func() bool { return len(said()) >= 2 })
	r.until("labels of sent events", func() bool {
		for _, j := range r.jobs() {
			if j.Text("metadata", "labels", "stepwell.io/event") != "sent" {
				return false
			}
		}
		return true
	})
	all := strings.Join(said(), "\n")
	if len(said()) != 2 || !strings.Contains(all, "first completed") || !strings.Contains(all, "second failed BackoffLimitExceeded") {
		t.Errorf("the events were\n%s", all)
	}
}

// startCronJob starts a job of the CronJob nightly now, as its controller would.
func (r *kubeRig) startCronJob(name, fails string) {
	r.t.Helper()
	cron := r.cluster.Get(r.t, "/apis/batch/v1/namespaces/"+r.namespace+"/cronjobs/nightly")
	template := cron.At("spec", "jobTemplate").(map[string]any)
	spec := template["spec"].(map[string]any)
	pod := spec["template"].(map[string]any)["spec"].(map[string]any)
	pod["containers"].([]any)[0].(map[string]any)["env"] = []any{object{"name": "FAILS", "value": fails}}
	meta := template["metadata"].(map[string]any)
	meta["name"] = name
	meta["ownerReferences"] = []any{object{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": cron.Text("metadata", "uid"), "controller": true}}
	r.cluster.Post(r.t, "/apis/batch/v1/namespaces/"+r.namespace+"/jobs", object{"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
}
