package conductor_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

func keyed(p *conductor.Pipeline, key, hash string) conductor.Request {
	return conductor.Request{Pipeline: p, Origin: store.Origin{Key: key, KeyHash: []byte(hash)}}
}

// However many ask at once, and again after a restart, there is one execution for a key.
func TestStartOnce(t *testing.T) {
	db := filepath.Join(t.TempDir(), "once.db")
	r := newRig(t, build{db: db})
	p := r.register(pipeline(t, one("t.echo")))
	var mu sync.Mutex
	ids, fresh := map[string]bool{}, 0
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			id, yes, err := r.StartOnce(t.Context(), keyed(p, "k", "same"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if ids[id] = true; yes {
				fresh++
			}
		})
	}
	group.Wait()
	if len(ids) != 1 || fresh != 1 {
		t.Errorf("%d executions, %d of them fresh", len(ids), fresh)
	}
	if _, _, err := r.StartOnce(t.Context(), keyed(p, "k", "other")); stepwell.CodeOf(err) != stepwell.CodeConflict || stepwell.HintOf(err) == "" {
		t.Errorf("another request: %v", err)
	}
	r.stop()
	again := newRig(t, build{db: db})
	id, yes, err := again.StartOnce(t.Context(), keyed(again.register(pipeline(t, one("t.echo"))), "k", "same"))
	if err != nil || yes || !ids[id] {
		t.Errorf("after a restart: %s, fresh %v, error %v", id, yes, err)
	}
}

// A refused start releases its key; if its caller has gone away, the key stays until the start is durable.
func TestStartOnceKeyIsGivenBack(t *testing.T) {
	entered, open := make(chan struct{}, 1), make(chan struct{})
	f := &faulty{before: func(call int) error {
		if call == 1 {
			entered <- struct{}{}
			<-open
		}
		return nil
	}}
	r := newRig(t, build{faulty: f})
	p := r.register(pipeline(t, "name: p\nparameters: [{name: n, type: integer}]\nsteps: [{id: a, action: t.echo}]\n"))
	bad := keyed(p, "k", "")
	if _, _, err := r.StartOnce(t.Context(), bad); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Fatalf("without its parameter: %v", err)
	}
	good := bad
	good.Params = map[string]any{"n": 1}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, _, err := r.StartOnce(ctx, good)
		left <- err
	}()
	<-entered
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("who left got %v", err)
	}
	second := make(chan string)
	go func() {
		id, fresh, err := r.StartOnce(t.Context(), good)
		if err != nil || fresh {
			t.Errorf("the second start: fresh %v, error %v", fresh, err)
		}
		second <- id
	}()
	close(open)
	r.end(<-second, stepwell.ExecutionCompleted)
	if all, err := r.store.Executions(t.Context(), store.Filter{}); err != nil || len(all) != 1 {
		t.Errorf("%d executions, error %v", len(all), err)
	}
}

// A retry is another execution of the same origin, and only one for a key.
func TestRetryOnce(t *testing.T) {
	r := newRig(t, build{})
	req := conductor.Request{Pipeline: r.register(pipeline(t, one("t.fail"))), Trigger: "scheduled",
		Origin: store.Origin{Workflow: "w", WorkflowVersion: 3, Job: "j", Actor: "anna", Key: "first", Priority: 4}}
	id, err := r.Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.PreviewRetry(t.Context(), "nothing", ""); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Errorf("preview of nothing: %v", err)
	}
	r.end(id, stepwell.ExecutionFailed)
	if fc, err := r.PreviewRetry(t.Context(), id, ""); err != nil || len(fc.Repeated) != 1 || fc.Repeated[0] != "a" || len(fc.Again)+len(fc.Kept) > 0 {
		t.Errorf("preview %+v, error %v", fc, err)
	}
	by := store.Origin{Actor: "ben", Key: "again"}
	first, fresh, err := r.RetryOnce(t.Context(), id, "", by)
	if err != nil || !fresh {
		t.Fatalf("fresh %v, error %v", fresh, err)
	}
	if same, fresh, err := r.RetryOnce(t.Context(), id, "", by); err != nil || fresh || same != first {
		t.Errorf("%s, fresh %v, error %v", same, fresh, err)
	}
	x := r.end(first, stepwell.ExecutionFailed)
	want := store.Origin{Workflow: "w", WorkflowVersion: 3, Job: "j", Actor: "ben", Priority: 4}
	if stored, err := r.store.Execution(t.Context(), first); err != nil || stored.Workflow != want.Workflow || stored.WorkflowVersion != 3 || stored.Job != "j" ||
		stored.Actor != "ben" || stored.Priority != 4 || stored.Trigger != "retry" || x.Parent != id {
		t.Errorf("the retry is %+v, error %v", stored, err)
	}
}

// Another process takes the key between its look-up and the commit: the start returns that execution.
func TestStartKeyTakenMeanwhile(t *testing.T) {
	f := &faulty{}
	r := newRig(t, build{faulty: f})
	p := r.register(pipeline(t, one("t.echo")))
	f.before = func(call int) error {
		if call > 1 {
			return nil
		}
		return f.Store.Commit(t.Context(), []store.Commit{{Execution: 500, Version: 1, Log: []byte(`{"t":1,"e":[]}`), Create: &store.Execution{No: 500, ID: "other",
			Pipeline: "one", Definition: p.Hash[:], Trigger: "manual", Origin: store.Origin{Key: "k", KeyHash: []byte("hash")}}}})
	}
	id, fresh, err := r.StartOnce(t.Context(), keyed(p, "k", "hash"))
	if id != "other" || fresh || err != nil {
		t.Errorf("id %q, fresh %v, error %v", id, fresh, err)
	}
	if _, _, err := r.StartOnce(t.Context(), keyed(p, "k", "another")); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("another request under the key: %v", err)
	}
	r.end(r.begin(pipeline(t, one("t.echo"))), stepwell.ExecutionCompleted)
}
