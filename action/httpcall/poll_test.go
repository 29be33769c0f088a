package httpcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/outbound"
)

// jobs is a service whose jobs are done after some questions.
type jobs struct {
	*httptest.Server
	mu        sync.Mutex
	submitted []string // idempotency keys
	asked     int
	headers   http.Header // of the last question
	answers   []string    // of the questions; the last one stays. "503" and the like are statuses
}

func newJobs(t testing.TB, answers ...string) *jobs {
	j := &jobs{answers: answers}
	j.Server = httptest.NewServer(j)
	t.Cleanup(j.Close)
	return j
}

// ServeHTTP implements http.Handler.
func (j *jobs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost {
		j.submitted = append(j.submitted, r.Header.Get("Idempotency-Key"))
		w.Header().Set("Location", fmt.Sprintf("/jobs/job-%d", len(j.submitted)))
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"id": "job-%d", "number": 12345678901234567890}`, len(j.submitted))
		return
	}
	j.headers = r.Header.Clone()
	answer := j.answers[min(j.asked, len(j.answers)-1)]
	j.asked++
	status := 0
	if _, err := fmt.Sscanf(answer, "%d", &status); err == nil {
		w.WriteHeader(status)
		return
	}
	fmt.Fprint(w, strings.ReplaceAll(answer, "PATH", r.URL.Path))
}

// worker runs a step as the system does: the first value of a record stays, and a state goes with the
// step until a crash.
type worker struct {
	t      *testing.T
	action action.Action
	params values
	memory map[string]json.RawMessage
	state  json.RawMessage
}

func newWorker(t *testing.T, params values) *worker {
	return &worker{t: t, action: named(t, registry(t, outbound.Options{}), "util.http"), params: params, memory: map[string]json.RawMessage{}}
}

// call runs one call of the handler in the given attempt.
func (w *worker) call(attempt int) actiontest.Result {
	w.t.Helper()
	before := maps.Clone(w.memory)
	c := actiontest.Call{Params: w.params, Memory: w.memory, Attempt: attempt, Execution: "e1", StepKey: "render"}
	if w.state != nil {
		c.State = w.state
	}
	r := actiontest.Run(w.t.Context(), w.action, c)
	for key, v := range before {
		if string(w.memory[key]) != string(v) {
			w.t.Errorf("record %s was written twice", key)
		}
	}
	w.state = nil
	if r.Wait != nil {
		w.state = r.Wait.State
	}
	return r
}

func pollParamsOf(url string, more values) values {
	poll := values{"job": "body.id", "url": url + "/jobs/{{ job }}", "until": "body.state == 'done'", "fail_if": "body.state == 'failed'", "interval": "10s", "max_interval": "20s"}
	maps.Copy(poll, more)
	return values{"url": url + "/jobs", "json": values{"scene": 1}, "headers": values{"Authorization": "Bearer poll-secret"}, "poll": poll, "outputs": values{"result": "body.result"}}
}

// TestPoll follows a job from submission to result.
func TestPoll(t *testing.T) {
	s := newJobs(t, `{"state": "queued"}`, `{"state": "running"}`, `{"state": "running"}`, `{"state": "done", "result": "PATH"}`)
	w := newWorker(t, pollParamsOf(s.URL, nil))
	var pauses []time.Duration
	for range 4 {
		r := w.call(1)
		if r.Wait == nil || !r.Wait.Resume || r.Wait.ExternalID != "job-1" {
			t.Fatalf("%+v, %v", r.Wait, r.Err)
		}
		pauses = append(pauses, time.Until(r.Wait.Until).Round(time.Second))
	}
	if diff := cmp.Diff([]time.Duration{10 * time.Second, 15 * time.Second, 20 * time.Second, 20 * time.Second}, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	out := good(t, w.call(1))
	if out["result"] != "/jobs/job-1" || out["job"] != "job-1" || out["status"] != int64(200) {
		t.Errorf("%v", out)
	}
	if diff := cmp.Diff([]string{"e1/render"}, s.submitted); diff != "" {
		t.Errorf("submissions (-want +got):\n%s", diff)
	}
	if s.headers.Get("Authorization") != "Bearer poll-secret" || s.headers.Get("Idempotency-Key") != "" || s.headers.Get("Content-Type") != "" {
		t.Errorf("headers of a question: %v", s.headers)
	}
	if raw := fmt.Sprint(w.memory); strings.Contains(raw, "poll-secret") {
		t.Errorf("the record has a secret: %s", raw)
	}
}

// TestPollCrash loses the state after every call, as a killed worker does: the server sees one submission.
func TestPollCrash(t *testing.T) {
	s := newJobs(t, `{"state": "queued"}`, `{"state": "queued"}`, `{"state": "done", "result": 42}`)
	w := newWorker(t, pollParamsOf(s.URL, nil))
	for attempt := 1; attempt <= 3; attempt++ {
		if r := w.call(attempt); r.Wait == nil {
			t.Fatalf("attempt %d: %v", attempt, r.Err)
		}
		w.state = nil
	}
	if out := good(t, w.call(4)); out["result"] != int64(42) || len(s.submitted) != 1 || s.asked != 3 {
		t.Errorf("%v after %d submissions and %d questions", out, len(s.submitted), s.asked)
	}
	// Killed between the response and the record, it cannot know; the server can, by the key.
	w.memory = map[string]json.RawMessage{}
	if w.call(5); len(s.submitted) != 2 || s.submitted[0] != s.submitted[1] {
		t.Errorf("submissions %v, want the same key", s.submitted)
	}
}

// TestPollLocation asks where the response says, and keeps what identifies the job whole.
func TestPollLocation(t *testing.T) {
	s := newJobs(t, `{"state": "done", "result": "PATH"}`)
	p := pollParamsOf(s.URL, values{"job": "body.number"})
	delete(p["poll"].(values), "url")
	w := newWorker(t, p)
	if r := w.call(1); r.Wait == nil || r.Wait.ExternalID != "12345678901234567890" {
		t.Fatalf("%+v, %v", r.Wait, r.Err)
	}
	out := good(t, w.call(1))
	if out["result"] != "/jobs/job-1" || fmt.Sprint(out["job"]) != "12345678901234567890" {
		t.Errorf("%v", out)
	}

	other := newJobs(t, `{"state": "done"}`)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", other.URL+"/jobs/1")
		w.WriteHeader(http.StatusAccepted)
	}))
	defer away.Close()
	for _, poll := range []values{{"until": "body.state == 'done'"}, {"until": "body.state == 'done'", "headers": values{"Authorization": "Bearer poll-secret", "X-Plain": "yes"}}} {
		p["url"], p["poll"] = away.URL, poll
		w = newWorker(t, p)
		if r := w.call(1); r.Wait == nil {
			t.Fatal(r.Err)
		}
		good(t, w.call(1))
		if got := other.headers.Get("Authorization"); got != "" || poll["headers"] != nil && other.headers["X-Plain"] == nil {
			t.Errorf("the credential went to another origin: %v", other.headers)
		}
	}
}

// TestPollUser keeps the user of the URL out of the record and gives it to the questions.
func TestPollUser(t *testing.T) {
	s := newJobs(t, `{"state": "done"}`)
	p := pollParamsOf(s.URL, nil)
	delete(p["poll"].(values), "url")
	delete(p, "headers")
	p["url"] = strings.Replace(s.URL, "http://", "http://user:hunter2-password@", 1) + "/jobs"
	w := newWorker(t, p)
	w.call(1)
	for key, raw := range w.memory {
		if strings.Contains(string(raw), "hunter2") {
			t.Errorf("record %s: %s", key, raw)
		}
	}
	good(t, w.call(1))
	if !strings.HasPrefix(s.headers.Get("Authorization"), "Basic ") {
		t.Errorf("headers of the question: %v", s.headers)
	}
}

// TestPollTrouble goes on asking through passing trouble, and ends for what is final.
func TestPollTrouble(t *testing.T) {
	s := newJobs(t, "503", "502", `{"state": "done", "result": 1}`)
	w := newWorker(t, pollParamsOf(s.URL, nil))
	for range 3 {
		if r := w.call(1); r.Wait == nil {
			t.Fatal(r.Err)
		}
	}
	good(t, w.call(1))

	s = newJobs(t, "503")
	w = newWorker(t, pollParamsOf(s.URL, values{"max_errors": 2}))
	waits := 0
	for {
		r := w.call(1)
		if r.Wait == nil {
			if retry, ok := errors.AsType[*action.RetryError](r.Err); !ok || retry.Defer || waits != 3 {
				t.Errorf("after %d waits: %v", waits, r.Err)
			}
			break
		}
		waits++
	}
	if r := w.call(2); r.Wait == nil || len(s.submitted) != 1 {
		t.Errorf("the next attempt: %v, %d submissions", r.Err, len(s.submitted))
	}

	s = newJobs(t, "404")
	w = newWorker(t, pollParamsOf(s.URL, nil))
	w.call(1)
	if r := w.call(1); !action.IsFail(r.Err) {
		t.Errorf("a job that is gone: %v", r.Err)
	}
}

// TestPollFailed submits a new job in the next attempt, with a key of its own.
func TestPollFailed(t *testing.T) {
	s := newJobs(t, `{"state": "failed", "reason": "out of disk"}`, `{"state": "done", "result": "PATH"}`)
	w := newWorker(t, pollParamsOf(s.URL, nil))
	w.call(1)
	r := w.call(1)
	if r.Err == nil || action.IsFail(r.Err) || !strings.Contains(r.Err.Error(), "out of disk") {
		t.Fatalf("%v", r.Err)
	}
	w.call(2)
	if out := good(t, w.call(2)); out["result"] != "/jobs/job-2" {
		t.Errorf("%v", out)
	}
	if diff := cmp.Diff([]string{"e1/render", "e1/render#2"}, s.submitted); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestPollDeadline(t *testing.T) {
	for _, answer := range []string{`{"state": "running"}`, "503"} {
		s := newJobs(t, answer)
		w := newWorker(t, pollParamsOf(s.URL, values{"deadline": 0.05}))
		r := w.call(1)
		if r.Wait == nil || time.Until(r.Wait.Until) > 100*time.Millisecond {
			t.Fatalf("%+v, %v", r.Wait, r.Err)
		}
		<-time.After(time.Until(r.Wait.Until))
		if r = w.call(1); !action.IsFail(r.Err) || stepwell.CodeOf(r.Err) != stepwell.CodeTimeout || s.asked != 1 {
			t.Errorf("%s: %v after %d questions", answer, r.Err, s.asked)
		}
	}
}

func TestPollCannotFollow(t *testing.T) {
	s := newJobs(t, `{}`)
	for name, more := range map[string]values{"job": {"job": "body.nothing"}, "url": {"url": "{{ nobody }}"}, "headers": {"headers": values{"X": "{{ nobody }}"}}} {
		w := newWorker(t, pollParamsOf(s.URL, more))
		r := w.call(1)
		if r.Wait != nil {
			r = w.call(1)
		}
		if !action.IsFail(r.Err) {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
	nowhere := newWorker(t, values{"url": serving(t, "application/json", "{}"), "poll": values{"until": "body.done"}})
	if r := nowhere.call(1); !action.IsFail(r.Err) || !strings.Contains(stepwell.HintOf(r.Err), "poll.url") {
		t.Errorf("nowhere: %v", r.Err)
	}
	if keys := slices.Sorted(maps.Keys(nowhere.memory)); len(keys) != 0 {
		t.Errorf("recorded %v", keys)
	}
}
