//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// lessonsDocument takes a lesson through five calls of a service. Those of models go to workers; util.http stays with the server.
const lessonsDocument = `name: lessons
settings: {sequential: true}
parameters: [{name: service, type: string}]
steps:
  - {id: transcribe, action: ai.transcribe, source: media, params: {url: "{{ params.service }}/{{ execution.id }}/transcribe", model: m, file: "{{ source.path }}"}}
  - {id: outline, action: ai.chat, params: {url: "{{ params.service }}/{{ execution.id }}/outline", model: m, prompt: "{{ source }}"}}
  - id: summary
    action: ai.chat
    timeout_seconds: 3
    retry: {max_attempts: 3, backoff_seconds: 0.05}
    params: {url: "{{ params.service }}/{{ execution.id }}/summary", model: m, prompt: "{{ source }}"}
  - id: publish
    action: util.http
    params: {url: "{{ params.service }}/{{ execution.id }}/publish", json: {text: "{{ source }}"}, outputs: {result: body.text}}
  - id: notify
    action: util.http
    params: {url: "{{ params.service }}/{{ execution.id }}/notify", json: {done: "{{ callback.url }}", text: "{{ source }}"}, callback: {timeout_seconds: 60}}
`

// lessonService is what the steps of lessons call. Its answers have the step's name and what it was given.
type lessonService struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	asked   map[string]int // requests by run and step
	running map[string]int // by run
	most    int            // that ran at once in one run
	faults  map[string]int // by step: this many requests meet its fault
	began   chan string    // steps whose fault is that they do not end
}

func newLessonService(t *testing.T) *lessonService {
	s := &lessonService{t: t, asked: map[string]int{}, running: map[string]int{}, faults: map[string]int{}, began: make(chan string, 16)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP answers a step.
func (s *lessonService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(r.URL.Path, "/")
	run, step := path[1], path[2]
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the worker was killed
	}
	s.mu.Lock()
	s.asked[run+" "+step]++
	s.running[run]++
	s.most = max(s.most, s.running[run])
	fault := s.faults[step] > 0
	if fault {
		s.faults[step]--
	}
	s.mu.Unlock()
	if fault && step != "publish" {
		s.began <- step
		<-r.Context().Done() // until the worker is killed or has waited long enough
	} else {
		time.Sleep(time.Millisecond)
	}
	s.mu.Lock()
	s.running[run]--
	s.mu.Unlock()
	switch {
	case fault && step == "publish":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case fault:
	case step == "notify":
		var in struct{ Done, Text string }
		if err := json.Unmarshal(body, &in); err != nil {
			s.t.Error(err)
		}
		go s.callBack(in.Done, in.Text)
	default:
		s.answer(w, r, step, body)
	}
}

func (s *lessonService) answer(w http.ResponseWriter, r *http.Request, step string, body []byte) {
	var in struct {
		Text     string
		Messages []struct{ Content string }
	}
	if step == "transcribe" {
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") || !bytes.Contains(body, []byte("the sound of a lesson")) || !bytes.Contains(body, []byte(`filename="a.mp3"`)) {
			s.t.Errorf("the media is not in %q", body)
		}
	} else if err := json.Unmarshal(body, &in); err != nil {
		s.t.Error(err)
	}
	text := in.Text
	for _, m := range in.Messages {
		text += m.Content
	}
	text = strings.TrimPrefix(text+">"+step, ">")
	out := object{"text": text}
	switch step {
	case "transcribe":
		out["duration"] = 12.5
	case "outline", "summary":
		out = object{"choices": []object{{"message": object{"content": text}, "finish_reason": "stop"}}, "usage": object{"prompt_tokens": 100, "completion_tokens": 10}}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(out); err != nil {
		s.t.Error(err)
	}
}

func (s *lessonService) callBack(url, text string) {
	raw, err := json.Marshal(object{"status": "completed", "outputs": object{"result": text + ">notify"}})
	if err != nil {
		s.t.Error(err)
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(raw))
	if err != nil {
		s.t.Error(err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		s.t.Errorf("the callback: %s", resp.Status)
	}
}

func (s *lessonService) fail(step string, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[step] = times
}

// atOnce is how many steps of one run have run at once.
func (s *lessonService) atOnce() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// requests are those of a run by step.
func (s *lessonService) requests(run string) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for key, n := range s.asked {
		if step, ok := strings.CutPrefix(key, run+" "); ok {
			out[step] = n
		}
	}
	return out
}

// runsRig is a server whose pipeline runs are watched.
type runsRig struct {
	t       *testing.T
	client  *client.Client
	service *lessonService
}

// prepare stores the pipeline, and a project with lessons that have a file.
func (r *runsRig) prepare(document string, lessons int) {
	r.t.Helper()
	ctx := r.t.Context()
	must(r.t, r.client.Call(ctx, "POST", "/api/v1/pipelines", nil, object{"document": document}, nil))
	_, err := r.client.Projects().Create(ctx, api.NewProject{ID: "course"})
	must(r.t, err)
	sound := "the sound of a lesson"
	for n := range lessons {
		id := fmt.Sprint("l", n)
		_, err := r.client.Lessons().Create(ctx, api.NewLesson{Project: "course", ID: id, Name: "Lesson " + id})
		must(r.t, err)
		if n == 0 {
			_, err = r.client.Upload(ctx, id, &client.File{Name: "a.mp3", Bytes: int64(len(sound)), Content: strings.NewReader(sound)}, nil)
			must(r.t, err)
		}
	}
}

func (r *runsRig) start(lesson string) string {
	r.t.Helper()
	x, err := r.client.StartRun(r.t.Context(), api.StartPipelineRun{Lesson: lesson, Pipeline: "lessons", Params: api.Object{"service": r.service.URL}}, "")
	must(r.t, err)
	return x.ID
}

// shows waits until a run and its steps have statuses.
func (r *runsRig) shows(id, want string) *api.PipelineRun {
	r.t.Helper()
	last := ""
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		x, err := r.client.Run(r.t.Context(), id)
		now := fmt.Sprint(err)
		if err == nil {
			now = x.Status + ":"
			for i := range x.Steps {
				now += " " + x.Steps[i].Status
			}
		}
		if now == want {
			return x
		}
		if now != last {
			r.t.Log(now)
			last = now
		}
		if time.Now().After(end) {
			r.t.Fatalf("the run is %s, want %s", now, want)
		}
	}
}

// stepText is the result of a step, "" while there is none.
func stepText(x *api.PipelineRun, step int) (text string) {
	if raw := x.Steps[step].Result; raw == nil || json.Unmarshal(*raw, &text) != nil {
		return ""
	}
	return text
}

// attempts are those in the history of a run, by step.
func (r *runsRig) attempts(id string) map[string]int {
	r.t.Helper()
	h, err := r.client.History(r.t.Context(), api.ListHistory{ExecutionPath: api.ExecutionPath{ID: id}, Limit: 1000})
	must(r.t, err)
	out := map[string]int{}
	for _, e := range h.Events {
		if e.Type == "started" {
			out[e.Step]++
		}
	}
	return out
}

// TestM7LessonPipeline takes a lesson through five requests, of which one loses its worker, one its time and one meets a limit.
func TestM7LessonPipeline(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		c := newCrashRig(t)
		c.start()
		lessonPipeline(&runsRig{t, c.client, newLessonService(t)}, func() {
			c.kill()
			c.start()
		})
	})
	t.Run("postgres and redis", func(t *testing.T) {
		t.Parallel()
		r := newRedisRig(t, "http: {allow_private: true}\nlog: {level: warn}\nserver: {worker_lease_seconds: 2, limits: {rate: 100000, burst: 100000}}\nqueues: {pipelines: {}}\n", "--workers", "0", "--db", postgrestest.URL(t))
		worker := func(name string) *exec.Cmd {
			return r.program("worker", "--server", r.url, "--redis", "redis://"+r.redis.Address(), "--name", name, "--queues", "pipelines")
		}
		first := worker("first")
		lessonPipeline(&runsRig{t, r.client, newLessonService(t)}, func() {
			r.kill(first)
			worker("second")
		})
		if info, err := redistest.Do(r.redis.Address(), "INFO", "commandstats"); err != nil || !strings.Contains(info, "cmdstat_lpush") {
			t.Errorf("the steps were not in Redis: %v\n%s", err, info)
		}
	})
}

func lessonPipeline(r *runsRig, kill func()) {
	t := r.t
	r.prepare(lessonsDocument, 1)
	for _, step := range []string{"outline", "summary", "publish"} {
		r.service.fail(step, 1)
	}
	id := r.start("l0")
	if step := <-r.service.began; step != "outline" {
		t.Fatalf("%s does not end", step)
	}
	var queue json.RawMessage
	must(t, r.client.Call(t.Context(), "GET", "/api/v1/pipeline-runs/queue", nil, nil, &queue))
	if text := string(queue); !strings.Contains(text, id) || strings.Contains(text, `"result"`) || strings.Contains(text, `"error"`) {
		t.Errorf("queue: %s", queue)
	}
	r.shows(id, "running: done running pending pending pending")
	kill()
	x := r.shows(id, "done: done done done done done")
	text := ""
	for i, step := range []string{"transcribe", "outline", "summary", "publish", "notify"} {
		s := &x.Steps[i]
		text = strings.TrimPrefix(text+">"+step, ">")
		if s.Position != i+1 || s.Key != step || s.ID != fmt.Sprintf("%s:%d", id, i+1) || stepText(x, i) != text || s.Started.IsZero() || s.Ended.Before(s.Started.Time) {
			t.Errorf("step %d: %+v %s", i+1, s, stepText(x, i))
		}
	}
	if x.InputTokens != 200 || x.OutputTokens != 20 || x.AudioSeconds != 12.5 || x.Steps[2].InputTokens != 100 {
		t.Errorf("used: %+v", x.Usage)
	}
	asked := map[string]int{"transcribe": 1, "outline": 2, "summary": 2, "publish": 2, "notify": 1}
	if got := r.service.requests(id); !maps.Equal(got, asked) {
		t.Errorf("requests %v, want %v", got, asked)
	}
	if got := r.attempts(id); !maps.Equal(got, asked) {
		t.Errorf("attempts %v, want %v", got, asked)
	}

	r.service.fail("summary", 1)
	before := x
	_, err := r.client.RestartRun(t.Context(), id, x.Steps[2].ID)
	must(t, err)
	<-r.service.began
	x, err = r.client.Run(t.Context(), id)
	must(t, err)
	for i := range x.Steps {
		s, old := &x.Steps[i], &before.Steps[i]
		if i < 2 && (s.Status != "done" || stepText(x, i) != stepText(before, i) || !s.Ended.Equal(old.Ended.Time)) || i >= 2 && (s.Status == "done" || stepText(x, i) != "") || i > 2 && s.Status != "pending" {
			t.Errorf("restarted, step %d: %+v %s", i+1, s, stepText(x, i))
		}
	}
	x = r.shows(id, "done: done done done done done")
	asked = map[string]int{"transcribe": 1, "outline": 2, "summary": 4, "publish": 3, "notify": 2}
	if got := r.service.requests(id); !maps.Equal(got, asked) || r.service.atOnce() != 1 {
		t.Errorf("requests %v, want %v; %d at once", got, asked, r.service.atOnce())
	}
	if got := r.attempts(id); !maps.Equal(got, asked) {
		t.Errorf("attempts %v, want %v", got, asked)
	}
	if x.InputTokens != 300 || x.AudioSeconds != 12.5 {
		t.Errorf("used: %+v", x.Usage)
	}
}
