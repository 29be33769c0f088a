package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
)

// The load of `bench progress`: workers that each count one item of every project, and dashboards that ask how far one is.
const (
	progressWorkers = 100
	progressPollers = 1000
	progressPause   = 2 * time.Second // between two questions of a dashboard
)

// progressResult is the result of a run of `bench progress`. Times are in ms.
type progressResult struct {
	Workload string         `json:"workload"`
	Projects int            `json:"projects"`
	Counts   int            `json:"counts"` // by progressWorkers at once; every one of them was found in the end
	Seconds  float64        `json:"seconds"`
	Rate     float64        `json:"counts_per_second"`
	Events   int            `json:"events"`  // job.completed, as an event trigger has had them
	Count    percentile     `json:"count"`   // a count, from sending it to its answer
	Read     percentile     `json:"read"`    // a question of one of progressPollers, from sending it to its last byte
	Sources  map[string]int `json:"sources"` // who answered them
	Refused  int            `json:"refused"` // requests that the server, too busy, answered with "try again"
	Failures int            `json:"failures"`
	Fsync    float64        `json:"fsync_p50_ms"`
}

// progressLoad is the clients of one run.
type progressLoad struct {
	api      *client.Client
	projects []string
	counts   sample
	reads    sample
	refused  atomic.Int64
	failures atomic.Int64
	complain sync.Once

	mu      sync.Mutex
	sources map[string]int
}

// progress starts this program as a server, and lets workers count items of n projects while dashboards ask for them.
func (b *bench) progress() error {
	return b.eachRun(func(db string) (row, error) { return b.progressOnce(db) })
}

func (b *bench) progressOnce(db string) (r *progressResult, err error) {
	var args []string
	if b.State != "" {
		args = []string{"--state", b.State}
	}
	server, err := b.startServer(db, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.end()) }()
	l := &progressLoad{sources: map[string]int{}}
	connections := &http.Transport{MaxIdleConnsPerHost: progressWorkers + progressPollers}
	defer connections.CloseIdleConnections()
	if l.api, err = client.New(client.Options{URL: server.base, HTTP: &http.Client{Timeout: time.Minute, Transport: connections}}); err != nil {
		return nil, err
	}
	if err := l.prepare(b.ctx, b.n); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.clean(b.ctx)) }()
	ctx, stop := context.WithCancel(b.ctx)
	var pollers sync.WaitGroup
	for range progressPollers {
		pollers.Go(func() { l.poll(ctx) })
	}
	begun := time.Now()
	l.work(b.ctx)
	took := time.Since(begun)
	stop()
	pollers.Wait()
	r = &progressResult{Workload: "progress", Projects: b.n, Counts: len(l.counts.times), Seconds: took.Seconds(), Rate: float64(len(l.counts.times)) / took.Seconds(),
		Count: percentileOf(l.counts.times), Read: percentileOf(l.reads.times), Sources: l.sources, Refused: int(l.refused.Load()), Failures: int(l.failures.Load()), Fsync: b.fsync}
	r.Events, err = l.check(b.ctx)
	return r, err
}

// progressTrigger counts the events.
const progressTrigger = "bench-progress"

// prepare creates the projects, each of as many items as there are workers, and what counts their events.
func (l *progressLoad) prepare(ctx context.Context, n int) error {
	prefix := fmt.Sprintf("bench-%d-", os.Getpid())
	_, err := l.api.EventTriggers().Create(ctx, api.NewEventTrigger{ID: progressTrigger, EventType: "job.completed", Head: api.Head{Target: &api.Callback{Action: "util.noop"}}})
	if err != nil {
		return err
	}
	for i := range n {
		l.projects = append(l.projects, prefix+strconv.Itoa(i))
	}
	return l.each(ctx, func(id string) error {
		if _, err := l.api.Projects().Create(ctx, api.NewProject{ID: id}); err != nil {
			return err
		}
		_, err := l.api.FinishDiscovery(ctx, id, progressWorkers)
		return err
	})
}

// clean deletes the projects, which may be on a server that others use.
func (l *progressLoad) clean(ctx context.Context) error {
	return l.each(ctx, func(id string) error { return l.api.Projects().Delete(ctx, id, "") })
}

// each does something with every project, some at once.
func (l *progressLoad) each(ctx context.Context, do func(id string) error) error {
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error
	const atOnce = 16
	for share := range slices.Chunk(l.projects, (len(l.projects)+atOnce-1)/atOnce) {
		group.Go(func() {
			for _, id := range share {
				err := do(id)
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	group.Wait()
	return failed
}

// work has every worker count one item of every project.
func (l *progressLoad) work(ctx context.Context) {
	var group sync.WaitGroup
	for w := range progressWorkers {
		group.Go(func() {
			for i := range l.projects {
				at := time.Now()
				if _, err := l.api.CountItems(ctx, l.projects[(i+w)%len(l.projects)], api.ProcessedItems{}); err != nil {
					l.failed(ctx, err)
					continue
				}
				l.counts.add(time.Since(at))
			}
		})
	}
	group.Wait()
}

// poll asks for a project now and then, as a dashboard does.
func (l *progressLoad) poll(ctx context.Context) {
	wait := time.NewTimer(rand.N(progressPause))
	defer wait.Stop()
	for id := l.projects[rand.N(len(l.projects))]; ; {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		wait.Reset(progressPause)
		at := time.Now()
		p, err := l.api.ProjectProgress(ctx, id)
		if err != nil {
			l.failed(ctx, err)
			continue
		}
		l.reads.add(time.Since(at))
		l.mu.Lock()
		l.sources[p.Source]++
		l.mu.Unlock()
	}
}

func (l *progressLoad) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if stepwell.CodeOf(err) == stepwell.CodeUnavailable {
		l.refused.Add(1)
	} else {
		l.failures.Add(1)
	}
	l.complain.Do(func() { fmt.Fprintln(os.Stderr, "bench progress:", err) })
}

// check fails unless every count is there and every project has sent one event, and gives the number of events.
func (l *progressLoad) check(ctx context.Context) (events int, err error) {
	err = l.each(ctx, func(id string) error {
		p, err := l.api.ProjectProgress(ctx, id)
		if err == nil && (p.Done != progressWorkers || p.Status != "DONE") {
			err = fmt.Errorf("project %s is %s with %d of %d items", id, p.Status, p.Done, p.Total)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		t, _, err := l.api.EventTriggers().Get(ctx, progressTrigger)
		if err != nil {
			return 0, err
		}
		if events = t.Count; events == len(l.projects) {
			return events, nil
		}
		if events > len(l.projects) || time.Now().After(deadline) {
			return events, fmt.Errorf("%d events of %d projects", events, len(l.projects))
		}
	}
}

func (r *progressResult) head() string { return "" }

func (r *progressResult) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "progress: %d projects, %d counts by %d workers in %.1f s (%.0f a second), all found; %d events; %d refused, %d failures, fsync %.3f ms",
		r.Projects, r.Counts, progressWorkers, r.Seconds, r.Rate, r.Events, r.Refused, r.Failures, r.Fsync)
	var sources []string
	for name, n := range r.Sources {
		sources = append(sources, fmt.Sprintf("%d from %s", n, name))
	}
	slices.Sort(sources)
	for _, row := range []struct {
		name string
		p    percentile
	}{{"count", r.Count}, {"read", r.Read}} {
		fmt.Fprintf(&b, "\n  %-24s p50 %8.2f   p95 %8.2f   p99 %8.2f   max %8.2f ms", row.name, row.p.P50, row.p.P95, row.p.P99, row.p.Max)
	}
	if len(sources) > 0 {
		fmt.Fprintf(&b, "   (%s)", strings.Join(sources, ", "))
	}
	return b.String()
}
