package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/queue/redisq"
	"github.com/stepwell/stepwell/worker/link"
)

// Serve is the workload of the processes that Options.WorkersIn starts: a worker of the server that Options.Store names, until
// its input ends.
const Serve = "worker"

// joinPatience is how long workers may take to join.
const joinPatience = 20 * time.Second

// markAt is the output of a marking step in another process. All are on this machine, and have one clock.
type markAt struct {
	At   int64 `json:"at,omitempty"` // µs since 1970
	Data any   `json:"data,omitempty"`
}

// marking is the step that notes when its code began, for workers in other processes.
var marking = action.Action{Spec: markSpec, Handler: action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
	return markAt{time.Now().UnixMicro(), call.Params[dataParam]}, nil
})}

// work is a worker in a process of its own. It ends with its input, so also with the process that started it.
func work(ctx context.Context, b *Options) error {
	actions, err := app.Actions(app.Options{Register: func(r *action.Registry) error { return errors.Join(r.Add(marking), r.Add(echo)) }})
	if err != nil {
		return err
	}
	o := link.Options{Nodes: []string{b.Store}, Name: "bench-" + strconv.Itoa(os.Getpid()), Stream: true, Actions: actions, Concurrency: b.Workers, Header: http.Header{},
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if b.redis() != "" {
		lists, err := app.OpenLists(ctx, b.Queue, slog.Default())
		if err != nil {
			return err
		}
		defer lists.Close()
		o.Lists = lists
	}
	app.KeepHeadroom()
	w, err := link.New(o)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
		w.Drain()
	}()
	return w.Run(ctx)
}

// masterKey is the key in the environment, else one of a database without secrets.
func masterKey() string {
	return cmp.Or(os.Getenv("STEPWELL_SECRETS_KEY"), "c3RlcHdlbGwgYmVuY2g6IG5vIHNlY3JldHMgaGVyZS4=")
}

// withWorkers is withApp for a server: one that only conducts, whose steps run in other processes, or with WorkersIn of 0 a node.
func (b *bench) withWorkers(ctx context.Context, o app.Options, f func(context.Context, *app.App) error) (err error) {
	concurrency := o.Workers
	if b.WorkersIn > 0 {
		o.Workers = -1
	}
	return b.serving(ctx, app.ServerOptions{Options: o, Lists: redisq.Options{URL: b.redis()}}, func(ctx context.Context, s *app.Server) (err error) {
		end, err := b.startWorkers(ctx, s.URL(), concurrency)
		defer func() { err = errors.Join(err, end()) }()
		if err != nil {
			return err
		}
		return f(ctx, s.App)
	})
}

// serving lets f use a server while it runs.
func (b *bench) serving(ctx context.Context, o app.ServerOptions, f func(context.Context, *app.Server) error) (err error) {
	o.Listen, o.StopAfter = "127.0.0.1:0", time.Second
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := app.NewServer(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	defer func() { stop(); err = errors.Join(err, <-ran) }()
	return f(ctx, s)
}

// startWorkers starts processes of this program as workers, and waits until they have joined. end ends them.
func (b *bench) startWorkers(ctx context.Context, server string, concurrency int) (end func() error, err error) {
	b.workers = nil
	end = func() (err error) {
		for _, m := range b.workers {
			err = errors.Join(err, m.end())
		}
		return err
	}
	for i := range b.WorkersIn {
		args := []string{Serve, "--store", server, "--workers", strconv.Itoa(concurrency), "--queue", b.Queue}
		if b.Profile != "" {
			args = append(args, "--cpu-profile", fmt.Sprintf("%s.worker%d", b.Profile, i+1))
		}
		m, err := startMember(args...)
		if err != nil {
			return end, err
		}
		b.workers = append(b.workers, m)
	}
	client, err := client.New(client.Options{URL: server})
	if err != nil {
		return end, err
	}
	for deadline := time.Now().Add(joinPatience); ; {
		list, err := client.Workers(ctx)
		if err == nil && len(list.Workers) == b.WorkersIn+1 {
			return end, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return end, errors.Join(stepwell.Errorf(stepwell.CodeUnavailable, "", "the workers have not joined within %s", joinPatience), err)
		}
		_ = action.Pause(ctx, 5*time.Millisecond) // the loop looks at ctx
	}
}

// observeMarks takes the times that marking steps in other processes have noted.
func (l *load) observeMarks(u *conductor.Update) {
	for i := range u.Rows {
		var m markAt
		if r := &u.Rows[i]; r.Status == stepwell.StepCompleted && bytes.HasPrefix(r.Output, []byte(`{"at":`)) && json.Unmarshal(r.Output, &m) == nil && m.At > 0 {
			l.marks <- time.UnixMicro(m.At)
		}
	}
}

// apart says in how many processes the workers are, for the column of the queue.
func (b *bench) apart() string {
	if b.WorkersIn == 0 {
		return "memory"
	}
	queue := "memory"
	if b.redis() != "" {
		queue = "redis"
	}
	return fmt.Sprintf("%s, workers in %d", queue, b.WorkersIn)
}
