package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
)

// The questions of `bench field`.
const (
	fieldAsked  = 20 // times that each is asked
	fieldStarts = 200
	fieldPause  = 100 * time.Millisecond // of a page between two questions
)

// fieldResult is the result of a run of `bench field`. Times are in ms.
type fieldResult struct {
	Workload   string     `json:"workload"`
	Steps      int        `json:"steps"`
	Run        float64    `json:"run_s"` // until all steps have ended
	FirstField float64    `json:"first_field_ms"`
	FirstGraph float64    `json:"first_graph_ms"`
	Field      percentile `json:"field"`
	Graph      percentile `json:"graph"`
	FieldBytes int        `json:"field_bytes"` // compressed
	GraphBytes int        `json:"graph_bytes"`
	Alone      percentile `json:"start_alone"`  // of an execution of one step, from asking for it to its end
	Beside     percentile `json:"start_beside"` // while a page asks for field and graph
	Followed   *followed  `json:"followed"`
	Fsync      float64    `json:"fsync_p50_ms"`
}

func (r *fieldResult) head() string { return "" }

func (r *fieldResult) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "field: %d steps, which ran for %.1f s; fsync %.3f ms", r.Steps, r.Run, r.Fsync)
	fmt.Fprintf(&b, "\n  columns of all steps   first %8.1f   p50 %8.1f   p99 %8.1f ms   %d bytes with gzip", r.FirstField, r.Field.P50, r.Field.P99, r.FieldBytes)
	fmt.Fprintf(&b, "\n  graph                  first %8.1f   p50 %8.1f   p99 %8.1f ms   %d bytes", r.FirstGraph, r.Graph.P50, r.Graph.P99, r.GraphBytes)
	fmt.Fprintf(&b, "\n  one-step execution     alone p50 %8.2f   p99 %8.2f ms; beside a page that asks for both: p50 %8.2f   p99 %8.2f ms", r.Alone.P50, r.Alone.P99, r.Beside.P50, r.Beside.P99)
	b.WriteString("\n  " + r.Followed.text())
	return b.String()
}

// field runs an execution of n parallel steps on a server, and asks for its columns and its graph.
func (b *bench) field() error {
	return b.eachRun(func(db string) (row, error) { return b.fieldOnce(db) })
}

func (b *bench) fieldOnce(db string) (r *fieldResult, err error) {
	s, err := b.startServer(db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	r = &fieldResult{Workload: "field", Steps: b.n, Fsync: b.fsync}
	begun := time.Now()
	document := fmt.Sprintf("name: bench-field\nsteps:\n  - {id: fan, action: util.noop, for_each: {items: %d}}\n  - {id: join, action: util.noop, depends_on: [fan]}\n", b.n)
	id, err := runToEnd(b.ctx, s, document)
	if err != nil {
		return nil, err
	}
	r.Run = time.Since(begun).Seconds()
	for _, q := range []struct {
		path  string
		first *float64
		rest  *percentile
		bytes *int
	}{{"field", &r.FirstField, &r.Field, &r.FieldBytes}, {"graph", &r.FirstGraph, &r.Graph, &r.GraphBytes}} {
		var took []time.Duration
		for i := range fieldAsked + 1 {
			begun := time.Now()
			if *q.bytes, err = s.fetch(b.ctx, "/executions/"+id+"/"+q.path); err != nil {
				return nil, err
			}
			if i == 0 {
				*q.first = time.Since(begun).Seconds() * 1000
				continue
			}
			took = append(took, time.Since(begun))
		}
		*q.rest = percentileOf(took)
	}
	if r.Alone, err = b.startsOn(s); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(b.ctx)
	var page sync.WaitGroup
	page.Go(func() {
		for action.Pause(ctx, fieldPause) == nil {
			for _, path := range []string{"field", "graph"} {
				if _, err := s.fetch(ctx, "/executions/"+id+"/"+path); err != nil {
					return
				}
			}
		}
	})
	r.Beside, err = b.startsOn(s)
	stop()
	page.Wait()
	if err != nil {
		return nil, err
	}
	r.Followed, err = s.follow(b.ctx, document)
	return r, err
}

// startsOn measures executions of one step, one after the other.
func (b *bench) startsOn(s *server) (percentile, error) {
	var took []time.Duration
	for range fieldStarts {
		begun := time.Now()
		if _, err := runToEnd(b.ctx, s, "name: bench-one\nsteps: [{id: a, action: util.noop}]\n"); err != nil {
			return percentile{}, err
		}
		took = append(took, time.Since(begun))
	}
	return percentileOf(took), nil
}

// runToEnd runs a definition, and returns the id of the execution when it has completed.
func runToEnd(ctx context.Context, s *server, document string) (id string, err error) {
	started, err := s.api.Execute(ctx, api.ExecuteRequest{Definition: api.Document(document)}, "")
	if err != nil {
		return "", err
	}
	x, err := s.api.Wait(ctx, started.ID)
	if err == nil && x.Status != "completed" {
		err = fmt.Errorf("the execution is %s", x.Status)
	}
	return started.ID, err
}

// fetch reads an answer as it was sent, and returns its size.
func (s *server) fetch(ctx context.Context, path string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/api/v1"+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", "gzip") // set here, it is not undone
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, res.Status)
	}
	return int(n), err
}
