package conductor_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// switchedBlobs refuse everything while they are off.
type switchedBlobs struct {
	store.Blobs
	off     atomic.Bool
	refused chan struct{} // closed at the first refusal
	once    sync.Once
}

func (b *switchedBlobs) away() error {
	if !b.off.Load() {
		return nil
	}
	b.once.Do(func() { close(b.refused) })
	return store.Away("store a blob", "the disk is full", "free some space", context.DeadlineExceeded)
}

func (b *switchedBlobs) Put(ctx context.Context, value []byte) (string, error) {
	if err := b.away(); err != nil {
		return "", err
	}
	return b.Blobs.Put(ctx, value)
}

func (b *switchedBlobs) Load(ctx context.Context, ref string) ([]byte, error) {
	if err := b.away(); err != nil {
		return nil, err
	}
	return b.Blobs.Load(ctx, ref)
}

func newSwitchedBlobs() *switchedBlobs { return &switchedBlobs{refused: make(chan struct{})} }

// under puts them between a rig and its blobs.
func (b *switchedBlobs) under(blobs store.Blobs) store.Blobs {
	b.Blobs = blobs
	return b
}

func patient(o *conductor.Options) { o.Patience = time.Hour }

// large gives back more than is stored with the step.
func large(context.Context, *action.Call) (any, error) {
	return map[string]any{"text": strings.Repeat("x", 100<<10)}, nil
}

func anyAction(name string, f action.HandlerFunc) action.Action {
	return action.Action{Spec: spec.Spec{Name: name, Summary: "For tests.", OpenParams: true}, Handler: f}
}

// While the blobs refuse, nothing is decided and readiness says why; steps that ended keep their outcome, each runs
// once, and everything goes on by itself.
func TestBlobsComeBack(t *testing.T) {
	t.Parallel()
	blobs := newSwitchedBlobs()
	var mu sync.Mutex
	runs, begun := map[string]int{}, make(chan struct{})
	counted := action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) {
		<-begun
		mu.Lock()
		defer mu.Unlock()
		if runs[c.Execution+c.StepKey]++; len(runs) == 150 {
			blobs.off.Store(true)
		}
		return map[string]any{"text": strings.Repeat("x", 100<<10) + c.Execution + c.StepKey}, nil
	})
	b := build{actions: []action.Action{anyAction("t.big", counted)}, blobs: blobs.under, set: patient, workers: 16}
	r := newRig(t, b)
	text := "name: away\nsteps:\n  - {id: a, action: t.big}\n  - {id: b, action: t.big, depends_on: [a], params: {n: \"{{ steps.a.outputs.text | length }}\"}}\n"
	var ids []string
	for range 100 {
		ids = append(ids, r.begin(pipeline(t, text)))
	}
	close(begun)
	<-blobs.refused
	r.until("the reason", func() bool { return r.Stalled() != nil })
	if err := r.Stalled(); stepwell.CodeOf(err) != stepwell.CodeUnavailable || !strings.Contains(err.Error(), "the disk is full") || stepwell.HintOf(err) != "free some space" {
		t.Errorf("meanwhile: %v, hint %q", err, stepwell.HintOf(err))
	}
	r.until("the same answer for who looks meanwhile", func() bool {
		_, err := r.Awaiting(t.Context(), r.Active()[0])
		return stepwell.CodeOf(err) == stepwell.CodeUnavailable
	})
	blobs.off.Store(false)
	for _, id := range ids {
		r.end(id, stepwell.ExecutionCompleted)
	}
	if err := r.Stalled(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if len(runs) != 200 {
		t.Errorf("%d steps ran, want 200", len(runs))
	}
	for step, n := range runs {
		if n != 1 {
			t.Errorf("%s ran %d times", step, n)
		}
	}
}

// Readers of outputs wait for the blobs too. If a reader times out meanwhile, the same attempt begins anew.
func TestReadersWaitForTheBlobs(t *testing.T) {
	t.Parallel()
	blobs := newSwitchedBlobs()
	var attempts []int
	var r *rig
	reading := action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
		if attempts = append(attempts, c.Attempt); len(attempts) == 1 {
			blobs.off.Store(true)
			defer blobs.off.Store(false)
		}
		raw, err := c.Host.Outputs(ctx, "a")
		return map[string]any{"size": len(raw)}, err
	})
	b := build{actions: []action.Action{anyAction("t.big", large), anyAction("t.reading", reading)}}
	b.blobs, b.set = blobs.under, patient
	r = newRig(t, b)
	id := r.begin(pipeline(t, "name: away\nsteps:\n  - {id: a, action: t.big}\n  - {id: b, action: t.reading, depends_on: [a], timeout_seconds: 3}\n"))
	r.end(id, stepwell.ExecutionCompleted)
	if fmt.Sprint(attempts) != "[1 1]" {
		t.Errorf("attempts %v, want the first one twice", attempts)
	}
}

// An execution that cannot be read when the conductor starts is taken up when it can.
func TestRecoveryWaitsForTheBlobs(t *testing.T) {
	t.Parallel()
	blobs := newSwitchedBlobs()
	g := newGate()
	b := build{db: t.TempDir() + "/away.db", actions: append(actions(g), anyAction("t.big", large))}
	first := newRig(t, b)
	id := first.begin(pipeline(t, "name: away\nsteps:\n  - {id: a, action: t.big}\n  - {id: b, action: t.gate, depends_on: [a], params: {n: \"{{ steps.a.outputs.text | length }}\"}}\n"))
	<-g.begun
	first.stop()
	b.blobs, b.set = blobs.under, patient
	blobs.off.Store(true)
	second := newRig(t, b)
	recovered := make(chan error, 1)
	go func() { recovered <- second.RecoverAll(t.Context()) }()
	<-blobs.refused
	blobs.off.Store(false)
	if err := <-recovered; err != nil {
		t.Fatal(err)
	}
	close(g.open)
	second.end(id, stepwell.ExecutionCompleted)
}

// A stop does not wait for a store that is away; unsaved ends are repeated after the next start.
func TestStopWhileTheBlobsAreAway(t *testing.T) {
	t.Parallel()
	blobs := newSwitchedBlobs()
	blobs.off.Store(true)
	b := build{db: t.TempDir() + "/away.db", actions: []action.Action{anyAction("t.big", large)}}
	b.blobs, b.set = blobs.under, patient
	first := newRig(t, b)
	id := first.begin(pipeline(t, one("t.big")))
	<-blobs.refused
	if err := first.stop(); err != nil {
		t.Errorf("the conductor ended with %v", err)
	}
	blobs.off.Store(false)
	second := newRig(t, b)
	if err := second.Recover(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	second.end(id, stepwell.ExecutionCompleted)
}

// Without patience, a store that stays away ends the conductor with the reason.
func TestBlobsStayAway(t *testing.T) {
	t.Parallel()
	blobs := newSwitchedBlobs()
	blobs.off.Store(true)
	b := build{actions: []action.Action{anyAction("t.big", large)}, blobs: blobs.under}
	r := newRig(t, b)
	id := r.begin(pipeline(t, one("t.big")))
	if _, err := r.Wait(t.Context(), id); stepwell.CodeOf(err) != stepwell.CodeUnavailable || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("Wait gave %v", err)
	}
	if err := r.stop(); err == nil || !strings.Contains(err.Error(), "can be resumed") {
		t.Errorf("Run gave %v", err)
	}
}
