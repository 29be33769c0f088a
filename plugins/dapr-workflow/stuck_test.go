package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stepwell/stepwell/dapr"
)

// TestStuckSidecar: a sidecar that is stuck after a kill is asked to end, and others are left alone. Those with the limit are watched for as long as
// the program is connected.
func TestStuckSidecar(t *testing.T) {
	const (
		actors = `"actorRuntime": {"runtimeStatus": "RUNNING", "activeActors": [{"type": "dapr.internal.default.stepwell.workflow"}]}`
		none   = `"actorRuntime": {"runtimeStatus": "RUNNING"}`
		early  = `"actorRuntime": {"runtimeStatus": "INITIALIZING"}`
		limit  = 40 // questions
	)
	for name, c := range map[string]struct {
		metadata    string
		workers     int
		alone, keep bool
		took        int64
		ends        bool
		asked       int
	}{
		"all is well":                        {actors, 1, true, false, 0, false, 1},
		"no actors":                          {none, 1, true, false, 0, true, 0},
		"no actors, it is kept":              {none, 1, true, true, 0, false, limit},
		"no actors, but work":                {none, 1, true, false, 1, false, 1},
		"it is starting":                     {early, 0, true, false, 0, false, limit},
		"a program too many":                 {actors, 2, true, false, 0, true, 0},
		"a program too many, there was work": {actors, 2, true, false, 7, true, 0},
		"a program too many, it is kept":     {actors, 2, true, true, 0, false, limit},
		"several programs":                   {actors, 2, false, false, 0, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, disconnect := context.WithCancel(t.Context())
			asked, ends := 0, 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.Method + " " + r.URL.Path {
				case "GET /v1.0/metadata":
					if asked++; asked == limit {
						disconnect()
					}
					fmt.Fprintf(w, `{%s, "workflows": {"connectedWorkers": %d}}`, c.metadata, c.workers)
				case "POST /v1.0/shutdown":
					ends++
				default:
					t.Errorf("asked for %s %s", r.Method, r.URL)
				}
			}))
			defer s.Close()
			at, err := url.Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			port, err := strconv.Atoi(at.Port())
			if err != nil {
				t.Fatal(err)
			}
			w := &worker{log: slog.New(slog.NewTextHandler(io.Discard, nil)), health: &dapr.Settings{Port: port}, alone: c.alone, keep: c.keep}
			var took flow
			took.items.Store(c.took)
			var why error
			w.watch(ctx, func(err error) { why = err }, &took, 20*time.Millisecond)
			if (ends == 1) != c.ends || errors.Is(why, errStuck) != c.ends {
				t.Errorf("asked to end %d times, %v", ends, why)
			}
			if c.asked > 0 && asked != c.asked {
				t.Errorf("asked for its metadata %d times, want %d", asked, c.asked)
			}
		})
	}
}
