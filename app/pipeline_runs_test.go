package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/spec"
)

// lessonSteps is an action whose steps do what a test says.
type lessonSteps struct {
	mu sync.Mutex
	do map[string]func(ctx context.Context, attempt int) (any, error) // by step; others give their key
	n  map[string]int                                                 // calls by execution and step

	running map[string]int // steps by execution
	most    int            // that ran at once in one execution
}

func newLessonSteps() *lessonSteps {
	return &lessonSteps{do: map[string]func(context.Context, int) (any, error){}, n: map[string]int{}, running: map[string]int{}}
}

func (l *lessonSteps) on(step string, do func(ctx context.Context, attempt int) (any, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.do[step] = do
}

func (l *lessonSteps) calls(run, step string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[run+" "+step]
}

func (l *lessonSteps) register(r *action.Registry) error {
	return r.Add(action.Action{Spec: spec.Spec{Name: "test.lesson", Summary: "Works on a lesson."}, Handler: action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
		l.mu.Lock()
		l.n[c.Execution+" "+c.StepKey]++
		do := l.do[c.StepKey]
		l.running[c.Execution]++
		l.most = max(l.most, l.running[c.Execution])
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.running[c.Execution]--
		}()
		if do != nil {
			return do(ctx, c.Attempt)
		}
		return map[string]any{"result": c.StepKey + " done"}, nil
	})})
}

// lessonRig is a server with a project of lessons and a pipeline.
type lessonRig struct {
	*serverRig
	steps   *lessonSteps
	lessons *project.Lessons
	version string
}

const lessonPipeline = `name: lessons
settings: {sequential: true}
steps:
  - {id: transcribe, name: Transcribe, action: test.lesson, source: media}
  - {id: outline, action: test.lesson}
  - {id: quiz, action: test.lesson}
`

func serveLessons(t *testing.T, db string, lessons int, change func(*app.ServerOptions)) *lessonRig {
	t.Helper()
	steps := newLessonSteps()
	s := serve(t, db, newGate(), func(o *app.ServerOptions) {
		o.Register = steps.register
		if change != nil {
			change(o)
		}
	})
	r := &lessonRig{serverRig: s, steps: steps}
	r.lessons = project.NewLessons(project.LessonOptions{Objects: s.Store, Projects: project.New(s.Store, nil)})
	r.post("/projects", `{"id":"course","name":"A course"}`)
	for i := range lessons {
		r.lesson(fmt.Sprintf("l%04d", i), true)
	}
	r.version = r.store(lessonPipeline)
	return r
}

// lesson adds a lesson to the project.
func (r *lessonRig) lesson(id string, media bool) {
	r.t.Helper()
	_, err := r.lessons.Create(r.t.Context(), &project.LessonDraft{ID: id, Project: "course", Name: "Lesson " + id}, "test")
	if err == nil && media {
		_, err = r.lessons.SetMedia(r.t.Context(), id, &project.Media{File: project.File{Name: "a.mp4", Type: "video/mp4", Bytes: 3, SHA256: "00"}, Ref: "@ref-" + id})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// store stores a pipeline, or its next version, and gives the version's id.
func (r *lessonRig) store(document string) string {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{"document": document})
	if err != nil {
		r.t.Fatal(err)
	}
	code, out := r.send("POST", "/api/v1/pipelines", string(body), nil)
	if code == http.StatusConflict {
		code, out = r.send("PUT", "/api/v1/pipelines/lessons", string(body), nil)
	}
	if code > 299 {
		r.t.Fatalf("%d %v", code, out)
	}
	return fmt.Sprintf("%s:%.0f", out["pipeline_id"], out["version"])
}

// run is a pipeline run as the API shows it.
type run struct {
	ID     string
	Status string
	State  struct {
		Reason, Held  string
		StopRequested bool `json:"stop_requested"`
	}
	Lesson struct {
		ID, Name string
		Project  struct{ ID, Name string }
	}
	Version struct {
		ID, Title string
		Version   int
	} `json:"pipeline_version"`
	Steps []struct {
		ID, Status, Name, Type string
		Position, Attempts     int
		Started                *string `json:"start_time"`
		Ended                  *string `json:"end_time"`
		Result                 json.RawMessage
		Error                  *struct{ Code, Message string }
		InputTokens            int `json:"input_tokens"`
		Cost                   json.Number
	}
	InputTokens int `json:"input_tokens"`
	Cost        json.Number
}

func (x *run) statuses() string {
	list := []string{x.Status + ":"}
	for i := range x.Steps {
		list = append(list, x.Steps[i].Status)
	}
	return strings.Join(list, " ")
}

// do asks for something and gives the run in the answer.
func (r *lessonRig) do(method, path, body string) (int, *run) {
	r.t.Helper()
	code, out := r.send(method, "/api/v1/pipeline-runs"+path, body, nil)
	raw, err := json.Marshal(out["data"])
	x := &run{}
	if err == nil && code < 300 {
		err = json.Unmarshal(raw, x)
	}
	if err != nil {
		r.t.Fatalf("%s: %v", raw, err)
	}
	return code, x
}

func (r *lessonRig) start(lesson string) *run {
	r.t.Helper()
	code, x := r.do("POST", "", fmt.Sprintf(`{"lesson_id":%q,"pipeline_version_id":%q}`, lesson, r.version))
	if code != http.StatusCreated {
		r.t.Fatal(code)
	}
	return x
}

// shows waits until a run has statuses.
func (r *lessonRig) shows(id, statuses string) *run {
	r.t.Helper()
	var x *run
	last := ""
	r.until("run "+statuses, func() bool {
		_, x = r.do("GET", "/"+id, "{}")
		if now := x.statuses(); now != last {
			last = now
			r.t.Log(now)
		}
		return last == statuses
	})
	return x
}

func (r *lessonRig) stop() {
	r.Drain()
	r.ended()
}

func TestPipelineRun(t *testing.T) {
	s := serveLessons(t, t.TempDir()+"/d.db", 1, nil)
	defer s.stop()
	s.steps.on("outline", func(context.Context, int) (any, error) {
		return nil, action.Fail(fmt.Errorf("no outline"))
	})
	x := s.start("l0000")
	if x.Lesson.ID != "l0000" || x.Lesson.Name != "Lesson l0000" || x.Lesson.Project.Name != "A course" || x.Version.ID != s.version || x.Version.Title != "lessons" {
		t.Errorf("started: %+v", x)
	}
	x = s.shows(x.ID, "failed: done failed pending")
	if string(x.Steps[0].Result) != `"transcribe done"` || x.Steps[0].Error != nil || x.Steps[0].Name != "Transcribe" || x.Steps[0].Type != "test.lesson" ||
		x.Steps[1].Error == nil || string(x.Steps[1].Result) != "null" && x.Steps[1].Result != nil || x.Steps[2].Ended != nil || x.State.Reason != "failed" {
		t.Errorf("failed: %+v", x)
	}
	s.steps.on("outline", nil)
	code, _ := s.do("POST", "/"+x.ID+"/restart", fmt.Sprintf(`{"step_id":%q}`, x.ID+":3"))
	if code != http.StatusConflict {
		t.Errorf("a restart behind the failed step: %d", code)
	}
	for step, want := range map[string]int{x.ID + ":4": 422, "0197a1b2-0000-7000-8000-000000000000:2": 422, x.ID: 422, x.ID + ":0": 422, x.ID + ":02": 422} {
		if code, _ := s.do("POST", "/"+x.ID+"/restart", fmt.Sprintf(`{"step_id":%q}`, step)); code != want {
			t.Errorf("restart of %s: %d", step, code)
		}
	}
	if code, _ = s.do("POST", "/"+x.ID+"/start", "{}"); code != http.StatusOK {
		t.Errorf("start: %d", code)
	}
	x = s.shows(x.ID, "done: done done done")
	if s.steps.calls(x.ID, "transcribe") != 1 || s.steps.calls(x.ID, "outline") != 2 {
		t.Errorf("calls: %v", s.steps.n)
	}
	if code, _ := s.do("POST", "/"+x.ID+"/start", "{}"); code != http.StatusConflict {
		t.Errorf("start of a run that is done: %d", code)
	}
	if code, _ := s.do("POST", "/"+x.ID+"/restart", fmt.Sprintf(`{"step_id":%q}`, x.ID+":3")); code != http.StatusOK {
		t.Errorf("restart: %d", code)
	}
	x = s.shows(x.ID, "done: done done done")
	if s.steps.calls(x.ID, "outline") != 2 || s.steps.calls(x.ID, "quiz") != 2 {
		t.Errorf("calls: %v", s.steps.n)
	}
}

// gated has a step wait, in each attempt, until the test lets it end.
type gated struct {
	began chan int // attempts
	end   chan string
}

func (r *lessonRig) gate(step string) *gated {
	g := &gated{make(chan int, 16), make(chan string)}
	r.steps.on(step, func(ctx context.Context, attempt int) (any, error) {
		g.began <- attempt
		select {
		case result := <-g.end:
			return map[string]any{"result": result}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return g
}

// Pause lets the running step end; stop resets it, and drops what it still gives; start goes on.
func TestPipelineRunPauseStopStart(t *testing.T) {
	s := serveLessons(t, t.TempDir()+"/d.db", 1, nil)
	defer s.stop()
	g := s.gate("outline")
	x := s.start("l0000")
	<-g.began
	if code, _ := s.do("POST", "/"+x.ID+"/pause", "{}"); code != http.StatusOK {
		t.Fatal(code)
	}
	g.end <- "first"
	s.shows(x.ID, "paused: done done pending")
	if code, x := s.do("POST", "/"+x.ID+"/start", "{}"); code != http.StatusOK || x.State.StopRequested {
		t.Fatal(code, x)
	}
	x = s.shows(x.ID, "done: done done done")
	if string(x.Steps[1].Result) != `"first"` {
		t.Errorf("result: %s", x.Steps[1].Result)
	}

	x = s.start("l0000")
	<-g.began
	code, x := s.do("POST", "/"+x.ID+"/stop", "{}")
	if code != http.StatusOK || x.statuses() != "paused: done pending pending" || !x.State.StopRequested {
		t.Fatalf("stopped: %d %s %+v", code, x.statuses(), x.State)
	}
	if code, x = s.do("POST", "/"+x.ID+"/stop", "{}"); code != http.StatusOK || x.statuses() != "paused: done pending pending" {
		t.Fatalf("stopped twice: %d %s", code, x.statuses())
	}
	if code, x = s.do("POST", "/"+x.ID+"/start", "{}"); code != http.StatusOK || x.State.StopRequested {
		t.Fatal(code, x)
	}
	<-g.began
	g.end <- "again"
	x = s.shows(x.ID, "done: done done done")
	if string(x.Steps[1].Result) != `"again"` || s.steps.calls(x.ID, "transcribe") != 1 || s.steps.calls(x.ID, "outline") != 2 {
		t.Errorf("result: %s, calls: %v", x.Steps[1].Result, s.steps.n)
	}
	if code, _ := s.do("POST", "/"+x.ID+"/pause", "{}"); code != http.StatusConflict {
		t.Errorf("pause of a run that is done: %d", code)
	}
}

// A restart while the step runs, twice at once: the step begins anew, the earlier results stay, and the late result of the old attempt, which
// does not hear of its cancellation, is dropped.
func TestRestartTwiceWhileTheStepRunsAndItsLateResult(t *testing.T) {
	s := serveLessons(t, t.TempDir()+"/d.db", 1, nil)
	defer s.stop()
	late, began, ended := make(chan struct{}), make(chan int, 1), make(chan struct{})
	s.steps.on("outline", func(_ context.Context, attempt int) (any, error) {
		defer close(ended)
		began <- attempt
		select {
		case <-late:
		case <-time.After(20 * time.Second):
		}
		return map[string]any{"result": "late"}, nil
	})
	x := s.start("l0000")
	<-began
	s.steps.on("outline", func(context.Context, int) (any, error) { return map[string]any{"result": "new"}, nil })
	step := fmt.Sprintf(`{"step_id":%q}`, x.ID+":2")
	var g sync.WaitGroup
	for range 2 {
		g.Go(func() {
			if code, _ := s.do("POST", "/"+x.ID+"/restart", step); code != http.StatusOK {
				t.Errorf("restart: %d", code)
			}
		})
	}
	g.Wait()
	s.shows(x.ID, "done: done done done")
	close(late)
	<-ended
	for range 20 {
		if _, x = s.do("GET", "/"+x.ID, ""); string(x.Steps[1].Result) != `"new"` || x.Status != "done" {
			t.Fatalf("after the late result: %s %s", x.Status, x.Steps[1].Result)
		}
	}
	if n := s.steps.calls(x.ID, "transcribe"); n != 1 {
		t.Errorf("transcribe ran %d times", n)
	}
}

// A restart during a cancel is refused until the run has ended, and then goes on with the results of the steps before it.
func TestRestartDuringCancel(t *testing.T) {
	s := serveLessons(t, t.TempDir()+"/d.db", 1, nil)
	defer s.stop()
	leave, began := make(chan struct{}), make(chan int, 1)
	s.steps.on("quiz", func(ctx context.Context, attempt int) (any, error) { // it takes its time to stop
		began <- attempt
		<-ctx.Done()
		<-leave
		return nil, ctx.Err()
	})
	x := s.start("l0000")
	<-began
	if code, _ := s.request("POST", "/api/v1/executions/"+x.ID+"/cancel"); code != http.StatusOK {
		t.Fatal(code)
	}
	step := fmt.Sprintf(`{"step_id":%q}`, x.ID+":2")
	if code, _ := s.do("POST", "/"+x.ID+"/restart", step); code != http.StatusConflict {
		t.Errorf("restart while it is cancelled: %d", code)
	}
	close(leave)
	x = s.shows(x.ID, "failed: done done failed")
	if x.State.Reason != "cancelled" {
		t.Errorf("state: %+v", x.State)
	}
	gate := s.gate("quiz")
	if code, _ := s.do("POST", "/"+x.ID+"/restart", step); code != http.StatusOK {
		t.Fatal(code)
	}
	<-gate.began
	gate.end <- "quiz"
	x = s.shows(x.ID, "done: done done done")
	if s.steps.calls(x.ID, "outline") != 2 || s.steps.calls(x.ID, "quiz") != 2 || s.steps.calls(x.ID, "transcribe") != 1 {
		t.Errorf("calls: %v", s.steps.n)
	}
}

// The queue has what is queued and running, oldest first, without results; its stream begins with that and tells of each change.
func TestPipelineRunQueue(t *testing.T) {
	s := serveLessons(t, t.TempDir()+"/d.db", 3, nil)
	defer s.stop()
	g := s.gate("outline")
	follow := s.followQueue()
	if first := follow.next(); first.name != "queue-snapshot" || string(first.data) != `{"data":[],"more":false}` {
		t.Fatalf("at first: %s %s", first.name, first.data)
	}
	var ids []string
	for _, l := range []string{"l0000", "l0001", "l0002"} {
		ids = append(ids, s.start(l).ID)
		<-g.began
	}
	code, out := s.request("GET", "/api/v1/pipeline-runs/queue?limit=2")
	raw, _ := json.Marshal(out)
	if list := out["data"].([]any); code != 200 || len(list) != 2 || list[0].(map[string]any)["id"] != ids[0] || list[1].(map[string]any)["id"] != ids[1] || strings.Contains(string(raw), `"result"`) || strings.Contains(string(raw), `"error"`) {
		t.Errorf("queue: %s", raw)
	}
	_, out = s.request("GET", "/api/v1/pipeline-runs/queue?limit=2&cursor="+out["next_cursor"].(string))
	if list := out["data"].([]any); len(list) != 1 || list[0].(map[string]any)["id"] != ids[2] || out["next_cursor"] != nil {
		t.Errorf("second page: %v", out)
	}
	for _, l := range []struct {
		query string
		want  int
	}{{"lesson_id=l0001", 1}, {"project_id=course", 3}, {"project_id=other", 0}, {"status=running", 3}, {"status=done", 0}, {"pipeline_version_id=" + s.version, 3}, {"pipeline_version_id=" + s.version + "1", 0}, {"limit=2", 2}} {
		if _, out = s.request("GET", "/api/v1/pipeline-runs?"+l.query); len(out["data"].([]any)) != l.want {
			t.Errorf("%s: %v", l.query, out)
		}
	}
	updated, removed := map[string]bool{}, map[string]bool{}
	tell := func() {
		e := follow.next()
		var x struct{ ID, Data json.RawMessage }
		var one run
		if err := json.Unmarshal(e.data, &x); err != nil {
			t.Fatalf("%s: %v", e.data, err)
		}
		switch e.name {
		case "queue-run-updated":
			if err := json.Unmarshal(x.Data, &one); err != nil {
				t.Fatalf("%s: %v", e.data, err)
			}
			updated[one.ID] = true
		case "queue-run-removed":
			removed[strings.Trim(string(x.ID), `"`)] = true
		default:
			t.Fatalf("%s %s", e.name, e.data)
		}
	}
	for len(updated) < 3 {
		tell()
	}
	s.do("POST", "/"+ids[1]+"/pause", "{}")
	for range 3 {
		g.end <- "outline"
	}
	s.shows(ids[0], "done: done done done")
	s.shows(ids[1], "paused: done done pending")
	s.shows(ids[2], "done: done done done")
	for len(removed) < 3 {
		tell()
	}
	for _, id := range ids {
		if !updated[id] || !removed[id] {
			t.Errorf("run %s: updated %v, removed %v", id, updated[id], removed[id])
		}
	}
	if _, out = s.request("GET", "/api/v1/pipeline-runs/queue"); len(out["data"].([]any)) != 0 {
		t.Errorf("at the end: %v", out)
	}
}

// queueStream is a follower of the queue.
type queueStream struct {
	t    *testing.T
	scan *bufio.Scanner
}

type queueEvent struct {
	name string
	data []byte
}

func (r *lessonRig) followQueue() *queueStream {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "GET", r.URL()+"/api/v1/pipeline-runs/events/queue", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := (&http.Client{}).Do(req) // as long as the test
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		r.t.Fatal(resp, err)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(nil, 1<<20)
	return &queueStream{r.t, scan}
}

// next is the next event.
func (q *queueStream) next() (e queueEvent) {
	q.t.Helper()
	for q.scan.Scan() {
		switch line := q.scan.Text(); {
		case line == "" && e.name != "":
			return e
		case strings.HasPrefix(line, "event: "):
			e.name = line[7:]
		case strings.HasPrefix(line, "data: "):
			e.data = []byte(line[6:])
		}
	}
	q.t.Fatalf("the stream has ended: %v", q.scan.Err())
	return e
}

// One run for each lesson of a project, in a window: each counts once, the project finishes once, and the same request again starts no
// second ones.
func TestPipelineRunsOfProject(t *testing.T) {
	const lessons = 40
	s := serveLessons(t, t.TempDir()+"/d.db", lessons, nil)
	defer s.stop()
	s.lesson("without", false)
	g := s.gate("transcribe")
	body := fmt.Sprintf(`{"project_id":"course","pipeline_version_id":%q,"window":3}`, s.version)
	header := func() http.Header { return http.Header{"Idempotency-Key": {"all"}} }
	code, out := s.send("POST", "/api/v1/pipeline-runs", body, header())
	bulk, _ := out["data"].(map[string]any)
	if code != http.StatusCreated || bulk["started"] != float64(lessons) || bulk["lessons"] != float64(lessons+1) || bulk["refused"] != 1.0 || bulk["bulk_id"] != "all" {
		t.Fatalf("%d %v", code, out)
	}
	if why := bulk["refusals"].([]any)[0].(map[string]any); why["lesson_id"] != "without" {
		t.Errorf("refused: %v", why)
	}
	for range 3 {
		<-g.began
	}
	if _, p := s.request("GET", "/api/v1/projects/course/progress"); p["total"] != float64(lessons) || p["status"] != "PROCESSING" || p["done"] != 0.0 {
		t.Errorf("progress at first: %v", p)
	}
	_, out = s.request("GET", "/api/v1/pipeline-runs/queue?limit=200")
	count := map[any]int{}
	queued := ""
	for _, x := range out["data"].([]any) {
		one := x.(map[string]any)
		count[one["status"]]++
		if one["state"].(map[string]any)["held"] != nil {
			queued = one["id"].(string)
		}
	}
	if len(out["data"].([]any)) != lessons || len(g.began) != 0 {
		t.Errorf("queue: %v, %d more have begun", count, len(g.began))
	}
	for _, change := range []string{"pause", "stop", "start"} { // none of them lets it begin before its turn, or loses it
		if code, x := s.do("POST", "/"+queued+"/"+change, "{}"); code != http.StatusOK || !strings.HasPrefix(x.State.Held, "nothing of it has run") {
			t.Errorf("%s of a queued run: %d %+v", change, code, x)
		}
	}
	code, out = s.send("POST", "/api/v1/pipeline-runs", body, header())
	if bulk = out["data"].(map[string]any); code != http.StatusOK || bulk["started"] != 0.0 || bulk["started_before"] != float64(lessons) {
		t.Errorf("again: %d %v", code, out)
	}
	code, out = s.send("POST", "/api/v1/pipeline-runs", strings.Replace(body, `"window":3`, `"window":4`, 1), header())
	if code != http.StatusConflict {
		t.Errorf("another request with the key: %d %v", code, out)
	}
	s.steps.on("transcribe", nil)
	for range 3 {
		g.end <- "x"
	}
	s.until("the project is done", func() bool {
		_, p := s.request("GET", "/api/v1/projects/course/progress")
		return p["status"] == "DONE" && p["done"] == float64(lessons) && p["errors"] == 0.0
	})
	if _, out = s.request("GET", "/api/v1/pipeline-runs?limit=200&status=done"); len(out["data"].([]any)) != lessons {
		t.Errorf("%d runs are done", len(out["data"].([]any)))
	}
	s.steps.mu.Lock()
	if s.steps.most != 1 || len(s.steps.n) != 3*lessons {
		t.Errorf("%d steps of a run at once, %d steps of %d", s.steps.most, len(s.steps.n), 3*lessons)
	}
	for step, n := range s.steps.n {
		if n != 1 {
			t.Errorf("%s ran %d times", step, n)
		}
	}
	s.steps.mu.Unlock()
	// A second time: the project begins anew.
	code, out = s.send("POST", "/api/v1/pipeline-runs", body, nil)
	if bulk = out["data"].(map[string]any); code != http.StatusCreated || bulk["started"] != float64(lessons) {
		t.Errorf("a second time: %d %v", code, out)
	}
	s.until("the project is done again", func() bool {
		_, p := s.request("GET", "/api/v1/projects/course/progress")
		return p["status"] == "DONE" && p["done"] == float64(lessons) && p["total"] == float64(lessons)
	})
}
