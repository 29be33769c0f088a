package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/child"
)

// Defaults and limits of `bench lessons`.
const (
	lessonWorkers  = 4                // processes
	lessonSlots    = 4                // steps that each runs at once
	killPause      = 10 * time.Second // between two kills
	standardLease  = 15 * time.Second // of a worker
	leastLease     = 3 * time.Second  // which a worker keeps on a busy machine too
	queueReaders   = 2                // who look at the queue, each
	queuePause     = 100 * time.Millisecond
	lessonPatience = 2 * time.Minute // beyond the time that the steps take
)

// lessonsResult is the result of a run of `bench lessons`. Times are in ms.
type lessonsResult struct {
	Workload string     `json:"workload"`
	Lessons  int        `json:"lessons"`
	Steps    int        `json:"steps"`
	Workers  int        `json:"workers"`
	Nodes    int        `json:"nodes"`
	Store    string     `json:"store"`
	Queue    string     `json:"queue"`
	Seconds  float64    `json:"seconds"` // from the start of the runs to the end of the last
	Start    float64    `json:"start_ms"`
	Killed   int        `json:"workers_killed"`
	Attempts int        `json:"attempts"`
	Requests int        `json:"requests"` // that the service has answered or was answering when the worker died
	View     percentile `json:"queue_view"`
	Views    int        `json:"queue_views"`
	Worst    float64    `json:"queue_view_worst_p95"` // of those between two kills
	RSS      float64    `json:"peak_mb"`
	Fsync    float64    `json:"fsync_p50_ms"`
}

func (r *lessonsResult) head() string { return "" }

func (r *lessonsResult) text() string {
	return fmt.Sprintf("lessons: %d runs of %d steps on %d servers (%s, queue %s) by %d workers in %.1f s, all done, every step completed once; started in %.0f ms; %d workers killed, "+
		"%d attempts, %d requests; %.0f MB, fsync %.3f ms\n  %-24s p50 %8.2f   p95 %8.2f   p99 %8.2f   max %8.2f ms   (%d; worst p95 between two kills %.2f)",
		r.Lessons, r.Steps/max(r.Lessons, 1), r.Nodes, r.Store, r.Queue, r.Workers, r.Seconds, r.Start, r.Killed, r.Attempts, r.Requests, r.RSS, r.Fsync,
		"queue view", r.View.P50, r.View.P95, r.View.P99, r.View.Max, r.Views, r.Worst)
}

// lessonsLoad is one run.
type lessonsLoad struct {
	*bench
	servers []*server
	service *lessonService
	every   time.Duration // between two kills
	lease   time.Duration // of a worker
	project string
	names   int // workers started

	mu    sync.Mutex
	views []*sample // of the queue, a further one after each kill
}

// lessons starts a run for each of n lessons, kills workers all the while, and checks that every step has completed once.
func (b *bench) lessons() error {
	return b.eachRun(func(db string) (row, error) { return b.lessonsOnce(db) })
}

func (b *bench) lessonsOnce(db string) (r *lessonsResult, err error) {
	l := &lessonsLoad{bench: b, every: cmp.Or(time.Duration(b.KillEvery*float64(time.Second)), killPause), project: fmt.Sprintf("bench-%d-%d", os.Getpid(), time.Now().UnixMilli()), views: []*sample{{}}}
	l.lease = max(min(l.every*3/2, standardLease), leastLease) // not at the moment of the next kill: a step that loses three workers fails
	if l.service, err = newLessonService(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.service.Close()) }()
	defer func() {
		for _, s := range l.servers {
			err = errors.Join(err, s.end())
		}
	}()
	for i := range max(b.Nodes, 1) {
		if err := l.startNode(db, i); err != nil {
			return nil, err
		}
	}
	workers, err := l.startWorkers()
	defer func() {
		for _, w := range workers {
			err = errors.Join(err, stopProcess(w))
		}
	}()
	if err != nil {
		return nil, err
	}
	pipeline, err := l.prepare(b.ctx)
	if err != nil {
		return nil, err
	}
	r = &lessonsResult{Workload: "lessons", Lessons: b.n, Steps: b.n * len(lessonSteps), Workers: len(workers), Nodes: len(l.servers), Store: "sqlite", Queue: "memory", Fsync: b.fsync}
	if b.shared() {
		r.Store = "postgres"
	}
	if b.redis() != "" {
		r.Queue = "redis"
	}
	if err := l.run(workers, pipeline, r); err != nil {
		return nil, err
	}
	for _, s := range l.servers {
		r.RSS = max(r.RSS, peakOf(strconv.Itoa(s.PID())))
	}
	return r, l.check(db, r)
}

// startNode starts a server that leaves the steps to workers.
func (l *lessonsLoad) startNode(db string, i int) error {
	data := filepath.Join(l.dir, fmt.Sprintf("%s-node-%d", l.project, i))
	settings := fmt.Sprintf("http: {allow_private: true}\nserver: {worker_lease_seconds: %g}\nqueues: {%s: {}}\n", l.lease.Seconds(), app.LessonQueue)
	if err := errors.Join(os.Mkdir(data, 0o700), os.WriteFile(filepath.Join(data, "stepwell.yaml"), []byte(settings), 0o600)); err != nil {
		return err
	}
	s, err := l.startServer(db, "--data", data, "--workers", "0", "--queue", l.redis())
	if err == nil {
		l.servers = append(l.servers, s)
	}
	return err
}

// startWorkers starts the first workers.
func (l *lessonsLoad) startWorkers() (list []*child.Process, err error) {
	for range cmp.Or(l.WorkersIn, lessonWorkers) {
		w, err := l.startWorker()
		if err != nil {
			return list, err
		}
		list = append(list, w)
	}
	return list, nil
}

// startWorker starts a worker by a new name, as a supervisor on another machine does, and waits until it has joined a server.
func (l *lessonsLoad) startWorker() (*child.Process, error) {
	var servers []string
	for _, s := range l.servers {
		servers = append(servers, s.base)
	}
	l.names++
	args := []string{"worker", "--name", fmt.Sprintf("%s-worker-%d", l.project, l.names), "--data", filepath.Join(l.dir, l.project+"-node-0"),
		"--concurrency", strconv.Itoa(cmp.Or(l.Workers, lessonSlots)), "--queues", app.LessonQueue, "--server", strings.Join(servers, ",")}
	if l.redis() != "" {
		args = append(args, "--redis", l.redis())
	}
	w, err := child.Start(l.dir, nil, args...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(l.ctx, joinPatience)
	defer cancel()
	if _, err := w.Address(ctx); err != nil {
		w.Kill()
		return nil, err
	}
	return w, nil
}

// stopProcess stops a worker in order.
func stopProcess(p *child.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		return fmt.Errorf("a worker: %w", err)
	}
	return nil
}

// prepare stores the pipeline, the project and its lessons with their media.
func (l *lessonsLoad) prepare(ctx context.Context) (pipeline string, err error) {
	c := l.servers[0].api
	if err := c.Call(ctx, "POST", "/api/v1/pipelines", nil, map[string]any{"document": lessonsDocument(l.project)}, nil); err != nil {
		return "", err
	}
	if _, err := c.Projects().Create(ctx, api.NewProject{ID: l.project}); err != nil {
		return "", err
	}
	err = eachOf(ctx, l.n, func(i int) error {
		id, sound := l.lesson(i), soundOf(l.lesson(i))
		_, err := c.Lessons().Create(ctx, api.NewLesson{Project: l.project, ID: id})
		if err == nil {
			_, err = c.Upload(ctx, id, &client.File{Name: soundName, Bytes: int64(len(sound)), Content: strings.NewReader(sound)}, nil)
		}
		return err
	})
	if err == nil && len(l.servers) > 1 {
		err = action.Pause(ctx, objectsKnown)
	}
	return l.project, err
}

func (l *lessonsLoad) lesson(i int) string { return fmt.Sprintf("%s-%d", l.project, i) }

// run starts the runs of the project, kills workers and looks at the queue until all runs have ended.
func (l *lessonsLoad) run(workers []*child.Process, pipeline string, r *lessonsResult) error {
	slots := r.Workers * cmp.Or(l.Workers, lessonSlots)
	longest := lessonPatience + 3*time.Duration(r.Steps/slots+1)*lessonPause
	ctx, stop := context.WithTimeout(l.ctx, longest)
	defer stop()
	failed := make(chan error, queueReaders+1)
	var helpers sync.WaitGroup
	for i := range queueReaders {
		helpers.Go(func() { failed <- l.watchQueue(ctx, l.servers[i%len(l.servers)]) })
	}
	begun := time.Now()
	bulk, err := l.servers[0].api.StartRuns(ctx, api.StartPipelineRun{Project: l.project, Pipeline: pipeline, Params: api.Object{"service": l.service.url}}, l.project)
	r.Start = ms(time.Since(begun))
	if err == nil && bulk.Started != l.n {
		err = fmt.Errorf("%d of %d runs were started: %+v", bulk.Started, l.n, bulk.Reasons)
	}
	ended, end := context.WithCancel(ctx)
	defer end()
	helpers.Go(func() { failed <- l.killAll(ended, workers, &r.Killed) })
	if err == nil {
		err = awaitProject(ctx, l.servers[0], l.project, l.n)
	}
	r.Seconds = time.Since(begun).Seconds()
	end()
	stop()
	helpers.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	var all []time.Duration
	for _, v := range l.views {
		all = append(all, v.times...)
		r.Worst = max(r.Worst, percentileOf(v.times).P95)
	}
	r.View, r.Views = percentileOf(all), len(all)
	return err
}

// killAll kills one worker after the other, and starts another for each, until ctx ends.
func (l *lessonsLoad) killAll(ctx context.Context, workers []*child.Process, killed *int) error {
	for i := 0; l.Kills == 0 || i < l.Kills; i++ {
		if action.Pause(ctx, l.every) != nil {
			return nil
		}
		workers[i%len(workers)].Kill()
		*killed++
		l.mu.Lock()
		l.views = append(l.views, &sample{})
		l.mu.Unlock()
		w, err := l.startWorker()
		if err != nil {
			return err
		}
		workers[i%len(workers)] = w
	}
	return nil
}

// watchQueue asks for the queue again and again, until ctx ends.
func (l *lessonsLoad) watchQueue(ctx context.Context, s *server) error {
	for ctx.Err() == nil {
		at := time.Now()
		list, err := s.api.RunQueue(ctx, 0, "")
		took := time.Since(at)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return fmt.Errorf("the queue: %w", err)
		}
		for i := range list.Data {
			if run := &list.Data[i]; run.Status != "queued" && run.Status != "running" || run.Lesson.Project.ID == l.project && len(run.Steps) != len(lessonSteps) {
				return fmt.Errorf("the queue has run %s of %d steps, which is %s", run.ID, len(run.Steps), run.Status)
			}
		}
		l.mu.Lock()
		l.views[len(l.views)-1].add(took)
		l.mu.Unlock()
		_ = action.Pause(ctx, queuePause) // the loop looks at ctx
	}
	return nil
}

// eachOf does something for 0 to n-1, some at once, and gives the first error.
func eachOf(ctx context.Context, n int, do func(i int) error) error {
	var group sync.WaitGroup
	errs := make([]error, 16)
	for w := range errs {
		group.Go(func() {
			for i := w; i < n && errs[w] == nil && ctx.Err() == nil; i += len(errs) {
				errs[w] = do(i)
			}
		})
	}
	group.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return ctx.Err()
}
