package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/store"
)

// pruned is a store with some batches of old things.
type pruned struct {
	mu      sync.Mutex
	batches int
	fails   int
	calls   []store.Retention
}

func (p *pruned) Prune(_ context.Context, r store.Retention) (store.Removed, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, r)
	if p.fails > 0 {
		p.fails--
		return store.Removed{}, false, errors.New("the disk is tired")
	}
	if p.batches == 0 {
		return store.Removed{}, false, nil
	}
	p.batches--
	return store.Removed{Executions: 100}, p.batches > 0, nil
}

// seen are the calls so far and the batches that are left.
func (p *pruned) seen() ([]store.Retention, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls), p.batches
}

func TestRetentionRunsHourlyInBatchesAndSurvivesFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		p := &pruned{batches: 3, fails: 1}
		r := &retention{store: p, keep: Retention{Executions: 24 * time.Hour, Audit: 48 * time.Hour}, now: time.Now, log: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(retentionDelay + time.Second) // of the bubble's clock
		synctest.Wait()
		if calls, _ := p.seen(); len(calls) != 1 {
			t.Fatalf("%d calls after a minute, want the one that fails", len(calls))
		}
		time.Sleep(retentionInterval + time.Second)
		synctest.Wait()
		calls, left := p.seen()
		if len(calls) != 4 || left != 0 {
			t.Fatalf("%d calls, %d batches left after an hour", len(calls), left)
		}
		want := store.Retention{Executions: begun.Add(retentionDelay - 24*time.Hour), Audit: begun.Add(retentionDelay - 48*time.Hour), Ends: begun.Add(retentionDelay - keepEnds)}
		if calls[0] != want {
			t.Errorf("asked to remove %+v, want %+v", calls[0], want)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRetentionOfNothingDoesNothing(t *testing.T) {
	p := &pruned{batches: 1}
	r := &retention{store: p, log: slog.New(slog.DiscardHandler)}
	if err := r.Run(t.Context()); err != nil || len(p.calls) > 0 {
		t.Fatalf("%v, %d calls", err, len(p.calls))
	}
}
