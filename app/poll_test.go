package app_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

// pollURL in the environment makes the test binary the process that submits work and is killed while
// it asks for the status.
const pollURL = "STEPWELL_TEST_POLL_URL"

// pollDocument submits work twice, by the two actions that poll.
const pollDocument = `
name: polls
steps:
  - id: service
    action: internal.work.run
    params: {n: 1}
  - id: http
    action: util.http
    params:
      method: POST
      url: "%s/api/v1/http"
      poll: {job: body.workflow_id, url: "%s/status/{{ job }}", interval: 0.05, backoff: 1, until: "body.status == 'COMPLETED'"}
`

func pollChild(db, url string) error {
	ctx := context.Background()
	a, err := app.New(ctx, app.Options{DB: db, HTTP: outbound.Options{AllowPrivate: true}, Services: service.Options{Apps: map[string]string{"work": url},
		Endpoints: []service.Endpoint{{Action: "internal.work.run", App: "work", Path: "/api/v1/service", Async: true, StatusPath: "/status/{workflow_id}", Poll: 50 * time.Millisecond, OpenParams: true}}}})
	if err != nil {
		return err
	}
	go a.Run(ctx)
	left, err := a.Store.Claim(ctx, 1, 1000)
	if err != nil {
		return err
	}
	id := ""
	if len(left) > 0 {
		id = left[0].ID
		err = a.Conductor.Recover(ctx, id)
	} else {
		d, problems := definition.Parse(fmt.Appendf(nil, pollDocument, url, url), definition.ParseOptions{})
		if d != nil {
			problems = append(problems, definition.Check(d, a.Actions, "")...)
		}
		if err := problems.Err(); err != nil {
			return err
		}
		p, err := a.Conductor.Register(ctx, d)
		if err != nil {
			return err
		}
		if id, err = a.Conductor.Start(ctx, conductor.Request{Pipeline: p}); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	x, err := a.Conductor.Wait(ctx, id)
	if err != nil {
		return err
	}
	fmt.Println("ended", x.Status)
	return nil
}

// A process is killed with kill -9 while it asks for the status of work that it has submitted. The next
// one goes on asking; the server has seen one submission of each.
func TestKillNineWhilePolling(t *testing.T) {
	var submitted, asked [2]atomic.Int32
	var done atomic.Bool
	kinds := map[string]int{"service": 0, "http": 1}
	seen := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if kind, ok := strings.CutPrefix(r.URL.Path, "/api/v1/"); ok {
			submitted[kinds[kind]].Add(1)
			fmt.Fprintf(w, `{"workflow_id":%q}`, kind)
			return
		}
		asked[kinds[strings.TrimPrefix(r.URL.Path, "/status/")]].Add(1)
		if asked[0].Load() > 1 && asked[1].Load() > 1 {
			select {
			case seen <- struct{}{}:
			default:
			}
		}
		if done.Load() {
			fmt.Fprint(w, `{"status":"COMPLETED","result":{"ok":true}}`)
			return
		}
		fmt.Fprint(w, `{"status":"RUNNING"}`)
	}))
	defer server.Close()
	db := filepath.Join(t.TempDir(), "poll.db")
	start := func() (*exec.Cmd, *bufio.Reader) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashDB+"="+db, pollURL+"="+server.URL)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, bufio.NewReader(out)
	}
	for range 3 {
		cmd, _ := start()
		select {
		case <-seen:
		case <-time.After(30 * time.Second):
			t.Fatal("nobody asks for the status")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		asked[0].Store(0)
		asked[1].Store(0)
		for len(seen) > 0 {
			<-seen
		}
	}
	done.Store(true)
	cmd, out := start()
	line, err := out.ReadString('\n')
	if err != nil || line != "ended completed\n" {
		t.Errorf("the last process said %q: %v", line, err)
	}
	_ = cmd.Wait()
	for kind, i := range kinds {
		if n := submitted[i].Load(); n != 1 {
			t.Errorf("%s was submitted %d times", kind, n)
		}
	}
	a, err := app.New(t.Context(), app.Options{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	steps, err := a.Store.Steps(t.Context(), 1, store.StepFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if s.Status != stepwell.StepCompleted || s.Attempt != 1 {
			t.Errorf("%s is %s after %d attempts: %+v", s.Key, s.Status, s.Attempt, s.Error)
		}
	}
}
