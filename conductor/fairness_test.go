package conductor_test

import (
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

// A hundred executions at once share their commits.
func TestGroupCommit(t *testing.T) {
	r := newRig(t, build{})
	p := r.register(pipeline(t, diamond))
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			id, err := r.Start(t.Context(), conductor.Request{Pipeline: p})
			if err != nil {
				t.Error(err)
				return
			}
			if x, err := r.Wait(t.Context(), id); err != nil || x.Status != stepwell.ExecutionCompleted {
				t.Errorf("%v, error %v", x, err)
			}
		})
	}
	group.Wait()
	f := r.faulty
	if f.calls*3 > f.commits || f.largest < 10 {
		t.Errorf("%d commits of executions in %d transactions, at most %d in one", f.commits, f.calls, f.largest)
	}
	t.Logf("%d commits of executions in %d transactions, at most %d in one", f.commits, f.calls, f.largest)
}

// A lone execution is not stuck behind a large one, counted in commits that it waits for.
func TestLoneRunInAFanOut(t *testing.T) {
	r := newRig(t, build{workers: 2})
	var doc strings.Builder
	doc.WriteString("name: fan\nsteps:\n")
	for i := range 20_000 {
		fmt.Fprintf(&doc, "  - {id: s%d, action: t.echo}\n", i)
	}
	lone := r.register(pipeline(t, diamond))
	fan := r.begin(pipeline(t, doc.String()))
	before := r.faulty.count()
	id, err := r.Start(t.Context(), conductor.Request{Pipeline: lone})
	if err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionCompleted)
	waited := r.faulty.count() - before
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
