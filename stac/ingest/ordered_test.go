package ingest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestOrdered keeps the order of the jobs, and no more than n of them at once.
func TestOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		var got []int
		err := ordered(t.Context(), 4, slices.Values([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), func(_ context.Context, job int, give func(int) bool) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Duration(10-job) * time.Second) // later ones are quicker
			now.Add(-1)
			if give(2*job) && give(2*job+1) {
				return
			}
		}, func(_ int, r int) error {
			got = append(got, r)
			return nil
		})
		if err != nil || len(got) != 20 || !slices.IsSorted(got) || most.Load() > 4 || most.Load() < 2 {
			t.Error(got, most.Load(), err)
		}
	})
}

// TestOrderedEnds has nothing left running after an error, and after the end of ctx.
func TestOrderedEnds(t *testing.T) {
	wrong := errors.New("wrong")
	endless := func(_ context.Context, job int, give func(int) bool) {
		for give(job) {
		}
	}
	jobs := slices.Values([]int{1, 2, 3})
	if err := ordered(t.Context(), 2, jobs, endless, func(int, int) error { return wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := ordered(ctx, 2, jobs, endless, func(int, int) error {
		if n++; n == 100 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
