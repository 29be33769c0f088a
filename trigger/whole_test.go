package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/worker"
)

// whole is a process with everything in it that is real: store, conductor, worker, library, schedules, relay.
type whole struct {
	*trigger.Schedules
	library   *pipeline.Library
	conductor *conductor.Conductor
	stop      func()
}

func boot(t *testing.T, s *sqlite.Store) *whole {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := &whole{}
	log := slog.New(slog.DiscardHandler)
	registry := &action.Registry{}
	must(builtin.Register(registry, builtin.Options{}))
	q := &queue.Memory{}
	var relay *trigger.Relay
	var err error
	w.conductor, err = conductor.New(t.Context(), conductor.Options{Store: s, Queue: q, Blobs: s.Blobs(), Catalog: registry, Log: log,
		Outbox: conductor.Outbox{Ended: func(x *store.Execution) bool { return w.Wants(x) }},
		Observe: func(u *conductor.Update) {
			if u.Execution.Status.Terminal() {
				w.Ended(u.Execution.ID)
				relay.Wake()
			}
		}})
	must(err)
	pool, err := worker.New(worker.Options{Queue: q, Actions: registry, Reporter: w.conductor, Records: s, Blobs: s.Blobs(), Lines: w.conductor.Line, Log: log, Concurrency: 16})
	must(err)
	w.library, err = pipeline.New(pipeline.Options{Objects: s, Runner: w.conductor, Executions: s, Catalog: registry, Log: log})
	must(err)
	w.Schedules, err = trigger.New(t.Context(), trigger.Options{Objects: s, Launcher: w.library, Executions: s, Canceler: w.conductor, Keys: s, Log: log})
	must(err)
	relay = trigger.NewRelay(s, log, w.Schedules)
	ctx, cancel := context.WithCancel(context.Background())
	loops := []func(context.Context) error{w.conductor.Run, pool.Run, w.Run, relay.Run}
	done := make(chan error, len(loops))
	for _, run := range loops {
		go func() { done <- run(ctx) }()
	}
	must(w.conductor.RecoverAll(t.Context()))
	w.stop = func() {
		cancel()
		for range loops {
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		q.Close()
	}
	return w
}

// The whole thing, without anything that stands for something else: jobs fire within a minute, the process stops in the
// middle of it and comes back; every job, and the job that follows each hundredth of them, has one execution that
// completed.
func TestWhole(t *testing.T) {
	jobs := 10_000
	if testing.Short() || raceEnabled {
		jobs = 500
	}
	file := filepath.Join(t.TempDir(), "whole.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(context.Background(), sqlite.Options{Path: file, Exclusive: true, Synchronous: "normal"})
		if err != nil {
			t.Fatal(err)
		}
		w := boot(t, s)
		if _, err := w.library.Create(t.Context(), &pipeline.Draft{Document: []byte("name: p\nsteps: [{id: a, action: util.log, params: {message: '{{ params._trigger.scheduled_at }}'}}]\n")}, ""); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{}
		add := func(id string, timing trigger.Timing) {
			want[id] = 1
			if _, err := w.Create(t.Context(), &trigger.Job{ID: id, Schedule: timing, Target: &trigger.Target{Workflow: "p", Params: resource.Object{"job": id}}}, ""); err != nil {
				t.Fatal(err)
			}
		}
		for i := range jobs {
			add(fmt.Sprintf("j%d", i), cron(fmt.Sprintf("%d 0 1 * * *", i%60)))
			if i%100 == 0 {
				want[fmt.Sprintf("after%d", i)] = 1
				j := trigger.Job{ID: fmt.Sprintf("after%d", i), Schedule: trigger.Timing{Type: trigger.TypeAfter, After: &trigger.After{Job: fmt.Sprintf("j%d", i)}}, Target: &trigger.Target{Action: "util.noop"}}
				if _, err := w.Create(t.Context(), &j, ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Hour + 29*time.Second + 500*time.Millisecond)
		w.stop()
		time.Sleep(10 * time.Second)
		w = boot(t, s)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		got := map[string]int{}
		for before := ""; ; {
			page, err := s.Executions(t.Context(), store.Filter{Before: before, Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range page {
				got[x.Job]++
				if x.Status != stepwell.ExecutionCompleted {
					t.Fatalf("the execution of %s is %s", x.Job, x.Status)
				}
			}
			if len(page) < 1000 {
				break
			}
			before = page[len(page)-1].ID
		}
		for job := range want {
			if got[job] != 1 {
				t.Errorf("%s has %d executions", job, got[job])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d jobs have executions, want %d", len(got), len(want))
		}
		w.stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
