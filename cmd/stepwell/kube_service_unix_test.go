//go:build unix

package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/api"
)

// jobService stands in for the service of budpipeline §6.2 that runs jobs on clusters.
type jobService struct {
	mu      sync.Mutex
	jobs    map[string]*serviceJob
	made    int // jobs that were ever made
	created []object
	heads   []http.Header
	hook    func(q *http.Request, serve func()) // nil: none
}

type serviceJob struct{ uid, status, err, logs string }

func (s *jobService) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var body object
	_ = json.NewDecoder(q.Body).Decode(&body) // a GET has none
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook == nil {
		s.serve(w, q, body)
		return
	}
	hook(q, func() { s.serve(w, q, body) })
}

func (s *jobService) serve(w http.ResponseWriter, q *http.Request, body object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := strings.TrimPrefix(q.URL.Path, "/api/v1/k8s/jobs")
	name, what, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	if q.Method == "POST" && rest == "" {
		name, _ = body["job_name"].(string)
		s.created, s.heads = append(s.created, body), append(s.heads, q.Header.Clone())
		if s.jobs[name] != nil {
			http.Error(w, `{"detail": "exists"}`, http.StatusConflict)
			return
		}
		s.made++
		s.jobs[name] = &serviceJob{uid: fmt.Sprint("uid-", s.made), status: "running", logs: "first\n"}
	}
	job := s.jobs[name]
	about := q.URL.Query().Get("cluster_id") + q.URL.Query().Get("namespace")
	if body != nil {
		about = fmt.Sprint(body["cluster_id"], body["namespace"])
	}
	switch {
	case about != "c-17bud-jobs":
		http.Error(w, `{"detail": "which cluster"}`, http.StatusUnprocessableEntity)
	case job == nil:
		http.Error(w, `{"detail": "no such job"}`, http.StatusNotFound)
	case q.Method == "DELETE":
		delete(s.jobs, name)
	case q.Method == "GET" && what == "logs" && q.URL.Query().Get("tail_lines") == "1000":
		_ = json.NewEncoder(w).Encode(object{"logs": job.logs})
	case q.Method == "POST":
		_ = json.NewEncoder(w).Encode(object{"job_uid": job.uid})
	case q.Method == "GET" && what == "status":
		_ = json.NewEncoder(w).Encode(object{"status": job.status, "error": job.err})
	default:
		http.Error(w, "", http.StatusBadRequest)
	}
}

// each changes all jobs.
func (s *jobService) each(change func(j *serviceJob)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		change(j)
	}
}

func (s *jobService) ends(status, err, logs string) {
	s.each(func(j *serviceJob) { j.status, j.err, j.logs = status, err, j.logs+logs })
}

// count is how many jobs there are, and how many were ever made.
func (s *jobService) count() (there, made int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs), s.made
}

// serviceRig is a server with a cluster behind a service.
type serviceRig struct {
	*crashRig
	service *jobService
}

// awaits waits until so many jobs were made for an execution that has not ended.
func (r *serviceRig) awaits(id string, jobs int) {
	r.t.Helper()
	r.until("the job", func() bool {
		var x struct {
			Status string
			Error  json.RawMessage
		}
		if r.client.Call(r.t.Context(), "GET", pathTo("executions", id), nil, nil, &x) == nil && x.Status == "failed" {
			r.t.Fatalf("the execution has failed: %s", x.Error)
		}
		_, made := r.service.count()
		return made == jobs
	})
}

func newServiceRig(t *testing.T) *serviceRig {
	t.Helper()
	r := &serviceRig{crashRig: newCrashRig(t), service: &jobService{jobs: map[string]*serviceJob{}}}
	s := httptest.NewServer(r.service)
	t.Cleanup(s.Close)
	r.set(fmt.Sprintf("services: {apps: {budcluster: %q}}\nkubernetes: {clusters: {legacy: {service: budcluster, service_id: c-17}}}\n", s.URL))
	return r
}

// job starts an execution of one step with these parameters.
func (r *serviceRig) job(params string) string {
	r.t.Helper()
	id, err := r.try(params)
	must(r.t, err)
	return id
}

func (r *serviceRig) try(params string) (string, error) {
	name := "jobs-" + strings.ToLower(rand.Text())
	document := "name: " + name + "\nsteps:\n  - {id: work, action: external.k8s.job, retry: {max_attempts: 1}, params: {" + params + "}}\noutputs: {uid: \"{{ steps.work.outputs.job_uid }}\", n: \"{{ steps.work.outputs.n | default('none') }}\"}\n"
	if err := r.client.Call(r.t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": document}, nil); err != nil {
		return "", err
	}
	x, err := r.client.Execute(r.t.Context(), api.ExecuteRequest{Workflow: name}, "")
	if err != nil {
		return "", err
	}
	return x.ID, nil
}

// ended waits for the end of an execution, and returns all of it.
func (r *serviceRig) ended(id, status string) (text string) {
	r.t.Helper()
	r.until("the end of "+id, func() bool {
		var x map[string]any
		if r.client.Call(r.t.Context(), "GET", pathTo("executions", id), nil, nil, &x) != nil || !slices.Contains([]any{"completed", "failed", "cancelled"}, x["status"]) {
			return false
		}
		if x["status"] != status {
			r.t.Fatalf("the execution is %v, want %s: %v", x["status"], status, x)
		}
		raw, err := json.Marshal(x)
		must(r.t, err)
		text = string(raw)
		return true
	})
	return text
}

// TestJobsOfAService runs jobs on a cluster that is behind a service (budpipeline §6.2).
func TestJobsOfAService(t *testing.T) {
	r := newServiceRig(t)
	r.start()
	t.Run("outputs, log and what is submitted", func(t *testing.T) {
		id := r.job("image: any, command: [train], env_vars: {A: b}, gpu_count: 2, timeout_seconds: 60, ttl_seconds: 5, outputs_from: last_line")
		r.awaits(id, 1)
		r.service.ends("completed", "", "{\"n\": 7, \"job_uid\": \"lie\"}\n")
		x := r.ended(id, "completed")
		sent, head := r.service.created[0], r.service.heads[0]
		for _, want := range []string{`"n":7`, `"uid":"uid-1"`} {
			if !strings.Contains(x, want) {
				t.Errorf("the execution lacks %s: %s", want, x)
			}
		}
		if raw, _ := json.Marshal(sent); sent["image"] != "any" || sent["gpu_count"] != 2.0 || sent["active_deadline_seconds"] != 60.0 || sent["ttl_seconds_after_finished"] != 5.0 ||
			!strings.Contains(string(raw), `"bud-step-id":"work"`) || head.Get("X-Execution-Id") != id || head.Get("X-Step-Id") != "work" || head.Get("Idempotency-Key") == "" {
			t.Errorf("submitted %s with %v", raw, head)
		}
		var log json.RawMessage
		must(t, r.client.Call(t.Context(), "GET", pathTo("executions", id, "logs"), nil, nil, &log))
		if !strings.Contains(string(log), `"first"`) {
			t.Errorf("the log is %s", log)
		}
		var list struct{ Clusters []api.Cluster }
		must(t, r.client.Call(t.Context(), "GET", "/api/v1/clusters", nil, nil, &list))
		if c := list.Clusters[0]; c.Kind != "service" || c.Server != "budcluster" || c.State != "ok" || c.Namespace != "bud-jobs" {
			t.Errorf("the cluster is %+v", c)
		}
	})
	t.Run("a job that fails", func(t *testing.T) {
		id := r.job("image: any")
		r.awaits(id, 2)
		r.service.ends("failed", "", "no luck\n")
		if x := r.ended(id, "failed"); !strings.Contains(x, "no luck") {
			t.Error(x)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		id := r.job("image: any")
		r.awaits(id, 3)
		must(t, r.client.Call(t.Context(), "POST", pathTo("executions", id, "cancel"), nil, object{}, nil))
		r.until("its deletion", func() bool { there, _ := r.service.count(); return there == 2 })
	})
	t.Run("a job of somebody else", func(t *testing.T) {
		r.service.mu.Lock()
		r.service.jobs["mine"] = &serviceJob{uid: "other", status: "completed"}
		r.service.mu.Unlock()
		if x := r.ended(r.job("image: any, job_name: mine"), "failed"); !strings.Contains(x, "not this step's") || !strings.Contains(x, "choose another name") {
			t.Error(x)
		}
		if there, made := r.service.count(); there != 3 || made != 3 {
			t.Errorf("%d jobs, %d were made", there, made)
		}
	})
	for params, words := range map[string]string{
		"image: any, env_from_secrets: {A: b}":                 "env_from_secrets: the cluster legacy is behind the service budcluster",
		"image: any, completions: 3":                           "completions: the cluster",
		"manifest: {spec: {}}":                                 "manifest: the cluster",
		"image: any, outputs_from: termination_message":        "set last_line",
		"image: any, cluster_id: legacy, namespace: elsewhere": "may not use the namespace elsewhere",
	} {
		t.Run(params, func(t *testing.T) {
			id, err := r.try(params)
			said := fmt.Sprint(err)
			if err == nil {
				said = r.ended(id, "failed")
			}
			if !strings.Contains(said, words) {
				t.Errorf("%s: %s", params, said)
			}
		})
	}
}

// TestJobOfAServiceOnceThoughKilled kills the server at every point of a job that a service runs. The service makes one job.
func TestJobOfAServiceOnceThoughKilled(t *testing.T) {
	for name, at := range map[string]struct {
		call   string
		before bool // of the service's knowing
		params string
	}{
		"before it is made":              {call: "POST jobs", before: true},
		"before its maker knows":         {call: "POST jobs"},
		"before its maker knows, named":  {call: "POST jobs", params: ", job_name: mine"},
		"when its status is asked for":   {call: "GET status", before: true},
		"when its log is asked for":      {call: "GET logs"},
		"when the name is looked for":    {call: "GET status", before: true, params: ", job_name: mine"},
		"when it is about to be deleted": {call: "DELETE", before: true},
		"when it has been deleted":       {call: "DELETE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newServiceRig(t)
			reached, dead := make(chan struct{}), make(chan struct{})
			var once sync.Once
			r.service.hook = func(q *http.Request, serve func()) {
				_, last, _ := strings.Cut(q.URL.Path, "k8s/")
				hit := false
				if method, end, _ := strings.Cut(at.call, " "); q.Method == method && strings.HasSuffix(last, end) {
					once.Do(func() { hit = true })
				}
				if !hit || !at.before {
					serve()
				}
				if hit {
					close(reached)
					<-dead
					panic(http.ErrAbortHandler)
				}
			}
			r.start()
			id := r.job("image: any" + at.params)
			cancels := at.call == "DELETE"
			if at.call != "POST jobs" && at.params == "" {
				r.awaits(id, 1)
			}
			if cancels {
				must(t, r.client.Call(t.Context(), "POST", pathTo("executions", id, "cancel"), nil, object{}, nil))
			} else if at.call == "GET logs" {
				r.service.ends("completed", "", "")
			}
			select {
			case <-reached:
			case <-time.After(time.Minute):
				t.Error("the point was not reached")
			}
			r.kill()
			close(dead)
			r.start()
			if cancels {
				r.until("its deletion", func() bool { there, _ := r.service.count(); return there == 0 })
				r.ended(id, "cancelled")
			} else {
				r.awaits(id, 1)
				r.service.ends("completed", "", "")
				r.ended(id, "completed")
			}
			if _, made := r.service.count(); made != 1 {
				t.Errorf("%d jobs were made", made)
			}
		})
	}
}
