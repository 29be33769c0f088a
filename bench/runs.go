package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// The history of `bench runs`: how many runs a lesson has, how many unfinished executions there are, and how many are stored with one commit.
const (
	runsOfLesson = 10
	runsOpen     = 200
	runsAtOnce   = 1000
	runsAsked    = 200    // how often each list is asked for
	runsBulk     = 10_000 // lessons of a project whose runs are started with one request, at most as many as executions are stored
)

// runsResult is the result of a run of `bench runs`. Times are in ms.
type runsResult struct {
	Workload   string                `json:"workload"`
	Executions int                   `json:"executions"`
	Fill       float64               `json:"fill_s"`
	Lists      map[string]percentile `json:"lists"` // by what is asked for
	names      []string
	Bulk       int     `json:"bulk_runs"`    // started with one request to a server
	BulkStart  float64 `json:"bulk_start_s"` // until its answer
	BulkEnd    float64 `json:"bulk_end_s"`   // until the last of them has ended: each has one step that does nothing
	Fsync      float64 `json:"fsync_p50_ms"`
}

func (r *runsResult) head() string { return "" }

func (r *runsResult) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "runs: lists of 50 among %d executions, stored in %.0f s; fsync %.3f ms", r.Executions, r.Fill, r.Fsync)
	for _, name := range r.names {
		p := r.Lists[name]
		fmt.Fprintf(&b, "\n  %-34s p50 %8.2f   p95 %8.2f   p99 %8.2f   max %8.2f ms", name, p.P50, p.P95, p.P99, p.Max)
	}
	fmt.Fprintf(&b, "\n  %d runs of a project are started in %.2f s, and have ended after %.2f s", r.Bulk, r.BulkStart, r.BulkEnd)
	return b.String()
}

// runs stores a history of n executions of lessons, asks for lists and sums of it, and has a server start the runs of a project.
func (b *bench) runs() error {
	return b.eachRun(func(db string) (row, error) {
		r, err := b.runsListed(db)
		if err == nil {
			err = b.runsStarted(db, r)
		}
		return r, err
	})
}

// runsStarted measures how long a server takes to start the runs of a project.
func (b *bench) runsStarted(db string, r *runsResult) (err error) {
	s, err := b.startServer(db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	name := fmt.Sprintf("bench-runs-%d", time.Now().UnixMilli())
	document := "name: " + name + "\nsettings: {sequential: true}\nsteps: [{id: a, action: util.noop}]\n"
	if err := s.api.Call(b.ctx, http.MethodPost, "/api/v1/pipelines", nil, map[string]any{"document": document}, nil); err != nil {
		return err
	}
	if _, err := s.api.Projects().Create(b.ctx, api.NewProject{ID: name}); err != nil {
		return err
	}
	r.Bulk = min(b.n, runsBulk)
	err = eachOf(b.ctx, r.Bulk, func(i int) error {
		_, err := s.api.Lessons().Create(b.ctx, api.NewLesson{Project: name, ID: fmt.Sprintf("%s-%d", name, i)})
		return err
	})
	if err != nil {
		return err
	}
	begun := time.Now()
	bulk, err := s.api.StartRuns(b.ctx, api.StartPipelineRun{Project: name, Pipeline: name}, name)
	if err == nil && bulk.Started != r.Bulk {
		err = fmt.Errorf("%d of %d runs were started: %+v", bulk.Started, r.Bulk, bulk.Reasons)
	}
	if r.BulkStart = time.Since(begun).Seconds(); err == nil {
		err = awaitProject(b.ctx, s, name, r.Bulk)
	}
	r.BulkEnd = time.Since(begun).Seconds()
	return err
}

// awaitProject waits until all runs of a project have ended well.
func awaitProject(ctx context.Context, s *server, project string, runs int) error {
	for {
		p, err := s.api.ProjectProgress(ctx, project)
		if err != nil {
			return fmt.Errorf("not all runs have ended: %w", err)
		}
		if p.Status == "DONE" {
			if int(p.Done) != runs {
				err = fmt.Errorf("%d of %d runs have ended, %d failed", p.Done, runs, p.Errors)
			}
			return err
		}
		if err := action.Pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d runs have ended: %w", p.Done, runs, err)
		}
	}
}

// runsListed stores the history and asks for it.
func (b *bench) runsListed(db string) (r *runsResult, err error) {
	s, err := app.OpenWriter(b.ctx, db, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	begun := time.Now()
	if err := fillRuns(b.ctx, s, b.n); err != nil {
		return nil, err
	}
	r = &runsResult{Workload: "runs", Executions: b.n, Fill: time.Since(begun).Seconds(), Lists: map[string]percentile{}, Fsync: b.fsync}
	list := func(name string, filter func() store.Filter, statuses ...stepwell.ExecutionStatus) {
		if err == nil {
			err = r.ask(name, func() error {
				f := filter()
				f.Statuses = statuses
				_, err := s.Executions(b.ctx, f)
				return err
			})
		}
	}
	all := func() store.Filter { return store.Filter{} }
	project := func() store.Filter { return store.Filter{Project: projectOf(rand.IntN(b.n), b.n)} }
	old := func() store.Filter { return store.Filter{Project: oldProject} }
	version := func() store.Filter {
		return store.Filter{Workflow: workflowOf(rand.IntN(b.n)), WorkflowVersion: 1 + rand.IntN(runsVersions)}
	}
	list("newest", all)
	list("lesson", func() store.Filter { return store.Filter{Lesson: lessonOf(rand.IntN(b.n))} })
	list("project", project)
	list("project, failed", project, stepwell.ExecutionFailed)
	list("project, completed or running", project, stepwell.ExecutionCompleted, stepwell.ExecutionRunning)
	list("project of old", old)
	list("project of old, cancelled (none)", old, stepwell.ExecutionCancelled)
	list("version", version)
	list("version, failed", version, stepwell.ExecutionFailed)
	list("failed, cancelled or timed out", all, stepwell.ExecutionFailed, stepwell.ExecutionCancelled, stepwell.ExecutionTimedOut)
	list("queue: pending or running", all, stepwell.ExecutionPending, stepwell.ExecutionRunning)
	if err == nil {
		err = r.ask("sums of a project and a lesson", func() error {
			_, err := s.UsageOf(b.ctx, store.UsageOfProject, projectOf(rand.IntN(b.n), b.n))
			if err == nil {
				_, err = s.UsageOf(b.ctx, store.UsageOfLesson, lessonOf(rand.IntN(b.n)))
			}
			return err
		})
	}
	return r, err
}

// ask takes the times of a question.
func (r *runsResult) ask(name string, question func() error) error {
	var times sample
	for range runsAsked {
		begun := time.Now()
		if err := question(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		times.add(time.Since(begun))
	}
	r.Lists[name], r.names = percentileOf(times.times), append(r.names, name)
	return nil
}

const (
	runsVersions = 10
	oldProject   = "old" // has the oldest fifth of all executions, none of them cancelled
)

func lessonOf(i int) string   { return fmt.Sprint("lesson-", i/runsOfLesson) }
func workflowOf(i int) string { return fmt.Sprint("workflow-", i/runsOfLesson%20) }

func projectOf(i, n int) string {
	if i < n/5 {
		return oldProject
	}
	return fmt.Sprint("project-", i/runsOfLesson%100)
}

// fillRuns stores n executions, most of which have completed, in large commits.
func fillRuns(ctx context.Context, s app.Store, n int) error {
	body := []byte(`{"name":"runs","steps":[{"id":"a","action":"util.noop"}]}`)
	hash := sha256.Sum256(body)
	if err := s.PutDefinition(ctx, hash[:], body); err != nil {
		return err
	}
	first, err := s.Numbers(ctx, n)
	if err != nil {
		return err
	}
	log, err := engine.AppendBatch(nil, &engine.Batch{At: time.Now().UnixMicro()})
	if err != nil {
		return err
	}
	commits := make([]store.Commit, 0, runsAtOnce)
	for i := range n {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		now := time.Now()
		x := &store.Execution{No: first + int64(i), ID: id.String(), Pipeline: "runs", Definition: hash[:], Trigger: "manual", Created: now, Started: now, Ended: now, Owner: 1,
			Status: statusOf(i, n), Origin: store.Origin{Workflow: workflowOf(i), WorkflowVersion: 1 + i%runsVersions, Project: projectOf(i, n), Lesson: lessonOf(i)}}
		if !x.Status.Terminal() {
			x.Ended = time.Time{}
		}
		c := store.Commit{Execution: x.No, Version: 1, Log: log, Create: x}
		if i%runsOfLesson == 0 {
			c.Usage = x.Used(stepwell.Spending{Cost: 1, Usage: stepwell.Usage{InputTokens: 1000, OutputTokens: 100}})
		}
		if commits = append(commits, c); len(commits) == cap(commits) || i == n-1 {
			if err := s.Commit(ctx, commits); err != nil {
				return err
			}
			commits = commits[:0]
		}
	}
	return nil
}

// statusOf is completed but for one in ten; the unfinished are spread over all.
func statusOf(i, n int) stepwell.ExecutionStatus {
	switch {
	case i%max(n/runsOpen, 1) == 0:
		return []stepwell.ExecutionStatus{stepwell.ExecutionPending, stepwell.ExecutionRunning}[i/max(n/runsOpen, 1)%2]
	case i%10 != 7:
		return stepwell.ExecutionCompleted
	case i >= n/5 && i%100 == 7:
		return []stepwell.ExecutionStatus{stepwell.ExecutionCancelled, stepwell.ExecutionTimedOut}[i/100%2]
	}
	return stepwell.ExecutionFailed
}
