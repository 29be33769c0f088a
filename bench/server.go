package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/child"
)

// server is this program, serving as a child process.
type server struct {
	*child.Process
	base string // http://127.0.0.1:port
	api  *client.Client
}

// startServer starts a server on a free port, and returns when it is ready.
func (b *bench) startServer(db string, more ...string) (*server, error) {
	p, err := child.Start(b.dir, []string{"STEPWELL_SECRETS_KEY=" + masterKey(),
		"STEPWELL_SERVER_LIMITS_RATE=1000000", "STEPWELL_SERVER_LIMITS_BURST=1000000", "STEPWELL_SERVER_LIMITS_EXECUTIONS=0"},
		append([]string{"serve", "--db", db, "--sync", b.Sync, "--listen", "127.0.0.1:0"}, more...)...)
	if err != nil {
		return nil, err
	}
	s := &server{Process: p}
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	address, err := p.Address(ctx)
	if err != nil {
		return nil, errors.Join(err, s.end())
	}
	s.base = "http://" + address
	patient := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * serveInFlight}}
	if s.api, err = client.New(client.Options{URL: s.base, HTTP: patient}); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

// startServers starts all servers of a database, each with a folder of its own.
func (b *bench) startServers(db string, n int) (list []*server, err error) {
	for i := range n {
		var more []string
		if n > 1 {
			more = []string{"--data", filepath.Join(b.dir, "node-"+strconv.Itoa(i))}
		}
		s, err := b.startServer(db, more...)
		if err != nil {
			return list, err
		}
		list = append(list, s)
	}
	return list, nil
}

// end stops the server.
func (s *server) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		return fmt.Errorf("the server: %w", err)
	}
	return nil
}

// call makes a call, which begins below /api/v1; body is JSON.
func (s *server) call(ctx context.Context, method, path, body string, into any) error {
	var content any
	if body != "" {
		content = json.RawMessage(body)
	}
	return s.api.Call(ctx, method, "/api/v1"+path, nil, content, into)
}

// failed counts a failure and prints the first.
func (l *serveLoad) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.failures.Add(1)
	l.complain.Do(func() { fmt.Fprintln(os.Stderr, "bench serve:", err) })
}

// any is the next of the servers, as a load balancer chooses.
func (l *serveLoad) any() *server { return l.servers[int(l.turn.Add(1))%len(l.servers)] }

// objectsKnown is how long servers may take until they know what another has stored.
const objectsKnown = 2 * time.Second

// prepare stores the pipeline and the schedules.
func (l *serveLoad) prepare(ctx context.Context) (workflow string, err error) {
	var p struct {
		ID string `json:"pipeline_id"`
	}
	if err := l.any().call(ctx, http.MethodPost, "/pipelines", `{"document":`+servePipeline+`}`, &p); err != nil {
		return "", err
	}
	defer func() {
		if len(l.servers) > 1 && err == nil {
			err = action.Pause(ctx, objectsKnown)
		}
	}()
	for i := range serveSchedules {
		job := fmt.Sprintf(`{"job_id":"bench-%d","name":"bench-%d","schedule":{"type":"interval","expression":"@every 5s","timezone":"UTC"},"callback":{"type":"action","action_type":"util.noop","params":{}}}`, i, i)
		if err := l.any().call(ctx, http.MethodPost, "/scheduler/jobs", job, nil); err != nil {
			return "", err
		}
	}
	return p.ID, nil
}

// remove deletes what prepare has stored, so that the next run finds the database without it.
func (l *serveLoad) remove(ctx context.Context, workflow string) error {
	for i := range serveSchedules {
		if err := l.any().call(ctx, http.MethodDelete, fmt.Sprintf("/scheduler/jobs/bench-%d", i), "", nil); err != nil {
			return err
		}
	}
	return l.any().call(ctx, http.MethodDelete, "/pipelines/"+workflow, "", nil)
}

type started struct {
	ID string `json:"execution_id"`
}

// execution starts one and follows it to its end.
func (l *serveLoad) execution(ctx context.Context, workflow string) {
	var x started
	at := time.Now()
	if err := l.any().call(ctx, http.MethodPost, "/execute", `{"workflow_id":"`+workflow+`","params":{}}`, &x); err != nil {
		l.failed(ctx, err)
		return
	}
	l.sent.Store(x.ID, at)
	l.api.add(time.Since(at))
	if err := l.follow(ctx, x.ID); err != nil {
		l.failed(ctx, err)
	}
}

// follow reads an execution's live stream to its end.
func (l *serveLoad) follow(ctx context.Context, id string) error {
	c, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(l.any().base, "http")+"/api/v1/executions/"+id+"/logs/stream", nil)
	if err != nil {
		return err
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	defer c.CloseNow()
	for {
		_, raw, err := c.Read(ctx)
		at := time.Now()
		if err != nil {
			return err
		}
		var m struct {
			Type string `json:"type"`
			Data struct {
				Step   string `json:"step_id"`
				Status string `json:"status"`
			} `json:"data"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		switch {
		case m.Type == "complete":
			return c.Close(websocket.StatusNormalClosure, "")
		case m.Type == "status" && m.Data.Status == "completed" && m.Data.Step != "":
			l.seen.LoadOrStore(id+" "+m.Data.Step, at)
		}
	}
}

// look is one of the requests that people make meanwhile.
func (l *serveLoad) look(ctx context.Context, n int) {
	paths := []string{"/executions?limit=20", "/executions?status=running&limit=50", "/metrics", "/health", "/scheduler/jobs/bench-0", "/pipelines"}
	at := time.Now()
	if err := l.any().call(ctx, http.MethodGet, paths[n%len(paths)], "", nil); err != nil {
		l.failed(ctx, err)
		return
	}
	l.api.add(time.Since(at))
}

// hold has many executions under way at once, and gives how many there were.
func (l *serveLoad) hold(ctx context.Context) (most int, err error) {
	const body = `{"workflow_definition":{"name":"bench-held","steps":[{"id":"wait","name":"wait","action":"util.wait","params":{"seconds":5}}]},"params":{}}`
	var group sync.WaitGroup
	ids := make([]string, serveHeld)
	begin := make(chan int, serveHeld)
	for i := range serveHeld {
		begin <- i
	}
	close(begin)
	for range serveInFlight {
		group.Go(func() {
			for i := range begin {
				var x started
				if err := l.any().call(ctx, http.MethodPost, "/execute", body, &x); err != nil {
					l.failed(ctx, err)
				}
				ids[i] = x.ID
			}
		})
	}
	group.Wait()
	var m struct {
		Executions struct {
			Running int `json:"running"`
		} `json:"executions"`
	}
	if err := l.any().call(ctx, http.MethodGet, "/metrics", "", &m); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if id == "" {
			continue
		}
		if err := l.follow(ctx, id); err != nil {
			l.failed(ctx, err)
		}
	}
	return m.Executions.Running, nil
}
