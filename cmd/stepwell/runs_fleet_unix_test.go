//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

const modelDocument = `name: lessons
settings: {sequential: true}
parameters: [{name: service, type: string}]
steps:
  - {id: outline, action: ai.chat, params: {url: "{{ params.service }}/{{ execution.id }}/outline", model: m, prompt: "{{ lesson.id }}"}}
  - {id: summary, action: ai.chat, params: {url: "{{ params.service }}/{{ execution.id }}/summary", model: m, prompt: "{{ source }}"}}
`

// doubleMessages moves the messages of one list to that of another database, each twice, until the test's end.
func doubleMessages(t *testing.T, redis *redistest.Server, list string) (moved func() int) {
	t.Helper()
	stop, ended, n := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			out, err := redistest.Do(redis.Address(), "BRPOP", list, "1")
			if err != nil {
				t.Error(err)
				return
			}
			if _, raw, ok := strings.Cut(out, "\n"); ok {
				if _, err := redistest.Do(redis.Address(), "1/LPUSH", list, raw, raw); err != nil {
					t.Error(err)
					return
				}
				n++
			}
		}
	}()
	return func() int {
		close(stop)
		<-ended
		return n
	}
}

// TestM8OneStepAtATime has two workers get each message twice: a run never has two steps at once, no step runs twice, and the project of
// the runs is finished once.
func TestM8OneStepAtATime(t *testing.T) {
	const runs = 200
	redis := redistest.New(t)
	address := "redis://" + redis.Address()
	r := serveRedis(t, redis, "http: {allow_private: true}\nlog: {level: warn}\nserver: {limits: {rate: 100000, burst: 100000}}\nqueues: {pipelines: {}}\nstate: {url: '"+address+"', db: 2, publish: stream}\n", "--workers", "0")
	for _, name := range []string{"first", "second"} {
		r.program("worker", "--server", r.url, "--redis", address+"/1", "--name", name, "--queues", "pipelines", "--concurrency", "16")
	}
	moved := doubleMessages(t, redis, "pipeline:steps:pipelines")
	x := &runsRig{t, r.client, newLessonService(t)}
	x.prepare(modelDocument, runs)
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": "name: finished\nsteps: [{id: s, action: util.noop, queue: pipelines}]\n"}, nil))
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/event-triggers", nil, object{"name": "t", "event_type": "job.completed", "callback": object{"type": "workflow", "workflow_id": "finished"}}, nil))
	all, err := r.client.StartRuns(t.Context(), api.StartPipelineRun{Project: "course", Pipeline: "lessons", Params: api.Object{"service": x.service.URL}}, "all")
	must(t, err)
	if all.Started != runs {
		t.Fatalf("started %+v", all)
	}
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) { // 40 s on a machine with other work
		var p struct {
			Status       string
			Done, Errors int
		}
		must(t, r.client.Call(t.Context(), "GET", "/api/v1/projects/course/progress", nil, nil, &p))
		if p.Status == "DONE" {
			if p.Done != runs || p.Errors != 0 {
				t.Errorf("progress %+v", p)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("progress %+v", p)
		}
	}
	if n := moved(); n < 2*runs {
		t.Errorf("%d messages were doubled", n)
	}
	x.service.mu.Lock()
	defer x.service.mu.Unlock()
	if x.service.most != 1 || len(x.service.asked) != 2*runs {
		t.Errorf("%d steps of a run at once; %d steps, want %d", x.service.most, len(x.service.asked), 2*runs)
	}
	for step, n := range x.service.asked {
		if id, key, _ := strings.Cut(step, " "); n != 1 && n != x.attempts(id)[key] {
			t.Errorf("%s was asked for %d times, with %d attempts", step, n, x.attempts(id)[key])
		}
	}
	x.finishedOnce(redis)
}

// finishedOnce waits for job.completed, as an event trigger and a stream have it, and counts it.
func (r *runsRig) finishedOnce(redis *redistest.Server) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var list struct{ Executions []struct{ Status string } }
		must(r.t, r.client.Call(r.t.Context(), "GET", "/api/v1/executions", url.Values{"pipeline": {"finished"}}, nil, &list))
		events, err := redistest.Do(redis.Address(), "2/XLEN", "smap.events")
		must(r.t, err)
		if done := len(list.Executions) == 1 && list.Executions[0].Status == "completed"; done && events == "1" {
			return
		}
		if time.Now().After(end) || len(list.Executions) > 1 || events > "1" {
			r.t.Fatalf("job.completed has started %+v, and is in the stream %s times", list.Executions, events)
		}
	}
}

// followQueue gives the events of the live queue of a server.
func followQueue(t *testing.T, server string) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", server+"/api/v1/pipeline-runs/events/queue", nil)
	must(t, err)
	resp, err := (&http.Client{}).Do(req) // as long as the test
	must(t, err)
	out := make(chan string, 1000)
	go func() {
		defer resp.Body.Close()
		defer close(out)
		name, lines := "", bufio.NewScanner(resp.Body)
		for lines.Buffer(nil, 1<<20); lines.Scan(); {
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = event
			} else if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				out <- name + " " + data
			}
		}
	}()
	return out
}

// queueEvent waits for an event of the live queue with all of some texts.
func queueEvent(t *testing.T, events <-chan string, texts ...string) {
	t.Helper()
	end := time.After(time.Minute)
next:
	for {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatal("the stream has ended")
			}
			for _, text := range texts {
				if !strings.Contains(e, text) {
					continue next
				}
			}
			return
		case <-end:
			t.Fatalf("no event with %q", texts)
		}
	}
}

// TestFleetPipelineRuns: a run can be restarted, paused and gone on with through another server than the one that runs it, and the queue is
// live on both.
func TestFleetPipelineRuns(t *testing.T) {
	t.Parallel()
	f := newServers(t, postgrestest.URL(t), 2, "16", "")
	service := newLessonService(t)
	rigs := []*runsRig{{t, f.nodes[0].client, service}, {t, f.nodes[1].client, service}}
	rigs[0].prepare(modelDocument, 1)
	var queues []<-chan string
	for _, n := range f.nodes {
		q := followQueue(t, "http://"+n.address)
		queueEvent(t, q, "queue-snapshot", `"data":[]`)
		queues = append(queues, q)
	}
	service.fail("summary", 2)
	id := rigs[0].start("l0")
	<-service.began
	for _, q := range queues {
		queueEvent(t, q, "queue-run-updated", id, `"status":"running"`)
	}
	if n := f.count(`SELECT count(*) FROM execution_live x JOIN node n ON n.no = x.owner WHERE n.address = 'http://` + f.nodes[0].address + `'`); n != 1 {
		t.Fatalf("the first server has %d runs", n)
	}
	other := rigs[1]
	_, err := other.client.RestartRun(t.Context(), id, id+":2") // while it runs
	must(t, err)
	<-service.began
	x, err := other.client.StopRun(t.Context(), id)
	must(t, err)
	if x.Status != "paused" || !x.State.StopRequested {
		t.Errorf("stopped: %+v", x)
	}
	for _, q := range queues {
		queueEvent(t, q, "queue-run-removed", id)
	}
	_, err = other.client.ResumeRun(t.Context(), id)
	must(t, err)
	other.shows(id, "done: done done")
	service.fail("summary", 1)
	_, err = other.client.RestartRun(t.Context(), id, id+":1") // after it has ended
	must(t, err)
	<-service.began
	for _, q := range queues {
		queueEvent(t, q, "queue-run-updated", id)
	}
	_, err = rigs[0].client.RestartRun(t.Context(), id, id+":2")
	must(t, err)
	for _, q := range queues {
		queueEvent(t, q, "queue-run-removed", id)
	}
	for _, r := range rigs {
		r.shows(id, "done: done done")
	}
	if got := fmt.Sprint(service.requests(id)); got != "map[outline:2 summary:5]" {
		t.Errorf("requests %s", got)
	}
}
