package conductor_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
)

const diamond = `
name: diamond
steps:
  - {id: a, action: t.echo}
  - {id: b, action: t.echo, depends_on: [a]}
  - {id: c, action: t.echo, depends_on: [a]}
  - {id: d, action: t.echo, depends_on: [b, c]}
`

// Executions that start during a commit share the next one.
func TestGroupCommit(t *testing.T) {
	held, free := make(chan struct{}), make(chan struct{})
	f := &faulty{before: func(call int) error {
		if call == 1 {
			close(held)
			<-free
		}
		return nil
	}}
	r := newRig(t, build{faulty: f})
	p := r.register(pipeline(t, diamond))
	var group sync.WaitGroup
	start := func(ctx context.Context) {
		group.Go(func() {
			id, err := r.Start(ctx, conductor.Request{Pipeline: p})
			if err != nil {
				t.Error(err)
				return
			}
			if x, err := r.Wait(t.Context(), id); err != nil || x.Status != stepwell.ExecutionCompleted {
				t.Errorf("%v, error %v", x, err)
			}
		})
	}
	start(t.Context())
	<-held
	for range 99 {
		waits := &noticed{Context: t.Context(), seen: make(chan struct{})}
		start(waits)
		<-waits.seen
	}
	close(free)
	group.Wait()
	if f.largest < 99 {
		t.Errorf("%d commits of executions in %d transactions, at most %d in one", f.commits, f.calls, f.largest)
	}
	t.Logf("%d commits of executions in %d transactions, at most %d in one", f.commits, f.calls, f.largest)
}

// A lone execution is not stuck behind a large one, counted in commits that it waits for.
func TestLoneRunInAFanOut(t *testing.T) {
	f := &faulty{}
	var before, waited int
	r := newRig(t, build{faulty: f, workers: 1, observe: func(u *conductor.Update) { // with two, one may work while the other is not scheduled
		switch x := u.Execution; {
		case x.Pipeline != "diamond":
		case before == 0:
			before = f.count()
		case x.Status.Terminal():
			waited = f.count() - before
		}
	}})
	var doc strings.Builder
	doc.WriteString("name: fan\nsteps:\n")
	for i := range 20_000 {
		fmt.Fprintf(&doc, "  - {id: s%d, action: t.echo}\n", i)
	}
	lone := r.register(pipeline(t, diamond))
	fan := r.begin(pipeline(t, doc.String()))
	id, err := r.Start(t.Context(), conductor.Request{Pipeline: lone})
	if err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionCompleted)
	if x, err := r.store.Execution(t.Context(), fan); err != nil || x.Status.Terminal() {
		t.Fatalf("the fan-out had ended before: %v, error %v", x, err)
	}
	if waited > 30 {
		t.Errorf("an execution of three levels ended after %d commits", waited)
	}
	t.Logf("ended after %d commits", waited)
	if err := r.Cancel(t.Context(), fan, "enough seen"); err != nil {
		t.Fatal(err)
	}
	r.end(fan, stepwell.ExecutionCancelled)
}
