package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/store"
)

// Executions that share a concurrency key wait as long as it is predicted: 40 random lists of arrivals, durations and priorities, in a
// world whose conductor gives them their slots.
func TestQueueingIsPredicted(t *testing.T) {
	o := runner(t, nil)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		limit := &definition.Concurrency{Key: "k", Limit: 1 + r.IntN(3), OnConflict: []string{"queue", "skip"}[r.IntN(2)]}
		d, problems := definition.Parse(fmt.Appendf(nil, "name: queued\nsettings: {concurrency: {key: k, limit: %d, on_conflict: %s}}\nsteps: [{id: a, action: util.exec, params: {command: [x]}}]\n", limit.Limit, limit.OnConflict),
			definition.ParseOptions{File: "queued.yaml"})
		if problems.Err() != nil {
			t.Fatal(problems)
		}
		lasts := map[int64]time.Duration{}
		w, err := sim.New(t.Context(), sim.Options{Actions: o.o.Actions, Workers: 100, Mock: func(a *sim.Attempt) (*sim.Outcome, error) {
			return &sim.Outcome{Outputs: map[string]any{"exit_code": int64(0)}, Takes: lasts[a.Run]}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		pipe, err := w.Register(t.Context(), definition.Expand(d, o.o.Actions))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		var seats []*seat
		at := sim.Start
		for range 12 {
			at = at.Add(time.Duration(r.IntN(4000)) * time.Millisecond)
			s := &seat{key: "k", priority: r.IntN(2), created: at, lasts: time.Duration(1+r.IntN(8000)) * time.Millisecond}
			seats = append(seats, s)
			w.Plan(at, func(ctx context.Context) error {
				id, err := w.Start(ctx, conductor.Request{Pipeline: pipe, Origin: store.Origin{Priority: s.priority}})
				if stepwell.CodeOf(err) == stepwell.CodeConflict {
					ids = append(ids, "")
					return nil
				}
				if err != nil {
					return err
				}
				x, err := w.Store.Execution(ctx, id)
				if err == nil {
					lasts[x.No], ids = s.lasts, append(ids, id)
				}
				return err
			})
		}
		if err := w.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		seated(seats, limit)
		for i, id := range ids {
			s := seats[i]
			if s.refused != (id == "") {
				t.Errorf("seed %d, execution %d: %q, refused %v", seed, i, id, s.refused)
			}
			if id == "" {
				continue
			}
			x, err := w.Store.Execution(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if is := x.Started.Sub(x.Created); is != s.queued {
				t.Errorf("seed %d, execution %d, limit %+v: waits %s, predicted %s", seed, i, limit, is, s.queued)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What the simulation leaves out is kept in proportion, and an interruption does not grow.
func TestPredicted(t *testing.T) {
	for _, c := range []struct{ recorded, was, is, want time.Duration }{
		{0, 10, 20, 20}, {100, 100, 50, 50}, {110, 100, 50, 55}, {110, 100, 200, 210}, {1000, 100, 200, 1100}, {90, 100, 50, 45}, {90, 100, 100, 90},
	} {
		if got := predicted(c.recorded, c.was, c.is); got != c.want {
			t.Errorf("predicted(%d, %d, %d) = %d, want %d", c.recorded, c.was, c.is, got, c.want)
		}
	}
}

// The words of reports: waiting is told where there is any.
func TestReplayTellsOfWaiting(t *testing.T) {
	b := &Backtest{Limit: &definition.Concurrency{Key: "k"}}
	for i := range 3 {
		x := &Replayed{ID: fmt.Sprint(i), Outputs: true, Same: true, Was: Ending{Status: "completed", Duration: 2 * time.Second}, Is: Ending{Status: "completed", Duration: time.Second, Waited: time.Second}}
		x.seat = seat{key: "k", created: sim.Start, lasts: time.Second}
		b.Add(x)
		var text strings.Builder
		if err := x.WriteText(&text); err != nil || !strings.Contains(text.String(), "2s → 1s, waiting for workers 0s → 1s") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
	b.Finish()
	var text strings.Builder
	if err := b.WriteText(&text); err != nil || !strings.Contains(text.String(), "duration p50 2s → 1s, p95 2s → 1s; queued p50 0s → 1s, p95 0s → 1s") {
		t.Errorf("%v: %s", err, text.String())
	}
}
