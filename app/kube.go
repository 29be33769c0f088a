package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger/event"
)

// kubernetes are the clusters of an App, and what watches its jobs in them.
type kubernetes struct {
	clusters *kube.Clusters
	observer *kube.Observer
	services *service.Client
	identity func() string // of the store, which is open by the time anything runs
}

// buildClusters checks the clusters of the options. Their secrets are the vault's, which is open by the time anything runs.
func (o *Options) buildClusters(client *outbound.Client) (_ *kube.Clusters, err error) {
	k := o.Kubernetes
	if guard := o.secrets; guard != nil {
		k.Secret = func(ctx context.Context, name string) (string, error) { return guard.Vault.Get(ctx, name) }
		k.Hide = func(values ...string) { guard.Redactor.Add(values...) }
	}
	for _, access := range k.Clusters {
		if access.Service != "" && k.Services == nil {
			if k.Services, err = service.NewClient(o.Services); err != nil {
				return nil, err
			}
		}
	}
	k.Outbound = client
	own := &kubernetes{services: k.Services, identity: func() string { return "" }}
	k.Instance = func() string { return own.identity() }
	k.Now = o.Now
	if own.clusters, err = kube.NewClusters(k); err != nil {
		return nil, err
	}
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	own.observer = kube.NewObserver(own.clusters, log)
	o.kube = own
	return own.clusters, nil
}

func (k *kubernetes) register(r *action.Registry) error {
	return kube.Register(r, k.clusters, k.observer.Expect)
}

// attach tells the clusters whose store it is.
func (k *kubernetes) attach(db Store) {
	if named, ok := db.(interface{ ID() string }); ok {
		k.identity = named.ID
	}
}

// watchJobs starts what watches the jobs that steps of this process await.
func (a *App) watchJobs(g *loopGroup) {
	steps := &jobSteps{app: a, runs: map[string]int64{}}
	g.start("kubernetes", func(ctx context.Context) error { return a.kube.observer.Run(ctx, steps) })
}

// jobSteps are the steps of an App that await jobs (kube.Steps).
type jobSteps struct {
	app *App

	mu   sync.Mutex
	runs map[string]int64 // the numbers of executions
}

// Awaited implements kube.Steps.
func (s *jobSteps) Awaited(ctx context.Context) (all []kube.Awaited, err error) {
	const page = 1000
	runs := map[string]int64{}
	var after *store.WaitingStep
	for {
		rows, err := s.app.Store.WaitingSteps(ctx, kube.SignalPrefix, after, page)
		if err != nil {
			return nil, err
		}
		mine, err := s.mine(ctx, rows)
		if err != nil {
			return nil, err
		}
		for i := range mine {
			w := &mine[i]
			no, err := s.runOf(ctx, w.Execution)
			if stepwell.CodeOf(err) == stepwell.CodeNotFound {
				continue
			}
			if err != nil {
				return nil, err
			}
			runs[w.Execution] = no
			all = append(all, kube.Awaited{Key: w.External, Execution: w.Execution, Run: no, Step: w.Idx, StepKey: w.Key, Attempt: w.Attempt})
		}
		if len(rows) < page {
			break
		}
		after = &rows[len(rows)-1]
	}
	s.mu.Lock()
	s.runs = runs
	s.mu.Unlock()
	return all, nil
}

// mine are those of the executions that this process runs.
func (s *jobSteps) mine(ctx context.Context, rows []store.WaitingStep) ([]store.WaitingStep, error) {
	n := s.app.node
	if n == nil || len(rows) == 0 {
		return rows, nil
	}
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = rows[i].External
	}
	waiters, err := s.app.Store.Awaiting(ctx, keys)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for i := range waiters {
		if waiters[i].Owner == n.No() {
			own[waiters[i].Key] = true
		}
	}
	var mine []store.WaitingStep
	for i := range rows {
		if own[rows[i].External] {
			mine = append(mine, rows[i])
		}
	}
	return mine, nil
}

func (s *jobSteps) runOf(ctx context.Context, execution string) (int64, error) {
	s.mu.Lock()
	no, ok := s.runs[execution]
	s.mu.Unlock()
	if ok {
		return no, nil
	}
	x, err := s.app.Store.Execution(ctx, execution)
	if err != nil {
		return 0, err
	}
	return x.No, nil
}

// Signal implements kube.Steps.
func (s *jobSteps) Signal(ctx context.Context, key string, answer []byte) (delivered bool, err error) {
	_, delivered, err = s.app.Conductor.Signal(ctx, store.Signal{Key: key, ID: "ended", Body: answer})
	return delivered, err
}

// Line implements kube.Steps.
func (s *jobSteps) Line(a *kube.Awaited, at time.Time, level slog.Level, pod, text string) {
	line := store.LogLine{Execution: a.Run, Step: a.Step, StepKey: a.StepKey, Attempt: a.Attempt, At: at, Level: "info", Message: stepwell.Head(s.app.Secrets.Text(a.Execution, text), 16<<10)}
	if level >= slog.LevelWarn {
		line.Level = "warning"
	}
	if pod != "" {
		line.Attrs, _ = json.Marshal(podAttr{pod}) // a text
	}
	s.app.line(line)
}

// podAttr is what a line of a pod has beside its text.
type podAttr struct {
	Pod string `json:"pod"`
}

// recentLines is how many of the last lines of a step are looked at for those of a pod.
const recentLines = 2000

// LastLine implements kube.Steps.
func (s *jobSteps) LastLine(ctx context.Context, a *kube.Awaited, pod string) (last time.Time, same int, err error) {
	lines, err := s.app.Store.Logs(ctx, a.Run, store.LogFilter{StepKey: a.StepKey, Tail: recentLines, Limit: recentLines})
	for i := range lines {
		l, of := &lines[i], podAttr{}
		if len(l.Attrs) == 0 || l.Level != "info" || json.Unmarshal(l.Attrs, &of) != nil || of.Pod != pod {
			continue
		}
		switch {
		case l.At.After(last):
			last, same = l.At, 1
		case l.At.Equal(last):
			same++
		}
	}
	return last, same, err
}

// Ended implements kube.Steps.
func (s *jobSteps) Ended(ctx context.Context, execution string) (known, ended bool, err error) {
	x, err := s.app.Store.Execution(ctx, execution)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	return true, x.Status.Terminal(), nil
}

// jobEnded makes an event of the end of a CronJob's job. Servers of one database may see the same job: the event's id makes it one.
func (s *Server) jobEnded(ctx context.Context, e *kube.Ended) error {
	data := resource.Object{"cluster_id": e.Cluster, "namespace": e.Namespace, "cronjob": e.CronJob, "job_name": e.Job, "job_uid": e.UID, "status": e.Status.String(),
		"started_at": e.Started.UTC().Format(time.RFC3339), "ended_at": e.At.UTC().Format(time.RFC3339), "error": s.hide(e.Error)}
	_, err := s.router.Receive(ctx, event.Event{ID: "kube:" + e.UID, Type: "kube.job.completed", Source: "kubernetes/" + e.Cluster, Data: data, Time: e.At})
	if stepwell.CodeOf(err) == stepwell.CodeConflict { // two ids in the settings lead to this cluster
		return nil
	}
	return err
}
