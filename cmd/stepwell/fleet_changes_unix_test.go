//go:build unix

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// must calls a server.
func (n *fleetNode) must(method, path string, body, answer any) {
	n.t.Helper()
	if err := n.client.Call(n.t.Context(), method, path, nil, body, answer); err != nil {
		n.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// TestFleetSchedules: a schedule that was made through one server fires once for each of its times, and misses none, also while the
// server that fires is killed.
func TestFleetSchedules(t *testing.T) {
	t.Parallel()
	r := newFleetRig(t, postgrestest.URL(t), 3)
	r.nodes[1].must("POST", "/api/v1/pipelines", api.Object{"document": `name: tick
parameters: [{name: _trigger, type: object}]
steps:
  - {id: at, action: util.set_output, params: {v: "{{ params._trigger.scheduled_at }}"}}
outputs: {at: "{{ steps.at.outputs.v }}"}
`}, nil)
	for _, id := range []string{"plain", "follower"} {
		job := api.Object{"job_id": id, "schedule": api.Object{"type": "interval", "expression": "@every 1s"}, "overlap": "allow", "misfire": "run_all",
			"callback": api.Object{"workflow_id": "tick"}}
		if id == "follower" {
			job["schedule"] = api.Object{"type": "after", "after": api.Object{"job_id": "plain"}}
		}
		r.nodes[2].must("POST", "/api/v1/scheduler/jobs", job, nil)
	}
	fired := func(job string) int { return r.count(`SELECT count(*) FROM execution_past WHERE job = '` + job + `'`) }
	r.nodes[0].until("three firings", func() bool { return fired("plain") >= 3 })
	leader := r.leader()
	leader.kill()
	before := fired("plain")
	r.nodes[0].until("firings of another server", func() bool { return fired("plain") >= before+8 })
	other := r.alive()[0]
	other.must("POST", "/api/v1/scheduler/jobs/plain/pause", nil, nil)
	r.nodes[0].until("the firings of the job that follows", func() bool { return fired("follower") == fired("plain") })
	at := `SELECT (outputs::json ->> 'at')::timestamptz AS at FROM execution WHERE job = 'plain'`
	for query, want := range map[string]int{
		`SELECT count(*) - count(DISTINCT at) FROM (` + at + `) x`:                                                           0, // once each
		`SELECT extract(epoch FROM max(at) - min(at))::int + 1 - count(*) FROM (` + at + `) x`:                               0, // and none is missing
		`SELECT count(*) FROM execution WHERE status <> 4`:                                                                   0,
		`SELECT count(*) - count(DISTINCT params::json #>> '{_trigger,execution_id}') FROM execution WHERE job = 'follower'`: 0,
	} {
		// A firing that was under way when the job was paused ends, and is followed.
		r.nodes[0].until(query, func() bool { return r.count(query) == want })
	}
}

// leader is the server that fires the schedules.
func (r *fleetRig) leader() *fleetNode {
	r.t.Helper()
	for _, n := range r.alive() {
		if r.count(`SELECT count(*) FROM role JOIN node ON node.no = role.node WHERE role.name = 'scheduler' AND node.address = 'http://`+n.address+`'`) == 1 {
			return n
		}
	}
	r.t.Fatal("no server fires schedules")
	return nil
}

// TestFleetSignals: an event ends all steps that wait for it, on all servers, and one that comes before them is found on any.
func TestFleetSignals(t *testing.T) {
	r := newFleetRig(t, postgrestest.URL(t), 2)
	a, b := r.nodes[0], r.nodes[1]
	a.must("POST", "/api/v1/pipelines", api.Object{"document": `name: waits
parameters: [{name: key, type: string}]
steps:
  - {id: wait, action: util.wait_for, params: {event: "{{ params.key }}"}}
outputs: {size: "{{ steps.wait.outputs.size }}"}
`}, nil)
	start := func(n *fleetNode, key string) {
		if _, err := n.client.Execute(t.Context(), api.ExecuteRequest{Workflow: "waits", Params: api.Object{"key": key}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	send := func(n *fleetNode, key string) {
		n.must("POST", "/api/v1/events", api.Object{"type": "made", "key": key, "data": api.Object{"size": 7}}, nil)
	}
	for _, key := range []string{"here", "there"} {
		for range 3 {
			start(a, key)
			start(b, key)
		}
	}
	start(a, "far")
	r.nodes[0].until("the steps to wait", func() bool { return r.count(`SELECT count(*) FROM waiting`) == 13 })
	send(a, "here")
	send(b, "there")
	send(b, "far")
	for i := range 20 {
		key := fmt.Sprint("early-", i)
		send(r.nodes[i%2], key)
		start(r.nodes[(i+1)%2], key)
	}
	r.nodes[0].until("the end of all", func() bool {
		return r.count(`SELECT count(*) FROM execution_past WHERE status = 4 AND outputs::json ->> 'size' = '7'`) == 33
	})
}

// TestFleetChanges: what is changed through one server is known to the other: keys, secrets, webhooks, event triggers, schedules and clusters.
func TestFleetChanges(t *testing.T) {
	r := newFleetRig(t, postgrestest.URL(t), 2)
	a, b := r.nodes[0], r.nodes[1]
	a.must("POST", "/api/v1/pipelines", api.Object{"document": "name: hello\nsteps:\n  - {id: a, action: util.log, params: {message: \"{{ secrets.word }}\"}}\n"}, nil)
	a.must("PUT", "/api/v1/secrets/word", api.Object{"value": "swordfish"}, nil)
	a.must("POST", "/api/v1/webhooks", api.Object{"webhook_id": "hook", "auth": "none", "allowed_ips": []string{"127.0.0.1"}, "callback": api.Object{"workflow_id": "hello"}}, nil)
	a.must("POST", "/api/v1/event-triggers", api.Object{"trigger_id": "made", "event_type": "made", "callback": api.Object{"workflow_id": "hello"}}, nil)
	a.must("POST", "/api/v1/scheduler/jobs", api.Object{"job_id": "nightly", "schedule": api.Object{"type": "cron", "expression": "0 3 * * *"}, "callback": api.Object{"workflow_id": "hello"}}, nil)
	ok := func(method, path string, body any) func() bool {
		return func() bool { return b.client.Call(t.Context(), method, path, nil, body, nil) == nil }
	}
	b.until("the webhook", ok("POST", "/api/v1/webhooks/hook/trigger", api.Object{"payload": api.Object{}}))
	b.until("the schedule", ok("POST", "/api/v1/scheduler/jobs/nightly/trigger", api.Object{}))
	b.until("the event trigger", func() bool {
		b.must("POST", "/api/v1/events", api.Object{"type": "made"}, nil)
		return r.count(`SELECT count(*) FROM execution WHERE job = 'made'`) > 0
	})
	b.until("the secret", func() bool { return r.count(`SELECT count(*) FROM execution_past WHERE status = 4`) >= 3 })
	if n := r.count(`SELECT count(*) FROM log_line WHERE message LIKE '%swordfish%'`); n != 0 {
		t.Errorf("%d lines show the secret", n)
	}
	const kubeconfig = `{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "u", "user": {"token": "swordfish"}}]}`
	a.must("POST", "/api/v1/clusters", api.Object{"id": "eu", "kubeconfig": kubeconfig}, nil)
	b.until("the cluster", ok("GET", "/api/v1/clusters/eu", nil))
	b.must("DELETE", "/api/v1/clusters/eu", nil, nil)
	a.until("the cluster to be gone", func() bool {
		return stepwell.CodeOf(a.client.Call(t.Context(), "GET", "/api/v1/clusters/eu", nil, nil, nil)) == stepwell.CodeNotFound
	})
	a.must("DELETE", "/api/v1/webhooks/hook", nil, nil)
	b.until("the webhook to be gone", func() bool {
		return stepwell.CodeOf(b.client.Call(t.Context(), "POST", "/api/v1/webhooks/hook/trigger", nil, api.Object{"payload": api.Object{}}, nil)) == stepwell.CodeNotFound
	})
	// The first key shuts both servers for those who have none, and opens them for those who have it.
	var made struct {
		Token string `json:"token"`
	}
	a.must("POST", "/api/v1/keys", api.Object{"name": "me", "role": "admin"}, &made)
	b.until("the key", func() bool {
		return stepwell.CodeOf(b.client.Call(t.Context(), "GET", "/api/v1/pipelines", nil, nil, nil)) == stepwell.CodeUnauthenticated
	})
	keyed, err := client.New(client.Options{URL: "http://" + b.address, Token: made.Token})
	if err != nil {
		t.Fatal(err)
	}
	if err := keyed.Call(t.Context(), http.MethodGet, "/api/v1/pipelines", nil, nil, nil); err != nil || strings.TrimSpace(made.Token) == "" {
		t.Errorf("with the key: %v", err)
	}
}
