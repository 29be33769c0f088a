package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
)

// crashPipelines are four ways of being under way when the server is killed.
var crashPipelines = map[string]string{
	"timers": `
name: timers
parameters: [{name: n, type: integer}]
steps:
  - {id: wait, action: util.wait, params: {seconds: 2}}
  - {id: done, action: util.set_output, depends_on: [wait], params: {n: "{{ params.n }}"}}
outputs: {n: "{{ steps.done.outputs.n }}"}
`,
	"approvals": `
name: approvals
parameters: [{name: n, type: integer}]
steps:
  - {id: ask, action: util.approval, params: {message: "number {{ params.n }}?"}}
  - {id: done, action: util.set_output, depends_on: [ask], params: {n: "{{ params.n }}", said: "{{ steps.ask.outputs.comment }}"}}
outputs: {n: "{{ steps.done.outputs.n }}", said: "{{ steps.done.outputs.said }}"}
`,
	"callbacks": `
name: callbacks
parameters: [{name: n, type: integer}, {name: service, type: string}]
steps:
  - {id: call, action: util.http, params: {url: "{{ params.service }}/{{ params.n }}", method: POST, callback: {timeout_seconds: 3600}}, retry: {max_attempts: 10, backoff_seconds: 0.05}}
  - {id: done, action: util.set_output, depends_on: [call], params: {n: "{{ steps.call.outputs.n }}"}}
outputs: {n: "{{ steps.done.outputs.n }}"}
`,
	"work": `
name: work
parameters: [{name: n, type: integer}]
steps:
  - {id: each, action: util.wait, for_each: 5, params: {seconds: 0.3}}
  - {id: done, action: util.set_output, depends_on: [each], params: {n: "{{ params.n + steps.each.outputs.completed - 5 }}"}}
outputs: {n: "{{ steps.done.outputs.n }}"}
`,
}

// crashRig is a server that is killed, and what is around it.
type crashRig struct {
	t       *testing.T
	dir     string
	address string
	flags   []string // more of serve
	env     []string // more variables of it
	client  *client.Client
	process *exec.Cmd
	service *httptest.Server

	mu   sync.Mutex
	urls map[string]string // where the service calls back, by number
}

func newCrashRig(t *testing.T) *crashRig {
	r := &crashRig{t: t, dir: t.TempDir(), address: freeAddress(), urls: map[string]string{}}
	r.service = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.urls[strings.TrimPrefix(q.URL.Path, "/")] = q.Header.Get("X-Stepwell-Callback")
	}))
	t.Cleanup(r.service.Close)
	r.set("")
	var err error
	if r.client, err = client.New(client.Options{URL: "http://" + r.address, HTTP: http.DefaultClient}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	return r
}

// set writes the settings of the server, with more of them.
func (r *crashRig) set(more string) {
	r.t.Helper()
	settings := "http: {allow_private: true}\nserver: {limits: {rate: 100000, burst: 100000}}\nlog: {level: warn}\n" + more
	if err := os.WriteFile(filepath.Join(r.dir, "stepwell.yaml"), []byte(settings), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// start begins a life of the server and waits until it is ready.
func (r *crashRig) start() {
	r.t.Helper()
	r.process = exec.Command("stepwell", append([]string{"serve", "--listen", r.address, "--workers", "64"}, r.flags...)...)
	r.process.Dir, r.process.Env = r.dir, append(os.Environ(), r.env...)
	var out bytes.Buffer
	r.process.Stdout, r.process.Stderr = &out, &out
	if err := r.process.Start(); err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if r.t.Failed() {
			r.kill()
			r.t.Logf("the server at %s:\n%s", r.address, out.String())
		}
	}()
	r.until("the server", func() bool {
		var ready struct{ Ready bool }
		return r.client.Call(r.t.Context(), "GET", "/api/v1/ready", nil, nil, &ready) == nil && ready.Ready
	})
}

// kill ends the life at once.
func (r *crashRig) kill() {
	if r.process != nil {
		_ = r.process.Process.Kill()
		_ = r.process.Wait() // it was killed
		r.process = nil
	}
}

// until waits for a condition.
func (r *crashRig) until(what string, there func() bool) {
	r.t.Helper()
	deadline := time.After(90 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-deadline:
			r.t.Fatalf("%s did not come", what)
		case <-tick.C:
		}
	}
}

// crashKinds and crashEach make 200 executions.
var crashKinds = []string{"timers", "approvals", "callbacks", "work"}

const crashEach = 50

// begin asks for the executions from a number on, each under a key of its own, and gives the ids. What a dead server did
// not answer is missing.
func (r *crashRig) begin(ids *sync.Map, from, to int) {
	var g errgroup.Group
	g.SetLimit(16)
	for n := from; n < to; n++ {
		for _, kind := range crashKinds {
			g.Go(func() error {
				params := api.Object{"n": n}
				if kind == "callbacks" {
					params["service"] = r.service.URL
				}
				name := fmt.Sprintf("%s-%d", kind, n)
				answer, err := r.client.Execute(r.t.Context(), api.ExecuteRequest{Workflow: kind, Params: params}, name)
				if stepwell.CodeOf(err) == stepwell.CodeUnavailable {
					return nil // killed: it is asked for again
				}
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if old, again := ids.LoadOrStore(name, answer.ID); again && old != answer.ID {
					return fmt.Errorf("%s was started twice: %v and %s", name, old, answer.ID)
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		r.t.Fatal(err)
	}
}

// approve answers the questions that there are, as many as most, and says how many it answered.
func (r *crashRig) approve(most int) int {
	rows, err := r.client.Pages(r.t.Context(), "/api/v1/approvals", "approvals", url.Values{}, maxList)
	if err != nil {
		return 0 // killed
	}
	done := 0
	for _, row := range rows[:min(most, len(rows))] {
		id, _ := row["approval_id"].(string)
		err := r.client.Call(r.t.Context(), "POST", pathTo("approvals", id, "approve"), nil, object{"comment": "continue"}, nil)
		switch stepwell.CodeOf(err) {
		case "", stepwell.CodeConflict, stepwell.CodeNotFound: // answered before: its repetition changes nothing
			done++
		case stepwell.CodeUnavailable:
			return done
		default:
			r.t.Error(err)
			return done
		}
	}
	return done
}

// callBack calls back what the service was asked, each number at most once unless again.
func (r *crashRig) callBack(numbers ...int) {
	for _, n := range numbers {
		r.mu.Lock()
		address := r.urls[fmt.Sprint(n)]
		r.mu.Unlock()
		if address == "" {
			continue // not asked yet
		}
		body := fmt.Sprintf(`{"status":"completed","outputs":{"n":%d}}`, n)
		req, err := http.NewRequestWithContext(r.t.Context(), "POST", address, strings.NewReader(body))
		if err != nil {
			r.t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return // killed
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode >= 400 && resp.StatusCode != http.StatusServiceUnavailable {
			r.t.Errorf("callback %d: %s %s", n, resp.Status, text)
			return
		}
	}
}

// count is how many executions have a status.
func (r *crashRig) count(status string) int {
	rows, err := r.client.Pages(r.t.Context(), "/api/v1/executions", "executions", url.Values{"status": {status}}, maxList)
	if err != nil {
		return -1
	}
	return len(rows)
}

func numbers(from, to int) (list []int) {
	for n := from; n < to; n++ {
		list = append(list, n)
	}
	return list
}

// The server is killed while 200 executions run or wait for timers, decisions and callbacks, four times over: while they
// are started, while all wait, and in the middle of the answers. In the end each was started once and has come to its end
// with its own result, and each step completed once.
func TestKillNineOfTheServer(t *testing.T) {
	t.Parallel()
	r := newCrashRig(t)
	r.start()
	for _, name := range crashKinds {
		if err := r.client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": crashPipelines[name]}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var ids sync.Map
	killed := make(chan struct{})
	go func() { // in the middle of the starts
		defer close(killed)
		deadline := time.After(time.Minute)
		for n := 0; n < 60; {
			select {
			case <-deadline:
				return
			case <-time.After(time.Millisecond):
				n = 0
				ids.Range(func(any, any) bool { n++; return true })
			}
		}
		r.kill()
	}()
	r.begin(&ids, 0, crashEach)
	<-killed
	r.start()
	r.begin(&ids, 0, crashEach) // again, with the same keys
	r.until("the questions", func() bool { return r.count("running")+r.count("completed") == len(crashKinds)*crashEach })
	r.kill()

	r.start()
	r.until("some answers", func() bool { return r.approve(10) > 0 })
	r.callBack(numbers(0, 20)...)
	r.kill()

	r.start()
	var g errgroup.Group
	g.Go(func() error { r.approve(20); return nil })
	g.Go(func() error { r.callBack(numbers(10, 40)...); return nil })
	g.Go(func() error {
		if r.count("completed") < 0 {
			return errors.New("the server does not answer")
		}
		r.kill() // somewhere in the middle
		return nil
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}

	r.start()
	r.until("the ends", func() bool {
		r.approve(maxList)
		r.callBack(numbers(0, crashEach)...)
		return r.count("completed") == len(crashKinds)*crashEach
	})
	if rows, err := r.client.Pages(t.Context(), "/api/v1/executions", "executions", url.Values{}, maxList); err != nil || len(rows) != len(crashKinds)*crashEach {
		t.Fatalf("%d executions, %v", len(rows), err)
	}
	ids.Range(func(name, id any) bool {
		if err := r.check(t.Context(), name.(string), id.(string)); err != nil {
			t.Error(err)
		}
		return true
	})
}

// check looks at one execution: its result, and that each step completed once.
func (r *crashRig) check(ctx context.Context, name, id string) error {
	var x struct {
		Status   string         `json:"status"`
		Pipeline string         `json:"pipeline"`
		Result   map[string]any `json:"result"`
	}
	if err := r.client.Call(ctx, "GET", pathTo("executions", id), nil, nil, &x); err != nil {
		return err
	}
	got := fmt.Sprintf("%s-%v", x.Pipeline, x.Result["n"])
	if x.Status != "completed" || got != name || x.Pipeline == "approvals" && x.Result["said"] != "continue" {
		return fmt.Errorf("%s: %s with %v", name, x.Status, x.Result)
	}
	var history struct {
		Events []struct {
			Step string `json:"step_id"`
			Type string `json:"event_type"`
		} `json:"events"`
	}
	if err := r.client.Call(ctx, "GET", pathTo("executions", id, "history"), nil, nil, &history); err != nil {
		return err
	}
	completed := map[string]int{}
	for _, e := range history.Events {
		if e.Type == "completed" {
			completed[e.Step]++
		}
	}
	for step, n := range completed {
		if n != 1 && step != "" {
			return fmt.Errorf("%s: step %s completed %d times", name, step, n)
		}
	}
	if completed["done"] != 1 {
		return fmt.Errorf("%s: the history does not have its last step: %v", name, completed)
	}
	return nil
}
